"""Bytes to the operating system and back: one file for each kind of transport.

:func:`connect` and :func:`listen` take an address and find the transport for it. ``base`` says what a transport is and
which rules all of them keep.
"""

from __future__ import annotations

from .address import Address, parse
from .base import BACKLOG, Listener, Transport, describe_peer, direct_descriptor, is_local_peer, peer_address
from .registry import connect, listen, register

__all__ = [
    "BACKLOG",
    "Address",
    "Listener",
    "Transport",
    "connect",
    "describe_peer",
    "direct_descriptor",
    "is_local_peer",
    "listen",
    "parse",
    "peer_address",
    "register",
]
