"""Frames as the tests write and read them: from ``PROTOCOL.md`` alone, so that no mistake of the code is copied.

Writing is one function a frame type; each takes what the text of the protocol lets a peer choose, valid or not. Reading
is :func:`split`, which knows nothing but the header.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rpcproto.wire.spec import CreditClass, ErrorCode, Flag, FrameType, HeadPart, Role

HEADER = struct.Struct("<IBBHQ")
MAGIC = b"\xabRPC\r\n\x1a\n"
INITIATOR, ACCEPTOR = Role.INITIATOR, Role.ACCEPTOR
LAST_ID = 2**48 - 1
WHOLE = Flag.FIRST | Flag.HEAD | Flag.END
"""Flags of an opening message in one frame."""


@dataclass(frozen=True)
class Frame:
    """One frame as it stands in the bytes."""

    kind: int
    flags: int
    aux: int
    call_id: int
    payload: bytes

    def __repr__(self) -> str:
        kind = FrameType(self.kind).name if self.kind in set(FrameType) else str(self.kind)
        payload = self.payload if len(self.payload) <= 40 else self.payload[:40] + b"..."
        return f"<{kind} call={self.call_id} {Flag(self.flags)!s} aux={self.aux:#x} {len(self.payload)}: {payload!r}>"


def split(data: bytes) -> list[Frame]:
    """The frames in ``data``, which must end with one."""
    return list(_split(data))


def _split(data: bytes) -> Iterator[Frame]:
    at = 0
    while at < len(data):
        length, kind, flags, aux, call_id = HEADER.unpack_from(data, at)
        payload = data[at + 16 : at + 16 + length]
        assert len(payload) == length, "the bytes end within a frame"
        yield Frame(kind, flags, aux, call_id, payload)
        at += 16 + length


def frame(kind: int, call_id: int = 0, payload: bytes = b"", *, flags: int = 0, aux: int = 0) -> bytes:
    return HEADER.pack(len(payload), kind, flags, aux, call_id) + payload


def greeting(
    role: int,
    *,
    magic: bytes = MAGIC,
    major: int = 1,
    minor: int = 0,
    mechanism: int = 0,
    must: int = 0,
    may: int = 0,
    max_frame: int = 1 << 20,
    max_message: int = 1 << 30,
    call_window: int = 1 << 20,
    connection_window: int = 8 << 20,
    max_running: int = 1024,
    silence_ms: int = 0,
    incarnation: int = 0x1122334455667788,
    reserved: bytes = bytes(8),
) -> bytes:
    limits = struct.pack("<IQIIII", max_frame, max_message, call_window, connection_window, max_running, silence_ms)
    start = magic + struct.pack("<BBBBII", major, minor, role, mechanism, must, may)
    return start + limits + incarnation.to_bytes(8, "little") + reserved


def head(
    method: int = 0,
    name: str | bytes | None = None,
    *,
    deadline: int | None = None,
    metadata: bytes | None = None,
    size: int | None = None,
    buffers: Sequence[int] | None = None,
    parts: int | None = None,
) -> bytes:
    """A head; ``parts`` overrides the bits that what is given would set."""
    bits = 0
    tail = b""
    if name is not None:
        encoded = name.encode() if isinstance(name, str) else name
        bits |= HeadPart.NAME
        tail += bytes([len(encoded)]) + encoded
    if deadline is not None:
        bits |= HeadPart.DEADLINE
        tail += deadline.to_bytes(4, "little")
    if metadata is not None:
        bits |= HeadPart.METADATA
        tail += len(metadata).to_bytes(2, "little") + metadata
    if size is not None:
        bits |= HeadPart.SIZE
        tail += size.to_bytes(8, "little")
    if buffers is not None:
        bits |= HeadPart.BUFFERS
        tail += len(buffers).to_bytes(4, "little") + b"".join(each.to_bytes(8, "little") for each in buffers)
    return method.to_bytes(2, "little") + bytes([bits if parts is None else parts, 0]) + tail


def opening(
    call_id: int,
    body: bytes = b"",
    *,
    kind: int = FrameType.REQUEST,
    codec: int = 1,
    flags: int = WHOLE,
    method: int = 0,
    name: str | None = "echo",
    deadline: int | None = None,
    metadata: bytes | None = None,
    size: int | None = None,
    buffers: Sequence[int] | None = None,
) -> bytes:
    """The first frame of a call. ``body`` is what follows the head in it."""
    start = head(method, name, deadline=deadline, metadata=metadata, size=size, buffers=buffers)
    return frame(kind, call_id, start + body, flags=flags, aux=codec)


def first(call_id: int, body: bytes, total: int, *, kind: int = FrameType.REQUEST, name: str | None = "echo") -> bytes:
    """The first of several frames of a message without buffers."""
    flags = Flag.FIRST | Flag.HEAD | Flag.MORE
    start = head(0, name if kind <= FrameType.CHANNEL else None, size=total)
    return frame(kind, call_id, start + body, flags=flags, aux=1)


def more(call_id: int, body: bytes, *, kind: int = FrameType.REQUEST, last: bool = False) -> bytes:
    """A later frame of a message."""
    return frame(kind, call_id, body, flags=Flag.END if last else Flag.MORE, aux=1)


def fragments(call_id: int, body: bytes, step: int, *, kind: int = FrameType.REQUEST) -> list[bytes]:
    """A message cut into frames that carry ``step`` bytes each."""
    cuts = [body[at : at + step] for at in range(0, len(body), step)]
    middle = [more(call_id, cut, kind=kind) for cut in cuts[1:-1]]
    return [first(call_id, cuts[0], len(body), kind=kind), *middle, more(call_id, cuts[-1], kind=kind, last=True)]


def reply(call_id: int, body: bytes = b"", *, codec: int = 1) -> bytes:
    return frame(FrameType.REPLY, call_id, body, flags=Flag.FIRST | Flag.END, aux=codec)


def item(call_id: int, body: bytes = b"", *, flags: int = Flag.FIRST, codec: int = 1) -> bytes:
    return frame(FrameType.ITEM, call_id, body, flags=flags, aux=codec)


def error(
    call_id: int, code: int = ErrorCode.HANDLER_RAISED, type_name: str = "", text: str = "", traceback: str = ""
) -> bytes:
    texts = [each.encode() for each in (type_name, text, traceback)]
    payload = b"".join(len(each).to_bytes(2, "little") + each for each in texts)
    return frame(FrameType.ERROR, call_id, payload, flags=Flag.END, aux=code)


def cancel(call_id: int, code: int = ErrorCode.CANCELLED) -> bytes:
    return frame(FrameType.CANCEL, call_id, flags=Flag.END, aux=code)


def credit(amount: int, call_id: int = 0, which: int = CreditClass.CALLS) -> bytes:
    return frame(FrameType.CREDIT, call_id, amount.to_bytes(8, "little"), aux=which)


def ping(payload: bytes = b"12345678", *, answer: bool = False) -> bytes:
    return frame(FrameType.PING, 0, payload, aux=int(answer))


def goaway(code: int = ErrorCode.NO_ERROR, last_id: int = LAST_ID, text: str = "") -> bytes:
    return frame(FrameType.GOAWAY, 0, last_id.to_bytes(8, "little") + text.encode(), aux=code)


def auth(step: int, payload: bytes) -> bytes:
    return frame(FrameType.AUTH, 0, payload, aux=step)


@dataclass(frozen=True)
class Head:
    """A head as it stands in the bytes, and how long it is."""

    method: int
    name: bytes | None
    deadline: int | None
    metadata: bytes | None
    size: int | None
    buffers: list[int] | None
    length: int

    @property
    def total(self) -> int | None:
        """Bytes of body and buffers that it announces, None if it does not say."""
        return None if self.size is None else self.size + sum(self.buffers or ())


def read_head(payload: bytes) -> Head:
    """The head that a payload begins with, which must be valid."""
    method = int.from_bytes(payload[:2], "little")
    parts = HeadPart(payload[2])
    at = 4

    def number(size: int) -> int:
        nonlocal at
        at += size
        assert at <= len(payload)
        return int.from_bytes(payload[at - size : at], "little")

    def text(size: int) -> bytes:
        nonlocal at
        at += size
        assert at <= len(payload)
        return payload[at - size : at]

    name = text(number(1)) if HeadPart.NAME in parts else None
    deadline = number(4) if HeadPart.DEADLINE in parts else None
    metadata = text(number(2)) if HeadPart.METADATA in parts else None
    size = number(8) if HeadPart.SIZE in parts else None
    buffers = [number(8) for _ in range(number(4))] if HeadPart.BUFFERS in parts else None
    return Head(method, name, deadline, metadata, size, buffers, at)
