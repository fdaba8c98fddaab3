"""Bytes to the operating system and back: one file for each kind of transport.

:func:`connect` and :func:`listen` take an address and find the transport for it. ``base`` says what a transport is and
which rules all of them keep.
"""

from __future__ import annotations

from .address import Address, parse
from .base import (
    BACKLOG,
    Listener,
    Transport,
    describe_peer,
    direct_descriptor,
    is_encrypted,
    is_local_peer,
    peer_address,
)
from .certificate import Certificate, peer_certificate
from .credentials import Credentials, peer_credentials
from .registry import connect, listen, register
from .tls import TLS, Security, TLSSource, early_end, end_writing, secure

__all__ = [
    "BACKLOG",
    "TLS",
    "Address",
    "Certificate",
    "Credentials",
    "Listener",
    "Security",
    "TLSSource",
    "Transport",
    "connect",
    "describe_peer",
    "direct_descriptor",
    "early_end",
    "end_writing",
    "is_encrypted",
    "is_local_peer",
    "listen",
    "parse",
    "peer_address",
    "peer_certificate",
    "peer_credentials",
    "register",
    "secure",
]
