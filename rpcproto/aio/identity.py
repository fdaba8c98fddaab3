"""Who the other end of a connection is, and what it has to prove before it may call.

What counts as proof: the shared secret; a certificate that was verified; for ``unix:``, being of the same user or root,
by the word of the system; for ``inproc:``, being this process.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rpcproto._logs import log
from rpcproto.connection.authentication import SIZE, Authentication
from rpcproto.errors import ConfigurationError
from rpcproto.transports import (
    Certificate,
    Credentials,
    is_encrypted,
    is_local_peer,
    peer_address,
    peer_certificate,
    peer_credentials,
)
from rpcproto.wire.greeting import Greeting
from rpcproto.wire.spec import Mechanism, Role

if TYPE_CHECKING:
    import asyncio

    from rpcproto.aio.secret import Secrets
    from rpcproto.config import Limits, Timeouts
    from rpcproto.connection.connection import Connection

_INCARNATION = int.from_bytes(os.urandom(8), "little")

_ROOT = 0

_warned: list[str] = []
"""The address of the first connection on which a secret went over a network in the clear: one warning is enough."""


class Identity:
    """The other end of one connection.

    Args:
        role: ours.
        secrets: what this side was given, None for none. Asked for now.
        insecure: whether other users are welcome though nobody proves anything.

    Raises:
        ConfigurationError: there is no secret for us to prove. (Without one to accept, nobody is accepted.)

    Attributes:
        authenticated: it is known who the other end is.
        certificate: the one it has proved to hold, for ``tls:``.
        credentials: its process, for ``unix:``.
    """

    __slots__ = ("_insecure", "_role", "_secrets", "authenticated", "certificate", "credentials")

    def __init__(self, role: int, secrets: Secrets | None, insecure: bool) -> None:
        self._role = role
        self._insecure = insecure
        self._secrets: tuple[bytes, ...] | None = None
        self.authenticated = False
        self.certificate: Certificate | None = None
        self.credentials: Credentials | None = None
        if secrets is not None:
            try:
                self._secrets = secrets.now()
            except ConfigurationError as error:
                if role == Role.INITIATOR:
                    raise
                log.error("a client is turned away: %s", error)
                self._secrets = ()

    def meet(
        self, transport: asyncio.BaseTransport, connection: Connection, limits: Limits, timeouts: Timeouts
    ) -> bytes:
        """Look at who has connected, and set what the connection has to know of it. Returns our greeting."""
        address = peer_address(transport)
        local = is_local_peer(transport)
        secret = self._secrets is not None
        self.certificate = peer_certificate(transport)
        self.credentials = peer_credentials(transport)
        self.authenticated = (
            self.certificate is not None or self._is_own_user() or (address is not None and address.scheme == "inproc")
        )
        if local or secret or self.authenticated:  # until the secret is proved nothing large is received at all
            connection.max_message = limits.max_message
        if secret and not local and not is_encrypted(transport):
            _warn(connection.peer)
        silence = timeouts.heartbeat
        greeting = Greeting(
            role=self._role,
            incarnation=_INCARNATION,
            max_frame=limits.max_frame,
            max_message=connection.max_message,
            call_window=limits.call_window,
            connection_window=limits.connection_window,
            max_running=limits.max_running,
            silence_ms=0 if silence is None else max(1, int(silence * 1000)),
            mechanism=Mechanism.SHARED_SECRET if secret else Mechanism.NONE,
        ).encode()
        if self._secrets is not None:
            connection.authentication = Authentication(self._role, self._secrets, os.urandom(SIZE), greeting)
        return greeting

    def refusal(self) -> str:
        """Why this end must not be talked to, by what the system says of it; nothing if it may."""
        if self.credentials is None or self._secrets is not None or self._insecure or self._is_own_user():
            return ""
        return (
            f"one end is a process of user {self.credentials.uid}, the other of user {os.geteuid()}: without a shared"
            " secret (secret=...) or insecure=True only the same user and root are accepted"
        )

    def opened(self) -> None:
        """The peer has proved what it had to."""
        if self._secrets is not None:
            self.authenticated = True
            self._secrets = ()  # they are needed no longer

    def _is_own_user(self) -> bool:
        return self.credentials is not None and self.credentials.uid in (_ROOT, os.geteuid())


def _warn(peer: str) -> None:
    text = (
        "the connection with %s has a shared secret and no encryption: both ends prove who they are when it begins, but"
        " what follows can be read and altered on the way (said once)"
    )
    if not _warned and log.warning(text, peer):
        _warned.append(peer)
