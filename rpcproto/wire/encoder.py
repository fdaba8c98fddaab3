"""Frames to bytes: the sending half of the wire.

An encoder gathers frames until they are taken, and returns them as a list of parts for one ``sendmsg``. Headers,
heads and payloads up to 4 KiB are packed into scratch memory that is borrowed from the loop between the first frame
and :meth:`Encoder.take`; larger payloads stay where they are and become parts of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcproto.wire import _bytes, spec
from rpcproto.wire import _tuning as tuning

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rpcproto.wire.memory import ScratchStack

    Buffer = bytes | bytearray | memoryview


class Encoder:
    """Gathers frames of one connection.

    Args:
        scratches: where scratch memory is borrowed from.

    Attributes:
        size: bytes gathered and not yet taken.
    """

    __slots__ = ("data", "parts", "scratch", "scratches", "size", "used")

    def __init__(self, scratches: ScratchStack) -> None:
        self.scratches = scratches
        self.scratch: bytearray | None = None
        self.used = 0
        self.parts: list[Buffer] | None = None
        self.size = 0

    def frame(self, kind: int, flags: int, aux: int, call_id: int, payload: bytes) -> None:
        """A frame without head. ``payload`` may have up to the peer's max frame bytes."""
        size = len(payload)
        self._room(spec.HEADER_SIZE)
        _bytes.put_header(self.data, self.used, size, kind, flags, aux, call_id)
        self.used += spec.HEADER_SIZE
        self.size += spec.HEADER_SIZE
        if size:
            self._payload(payload, size)

    def number(self, kind: int, aux: int, call_id: int, value: int) -> None:
        """A frame whose payload is one 64-bit number."""
        self._room(spec.HEADER_SIZE + 8)
        _bytes.put_header(self.data, self.used, 8, kind, 0, aux, call_id)
        _bytes.put64(self.data, self.used + spec.HEADER_SIZE, value)
        self.used += spec.HEADER_SIZE + 8
        self.size += spec.HEADER_SIZE + 8

    def pad(self, offset: int) -> None:
        """A PAD, if that is needed for what comes ``offset`` bytes after something aligned to be aligned as well."""
        missing = -offset % tuning.COPY_ALIGNMENT
        if missing:
            self.frame(spec.PAD, 0, 0, 0, bytes(missing))

    def opening(
        self, kind: int, flags: int, codec: int, call_id: int, method: int, deadline_ms: int, body: Buffer, size: int
    ) -> None:
        """A whole opening message of a method that is bound, without metadata or buffers: the common case.

        Args:
            deadline_ms: milliseconds, or -1 for none.
            body: ``size`` bytes.
        """
        if deadline_ms < 0:
            head = 4
            parts = deadline_ms = 0
        else:
            head = 8
            parts = spec.DEADLINE
        if self.scratch is None or self.used + spec.HEADER_SIZE + 8 > tuning.SCRATCH_SIZE:
            self._room(spec.HEADER_SIZE + 8)
        at = self.used
        flags |= spec.FIRST | spec.HEAD
        _bytes.put_opening(self.data, at, head + size, kind, flags, codec, call_id, method, parts, deadline_ms)
        self.used = at + spec.HEADER_SIZE + head
        self.size += spec.HEADER_SIZE + head
        if size:
            self._payload(body, size)

    def whole(self, kind: int, flags: int, codec: int, call_id: int, body: Buffer, size: int) -> None:
        """A whole REPLY or ITEM without metadata or buffers: the common case."""
        if self.scratch is None or self.used + spec.HEADER_SIZE > tuning.SCRATCH_SIZE:
            self._room(spec.HEADER_SIZE)
        _bytes.put_header(self.data, self.used, size, kind, flags | spec.FIRST, codec, call_id)
        self.used += spec.HEADER_SIZE
        self.size += spec.HEADER_SIZE
        if size:
            self._payload(body, size)

    def start(self, kind: int, flags: int, codec: int, call_id: int, head: bytes, size: int) -> None:
        """Header and head of a frame whose ``size`` further bytes follow by :meth:`append`."""
        length = len(head)
        self._room(spec.HEADER_SIZE)
        _bytes.put_header(self.data, self.used, length + size, kind, flags, codec, call_id)
        self.used += spec.HEADER_SIZE
        self.size += spec.HEADER_SIZE
        if length:
            self._payload(head, length)

    def append(self, payload: Buffer, size: int) -> None:
        """``size`` bytes more of the frame begun by :meth:`start`."""
        if size:
            self._payload(payload, size)

    def take(self) -> list[Buffer] | None:
        """All parts gathered so far, to be sent in this order; None if there are none."""
        if self.used:
            self._seal()
        scratch = self.scratch
        if scratch is not None:
            self.scratches.give_back(scratch)
            self.scratch = None
        parts = self.parts
        self.parts = None
        self.size = 0
        return parts

    def _room(self, size: int) -> None:
        """Make sure that ``size`` bytes of scratch are free."""
        scratch = self.scratch
        if scratch is None:
            scratch = self.scratches.borrow()
            self.scratch = scratch
            self.data = scratch
            self.used = 0
        elif self.used + size > tuning.SCRATCH_SIZE:
            self._seal()

    def _payload(self, payload: Buffer, size: int) -> None:
        self.size += size
        if size <= tuning.PACK_MAX:
            if self.used + size > tuning.SCRATCH_SIZE:
                self._seal()
            if type(payload) is bytes:
                _bytes.copy_bytes(self.data, self.used, payload, size)
            else:
                _bytes.copy_view(self.data, self.used, payload, size)
            self.used += size
            return
        if self.used:
            self._seal()
        self._add(payload)

    def _seal(self) -> None:
        """Turn what is packed so far into a part."""
        self._add(_bytes.copy_out(self.data, 0, self.used))
        self.used = 0

    def _add(self, part: Buffer) -> None:
        if self.parts is None:
            self.parts = [part]  # most often the only one: spares an empty list its growth
        else:
            self.parts.append(part)


def encode_head(
    method: int,
    name: bytes | None,
    deadline_ms: int,
    metadata: bytes | None,
    body_size: int,
    sizes: Sequence[int] | None,
) -> bytes:
    """Encode a head with any parts. Section 2.1 of ``PROTOCOL.md``.

    Args:
        method: method id, 0 for none.
        name: UTF-8 name to send along, or None.
        deadline_ms: milliseconds, or -1 for none.
        metadata: or None.
        body_size: size of the body in bytes, or -1 to leave it to the frame's length.
        sizes: sizes of the buffers in bytes, or None.
    """
    parts = 0
    tail = []
    if name is not None:
        parts |= spec.NAME
        tail.append(len(name).to_bytes(1, "little") + name)
    if deadline_ms >= 0:
        parts |= spec.DEADLINE
        tail.append(deadline_ms.to_bytes(4, "little"))
    if metadata is not None:
        parts |= spec.METADATA
        tail.append(len(metadata).to_bytes(2, "little") + metadata)
    if body_size >= 0:
        parts |= spec.SIZE
        tail.append(body_size.to_bytes(8, "little"))
    if sizes is not None:
        parts |= spec.BUFFERS
        tail.append(len(sizes).to_bytes(4, "little") + b"".join(size.to_bytes(8, "little") for size in sizes))
    return method.to_bytes(2, "little") + parts.to_bytes(2, "little") + b"".join(tail)
