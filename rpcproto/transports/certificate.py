"""The certificate that the other end of a connection has proved to hold."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Certificate", "peer_certificate"]


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate that was verified."""

    fields: dict[str, Any]
    """Its fields, as :meth:`ssl.SSLSocket.getpeercert` gives them."""

    der: bytes = field(repr=False)
    """The whole of it, in DER."""


def peer_certificate(transport: asyncio.BaseTransport) -> Certificate | None:
    """The certificate of the other end; None without TLS, without a certificate, or if it was not verified."""
    encrypted: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    if encrypted is None:
        return None
    fields = encrypted.getpeercert()
    if not fields:  # {} is one that nobody verified
        return None
    der = encrypted.getpeercert(True)
    assert der is not None
    return Certificate(fields, der)
