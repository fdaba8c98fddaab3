"""Authentication by a shared secret: section 8 of ``PROTOCOL.md``, and row 48 of the fault plan."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from rpcproto.connection.authentication import Authentication, check_mechanism
from rpcproto.errors import LocalProtocolError, RemoteProtocolError
from rpcproto.wire import spec
from rpcproto.wire.spec import ErrorCode, Mechanism, Role
from tests.connection.pairing import ConnectionPair, Side
from tests.connection.proving import (
    BOTH,
    GREETINGS,
    NONCES,
    OTHER,
    SECRET,
    ends,
    expect,
    is_open,
    nothing_happened,
    proof,
    proved,
    told,
    turned_away,
)
from tests.connection.shell import Clock, Shell
from tests.wire import frames
from tests.wire.frames import Frame
from tests.wire.test_transcripts import read

Make = Callable[..., Side]


class Echo(Shell):
    """Answers every method with what it got."""

    def resolve(self, name: str) -> object:
        return "echo"


# ---- what is right -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [1, 7, 1 << 20])
def test_row_48_both_sides_write_what_the_transcript_says(make_side: Make, step: int) -> None:
    """Golden: with its nonces, greetings and secret both sides say what was recorded, however the bytes are cut."""
    recorded = read("secret")
    for role in BOTH:
        side = expect(make_side(role, greet=False, shell=Echo(Clock())), SECRET)
        data = bytes(recorded[Role(3 - role)].data)
        said = GREETINGS[role]
        calls = []
        for at, end in pairwise([0, *ends(data)]):
            side.receive(data[at:end], step)
            if is_open(side) and role == Role.INITIATOR and not calls:
                calls.append(side.request("Echo.echo", b"in"))
            said += side.take()
        assert said == bytes(recorded[role].data)
        assert [call.outcome for call in calls] == [b"in"] * (role == Role.INITIATOR)


@pytest.mark.parametrize("step", [1, 1 << 20])
def test_row_48_the_same_secret_opens_both(make_pair: Callable[..., ConnectionPair], step: int) -> None:
    pair = make_pair(greet=False)
    greetings = [
        frames.greeting(
            side.role,
            mechanism=Mechanism.SHARED_SECRET,
            max_message=side.max_message,
            call_window=side.limits.call_window,
            connection_window=side.limits.connection_window,
        )
        for side in (pair.left, pair.right)
    ]
    for side, greeting in zip((pair.left, pair.right), greetings, strict=True):
        role = Role(side.role)
        side.connection.authentication = Authentication(role, [SECRET], NONCES[role], greeting)
    pair.left.receive(greetings[1], step)
    pair.right.receive(greetings[0], step)
    assert [frame.aux for frame in pair.pump(step)] == [1, 1, 2, 2]
    assert is_open(pair.left)
    assert is_open(pair.right)
    calls = [pair.left.request("echo", b"hi"), pair.right.request("fill", b"100000")]
    pair.pump(step=1 << 16)
    assert [len(call.outcome) for call in calls] == [2, 100_000]


def test_the_acceptor_tells_nothing_of_the_secret_before_the_initiator_has_proved_it(
    asking: Callable[..., Side],
) -> None:
    side = asking(Role.ACCEPTOR)
    side.receive(told(side))
    assert side.sent() == []
    side.receive(proved(side))
    assert side.sent() == [Frame(spec.AUTH, 0, 2, 0, proof(Role.ACCEPTOR))]
    assert is_open(side)


def test_the_initiator_proves_first_and_is_open_once_the_acceptor_has(asking: Callable[..., Side]) -> None:
    side = asking(Role.INITIATOR)
    side.receive(told(side))
    assert side.sent() == [Frame(spec.AUTH, 0, 2, 0, proof(Role.INITIATOR))]
    assert not is_open(side)
    side.receive(proved(side))
    assert is_open(side)
    assert side.sent() == []


@pytest.mark.parametrize("role", BOTH)
def test_what_follows_the_last_proof_in_the_same_read_is_taken(asking: Callable[..., Side], role: int) -> None:
    side = asking(role)
    side.receive(told(side) + proved(side) + frames.opening(1 + (role == Role.INITIATOR), b"at once"))
    assert [called[3] for called in side.shell.called] == [b"at once"]
    assert [frame.kind for frame in side.sent()] == [spec.AUTH, spec.REPLY]
    assert side.connection.authentication is None, "the secret is not let go of"


@pytest.mark.parametrize("secret", [SECRET, OTHER, b"third".ljust(32)])
def test_of_several_secrets_the_acceptor_proves_the_one_that_was_proved(
    asking: Callable[..., Side], secret: bytes
) -> None:
    side = asking(Role.ACCEPTOR, SECRET, OTHER, b"third".ljust(32))
    side.receive(told(side) + proved(side, secret))
    assert side.sent() == [Frame(spec.AUTH, 0, 2, 0, proof(Role.ACCEPTOR, secret))]
    assert is_open(side)


def test_a_greeting_of_a_later_minor_version_is_bound_in_as_it_came(make_side: Make) -> None:
    """Bytes that this version ignores are part of the proof all the same: the peer made it from what it sent."""
    side = expect(make_side(Role.ACCEPTOR, greet=False), SECRET)
    greeting = frames.greeting(1, minor=7, mechanism=1, may=0xFF, reserved=b"reserved")
    side.receive(greeting + told(side) + frames.auth(2, proof(1, greeting=greeting)))
    assert is_open(side)
    assert [frame.payload for frame in side.sent()] == [
        NONCES[Role.ACCEPTOR],
        proof(Role.ACCEPTOR, other_greeting=greeting),
    ]


# ---- mechanisms ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", BOTH)
@pytest.mark.parametrize(
    ("ours", "theirs", "says"),
    [
        ((), 1, "the peer wants a shared secret, this side has none: give secret=..."),
        ((SECRET,), 0, "this side wants a shared secret, the peer has none: give secret=... there too"),
        ((), 7, "the peer wants to authenticate by mechanism 7, which this side does not know"),
        ((SECRET,), 255, "the peer wants to authenticate by mechanism 255, which this side does not know"),
    ],
)
def test_row_48_there_is_no_falling_back(make_side: Make, role: int, ours: Any, theirs: int, says: str) -> None:
    """None on one side, or another mechanism: the greeting ends it, and not even a nonce is sent."""
    side = make_side(role, greet=False)
    if ours:
        expect(side, *ours)
    side.receive(frames.greeting(3 - role, mechanism=theirs) + frames.opening(1, b"x"))
    assert turned_away(side) == says


def test_the_mechanism_must_be_the_same() -> None:
    check_mechanism(Mechanism.NONE, False)
    check_mechanism(Mechanism.SHARED_SECRET, True)


# ---- the peer refuses, and calls that come too early ----------------------------------------------------------------


def test_the_peer_refuses(half: Side) -> None:
    half.receive(frames.goaway(ErrorCode.AUTHENTICATION, 0, "no"))
    assert half.sent() == []
    assert str(half.breach) == "the peer the peer ended the connection: AUTHENTICATION: no"
    nothing_happened(half)
    assert half.connection.authentication is None


def test_calls_before_the_proofs_fail_as_before_the_greeting(half: Side) -> None:
    with pytest.raises(LocalProtocolError, match="has not come yet"):
        half.request("echo", b"x")
    half.connection.go_away(False)
    assert half.sent() == []
    half.connection.abandon(ErrorCode.AUTHENTICATION, "no proof of the shared secret within 10 s")
    assert turned_away(half) == "no proof of the shared secret within 10 s"


# ---- the object itself -----------------------------------------------------------------------------------------------


def test_a_nonce_has_32_bytes() -> None:
    with pytest.raises(LocalProtocolError, match="32 bytes, not 31"):
        Authentication(Role.ACCEPTOR, [SECRET], bytes(31), GREETINGS[Role.ACCEPTOR])


@pytest.mark.parametrize("secrets", [[], [SECRET, OTHER]])
def test_an_initiator_proves_one_secret(secrets: list[bytes]) -> None:
    with pytest.raises(LocalProtocolError, match=f"one secret, not {len(secrets)}"):
        Authentication(Role.INITIATOR, secrets, bytes(32), GREETINGS[Role.INITIATOR])


def test_row_66_the_secret_is_in_no_repr_and_no_error(asking: Callable[..., Side]) -> None:
    authentication = Authentication(Role.INITIATOR, [SECRET], bytes(32), GREETINGS[Role.INITIATOR])
    authentication.begin(GREETINGS[Role.ACCEPTOR])
    assert "horse" not in repr(authentication)
    authentication.receive(1, bytes(32))
    with pytest.raises(RemoteProtocolError) as caught:
        authentication.receive(2, bytes(32))
    assert "horse" not in repr(caught.value) + str(vars(caught.value))
