"""What all tests share: the ``run`` fixture, the gate against stale builds, and the head of the output.

``RPCPROTO_LOOP=asyncio|uvloop`` (default uvloop) chooses the loop, ``RPCPROTO_PURE=1`` the build. Every test that
uses ``run`` is a leak test: see :class:`LoopRunner` and the fixture below.

``RPCPROTO_ALLOW_STALE=1`` lets the tests run although a compiled module is older than its source, for work on one
module while another one does not build. What passes then proves little.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import hypothesis
import pytest

import rpcproto
from rpcproto import _build, _logs
from tests._stale import stale_modules
from tests._tree import IN_TREE

T = TypeVar("T")

PACKAGE = Path(rpcproto.__file__).parent
LOOP = os.environ.get("RPCPROTO_LOOP", "uvloop")
SETTLE_TURNS = 10
"""Turns of the loop that tasks and transports get to finish after a test before they count as left over."""

# The same examples in every run: a failure can be repeated, and a slow machine fails nothing. To search for new
# ones: pytest --hypothesis-profile=search
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None, database=None, print_blob=True)
hypothesis.settings.register_profile("search", deadline=None, max_examples=5000, print_blob=True)
hypothesis.settings.load_profile("repeatable")

THREAD_GRACE = 2.0
"""Seconds that threads on their way out get to end."""

CANCEL_GRACE = 1.0
"""Seconds that tasks left over get to end once cancelled."""

failed_key = pytest.StashKey[bool]()

# Started in the background of a shell, a process ignores SIGINT, and so would the servers that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """What makes the loop under test."""
    if LOOP == "asyncio":
        return asyncio.SelectorEventLoop
    if LOOP == "uvloop":
        import uvloop

        return uvloop.new_event_loop
    raise pytest.UsageError(f"RPCPROTO_LOOP is {LOOP!r}; it must be 'asyncio' or 'uvloop'")


# ---- the build under test ----------------------------------------------------------------------------------------


def pytest_configure(config: pytest.Config) -> None:
    loop_factory()().close()  # fails early, and opens what libuv keeps open for the life of a process
    problems = stale_modules(PACKAGE) if IN_TREE and not _build.PURE else []
    if problems and not os.environ.get("RPCPROTO_ALLOW_STALE"):
        raise pytest.UsageError(
            "\n".join(["the compiled modules are not those of the sources; say `make build`:", *problems])
        )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if IN_TREE:
        return
    config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("tree")])
    items[:] = [item for item in items if not item.get_closest_marker("tree")]


def pytest_report_header() -> str:
    info = _build.describe()
    versions = ", ".join(f"{name} {info[name]}" for name in ("uvloop", "msgpack", "cython"))
    stale = " (STALE MODULES ALLOWED)" if os.environ.get("RPCPROTO_ALLOW_STALE") else ""
    return f"rpcproto: {info['build']} build{stale}, loop {LOOP}, {info['python']}, {versions}, {info['platform']}"


def pytest_collection_finish() -> None:
    # What is alive now stays: keeping it out of the collections that follow makes each of them quick.
    gc.collect()
    gc.freeze()


def pytest_runtest_setup() -> None:
    _logs.log.reset()  # each test may cause as many lines as a process


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    if report.failed:
        item.stash[failed_key] = True
    return report


# ---- running coroutines --------------------------------------------------------------------------------------------


class LoopRunner:
    """Runs coroutines on one loop and remembers what went wrong beside them.

    Call it with a coroutine; several calls in one test share the loop.

    Attributes:
        loop: the loop under test.
        errors: what reached the loop's exception handler. Any left at the end of the test fail it; a test that
            provokes one takes it out of the list.
    """

    def __init__(self) -> None:
        self._runner = asyncio.Runner(loop_factory=loop_factory())
        self.loop = self._runner.get_loop()
        self.errors: list[dict[str, Any]] = []
        self.loop.set_exception_handler(lambda _, context: self.errors.append(context))

    def __call__(self, coroutine: Coroutine[Any, Any, T], timeout: float = 30.0) -> T:
        """Run ``coroutine`` to its end and return its result.

        Args:
            coroutine: what to run.
            timeout: seconds after which the test fails with a list of the tasks that were waiting.
        """
        waiting: list[str] = []

        def expire() -> None:
            waiting.extend(_where(task) for task in asyncio.all_tasks(self.loop))
            self.loop.stop()  # not a cancellation: whoever hangs may not heed one

        timer = self.loop.call_later(timeout, expire)
        try:
            return self._runner.run(coroutine)
        except RuntimeError:
            if not waiting:
                raise
            raise AssertionError(f"not done after {timeout} s; waiting:\n" + "\n".join(waiting)) from None
        finally:
            timer.cancel()

    def pending_tasks(self) -> list[str]:
        """The tasks that are left after a few turns of the loop."""

        async def settle() -> list[str]:
            for _ in range(SETTLE_TURNS):
                await asyncio.sleep(0)
            return [_where(task) for task in asyncio.all_tasks() if task is not asyncio.current_task()]

        return self._runner.run(settle())

    def close(self) -> None:
        """Cancel what is left, and close the loop even if that does not end."""
        if tasks := asyncio.all_tasks(self.loop):
            for task in tasks:
                task.cancel()
            self.loop.run_until_complete(asyncio.wait(tasks, timeout=CANCEL_GRACE))
        if asyncio.all_tasks(self.loop):
            self.loop.close()
        else:
            self._runner.close()


def _where(task: asyncio.Task[Any]) -> str:
    """The task, and the line of each coroutine from its own down to what it waits for."""
    lines = [repr(task)]
    coroutine: Any = task.get_coro()
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        lines.append(f"  at {frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}")
        coroutine = coroutine.cr_await
    return "\n".join(lines)


def _descriptors() -> dict[str, str]:
    """Open descriptors and what they refer to; empty where the system does not tell."""
    found = {}
    try:
        for number in os.listdir("/proc/self/fd"):
            try:
                found[number] = os.readlink(f"/proc/self/fd/{number}")
            except FileNotFoundError:  # the descriptor that listed the directory
                pass
    except FileNotFoundError:
        pass
    return found


@pytest.fixture
def run(request: pytest.FixtureRequest) -> Iterator[LoopRunner]:
    """Run coroutines on the loop under test: ``run(coroutine())``. See :class:`LoopRunner`.

    After the test nothing may be left: no task besides the test's own, no descriptor once the loop is closed, no
    thread, no exception in the loop's handler, and none that nobody retrieved.
    """
    gc.collect()
    descriptors = _descriptors()
    threads = set(threading.enumerate())
    runner = LoopRunner()
    failed = False
    try:
        yield runner
    finally:
        failed = request.node.stash.get(failed_key, False)
        tasks = runner.pending_tasks()
        runner.close()
    gc.collect()
    if failed:
        return  # the test's own failure says more than what it left behind

    left = [f"task {task}" for task in tasks]
    for thread in set(threading.enumerate()) - threads:
        thread.join(THREAD_GRACE)
        if thread.is_alive():
            left.append(f"thread {thread.name}")
    now = _descriptors()
    if len(now) > len(descriptors):
        left += [f"descriptor {number}: {now[number]}" for number in now if now[number] != descriptors.get(number)]
    left += [f"unhandled: {context}" for context in runner.errors]
    assert not left, "left behind by the test:\n" + "\n".join(left)
