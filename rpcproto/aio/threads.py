"""The threads of handlers declared with ``thread=True``, and whether they wait for one another.

A handler in a thread can call its peer and block, whose handler can call back, and so on: each step holds a thread. If
all threads of a side wait for calls of their own, and what these need waits for a thread, then nothing goes on until a
deadline. Whether it is so cannot be told from one side: the peer may be about to answer. So it is no error, but it is
told, once in the log and in a note to each call that ends by its deadline meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from rpcproto._logs import log

__all__ = ["HandlerThreads", "Load", "waiting_load"]

P = ParamSpec("P")
T = TypeVar("T")

_local = threading.local()


class Load:
    """How many threads an executor has, and what they do. As a context manager: this thread waits for a call.

    Args:
        size: threads at most.
    """

    __slots__ = ("_lock", "_stuck", "_told", "_waiting", "_work", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self._lock = threading.Lock()
        self._waiting = 0
        self._work = 0
        self._told = False
        self._stuck = False

    @property
    def stuck(self) -> bool:
        """Whether all threads waited for calls of their own, and work for a thread, when any of it last began or ended
        (but for ends of waits: to be asked after one)."""
        return self._stuck

    def add(self, work: int) -> None:
        """Work has come (1), or ended (-1)."""
        with self._lock:
            self._work += work
            self._look()

    def work_done(self, work: object) -> None:
        """Work has ended."""
        self.add(-1)

    def describe(self) -> str:
        """What being stuck means and what to do."""
        return (
            f"all {self.size} threads for handlers waited for calls of their own, while more calls waited for a thread:"
            " if those they wait for are among them, none can end. Raise max_threads= of serve() or connect(), or make"
            " some of these handlers `async def`"
        )

    def __enter__(self) -> None:
        with self._lock:
            self._waiting += 1
            self._look()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._lock:
            self._waiting -= 1

    def _look(self) -> None:
        self._stuck = self._waiting >= self.size and self._work > self.size
        if self._stuck and not self._told:
            self._told = log.warning("%s", self.describe())


class HandlerThreads(ThreadPoolExecutor):
    """An executor that knows its :class:`Load`."""

    def __init__(self, size: int) -> None:
        self._load = Load(size)
        super().__init__(size, "rpcproto handler", _enter, (self._load,))

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """As of any executor."""
        work = super().submit(function, *args, **kwargs)
        self._load.add(1)
        work.add_done_callback(self._load.work_done)
        return work


def waiting_load() -> Load | None:
    """The load to which a wait of this thread belongs, None if the thread is not one for handlers."""
    load: Any = getattr(_local, "load", None)
    return load if isinstance(load, Load) else None


def _enter(load: Load) -> None:
    _local.load = load
