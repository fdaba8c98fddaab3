"""One system call for many buffers: the sending end of a connection's queue.

This is the pure form of ``_sendmsg.pyx``, with ``writev`` in place of ``sendmsg``. ``writev`` knows no flags, so what
they do rests on two things that hold for the loops' descriptors: they never block, and Python ignores SIGPIPE. (In a
program that set SIGPIPE back to its default, writing to a closed peer ends the process; the compiled form does not.)
"""

from __future__ import annotations

import os

from ..errors import InternalError

__all__ = ["MAX_BYTES", "MAX_PARTS", "send_parts"]

MAX_PARTS = 1024
"""Parts sent by one call: the system's IOV_MAX."""

MAX_BYTES = 4 * 1024 * 1024
"""Bytes offered in one call. A peer on the same machine can drain the socket while it is being filled, and one call
with a gigabyte would keep everything else on the loop waiting."""


def send_parts(fd: int, parts: list[bytes | bytearray | memoryview], first: int, offset: int) -> int:
    """Send ``parts[first:]``, without the first ``offset`` bytes of ``parts[first]``.

    Args:
        fd: descriptor of a connected stream socket.
        parts: bytes, or any object with a C-contiguous buffer, which is sent as the bytes it has in memory.
        first: index of the first part with bytes left to send.
        offset: how many bytes of that part were sent before.

    Returns:
        How many bytes were sent. Fewer than there are means that the socket would block, or that a limit of one call
        was reached; 0 means that it would block, or that there was nothing to send.

    Raises:
        OSError: the connection is broken, or the descriptor is not of a socket.
        BufferError, TypeError: a part has no contiguous buffer. Nothing was sent.
        InternalError: ``offset`` is not inside the part.
    """
    buffers: list[bytes | bytearray | memoryview] = []
    total = 0
    for part in parts[first : first + MAX_PARTS]:
        if offset:
            part = _bytes_view(part)
            if not 0 <= offset <= len(part):
                raise InternalError(f"cannot skip {offset} bytes of a part of {len(part)}")
            part = part[offset:]
            offset = 0
        size = len(part) if isinstance(part, (bytes, bytearray)) else memoryview(part).nbytes
        if total + size > MAX_BYTES:
            part = _bytes_view(part)[: MAX_BYTES - total]
            size = len(part)
        buffers.append(part)
        total += size
        if total == MAX_BYTES:
            break
    if not total:
        return 0
    try:
        return os.writev(fd, buffers)
    except BlockingIOError:
        return 0


def _bytes_view(part: bytes | bytearray | memoryview) -> memoryview:
    view = memoryview(part)
    if view.format == "B" and view.ndim == 1:
        return view
    if not view.c_contiguous:
        raise BufferError("a part to send must be C-contiguous")
    return memoryview(view.tobytes())
