"""What the decoder calls: one method per thing that can arrive.

The base class of the connection. It stands here so that bytes can call upwards through typed methods without
importing anything above them. Every method returns 0; the base methods ignore what they are told, so a test or a tool
overrides only what it wants to see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rpcproto.wire.assembly import Assembly
    from rpcproto.wire.greeting import Greeting


class FrameSink:
    """Receives what a :class:`~rpcproto.wire.decoder.Decoder` finds in the bytes.

    ``body`` is ``bytes``, or a writable memoryview if the message was large; ``buffers`` is a list of writable
    memoryviews or None; ``metadata`` is ``bytes`` or None. All of them are the sink's for good.
    """

    __slots__ = ()

    def on_greeting(self, greeting: Greeting) -> int:
        """The peer's greeting; always the first call."""
        return 0

    def on_open(
        self,
        kind: int,
        call_id: int,
        codec: int,
        method: int,
        name: str | None,
        deadline_ms: int,
        metadata: bytes | None,
        body: object,
        buffers: list[memoryview] | None,
        size: int,
    ) -> int:
        """A whole opening message. ``method`` 0 binds nothing; ``deadline_ms`` is -1 without a deadline; ``size`` is
        body and buffers."""
        return 0

    def on_reply(
        self,
        call_id: int,
        codec: int,
        metadata: bytes | None,
        body: object,
        buffers: list[memoryview] | None,
        size: int,
    ) -> int:
        """A whole REPLY."""
        return 0

    def on_item(
        self,
        call_id: int,
        codec: int,
        flags: int,
        metadata: bytes | None,
        body: object,
        buffers: list[memoryview] | None,
        size: int,
    ) -> int:
        """A whole ITEM; ``flags`` tells END."""
        return 0

    def on_error(self, call_id: int, code: int, payload: bytes) -> int:
        """An ERROR; ``payload`` is for :func:`~rpcproto.wire.failure.decode_failure`."""
        return 0

    def on_cancel(self, call_id: int, code: int) -> int:
        """A CANCEL."""
        return 0

    def on_credit(self, call_id: int, aux: int, amount: int) -> int:
        """A CREDIT of ``amount`` bytes, on a call or (id 0) on the connection window that ``aux`` names."""
        return 0

    def on_ping(self, aux: int, payload: bytes) -> int:
        """A PING (``aux`` 0) or the answer to one (1)."""
        return 0

    def on_goaway(self, code: int, last_call_id: int, text: str) -> int:
        """A GOAWAY."""
        return 0

    def on_auth(self, step: int, payload: bytes) -> int:
        """An AUTH frame."""
        return 0

    def on_large(self, assembly: Assembly) -> int:
        """A message begins that is assembled from several reads. The sink must call ``admit`` or ``discard`` on it,
        now or,
        for one above the call window, later."""
        return 0

    def on_stray(self, kind: int, call_id: int) -> int:
        """A fragment of a message that has no beginning, as after a cancel. The sink returns 0 to drop it, or
        raises."""
        return 0

    def on_allocate(self, assembly: Assembly) -> int:
        """Memory for an admitted message is needed: the sink must call ``assembly.use(views)``."""
        return 0

    def on_read_done(self) -> int:
        """All that one read brought has been handled: the moment to send what it caused."""
        return 0

    def on_backlog(self) -> int:
        """The quantum is used up and bytes are left: reading must pause until ``Decoder.resume`` has handled them."""
        return 0

    def on_breach(self, error: BaseException) -> int:
        """The peer broke the protocol (RemoteProtocolError), or there is a bug. The decoder has stopped."""
        return 0
