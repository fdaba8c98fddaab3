"""One TLS handshake: from a connected socket to a protocol that has its connection, on either side.

The bytes are the business of the loop's own TLS, which asyncio and uvloop have alike. Around it: no protocol is made
before the handshake is done and the peer known, nothing is left of one that is given up, and what went wrong is said in
words that help.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Generic

from ._contexts import ALPN
from ._sockets import reason
from .base import P

__all__ = ["HandshakeFailed", "encrypt"]

_LOOP_TIMEOUT = 24 * 3600.0
"""Seconds for the loop's own clocks on handshake and shutdown. They are not needed: a handshake has the caller's, and
a shutdown that of the connection's owner, who aborts."""

_NOT_TLS = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST", "UNKNOWN_PROTOCOL"})
_NO_CERTIFICATE = frozenset({"PEER_DID_NOT_RETURN_A_CERTIFICATE", "TLSV13_ALERT_CERTIFICATE_REQUIRED"})
_OLD_VERSION = frozenset({"UNSUPPORTED_PROTOCOL", "TLSV1_ALERT_PROTOCOL_VERSION", "VERSION_TOO_LOW"})


class HandshakeFailed(OSError):
    """The handshake failed. The text says why; the cause is what the system or OpenSSL said."""


class _Handshake(asyncio.Protocol, Generic[P]):
    """The protocol of a connection until its handshake is done. Then the one that the factory makes takes over.

    Args:
        protocol_factory: called once, when the handshake is done and all is well.
        alpn: whether the peer must have agreed on the protocol.
    """

    def __init__(self, protocol_factory: Callable[[], P], alpn: bool) -> None:
        self._protocol_factory = protocol_factory
        self._alpn = alpn
        self._given_up = False
        self.transport: asyncio.Transport | None = None
        self.protocol: P | None = None
        self.error: BaseException | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert hasattr(transport, "abort")
        self.transport = transport  # type: ignore[assignment]  # uvloop's are none by inheritance
        try:
            if self._given_up:
                raise ConnectionAbortedError("given up")
            _check_alpn(transport.get_extra_info("ssl_object"), self._alpn)
            protocol = self._protocol_factory()
        except BaseException as exc:
            self.error = exc
            transport.abort()
            return
        transport.set_protocol(protocol)
        self.protocol = protocol
        protocol.connection_made(transport)

    def give_up(self) -> None:
        """Nobody waits for the connection any more: end it, or let it come to nothing."""
        self._given_up = True
        if self.transport is not None:
            self.transport.abort()


async def encrypt(
    sock: socket.socket,
    context: ssl.SSLContext,
    protocol_factory: Callable[[], P],
    *,
    server_hostname: str | None,
    alpn: bool,
    timeout: float | None,
) -> tuple[asyncio.Transport, P]:
    """Do a handshake on a connected socket, which belongs to this call.

    Args:
        sock: connected and non-blocking. It is closed if the handshake fails or is cancelled.
        context: of this side.
        protocol_factory: makes the protocol, once the handshake is done.
        server_hostname: the name that the server's certificate must be for; None in servers.
        alpn: whether the peer must agree on the protocol.
        timeout: seconds; None if the caller sees to it.

    Raises:
        HandshakeFailed: it did not come about.
    """
    handshake = _Handshake(protocol_factory, alpn)
    # A task of its own, as in adopt(): a cancel must not reach into the loop's code half-way.
    attempt = asyncio.get_running_loop().create_task(_start(sock, context, handshake, server_hostname))
    try:
        await asyncio.wait([attempt], timeout=timeout)
    except asyncio.CancelledError:
        _give_up(handshake, attempt)
        raise
    if not attempt.done():
        _give_up(handshake, attempt)
        raise HandshakeFailed(f"no TLS handshake within {timeout:g} s")
    error = handshake.error or attempt.exception()
    if isinstance(error, HandshakeFailed):
        raise error
    if isinstance(error, OSError):
        raise HandshakeFailed(_explain(error, server_hostname)) from error
    if error is not None:
        raise error
    if handshake.protocol is None or handshake.transport is None:
        raise HandshakeFailed("the peer closed the connection during the TLS handshake")
    return handshake.transport, handshake.protocol


async def _start(
    sock: socket.socket, context: ssl.SSLContext, handshake: _Handshake[P], server_hostname: str | None
) -> None:
    loop = asyncio.get_running_loop()
    try:
        if server_hostname is None:
            await loop.connect_accepted_socket(
                lambda: handshake,
                sock,
                ssl=context,
                ssl_handshake_timeout=_LOOP_TIMEOUT,
                ssl_shutdown_timeout=_LOOP_TIMEOUT,
            )
        else:
            await loop.create_connection(
                lambda: handshake,
                sock=sock,
                ssl=context,
                server_hostname=server_hostname,
                ssl_handshake_timeout=_LOOP_TIMEOUT,
                ssl_shutdown_timeout=_LOOP_TIMEOUT,
            )
    except BaseException:
        sock.close()  # harmless if the loop has it: asyncio closes the same object, uvloop has detached it
        raise


def _give_up(handshake: _Handshake[P], attempt: asyncio.Task[None]) -> None:
    handshake.give_up()
    attempt.cancel()
    attempt.add_done_callback(_retrieve)


def _retrieve(attempt: asyncio.Task[None]) -> None:
    if not attempt.cancelled():
        attempt.exception()


def _check_alpn(encrypted: ssl.SSLObject, needed: bool) -> None:
    chosen = encrypted.selected_alpn_protocol()
    if chosen == ALPN or (chosen is None and not needed):
        return
    if chosen is not None:
        raise HandshakeFailed(f"the peer speaks another protocol (by ALPN) than {ALPN}")
    raise HandshakeFailed(
        f"the peer does not offer the protocol {ALPN} by ALPN: is it another service? A context made by the application"
        f' needs context.set_alpn_protocols(["{ALPN}"])'
    )


def _explain(error: OSError, server_hostname: str | None) -> str:
    """Why it failed, in words that say what to look at."""
    if isinstance(error, ssl.SSLCertVerificationError):
        whose = f"the certificate shown for {server_hostname}" if server_hostname else "the client's certificate"
        return f"{whose} does not verify: {error.verify_message.rstrip('.')}"
    if isinstance(error, ssl.SSLError):
        what = error.reason or str(error)
        if what in _NOT_TLS:
            return "the peer does not speak TLS" + ("; is its address tcp://?" if server_hostname else "")
        if what in _NO_CERTIFICATE:
            return "the client showed no certificate" if server_hostname is None else "the server wants a certificate"
        if what in _OLD_VERSION:
            return f"no common version of TLS ({what.lower().replace('_', ' ')})"
        return f"the TLS handshake failed: {what.lower().replace('_', ' ')}"
    if isinstance(error, ConnectionResetError):
        return "the peer closed the connection during the TLS handshake"
    return f"during the TLS handshake: {reason(error)}"
