"""Runs a command's coroutine: on uvloop where it is installed, else on asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TypeVar

__all__ = ["loop_factory", "run"]

T = TypeVar("T")


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """``uvloop.new_event_loop`` where uvloop is installed, else None, which stands for asyncio's own."""
    try:
        import uvloop
    except ModuleNotFoundError:
        return None
    return uvloop.new_event_loop


def run(coroutine: Coroutine[object, object, T]) -> T:
    """Run ``coroutine`` to its end and return what it returns. Ctrl-C cancels it and raises KeyboardInterrupt."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(coroutine)
