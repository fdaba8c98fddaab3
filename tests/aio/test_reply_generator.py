"""What a reply's ``await`` runs on is compiled, and must take what a generator of Python takes (fault 43)."""

from __future__ import annotations

import sys
from collections.abc import Generator
from typing import Any

import pytest

from rpcproto._build import PURE
from tests.aio._replies import CustomError, opened

STATES = ["fresh", "waiting", "closed", "returned", "raised"]


def in_state(state: str) -> Generator[Any, Any, Any]:
    reply = opened()
    awaiting = reply.__await__()
    if state == "fresh":
        return awaiting
    assert next(awaiting) is reply
    if state == "closed":
        awaiting.close()
    elif state == "returned":
        reply.settle(5)
        with pytest.raises(StopIteration) as caught:
            awaiting.send(None)
        assert caught.value.value == 5
    elif state == "raised":
        reply.settle_error(CustomError())
        with pytest.raises(CustomError):
            awaiting.send(None)
    return awaiting


CONVERTING = ("waiting",) if PURE and sys.version_info >= (3, 12) else ("fresh", "waiting")
"""States in which a StopIteration thrown in comes out as a RuntimeError (PEP 479). Since 3.12 Python's own generators
leave that out before they have begun."""


@pytest.mark.parametrize("state", STATES)
def test_fault_43_close(run: Any, state: str) -> None:
    async def main() -> None:
        awaiting = in_state(state)
        for _ in range(2):
            awaiting.close()
        with pytest.raises(StopIteration):
            next(awaiting)

    run(main())


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("error", [CustomError("x"), KeyboardInterrupt(), StopIteration(1), GeneratorExit()])
def test_fault_43_throw(run: Any, state: str, error: BaseException) -> None:
    async def main() -> None:
        awaiting = in_state(state)
        within = state in CONVERTING and isinstance(error, StopIteration)
        with pytest.raises(RuntimeError if within else type(error)) as caught:
            awaiting.throw(error)
        assert (caught.value.__cause__ if within else caught.value) is error
        with pytest.raises(StopIteration):
            next(awaiting)

    run(main())


@pytest.mark.parametrize("state", STATES)
def test_fault_43_send(run: Any, state: str) -> None:
    async def main() -> None:
        awaiting = in_state(state)
        expected = {"fresh": TypeError, "waiting": RuntimeError}.get(state, StopIteration)
        with pytest.raises(expected):
            awaiting.send(1)

    run(main())


@pytest.mark.parametrize("state", STATES)
def test_fault_43_dropped(run: Any, state: str) -> None:
    async def main() -> None:
        in_state(state)  # nothing is told, and nothing breaks: the fixture looks for both

    run(main())
