"""Fixtures of the tests of replies, and an address to serve at on each transport."""

from __future__ import annotations

import functools
import gc
import itertools
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import rpcproto
from rpcproto.aio import loop_thread
from tests._certificates import mutual
from tests.aio._blocking import Desk, served
from tests.aio._replies import FakeLoop, Owner
from tests.conftest import LoopRunner, loop_factory

_numbers = itertools.count(1)


@pytest.fixture(params=["tcp", "tls", "unix", "inproc"])
def address(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Where to serve: the test runs once for each transport. With TLS both ends have certificates without asking."""
    if request.param == "tcp":
        yield "tcp://127.0.0.1:0"
    elif request.param == "tls":
        for name in ("serve", "connect", "connect_blocking"):
            monkeypatch.setattr(rpcproto, name, _with_certificates(getattr(rpcproto, name)))
        yield "tls://127.0.0.1:0"
    elif request.param == "inproc":
        yield f"inproc://test-{os.getpid()}-{next(_numbers)}"
    else:
        folder = tempfile.mkdtemp(prefix="rp", dir="/tmp")  # the path of a socket must be short
        yield f"unix://{folder}/socket"
        shutil.rmtree(folder)


def _with_certificates(function: Callable[..., Any]) -> Callable[..., Any]:
    """``serve`` and the like with ``ssl=`` where an address needs it."""

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        if any(isinstance(arg, str) and arg.startswith("tls://") for arg in args):
            options.setdefault("ssl", mutual())
        return function(*args, **options)

    return call


@pytest.fixture
def owner() -> Owner:
    return Owner()


@pytest.fixture
def fake() -> FakeLoop:
    return FakeLoop()


@pytest.fixture
def no_gc() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def blocking_loop(run: LoopRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocking clients use the loop under test, and leave nothing behind; see ``run``."""
    monkeypatch.setattr(loop_thread, "_new_loop", loop_factory())


@pytest.fixture
def desk(blocking_loop: None) -> Iterator[Desk]:
    """A service that is served at ``desk.address`` by a loop of another thread."""
    service = Desk()
    with served(service) as server:
        service.address = server.address
        yield service


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """A function that gives why clients were turned away, by the log so far."""
    caplog.set_level(logging.WARNING)
    return lambda: [record.getMessage().partition(" was turned away: ")[2] for record in caplog.records]
