"""Both forms of a module side by side, and bodies of msgpack by hand."""

from __future__ import annotations

import importlib.util
import tracemalloc
from pathlib import Path
from types import ModuleType
from typing import Any

from rpcproto.errors import SerializationError


def load_python_form(module: ModuleType) -> ModuleType:
    """A module from its ``.py``, whatever build runs."""
    assert module.__file__ is not None
    name = module.__name__.rpartition(".")[2]
    spec = importlib.util.spec_from_file_location(
        f"{module.__name__}_in_python", Path(module.__file__).with_name(f"{name}.py")
    )
    assert spec is not None
    assert spec.loader is not None
    form = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(form)
    return form


def array32(count: int) -> bytes:
    return b"\xdd" + count.to_bytes(4, "big")


def map32(count: int) -> bytes:
    return b"\xdf" + count.to_bytes(4, "big")


def peak_of(function: Any, *args: Any) -> int:
    """Most memory in bytes that was in use at once above what was in use before."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        try:
            result = function(*args)
        except SerializationError:
            result = None
        peak = tracemalloc.get_traced_memory()[1]
        del result
    finally:
        tracemalloc.stop()
    return peak - before
