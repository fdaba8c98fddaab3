"""Who knows the secret: section 8 of ``PROTOCOL.md``.

Each side sends a nonce, then a proof: a digest, keyed with the secret, of both nonces and both greetings. ::

    initiator   begin ──> NONCE ── peer's nonce, sends its proof ──> PROOF ── peer's proof is right ──> done
    acceptor    begin ──> NONCE ── peer's nonce ──> PROOF ── peer's proof is right, sends its own ──> done

The acceptor is the last to prove. So a stranger gets nothing of it that depends on the secret and could be tried
against guesses, and it can accept several secrets: it proves the one that the initiator has proved.

Random numbers come from outside, like time and bytes.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence

from rpcproto.errors import LocalProtocolError, RemoteProtocolError
from rpcproto.wire.spec import ErrorCode, Mechanism, Role

__all__ = ["SIZE", "Authentication", "check_mechanism", "proof_of"]

SIZE = 32
"""Bytes of a nonce, and of a proof."""


def check_mechanism(peers: int, secret: bool) -> None:
    """Check that both sides want the same mechanism.

    Args:
        peers: that of the peer's greeting.
        secret: whether this side has a shared secret.

    Raises:
        RemoteProtocolError: they differ (``AUTHENTICATION``); the text says what each side wants.
    """
    if peers == (Mechanism.SHARED_SECRET if secret else Mechanism.NONE):
        return
    if peers == Mechanism.SHARED_SECRET:
        text = "the peer wants a shared secret, this side has none: give secret=..."
    elif peers == Mechanism.NONE:
        text = "this side wants a shared secret, the peer has none: give secret=... there too"
    else:
        text = f"the peer wants to authenticate by mechanism {peers}, which this side does not know"
    raise RemoteProtocolError(text, code=ErrorCode.AUTHENTICATION)


def proof_of(
    secret: bytes, role: int, nonce: bytes, other_nonce: bytes, greeting: bytes, other_greeting: bytes
) -> bytes:
    """The proof that a side of ``role`` sends; ``other_`` is what the side that it proves itself to has sent."""
    return hmac.digest(secret, bytes([role]) + nonce + other_nonce + greeting + other_greeting, "sha256")


class Authentication:
    """One side of the proofs. An error that it raises, and its ``repr``, tell nothing of the secret.

    Args:
        role: of this side.
        secrets: the one that an initiator proves; those that an acceptor accepts, or none, which accepts nobody.
        nonce: 32 random bytes, never used before.
        greeting: what this side greets with.

    Attributes:
        done: both sides have proved that they know the secret.
    """

    NONCE = 1
    PROOF = 2
    """Steps: what an AUTH frame carries."""

    __slots__ = (
        "_due",
        "_greeting",
        "_initiator",
        "_nonce",
        "_peer_greeting",
        "_peer_nonce",
        "_role",
        "_secrets",
        "done",
    )

    def __init__(self, role: int, secrets: Sequence[bytes], nonce: bytes, greeting: bytes) -> None:
        if len(nonce) != SIZE:
            raise LocalProtocolError(f"a nonce has {SIZE} bytes, not {len(nonce)}")
        self._role = role
        self._initiator = role == Role.INITIATOR
        self._secrets = tuple(secrets)
        if self._initiator and len(self._secrets) != 1:
            raise LocalProtocolError(f"an initiator proves one secret, not {len(self._secrets)}")
        self._nonce = nonce
        self._greeting = greeting
        self._peer_nonce = b""
        self._peer_greeting = b""
        self._due = self.NONCE
        self.done = False

    def begin(self, peer_greeting: bytes) -> bytes:
        """The peer has greeted, in these bytes. Returns the nonce to send."""
        self._peer_greeting = peer_greeting
        return self._nonce

    def receive(self, step: int, payload: bytes) -> bytes | None:
        """The peer has sent an AUTH frame. Returns the proof to be sent now, if it is time for it.

        Raises:
            RemoteProtocolError: it is not the one that is due, or its proof is wrong (``AUTHENTICATION``).
        """
        if step != self._due or len(payload) != SIZE:
            raise RemoteProtocolError(
                f"an AUTH frame of step {step} and {len(payload)} bytes, not of step {self._due} and {SIZE} bytes",
                code=ErrorCode.AUTHENTICATION,
            )
        if step == self.NONCE:
            self._peer_nonce = payload
            self._due = self.PROOF
            return self._proof(self._secrets[0]) if self._initiator else None
        secret = self._find(payload)
        if secret is None:
            raise RemoteProtocolError(
                "wrong proof of the shared secret: do both sides have the same one?", code=ErrorCode.AUTHENTICATION
            )
        self.done = True
        self._due = 0
        return None if self._initiator else self._proof(secret)

    def _find(self, proof: bytes) -> bytes | None:
        """The secret that the peer has proved. Takes as long whichever it is, and if it is none."""
        found = None
        for secret in self._secrets:
            expected = proof_of(
                secret, 3 - self._role, self._peer_nonce, self._nonce, self._peer_greeting, self._greeting
            )
            if hmac.compare_digest(expected, proof):
                found = secret
        return found

    def _proof(self, secret: bytes) -> bytes:
        return proof_of(secret, self._role, self._nonce, self._peer_nonce, self._greeting, self._peer_greeting)
