"""Bytes to frames: the receiving half of the wire.

Theory of operation. The loop asks :meth:`Decoder.get_buffer` where to read to, reads, and calls
:meth:`Decoder.buffer_updated`; both are the protocol's own methods, so no Python frame stands between the socket and
the call. A read lands

- in the arena shared by the loop, where whole small frames are parsed in place and copied out; a left-over is kept and
  put back in front of the next read;
- or, in the middle of a large message, straight in the memory where that message belongs.

After a quantum of frames the rest is kept and the sink told (``on_backlog``); it calls :meth:`Decoder.resume` in a
later turn of the loop. After a breach of the protocol nothing more is parsed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcproto.errors import InternalError, RemoteProtocolError
from rpcproto.wire import _bytes, spec
from rpcproto.wire import _tuning as tuning
from rpcproto.wire.assembly import Assembly
from rpcproto.wire.greeting import check_magic, decode_greeting
from rpcproto.wire.head import SIZE_MAX, Head, bad_head
from rpcproto.wire.memory import ReceiveArena
from rpcproto.wire.spec import GREETING_SIZE, ErrorCode
from rpcproto.wire.spec import FrameType as Kind

if TYPE_CHECKING:
    from rpcproto.wire.memory import LoopMemory
    from rpcproto.wire.sink import FrameSink


class Decoder:
    """Parses what one peer sends and tells a sink.

    Args:
        sink: what is told.
        memory: the shared memory of the loop.
        role: our :class:`~rpcproto.wire.spec.Role`.
        max_frame: largest frame payload accepted, in bytes.
        quantum: frames parsed before the rest waits for :meth:`resume`.

    Attributes:
        greeting: the bytes of the peer's greeting, while the sink is told of it.
    """

    __slots__ = (
        "assemblies",
        "bytes_received",
        "current",
        "direct",
        "frames",
        "greeting",
        "head",
        "left",
        "max_frame",
        "memory",
        "messages",
        "more",
        "need",
        "offered",
        "paused",
        "quantum",
        "read_view",
        "reading",
        "reads",
        "role",
        "sink",
        "state",
        "tail",
    )

    def __init__(
        self,
        sink: FrameSink,
        memory: LoopMemory,
        role: int,
        max_frame: int,
        quantum: int,
    ) -> None:
        self.sink = sink
        self.memory = memory
        self.role = role
        self.max_frame = max_frame
        self.quantum = quantum
        self.state = tuning.AWAITING_GREETING
        self.paused = False
        self.greeting: bytes | None = None
        self.assemblies: dict[int, Assembly] = {}
        self.current: Assembly | None = None
        self.left = 0
        self.more = False
        self.direct = False
        self.tail: bytearray | None = None
        self.need = 0
        self.reading: ReceiveArena | None = None
        self.offered = 0
        self.read_view = 1
        self.head = Head()
        self.frames = 0
        self.messages = 0
        self.reads = 0
        self.bytes_received = 0

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next read shall go. The hint is of no use: asyncio gives -1, uvloop always 65,536."""
        current = self.current
        if self.left > 0 and current is not None and current.state == tuning.ADMITTED:
            view = current.room(self.left)
            if view is not None:
                self.direct = True
                return view
        self.direct = False
        arena = self.memory.arena
        if arena.leased:
            arena = ReceiveArena()
        self.reading = arena
        if self.read_view == 1 and not self.assemblies:
            self.offered = tuning.READ_NORMAL
            return arena.normal
        if self.read_view == 2 and not self.assemblies:
            self.offered = tuning.READ_LARGE
            return arena.large
        self.offered = tuning.READ_SMALL
        return arena.small

    def buffer_updated(self, nbytes: int) -> None:
        """``nbytes`` bytes were read to where :meth:`get_buffer` said."""
        self.reads += 1
        self.bytes_received += nbytes
        try:
            if self.direct:
                self._received_direct(nbytes)
            elif self.state != tuning.STOPPED:
                self._received(nbytes)
        except BaseException as error:
            self._stop(error)
        self.sink.on_read_done()

    def resume(self) -> None:
        """Go on with what the quantum left over; does nothing where nothing is."""
        tail = self.tail
        if tail is None or self.state == tuning.STOPPED:
            return
        self.tail = None
        try:
            self._run(tail, 0, len(tail))
        except BaseException as error:
            self._stop(error)
        self.sink.on_read_done()

    def pause(self) -> None:
        """Parse no further frame for now, not even from what was read already; :meth:`resume` goes on."""
        self.paused = True

    def guard(self, on: bool) -> None:
        """Take nothing but AUTH, and the GOAWAY that refuses. Switched on in ``on_greeting``, and off when the peer has
        proved who it is."""
        self.state = tuning.AUTHENTICATING if on else tuning.FRAMES

    def stop(self) -> None:
        """Parse nothing more, ever; what still comes is thrown away. Lets go of all memory."""
        self.state = tuning.STOPPED
        self.assemblies.clear()
        self.current = None
        self.tail = None

    def forget(self, call_id: int) -> None:
        """Drop the unfinished message of a call, if there is one: the call is over."""
        unfinished = self.assemblies.pop(call_id, None)
        if unfinished is not None:
            unfinished.discard()

    def incomplete(self) -> bool:
        """Whether the bytes so far end within a frame or a message."""
        return self.tail is not None or self.left > 0 or len(self.assemblies) > 0

    def _stop(self, error: BaseException) -> None:
        self.stop()
        if not isinstance(error, RemoteProtocolError):
            bug = InternalError(f"a bug in rpcproto, please report: {type(error).__name__}: {error}")
            bug.__cause__ = error
            error = bug
        self.sink.on_breach(error)

    def _received_direct(self, nbytes: int) -> None:
        current = self.current
        self.left -= nbytes
        if current is not None:
            if current.state == tuning.ADMITTED:
                current.filled(nbytes)
            if self.left == 0:
                self._frame_done(current)

    def _received(self, nbytes: int) -> None:
        arena = self.reading
        assert arena is not None
        if nbytes == self.offered:
            self.read_view = 2 if self.read_view else 1
        elif self.read_view != 1:
            self.read_view = 1
        start = tuning.HEADROOM
        stop = start + nbytes
        tail = self.tail
        if tail is not None:
            size = len(tail)
            if size + nbytes < self.need or size > tuning.HEADROOM:
                # Gathered until there is enough to parse, so that a frame that comes in drips costs linear time.
                tail += _bytes.copy_out(arena.memory, start, stop)
                if len(tail) >= self.need:
                    self.tail = None
                    self._run(tail, 0, len(tail))
                return
            self.tail = None
            start -= size
            _bytes.copy_view(arena.memory, start, tail, size)
        arena.leased = True
        try:
            self._run(arena.memory, start, stop)
        finally:
            arena.leased = False

    def _run(self, data: bytearray, start: int, stop: int) -> None:
        """Parse one stretch of memory; keep what is left of it."""
        if self.state != tuning.FRAMES:
            start = self._early(data, start, stop)
        done = self._parse(data, start, stop) if self.state == tuning.FRAMES else start
        if self.state == tuning.STOPPED:
            return
        if done < stop:
            self.tail = data[done:stop]
            if self.paused:
                self.sink.on_backlog()
        self.paused = False

    def _early(self, data: bytearray, start: int, stop: int) -> int:
        """What comes before calls may. Returns where it ends."""
        if self.state == tuning.AWAITING_GREETING:
            start = self._greeting(data, start, stop)
        if self.state == tuning.AUTHENTICATING:
            start = self._authenticating(data, start, stop)
        return start

    def _greeting(self, data: bytearray, start: int, stop: int) -> int:
        have = _bytes.copy_out(data, start, min(stop, start + GREETING_SIZE))
        check_magic(have[:8])
        if len(have) < GREETING_SIZE:
            return start
        greeting = decode_greeting(have, self.role)
        self.state = tuning.FRAMES
        self.greeting = have
        self.sink.on_greeting(greeting)
        self.greeting = None
        return start + GREETING_SIZE

    def _authenticating(self, data: bytearray, start: int, stop: int) -> int:
        """Handle the frames before the peer has proved who it is: AUTH, and the GOAWAY by which it refuses. All else is
        a breach by its header alone. Returns where the first frame that is not whole begins."""
        at = start
        while at < stop and self.state == tuning.AUTHENTICATING:
            self.need = spec.HEADER_SIZE
            if stop - at < spec.HEADER_SIZE:
                break
            length, kind, _, aux, call_id = _bytes.get_header(data, at)
            if (kind != spec.AUTH and kind != spec.GOAWAY) or length > tuning.AUTHENTICATING_MAX:  # noqa: PLR1714
                raise RemoteProtocolError(
                    f"a frame of type {kind} and {length} bytes before the peer has proved that it knows the secret",
                    code=ErrorCode.AUTHENTICATION,
                )
            end = at + spec.HEADER_SIZE + length
            if end > stop:
                self.need = end - at
                break
            self.frames += 1
            self._control(data, at + spec.HEADER_SIZE, end, kind, aux, call_id)
            at = end
        return at

    def _parse(self, data: bytearray, start: int, stop: int) -> int:
        """Handle the frames from ``start`` on; returns where the first one that is not whole begins."""
        at = start
        quota = self.quantum
        while at < stop and self.state == tuning.FRAMES:
            if self.left > 0:
                at += self._fill(data, at, stop)
                continue
            if quota == 0:
                self.paused = True
            if self.paused or stop - at < spec.HEADER_SIZE:
                self.need = spec.HEADER_SIZE
                break
            quota -= 1
            length, kind, flags, aux, call_id = _bytes.get_header(data, at)
            if length > self.max_frame:
                raise RemoteProtocolError(
                    f"a frame of {length} bytes, above this side's max_frame of {self.max_frame}",
                    code=ErrorCode.FRAME_SIZE,
                )
            end = at + spec.HEADER_SIZE + length
            if kind <= spec.ITEM and kind > 0:
                if call_id == 0 or call_id > spec.CALL_ID_MAX:
                    raise self._wrong_call_id(kind, call_id)
                if length <= spec.INLINE_MAX and (flags & (spec.FIRST | spec.MORE)) == spec.FIRST:
                    if end > stop:
                        self.need = end - at
                        break
                    self.frames += 1
                    self.messages += 1
                    self._whole(data, at + spec.HEADER_SIZE, end, kind, flags, aux, call_id)
                    at = end
                    continue
                begin = self._fragment(data, at + spec.HEADER_SIZE, stop, end, kind, flags, aux, call_id)
                if begin == 0:
                    self.need = spec.HEADER_SIZE + self.head.need
                    break
                self.frames += 1
                at = begin
                continue
            if kind <= spec.PAD and kind > 0:
                if length > spec.INLINE_MAX:
                    raise self._wrong_size(kind, length)
                if end > stop:
                    self.need = end - at
                    break
                self.frames += 1
                self._control(data, at + spec.HEADER_SIZE, end, kind, aux, call_id)
                at = end
                continue
            if not flags & spec.IGNORABLE:
                raise RemoteProtocolError(
                    f"a frame of unknown type {kind} that must be understood", code=ErrorCode.FRAME_TYPE
                )
            self.frames += 1
            self.current = None
            self.left = length
            at += spec.HEADER_SIZE
        return at

    def _whole(self, data: bytearray, begin: int, end: int, kind: int, flags: int, codec: int, call_id: int) -> None:
        """A message that is one small frame, all of it in memory. ``begin`` is the end of its header."""
        if self.assemblies and call_id in self.assemblies:
            raise self._second_first(call_id)
        if not flags & spec.HEAD:
            if kind <= spec.CHANNEL:
                raise RemoteProtocolError(f"call {call_id}: opened without a head", code=ErrorCode.HEAD)
            body = _bytes.copy_out(data, begin, end)
            if kind == spec.REPLY:
                self.sink.on_reply(call_id, codec, None, body, None, end - begin)
            else:
                self.sink.on_item(call_id, codec, flags, None, body, None, end - begin)
            return
        head = self.head
        begin += head.read(data, begin, end, end, call_id)
        size = end - begin
        if head.sizes is not None:
            self._whole_with_buffers(data, begin, end, kind, flags, codec, call_id)
            return
        if head.body_size >= 0 and head.body_size != size:
            raise self._misfit(call_id, head.body_size, size)
        metadata = head.metadata
        head.metadata = None
        body = _bytes.copy_out(data, begin, end)
        if kind <= spec.CHANNEL:
            name = head.name
            head.name = None
            self.sink.on_open(kind, call_id, codec, head.method, name, head.deadline_ms, metadata, body, None, size)
        elif kind == spec.REPLY:
            self.sink.on_reply(call_id, codec, metadata, body, None, size)
        else:
            self.sink.on_item(call_id, codec, flags, metadata, body, None, size)

    def _whole_with_buffers(
        self, data: bytearray, begin: int, end: int, kind: int, flags: int, codec: int, call_id: int
    ) -> None:
        message = self._assembly(kind, call_id, codec, flags)
        message.count(end - begin, False)
        self.sink.on_large(message)
        if message.state == tuning.ADMITTED:
            self.sink.on_allocate(message)
        if message.state != tuning.ADMITTED:
            return
        message.store(_bytes.copy_out(data, begin, end), 0, end - begin)
        self._deliver(message)

    def _assembly(self, kind: int, call_id: int, codec: int, flags: int) -> Assembly:
        """An assembly for the message whose head was just read."""
        head = self.head
        sizes = head.sizes
        total = head.body_size + sum(sizes) if sizes is not None else head.body_size
        if total > SIZE_MAX:
            raise bad_head(call_id, f"announces {total} bytes")
        message = Assembly(kind, call_id, codec, flags, head.body_size, sizes, total)
        message.method = head.method
        message.name = head.name
        message.deadline_ms = head.deadline_ms
        message.metadata = head.metadata
        head.name = head.metadata = head.sizes = None
        return message

    def _fragment(
        self, data: bytearray, begin: int, stop: int, end: int, kind: int, flags: int, codec: int, call_id: int
    ) -> int:
        """The start of a frame that is large, or part of a message, after its header. Returns where its payload begins,
        0 if its head is not whole."""
        more = flags & spec.MORE != 0
        head = self.head
        if flags & spec.FIRST:
            if call_id in self.assemblies:
                raise self._second_first(call_id)
            if flags & spec.HEAD:
                used = head.read(data, begin, stop, end, call_id)
                if used == 0:
                    return 0
                begin += used
            else:
                if kind <= spec.CHANNEL or more:
                    raise RemoteProtocolError(f"call {call_id}: a head is missing", code=ErrorCode.HEAD)
                head.clear()
            if head.body_size < 0:
                if more:
                    raise bad_head(call_id, "announces no size of a message in several frames")
                head.body_size = end - begin
            message = self._assembly(kind, call_id, codec, flags & ~spec.MORE)
            if not more and message.total != end - begin:
                raise self._misfit(call_id, message.total, end - begin)
            message.count(end - begin, more)
            self.sink.on_large(message)
            if message.state == tuning.ADMITTED and message.expected >= message.total:
                self.sink.on_allocate(message)
            if message.state != tuning.DISCARDED:  # its peer may stop sending it at any frame, so nothing would drop it
                self.assemblies[call_id] = message
        else:
            found = self.assemblies.get(call_id)
            if found is None or found.kind != kind:
                self.sink.on_stray(kind, call_id)
                self.current = None
                self.left = end - begin
                return begin
            message = found
            message.count(end - begin, more)
            if message.state == tuning.ADMITTED and message.views is None:
                self.sink.on_allocate(message)
                if message.state == tuning.DISCARDED:
                    del self.assemblies[call_id]
        self.current = message
        self.more = more
        self.left = end - begin
        if self.left == 0:
            self._frame_done(message)
        return begin

    def _fill(self, data: bytearray, at: int, stop: int) -> int:
        """Payload of the current large frame that landed in the arena. Returns how many bytes were taken."""
        size = min(self.left, stop - at)
        current = self.current
        self.left -= size
        if current is not None:
            if current.views is not None:
                current.store(_bytes.copy_out(data, at, at + size), 0, size)
            if self.left == 0:
                self._frame_done(current)
        return size

    def _frame_done(self, message: Assembly) -> None:
        self.current = None
        if self.more:
            return
        if self.assemblies.get(message.call_id) is message:
            del self.assemblies[message.call_id]
        if message.state == tuning.ADMITTED:
            self.messages += 1
            self.read_view = 0
            self._deliver(message)

    def _deliver(self, message: Assembly) -> None:
        body, buffers = message.finish()
        if message.kind <= spec.CHANNEL:
            self.sink.on_open(
                message.kind,
                message.call_id,
                message.codec,
                message.method,
                message.name,
                message.deadline_ms,
                message.metadata,
                body,
                buffers,
                message.total,
            )
        elif message.kind == spec.REPLY:
            self.sink.on_reply(message.call_id, message.codec, message.metadata, body, buffers, message.total)
        else:
            self.sink.on_item(
                message.call_id, message.codec, message.flags, message.metadata, body, buffers, message.total
            )

    def _control(self, data: bytearray, begin: int, end: int, kind: int, aux: int, call_id: int) -> None:
        length = end - begin
        if kind in (spec.ERROR, spec.CANCEL):
            if call_id == 0 or call_id > spec.CALL_ID_MAX:
                raise self._wrong_call_id(kind, call_id)
        elif call_id > (spec.CALL_ID_MAX if kind == spec.CREDIT else 0):
            raise RemoteProtocolError(f"a {Kind(kind).name} frame with call id {call_id}", code=ErrorCode.CALL_ID)
        if kind == spec.ERROR:
            self.sink.on_error(call_id, aux, _bytes.copy_out(data, begin, end))
        elif kind == spec.CANCEL:
            if length != 0:
                raise self._wrong_size(kind, length)
            self.sink.on_cancel(call_id, aux)
        elif kind == spec.PAD:
            if length > spec.PAD_MAX:
                raise self._wrong_size(kind, length)
        elif kind == spec.AUTH:
            self.sink.on_auth(aux, _bytes.copy_out(data, begin, end))
        elif kind == spec.GOAWAY:
            if length < 8 or length > 1032:
                raise self._wrong_size(kind, length)
            text = _bytes.copy_out(data, begin + 8, end).decode("utf-8", "replace")
            self.sink.on_goaway(aux, _bytes.u64(data, begin), text)
        elif length != 8:
            raise self._wrong_size(kind, length)
        elif kind == spec.CREDIT:
            self.sink.on_credit(call_id, aux, _bytes.u64(data, begin))
        else:
            self.sink.on_ping(aux, _bytes.copy_out(data, begin, end))

    def _wrong_call_id(self, kind: int, call_id: int) -> RemoteProtocolError:
        return RemoteProtocolError(
            f"a {Kind(kind).name} frame with call id {call_id}, which must be 1 to 2^48-1", code=ErrorCode.CALL_ID
        )

    def _wrong_size(self, kind: int, length: int) -> RemoteProtocolError:
        return RemoteProtocolError(f"a {Kind(kind).name} frame of {length} bytes", code=ErrorCode.FRAME_SIZE)

    def _misfit(self, call_id: int, announced: int, present: int) -> RemoteProtocolError:
        return bad_head(call_id, f"announces {announced} bytes where the frame holds {present}")

    def _second_first(self, call_id: int) -> RemoteProtocolError:
        return RemoteProtocolError(
            f"call {call_id}: a new message before the last one was complete", code=ErrorCode.CALL_STATE
        )
