"""The head of a message, read from bytes. Section 2.1 of ``PROTOCOL.md``."""

from __future__ import annotations

from rpcproto.errors import RemoteProtocolError
from rpcproto.wire import _bytes, spec
from rpcproto.wire.spec import ErrorCode

SIZE_MAX = 2**62
"""No message is larger: sums of sizes stay within 64 bits."""

_PARTS_KNOWN = 0x1F


class Head:
    """Reads heads, one after the other: the fields are those of the last one.

    Attributes:
        method: method id, 0 for none.
        name: name that came with it, or None.
        deadline_ms: milliseconds, or -1 for none.
        metadata: or None.
        body_size: size of the body in bytes, or -1 if the frame's length tells.
        sizes: sizes of the buffers in bytes, or None.
        need: if the head was not all in memory: how many bytes of it must be to go on.
    """

    __slots__ = (
        "body_size",
        "deadline_ms",
        "metadata",
        "method",
        "name",
        "need",
        "sizes",
        "start",
    )

    def __init__(self) -> None:
        self.start = 0
        self.need = 0
        self.clear()

    def clear(self) -> None:
        """Let the fields be those of a frame without a head."""
        self.method = 0
        self.name: str | None = None
        self.deadline_ms = -1
        self.metadata: bytes | None = None
        self.body_size = -1
        self.sizes: list[int] | None = None

    def read(self, data: bytearray, at: int, stop: int, end: int, call_id: int) -> int:
        """Read the head at ``at`` into the fields. ``stop`` ends the memory, ``end`` the frame. Returns the size of the
        head, or 0 if it is not yet all in memory."""
        if end - at < 4:
            raise bad_head(call_id, "is cut off")
        self.start = at
        self.need = 4
        if stop - at < 4:
            return 0
        self.method, parts = _bytes.get_head(data, at)
        self.name = None
        self.deadline_ms = -1
        self.metadata = None
        self.body_size = -1
        self.sizes = None
        if parts == 0:
            return 4
        if parts == spec.DEADLINE and stop - at >= 8 and end - at >= 8:
            self.deadline_ms = _bytes.u32(data, at + 4)
            return 8
        return self._read_parts(data, at, stop, end, parts, call_id)

    def _read_parts(self, data: bytearray, at: int, stop: int, end: int, parts: int, call_id: int) -> int:
        if parts & ~_PARTS_KNOWN:
            raise bad_head(call_id, f"has unknown parts {parts:#04x}")
        if self.method >= spec.MAX_METHOD_IDS:
            raise bad_head(call_id, f"has method id {self.method}, above {spec.MAX_METHOD_IDS - 1}")
        begin = at
        at += 4
        if parts & spec.NAME:
            if not self._within(at + 1, stop, end, call_id):
                return 0
            size = data[at]
            if size == 0:
                raise bad_head(call_id, "has an empty method name")
            if not self._within(at + 1 + size, stop, end, call_id):
                return 0
            name = _bytes.copy_out(data, at + 1, at + 1 + size)
            try:
                self.name = name.decode("utf-8")
            except UnicodeDecodeError:
                raise bad_head(call_id, "has a method name that is not UTF-8") from None
            at += 1 + size
        if parts & spec.DEADLINE:
            if not self._within(at + 4, stop, end, call_id):
                return 0
            self.deadline_ms = _bytes.u32(data, at)
            at += 4
        if parts & spec.METADATA:
            if not self._within(at + 2, stop, end, call_id):
                return 0
            size = _bytes.u16(data, at)
            if size > spec.MAX_METADATA:
                raise bad_head(call_id, f"has {size} bytes of metadata, above {spec.MAX_METADATA}")
            if not self._within(at + 2 + size, stop, end, call_id):
                return 0
            self.metadata = _bytes.copy_out(data, at + 2, at + 2 + size)
            at += 2 + size
        if parts & spec.SIZE:
            if not self._within(at + 8, stop, end, call_id):
                return 0
            self.body_size = self._announced(data, at, call_id)
            at += 8
        if parts & spec.BUFFERS:
            if not parts & spec.SIZE:
                raise bad_head(call_id, "has BUFFERS without SIZE")
            if not self._within(at + 4, stop, end, call_id):
                return 0
            count = _bytes.u32(data, at)
            at += 4
            if count > spec.MAX_BUFFERS:
                raise bad_head(call_id, f"has {count} buffers, above {spec.MAX_BUFFERS}")
            if not self._within(at + 8 * count, stop, end, call_id):
                return 0
            self.sizes = [self._announced(data, at + 8 * index, call_id) for index in range(count)]
            at += 8 * count
        return at - begin

    def _within(self, need: int, stop: int, end: int, call_id: int) -> bool:
        if need > end:
            raise bad_head(call_id, "does not fit its frame")
        self.need = need - self.start
        return need <= stop

    def _announced(self, data: bytearray, at: int, call_id: int) -> int:
        size = _bytes.u64(data, at)
        if size > SIZE_MAX:
            raise bad_head(call_id, f"announces {size} bytes")
        return size


def bad_head(call_id: int, text: str) -> RemoteProtocolError:
    """The error for a malformed head."""
    return RemoteProtocolError(f"call {call_id}: its head {text}", code=ErrorCode.HEAD)
