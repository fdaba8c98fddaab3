"""Who is at the other end of a socket file, by the word of the system."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import NamedTuple

__all__ = ["Credentials", "peer_credentials"]

_AF_UNIX = getattr(socket, "AF_UNIX", None)

_SO_PEERCRED = getattr(socket, "SO_PEERCRED", None)
_UCRED = struct.Struct("iII")
"""Linux: process, user, group."""

_LOCAL_PEERCRED = getattr(socket, "LOCAL_PEERCRED", None)
_SOL_LOCAL = 0
_LOCAL_PEERPID = 2
_XUCRED = struct.Struct("IIh2x16I")
"""macOS: version, user, number of groups, groups, of which the first is the process's own."""


class Credentials(NamedTuple):
    """The process at the other end of a ``unix:`` connection, as it was when the connection was made.

    A number may stand for something else in another namespace, as in a container.
    """

    pid: int | None
    """Its number; None where the system does not tell. It can have ended, and the number been given again."""
    uid: int
    """Its effective user."""
    gid: int
    """Its effective group."""


def peer_credentials(transport: asyncio.BaseTransport) -> Credentials | None:
    """The process at the other end; None where the system does not tell: no socket of the ``unix:`` family, or neither
    Linux nor macOS."""
    sock = transport.get_extra_info("socket")
    if sock is None or sock.family != _AF_UNIX:
        return None
    try:
        if _SO_PEERCRED is not None:
            return Credentials(*_UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, _SO_PEERCRED, _UCRED.size)))
        if _LOCAL_PEERCRED is not None:
            _, uid, _, gid, *_ = _XUCRED.unpack(sock.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED.size))
            return Credentials(sock.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID), uid, gid)
    except (OSError, struct.error):
        pass
    return None
