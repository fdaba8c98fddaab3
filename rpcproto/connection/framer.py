"""Messages to frames: heads, method ids, cutting, and the alignment of large pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcproto.wire import _tuning as tuning
from rpcproto.wire import spec
from rpcproto.wire.encoder import Encoder, encode_head

if TYPE_CHECKING:
    from rpcproto.connection.calls import OutMessage
    from rpcproto.connection.handler import CallHandler
    from rpcproto.wire.memory import ScratchStack

    Buffer = bytes | bytearray | memoryview

_DEADLINE_MAX = 2**32 - 1


class Framer:
    """Writes the frames of messages into an encoder.

    Args:
        scratches: scratch memory of the loop.
        handler: asked for the time when a deadline is written.

    Attributes:
        small: the encoder.
        method_ids: the ids that this side has bound to method names.
        max_frame: largest payload that the peer takes.
        taken: bytes returned by the last ``take``, or so far while it is at work.
    """

    __slots__ = ("handler", "max_frame", "method_ids", "small", "taken")

    def __init__(self, scratches: ScratchStack, handler: CallHandler) -> None:
        self.handler = handler
        self.small = Encoder(scratches)
        self.method_ids: dict[str, int] = {}
        self.max_frame = spec.INLINE_MAX
        self.taken = 0

    def write_frame(self, message: OutMessage, most: int) -> None:
        """Write the next frame of a message into the small encoder, with at most ``most`` bytes of it."""
        head = b""
        flags = message.flags
        if not message.begun:
            message.begun = True
            flags |= spec.FIRST
            head = self._head(message)
            if head:
                flags |= spec.HEAD
                most = min(most, self.max_frame - len(head))
            if message.call is not None:
                message.call.sent = True
            if message.handle is not None:
                message.handle.sent = True
        left = message.left
        pieces = message.cut(most)
        size = left - message.left
        if message.left:
            flags = (flags & ~spec.END) | spec.MORE
        if size and message.size > spec.INLINE_MAX:
            self._align(pieces, spec.HEADER_SIZE + len(head))
        self.small.start(message.kind, flags, message.codec, message.call_id, head, size)
        for piece in pieces:
            self.small.append(piece, len(piece))

    def _align(self, pieces: list[Buffer], offset: int) -> None:
        """Pad so that the first large one of these pieces, which are to follow after ``offset`` bytes, is aligned."""
        for piece in pieces:
            size = len(piece)
            if size > tuning.PACK_MAX:
                self.small.pad(self.taken + offset)
                return
            offset += size

    def _head(self, message: OutMessage) -> bytes:
        """The head of a message that begins now; a method name is bound to an id here, so that it precedes its uses."""
        sized = message.sizes is not None or message.size > spec.INLINE_MAX
        body_size = message.body_size if sized else -1
        if message.kind > spec.CHANNEL:
            if not sized and message.metadata is None:
                return b""
            return encode_head(0, None, -1, message.metadata, body_size, message.sizes)
        name = None
        method = self.method_ids.get(message.method, 0)
        if method == 0:
            name = message.method.encode()
            if len(self.method_ids) < spec.MAX_METHOD_IDS - 1:
                method = len(self.method_ids) + 1
                self.method_ids[message.method] = method
        deadline_ms = -1
        if message.deadline:
            left = (message.deadline - self.handler.now()) * 1000.0
            deadline_ms = min(max(int(left + 0.999), 0), _DEADLINE_MAX)
        return encode_head(method, name, deadline_ms, message.metadata, body_size, message.sizes)
