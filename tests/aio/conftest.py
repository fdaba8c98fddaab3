"""Fixtures of the tests of replies."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tests.aio._replies import FakeLoop, Owner


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
