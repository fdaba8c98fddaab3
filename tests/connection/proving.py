"""What the tests of authentication share: sides that ask for a proof, and what a peer that the test plays sends them.

The proofs are made from the text of the protocol, by :func:`proof`, not by the code.
"""

from __future__ import annotations

import hashlib
import hmac

from rpcproto.connection import _states as states
from rpcproto.connection.authentication import Authentication
from rpcproto.wire import spec
from rpcproto.wire.spec import ErrorCode, Role
from tests.connection.pairing import Side
from tests.wire import frames
from tests.wire.test_transcripts import read

SECRET = b"correct horse battery staple"
OTHER = b"incorrect horse battery staple"
NONCES = {Role.INITIATOR: bytes(range(32)), Role.ACCEPTOR: bytes(range(32, 64))}
GREETINGS = {role: bytes(side.data[:64]) for role, side in read("secret").items()}
"""Those of the transcripts, so that what the tests send can be compared with them."""

BOTH = [Role.INITIATOR, Role.ACCEPTOR]
WRONG_PROOF = "wrong proof of the shared secret: do both sides have the same one?"


def proof(
    role: int,
    secret: bytes = SECRET,
    *,
    nonce: bytes | None = None,
    other: bytes | None = None,
    greeting: bytes | None = None,
    other_greeting: bytes | None = None,
) -> bytes:
    """The proof that a side of ``role`` owes: own role byte, own nonce, peer's nonce, own greeting, peer's greeting."""
    mine, theirs = Role(role), Role(3 - role)
    parts = [
        bytes([role]),
        NONCES[mine] if nonce is None else nonce,
        NONCES[theirs] if other is None else other,
        GREETINGS[mine] if greeting is None else greeting,
        GREETINGS[theirs] if other_greeting is None else other_greeting,
    ]
    return hmac.new(secret, b"".join(parts), hashlib.sha256).digest()


def expect(side: Side, *secrets: bytes, nonce: bytes | None = None) -> Side:
    """Have a side that is not greeted yet ask for a proof."""
    role = Role(side.role)
    chosen = NONCES[role] if nonce is None else nonce
    side.connection.authentication = Authentication(role, secrets, chosen, GREETINGS[role])
    return side


def told(side: Side) -> bytes:
    """The peer's nonce, as it comes to a side."""
    return frames.auth(1, NONCES[Role(3 - side.role)])


def proved(side: Side, secret: bytes = SECRET) -> bytes:
    """The peer's proof, as it comes to a side."""
    return frames.auth(2, proof(3 - side.role, secret))


def is_open(side: Side) -> bool:
    assert (side.shell.events == [("open",)]) == (side.connection.state == states.OPEN)
    return side.connection.state == states.OPEN


def nothing_happened(side: Side) -> None:
    """No call, no method, no credit, no memory: as if what came had not come."""
    connection = side.connection
    assert connection.state != states.OPEN
    assert side.shell.called == []
    assert [event[0] for event in side.shell.events] in ([], ["end"])
    assert (connection.last_id, connection.calls_served, connection.refused) == (0, 0, 0)
    assert not connection.inbox.kept
    assert not side.decoder.assemblies
    assert side.budget.reserved == 0


def turned_away(side: Side, code: int = ErrorCode.AUTHENTICATION) -> str:
    """The connection has ended, the peer was told why, and nothing else was sent. Returns the text."""
    assert side.breach is not None, "it was accepted"
    (goaway,) = side.sent()
    assert (goaway.kind, goaway.aux) == (spec.GOAWAY, code)
    text = goaway.payload[8:].decode()
    assert text == str(side.breach)
    nothing_happened(side)
    assert side.connection.authentication is None, "the secret is not let go of"
    side.receive(told(side) + proved(side) + frames.opening(1, b"too late") + frames.goaway())
    assert side.sent() == []
    nothing_happened(side)
    return text


def ends(data: bytes) -> list[int]:
    """Where the greeting and each frame end."""
    found = [64]
    for frame in frames.split(data[64:]):
        found.append(found[-1] + 16 + len(frame.payload))
    return found


def call_id_of_peer(side: Side) -> int:
    return 1 if side.role == Role.ACCEPTOR else 2
