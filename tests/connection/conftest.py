"""Fixtures that make connections and verify them at the end of the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rpcproto.wire import spec
from rpcproto.wire.spec import Role
from tests.conftest import failed_key
from tests.connection import proving
from tests.connection.pairing import Clock, ConnectionPair, Side
from tests.wire.frames import Frame


def failed(request: pytest.FixtureRequest) -> bool:
    """Whether the test has failed, which says more than what it left behind."""
    return bool(request.node.stash.get(failed_key, False))


@pytest.fixture
def pair(make_pair: Callable[..., ConnectionPair]) -> ConnectionPair:
    """A pair with small windows."""
    return make_pair()


@pytest.fixture
def make_pair(request: pytest.FixtureRequest) -> Iterator[Callable[..., ConnectionPair]]:
    """Makes pairs with settings of the test's own."""
    made: list[ConnectionPair] = []

    def make(*args: Any, **settings: Any) -> ConnectionPair:
        made.append(ConnectionPair(*args, **settings))
        return made[-1]

    yield make
    for pair in made:
        if not failed(request):
            pair.verify()


@pytest.fixture
def make_side(request: pytest.FixtureRequest) -> Iterator[Callable[..., Side]]:
    """Makes single sides, greeted, whose peer the test plays; an acceptor by default."""
    made: list[Side] = []

    def make(role: int = Role.ACCEPTOR, *, greet: bool = True, **settings: Any) -> Side:
        side = Side(role, Clock(), **settings)
        made.append(side)
        if greet:
            side.greet()
        return side

    yield make
    for side in made:
        if not failed(request):
            side.verify()
            assert side.budget.reserved == 0


@pytest.fixture
def side(make_side: Callable[..., Side]) -> Side:
    """An acceptor with small windows, whose peer the test plays."""
    return make_side()


@pytest.fixture
def asking(make_side: Callable[..., Side]) -> Callable[..., Side]:
    """``asking(role)`` makes a side that is greeted and has sent its nonce; the peer has sent nothing else."""

    def make(role: int = Role.ACCEPTOR, *secrets: bytes, nonce: bytes | None = None) -> Side:
        side = proving.expect(make_side(role, greet=False), *(secrets or (proving.SECRET,)), nonce=nonce)
        side.receive(proving.GREETINGS[Role(3 - role)])
        assert side.sent() == [Frame(spec.AUTH, 0, 1, 0, proving.NONCES[Role(role)] if nonce is None else nonce)]
        return side

    return make


@pytest.fixture(
    params=[(role, stage) for role in Role for stage in ("nonce", "proof")],
    ids=lambda param: f"{param[0].name}-{param[1]}",
)
def half(request: pytest.FixtureRequest, asking: Callable[..., Side]) -> Side:
    """A side at each point at which the peer still has something to prove."""
    role, stage = request.param
    side = asking(role)
    if stage == "proof":
        side.receive(proving.told(side))
        side.sent()
    return side
