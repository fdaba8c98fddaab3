"""Fixtures of the tests of replies, and an address to serve at on each transport."""

from __future__ import annotations

import gc
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator

import pytest

from tests.aio._replies import FakeLoop, Owner

_numbers = itertools.count(1)


@pytest.fixture(params=["tcp", "unix", "inproc"])
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where to serve: the test runs once for each transport."""
    if request.param == "tcp":
        yield "tcp://127.0.0.1:0"
    elif request.param == "inproc":
        yield f"inproc://test-{os.getpid()}-{next(_numbers)}"
    else:
        folder = tempfile.mkdtemp(prefix="rp", dir="/tmp")  # the path of a socket must be short
        yield f"unix://{folder}/socket"
        shutil.rmtree(folder)


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
