"""What a peer may send that has proved nothing: row 48 of the fault plan, and row 52 but for its time."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from itertools import pairwise

import pytest

from rpcproto.connection.authentication import Authentication
from rpcproto.errors import ConnectionLost
from rpcproto.wire import spec
from rpcproto.wire.spec import CreditClass, ErrorCode, Flag, FrameType, Role
from tests.connection.pairing import Side, breach_code
from tests.connection.proving import (
    BOTH,
    GREETINGS,
    NONCES,
    OTHER,
    SECRET,
    WRONG_PROOF,
    call_id_of_peer,
    ends,
    expect,
    is_open,
    nothing_happened,
    proof,
    proved,
    told,
    turned_away,
)
from tests.wire import frames
from tests.wire.test_transcripts import read

Make = Callable[..., Side]


FORBIDDEN: dict[str, Callable[[int], bytes]] = {
    **{
        f"{kind.name}": lambda call_id, kind=kind: frames.opening(call_id, b"x", kind=kind, method=5)  # type: ignore[misc]
        for kind in (FrameType.REQUEST, FrameType.NOTIFY, FrameType.STREAM, FrameType.CHANNEL)
    },
    "a large REQUEST": lambda call_id: frames.first(call_id, b"", 512 << 20),
    "the first fragment": lambda call_id: frames.first(call_id, b"x" * 2000, 5000),
    "a later fragment": lambda call_id: frames.more(call_id, b"x" * 2000),
    "REPLY": lambda call_id: frames.reply(call_id ^ 3, b"x"),
    "ITEM": lambda call_id: frames.item(call_id, b"x"),
    "ERROR": lambda call_id: frames.error(call_id ^ 3),
    "CANCEL": lambda call_id: frames.cancel(call_id),
    "CREDIT": lambda call_id: frames.credit(1 << 20),
    "CREDIT of replies": lambda call_id: frames.credit(1 << 20, which=CreditClass.REPLIES),
    "CREDIT on a call": lambda call_id: frames.credit(1 << 20, call_id),
    "PING": lambda call_id: frames.ping(),
    "an answer to a PING": lambda call_id: frames.ping(answer=True),
    "GOAWAY without an error": lambda call_id: frames.goaway(),
    "the last GOAWAY without an error": lambda call_id: frames.goaway(last_id=0),
    "PAD": lambda call_id: frames.frame(FrameType.PAD, 0, bytes(8)),
    "an unknown type": lambda call_id: frames.frame(99, 0, b"x"),
    "an unknown type to be ignored": lambda call_id: frames.frame(99, 0, b"x", flags=Flag.IGNORABLE),
    "type 0": lambda call_id: frames.frame(0, 0, b""),
}
"""Every frame that is not AUTH."""


def test_every_type_of_frame_is_tried() -> None:
    tried = {frames.split(make(1))[0].kind for make in FORBIDDEN.values()}
    assert set(FrameType) - {FrameType.AUTH} <= tried


@pytest.mark.parametrize("what", FORBIDDEN)
def test_nothing_but_auth_is_allowed_before_the_proofs(half: Side, what: str) -> None:
    half.receive(FORBIDDEN[what](call_id_of_peer(half)))
    turned_away(half)


@pytest.mark.parametrize("what", FORBIDDEN)
def test_the_header_is_enough(half: Side, what: str) -> None:
    """Whatever payload is announced is neither waited for nor given memory. (A GOAWAY may be one that is allowed.)"""
    kind = frames.split(FORBIDDEN[what](1))[0].kind
    length = 1 << 20 if kind == FrameType.GOAWAY else 100
    header = frames.HEADER.pack(length, kind, Flag.FIRST | Flag.HEAD | Flag.MORE, 0, 1)
    half.receive(header)
    turned_away(half)


@pytest.mark.parametrize("kind", [FrameType.AUTH, FrameType.GOAWAY])
@pytest.mark.parametrize("length", [1033, 16 * 1024 + 1, 1 << 20, (1 << 20) + 1, 2**32 - 1])
def test_row_52_a_large_frame_reserves_nothing(half: Side, kind: int, length: int) -> None:
    """16 KiB and one byte, 1 MiB, 4 GiB: the header alone ends it."""
    half.receive(frames.HEADER.pack(length, kind, 0, 1, 0))
    turned_away(half)


@pytest.mark.parametrize("which", range(4))
def test_row_48_a_frame_of_the_wrong_size_or_step(half: Side, which: int) -> None:
    right = told(half) if half.decoder.frames == 0 else proved(half)
    frame = frames.split(right)[0]
    wrong = [
        frames.auth(frame.aux, frame.payload[:-1]),
        frames.auth(frame.aux, frame.payload + b"\0"),
        frames.auth(frame.aux, b""),
        frames.auth(3 - frame.aux, frame.payload),
    ][which]
    half.receive(wrong)
    assert f"not of step {frame.aux} and 32 bytes" in turned_away(half)


@pytest.mark.parametrize("step", [0, 3, 65_535])
def test_row_48_a_step_that_does_not_exist(half: Side, step: int) -> None:
    half.receive(frames.auth(step, bytes(32)))
    turned_away(half)


def test_row_48_an_auth_frame_of_a_call(half: Side) -> None:
    half.receive(frames.frame(FrameType.AUTH, 1, bytes(32), aux=1))
    turned_away(half, ErrorCode.CALL_ID)


def test_row_48_a_frame_that_ends_early_waits_and_does_nothing(half: Side) -> None:
    right = told(half) if half.decoder.frames == 0 else proved(half)
    for byte in right[:-1]:
        half.receive(bytes([byte]))
    assert half.sent() == []
    assert half.breach is None
    nothing_happened(half)
    half.connection.lost(ConnectionLost("the peer closed the connection"))
    assert half.sent() == []
    assert half.connection.authentication is None


@pytest.mark.parametrize("role", BOTH)
@pytest.mark.parametrize("what", ["nonce", "proof"])
def test_row_48_the_same_frame_twice(asking: Callable[..., Side], role: int, what: str) -> None:
    side = asking(role)
    side.receive(told(side))
    side.sent()
    if what == "nonce":
        side.receive(told(side))
        turned_away(side)
    else:
        side.receive(proved(side))
        assert is_open(side)
        side.sent()
        side.receive(proved(side))
        assert breach_code(side) == ErrorCode.AUTHENTICATION
        assert "nothing was to be proved" in str(side.breach)


@pytest.mark.parametrize("count", [3, 9, 1000])
def test_row_52_more_frames_than_there_are_steps(asking: Callable[..., Side], count: int) -> None:
    """The second is one too many: eight is what the text allows at most, for mechanisms to come."""
    side = asking(Role.ACCEPTOR)
    side.receive(told(side) * count)
    assert side.decoder.frames == 2
    turned_away(side)


@pytest.mark.parametrize("role", BOTH)
@pytest.mark.parametrize("step", [1, 2])
def test_auth_after_authentication(asking: Callable[..., Side], role: int, step: int) -> None:
    side = asking(role)
    side.receive(told(side) + proved(side))
    side.sent()
    assert is_open(side)
    side.receive(frames.auth(step, bytes(32)) + frames.opening(call_id_of_peer(side), b"x"))
    assert breach_code(side) == ErrorCode.AUTHENTICATION
    assert side.shell.called == []


WRONG: dict[str, Callable[[int], bytes]] = {
    "another secret": lambda role: proof(role, OTHER),
    "an empty secret": lambda role: proof(role, b""),
    "one bit": lambda role: bytes([proof(role)[0] ^ 1]) + proof(role)[1:],
    "the last bit": lambda role: proof(role)[:-1] + bytes([proof(role)[-1] ^ 128]),
    "nothing but zeros": lambda role: bytes(32),
    "our own proof, reflected": lambda role: proof(3 - role),
    "the role swapped": lambda role: hmac.digest(
        SECRET,
        bytes([3 - role])
        + NONCES[Role(role)]
        + NONCES[Role(3 - role)]
        + GREETINGS[Role(role)]
        + GREETINGS[Role(3 - role)],
        "sha256",
    ),
    "the nonces swapped": lambda role: proof(role, nonce=NONCES[Role(3 - role)], other=NONCES[Role(role)]),
    "the greetings swapped": lambda role: proof(
        role, greeting=GREETINGS[Role(3 - role)], other_greeting=GREETINGS[Role(role)]
    ),
    "another of our greetings": lambda role: proof(role, other_greeting=frames.greeting(3 - role, mechanism=1)),
    "another of its greetings": lambda role: proof(role, greeting=frames.greeting(role, mechanism=1)),
    "a plain digest": lambda role: hashlib.sha256(SECRET + NONCES[Role(role)] + NONCES[Role(3 - role)]).digest(),
    "the nonce": lambda role: NONCES[Role(role)],
}


@pytest.mark.parametrize("role", BOTH)
@pytest.mark.parametrize("what", WRONG)
def test_row_48_a_wrong_proof_says_no_more_than_that(asking: Callable[..., Side], role: int, what: str) -> None:
    side = asking(role)
    side.receive(told(side))
    side.sent()
    side.receive(frames.auth(2, WRONG[what](3 - role)) + frames.opening(call_id_of_peer(side), b"x"))
    assert turned_away(side) == WRONG_PROOF


def test_row_48_the_transcript_of_a_wrong_secret(make_side: Make) -> None:
    recorded = read("secret_wrong")
    side = expect(make_side(Role.ACCEPTOR, greet=False), SECRET)
    said = GREETINGS[Role.ACCEPTOR]
    for at, end in pairwise([0, *ends(bytes(recorded[Role.INITIATOR].data))]):
        side.receive(bytes(recorded[Role.INITIATOR].data)[at:end])
        said += side.take()
    assert said == bytes(recorded[Role.ACCEPTOR].data)
    other = expect(make_side(Role.INITIATOR, greet=False), OTHER)
    other.receive(bytes(recorded[Role.ACCEPTOR].data)[:112])
    said = GREETINGS[Role.INITIATOR] + other.take()
    assert said == bytes(recorded[Role.INITIATOR].data)
    other.receive(bytes(recorded[Role.ACCEPTOR].data)[112:])
    assert other.sent() == []
    assert str(other.breach) == f"the peer the peer ended the connection: AUTHENTICATION: {WRONG_PROOF}"
    nothing_happened(other)


@pytest.mark.parametrize("role", BOTH)
def test_row_48_our_nonce_and_proof_reflected(asking: Callable[..., Side], role: int) -> None:
    """A peer that knows nothing and sends back whatever it gets, but for the role in the greeting."""
    side = asking(role)
    side.receive(frames.auth(1, NONCES[Role(role)]))
    own = side.sent()
    reflected = own[0].payload if own else hmac.digest(OTHER, b"", "sha256")
    side.receive(frames.auth(2, reflected))
    assert turned_away(side) == WRONG_PROOF


def test_row_48_a_proof_fetched_from_one_side_does_not_open_another_of_its_role(asking: Callable[..., Side]) -> None:
    """Whoever is connected to two initiators gets proofs from both; neither opens the other, nor an acceptor."""
    first = asking(Role.INITIATOR)
    second = asking(Role.INITIATOR, nonce=b"2" * 32)
    first.receive(frames.auth(1, b"2" * 32))
    (answer,) = first.sent()
    second.receive(frames.auth(1, NONCES[Role.INITIATOR]))
    second.sent()
    second.receive(frames.auth(2, answer.payload))
    assert turned_away(second) == WRONG_PROOF
    first.connection.lost(ConnectionLost("over"))


@pytest.mark.parametrize("role", BOTH)
def test_row_48_a_recorded_exchange_replayed(asking: Callable[..., Side], role: int) -> None:
    """What opened one connection does not open the next, which has a nonce of its own."""
    recorded = bytes(read("secret")[Role(3 - role)].data)[64 : 64 + 96]
    side = asking(role)
    side.receive(recorded)
    side.sent()
    assert is_open(side)
    side = asking(role, nonce=b"n" * 32)
    side.receive(recorded)
    assert turned_away(side) == WRONG_PROOF


@pytest.mark.parametrize("at", range(64))
def test_row_48_no_byte_of_a_greeting_can_be_altered_on_the_way(make_side: Make, at: int) -> None:
    """Both would accept the altered greeting, or one of them ends it at once; but they do not open."""
    altered = bytearray(GREETINGS[Role.INITIATOR])
    altered[at] ^= 1
    side = expect(make_side(Role.ACCEPTOR, greet=False), SECRET)
    side.receive(bytes(altered) + told(side) + proved(side))
    assert side.breach is not None
    assert side.shell.called == []
    assert [frame.kind for frame in side.sent()] == [spec.GOAWAY]


def test_nobody_is_accepted_where_there_is_no_secret(make_side: Make) -> None:
    """As when the function that should give it has failed."""
    side = make_side(Role.ACCEPTOR, greet=False)
    side.connection.authentication = Authentication(Role.ACCEPTOR, (), NONCES[Role.ACCEPTOR], GREETINGS[Role.ACCEPTOR])
    side.receive(GREETINGS[Role.INITIATOR])
    side.sent()
    side.receive(told(side) + frames.auth(2, proof(1, b"")))
    assert turned_away(side) == WRONG_PROOF
