"""A message that does not arrive in one piece: where its bytes go, and how far it has come.

Life of an assembly: the decoder makes it from a FIRST frame and shows it to the sink (``on_large``), which admits or
discards it. A message above the call window may stay undecided for a while; nothing of it may come until then.
Once admitted, the sink is asked for memory (``on_allocate``), and every further byte is received straight into it.
"""

from __future__ import annotations

from rpcproto.errors import RemoteProtocolError
from rpcproto.wire import _tuning as tuning
from rpcproto.wire import spec
from rpcproto.wire.spec import ErrorCode


class Assembly:
    """One message under way to us.

    Attributes:
        kind, codec, call_id, method, name, deadline_ms, metadata: as in the head of its first frame.
        body_size: size of the body in bytes.
        sizes: sizes of the buffers in bytes, or None.
        total: body and buffers together.
        expected: how many bytes it may grow to before the peer needs a further grant.
        state: UNDECIDED, ADMITTED or DISCARDED.
        seen, progress: the sink's own: how many bytes it saw last, and when.
    """

    __slots__ = (
        "at",
        "body_size",
        "call_id",
        "codec",
        "deadline_ms",
        "end",
        "expected",
        "flags",
        "index",
        "kind",
        "metadata",
        "method",
        "name",
        "progress",
        "received",
        "seen",
        "sizes",
        "state",
        "tiny",
        "total",
        "view",
        "views",
    )

    def __init__(
        self, kind: int, call_id: int, codec: int, flags: int, body_size: int, sizes: list[int] | None, total: int
    ) -> None:
        self.kind = kind
        self.call_id = call_id
        self.codec = codec
        self.flags = flags
        self.body_size = body_size
        self.sizes = sizes
        self.total = total
        self.method = 0
        self.name: str | None = None
        self.deadline_ms = -1
        self.metadata: bytes | None = None
        self.expected = total
        self.state = tuning.UNDECIDED
        self.progress = 0.0
        self.received = 0
        self.seen = 0
        self.tiny = 0
        self.views: list[memoryview] | None = None
        self.view: memoryview | None = None
        self.index = 0
        self.at = 0
        self.end = 0

    def admit(self) -> None:
        """Decide that the message is wanted."""
        self.state = tuning.ADMITTED

    def discard(self) -> None:
        """Decide that it is not: its memory is let go, bytes that still come are thrown away."""
        self.state = tuning.DISCARDED
        self.views = None
        self.view = None

    def head_bytes(self) -> int:
        """Bytes of metadata and buffer sizes in its head: what it makes us hold before it is admitted."""
        return 8 * len(self.sizes or ()) + len(self.metadata or b"")

    def segment_sizes(self) -> list[int]:
        """Sizes of the pieces of memory it needs: the body, if it has one, then each buffer."""
        sizes = [] if self.sizes is None else list(self.sizes)
        return [self.body_size, *sizes] if self.body_size else sizes

    def use(self, views: list[memoryview]) -> None:
        """Take memory for the message, one writable view for each of :meth:`segment_sizes`.

        Raises:
            ValueError: number or sizes of the views are not as asked, or one is not contiguous or cannot be written.
            A fault of the hook.
        """
        sizes = self.segment_sizes()
        if len(views) != len(sizes):
            raise ValueError(f"allocate() returned {len(views)} buffers where {len(sizes)} were asked for")
        flat = []
        for view, size in zip(views, sizes, strict=True):
            memory = memoryview(view)
            if memory.readonly or memory.nbytes != size or not memory.c_contiguous:
                raise ValueError(f"allocate() must return a writable, contiguous buffer of {size} bytes, not {view!r}")
            flat.append(memory.cast("B") if memory.ndim != 1 or memory.format != "B" else memory)
        self.views = flat
        self.index = -1
        self.at = self.end = 0
        self._next_view()

    def store(self, data: bytes, start: int, stop: int) -> None:
        """Copy bytes that landed elsewhere to where they belong."""
        while start < stop:
            view = self.view
            if view is None:
                return
            size = min(stop - start, self.end - self.at)
            view[self.at : self.at + size] = data[start : start + size]
            start += size
            self._move(size)

    def room(self, most: int) -> memoryview | None:
        """The next piece of memory to receive into, at most ``most`` bytes; None if all is full."""
        view = self.view
        if view is None:
            return None
        stop = min(self.at + most, self.end)
        if self.at == 0 and stop == self.end:
            return view
        return view[self.at : stop]

    def filled(self, size: int) -> None:
        """``size`` bytes were received into what :meth:`room` returned."""
        self._move(size)

    def count(self, size: int, more: bool) -> None:
        """Count the ``size`` bytes of a fragment that begins, before they are received.

        Raises:
            RemoteProtocolError: too many bytes, too few at the end, more than was admitted, or too many tiny fragments.
        """
        self.received += size
        if self.received > self.total or (not more and self.received != self.total):
            raise RemoteProtocolError(
                f"call {self.call_id}: its message has {self.received} bytes where its head announced {self.total}",
                code=ErrorCode.HEAD,
            )
        if self.received > self.expected:
            raise RemoteProtocolError(
                f"call {self.call_id}: {self.received} bytes of its message sent where {self.expected} were admitted",
                code=ErrorCode.FLOW_CONTROL,
            )
        if more and size < spec.MIN_FRAGMENT:
            self.tiny += 1
            if self.tiny > 1:
                raise RemoteProtocolError(
                    f"call {self.call_id}: more than one fragment of its message is below {spec.MIN_FRAGMENT} bytes",
                    code=ErrorCode.FLOOD,
                )

    def finish(self) -> tuple[object, list[memoryview] | None]:
        """The message: its body and its buffers. The assembly forgets them."""
        views = self.views or []
        self.views = None
        self.view = None
        body: object = b""
        if self.body_size:
            body = views[0] if self.body_size > spec.INLINE_MAX else bytes(views[0])
            views = views[1:]
        return body, (views if self.sizes is not None else None)

    def _move(self, size: int) -> None:
        self.at += size
        if self.at == self.end:
            self._next_view()

    def _next_view(self) -> None:
        views = self.views
        assert views is not None
        self.view = None
        while self.view is None and self.index + 1 < len(views):
            self.index += 1
            if views[self.index].nbytes:
                self.view = views[self.index]
                self.at = 0
                self.end = self.view.nbytes
