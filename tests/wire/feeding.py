"""Feeds bytes to a decoder as a loop would, cut in every way, and records what it tells its sink.

What a decoder says must not depend on where the reads cut the bytes: :func:`feed_every_way` is the check.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rpcproto.errors import RemoteProtocolError
from rpcproto.wire.assembly import Assembly
from rpcproto.wire.decoder import Decoder
from rpcproto.wire.greeting import Greeting
from rpcproto.wire.memory import LoopMemory
from rpcproto.wire.sink import FrameSink
from rpcproto.wire.spec import Role
from tests.wire import frames

Event = tuple[Any, ...]

START = frames.greeting(Role.INITIATOR)
"""The greeting of the peer that the decoders of the tests listen to."""


MOST_ADMITTED = 64 << 20
"""Larger messages are thrown away, as any side refuses some."""


class RecordingSink(FrameSink):
    """Keeps all that it is told, in plain values.

    Attributes:
        events: one tuple an event, its name first.
        admit: what becomes of messages that come in pieces: let come (True), thrown away (False), or left open (None).
    """

    def __init__(self, admit: bool | None = True) -> None:
        self.events: list[Event] = []
        self.admit = admit
        self.memory = LoopMemory()
        self.open: list[Assembly] = []
        self.backlog = False
        self.reads_done = 0
        self.keep: list[Any] = []

    def on_greeting(self, greeting: Greeting) -> int:
        self.events.append(("greeting", greeting))
        return 0

    def on_open(self, *told: Any) -> int:
        *start, body, buffers, size = told
        self.events.append(("open", *start, *_plain(body, buffers), size))
        return 0

    def on_reply(self, *told: Any) -> int:
        *start, body, buffers, size = told
        self.events.append(("reply", *start, *_plain(body, buffers), size))
        return 0

    def on_item(self, *told: Any) -> int:
        *start, body, buffers, size = told
        self.events.append(("item", *start, *_plain(body, buffers), size))
        return 0

    def on_error(self, *told: Any) -> int:
        self.events.append(("error", *told))
        return 0

    def on_cancel(self, *told: Any) -> int:
        self.events.append(("cancel", *told))
        return 0

    def on_credit(self, *told: Any) -> int:
        self.events.append(("credit", *told))
        return 0

    def on_ping(self, *told: Any) -> int:
        self.events.append(("ping", *told))
        return 0

    def on_goaway(self, *told: Any) -> int:
        self.events.append(("goaway", *told))
        return 0

    def on_auth(self, *told: Any) -> int:
        self.events.append(("auth", *told))
        return 0

    def on_large(self, assembly: Assembly) -> int:
        self.events.append(("large", assembly.kind, assembly.call_id, assembly.total, assembly.sizes))
        self.open.append(assembly)
        if self.admit is None:
            assembly.expected = 0
        elif self.admit and assembly.total <= MOST_ADMITTED:
            assembly.admit()
        else:
            assembly.discard()
        return 0

    def on_stray(self, kind: int, call_id: int) -> int:
        self.events.append(("stray", kind, call_id))
        return 0

    def on_allocate(self, assembly: Assembly) -> int:
        assembly.use(self.memory.allocate(assembly.segment_sizes()))
        return 0

    def on_read_done(self) -> int:
        self.reads_done += 1
        return 0

    def on_backlog(self) -> int:
        self.backlog = True
        return 0

    def on_breach(self, error: BaseException) -> int:
        code = error.code if isinstance(error, RemoteProtocolError) else type(error).__name__
        self.events.append(("breach", code, str(error)))
        return 0


def _plain(body: Any, buffers: Any) -> tuple[bytes, list[bytes] | None]:
    return bytes(body), None if buffers is None else [bytes(buffer) for buffer in buffers]


def new_decoder(sink: FrameSink, memory: LoopMemory | None = None, **limits: int) -> Decoder:
    """A decoder of an acceptor with the default limits, or those given."""
    return Decoder(
        sink,
        LoopMemory() if memory is None else memory,
        limits.get("role", Role.ACCEPTOR),
        limits.get("max_frame", 1 << 20),
        limits.get("quantum", 512),
    )


def push(decoder: Decoder, sink: RecordingSink, data: bytes) -> int:
    """One read of all of ``data``, in as many turns as the decoder's buffers and quantum make of it. Returns how
    many."""
    at = turns = 0
    with memoryview(data) as view:
        while at < len(data):
            room = memoryview(decoder.get_buffer(-1))
            size = min(len(room), len(data) - at)
            room[:size] = view[at : at + size]
            at += size
            decoder.buffer_updated(size)
            turns += 1
            while sink.backlog:
                sink.backlog = False
                decoder.resume()
                turns += 1
    return turns


def feed(chunks: Iterable[bytes], admit: bool | None = True, **limits: int) -> list[Event]:
    """What a fresh decoder tells when it is fed these chunks."""
    sink = RecordingSink(admit)
    decoder = new_decoder(sink, **limits)
    for chunk in chunks:
        push(decoder, sink, chunk)
    return sink.events


def told(*pieces: bytes, **limits: Any) -> list[Event]:
    """What follows a greeting, when ``pieces`` do. Checked for every way to cut them."""
    events = feed_every_way(START + b"".join(pieces), **limits)
    assert events[0][0] == "greeting"
    return events[1:]


def breach(*pieces: bytes, **limits: Any) -> tuple[int, str]:
    """Code and text of the breach that ``pieces`` are, after a greeting."""
    name, code, text = told(*pieces, **limits)[-1]
    assert name == "breach", name
    return code, text


def cut(data: bytes, at: Sequence[int]) -> list[bytes]:
    """``data`` in chunks that end at the given offsets, and at its end."""
    return [data[a:b] for a, b in zip([0, *at], [*at, len(data)], strict=True)]


def cuts(data: bytes, *, seed: int = 0, most: int = 600) -> Iterator[list[bytes]]:
    """Ways to cut ``data``: byte by byte, in two at every offset (at most ``most`` of them), and at random."""
    size = len(data)
    if size <= 20_000:
        yield [data[at : at + 1] for at in range(size)]
    step = max(1, size // most)
    for at in range(1, size, step):
        yield cut(data, [at])
    chance = random.Random(seed)
    for pieces in (2, 5, 20):
        yield cut(data, sorted(chance.randrange(size) for _ in range(pieces)))


def feed_every_way(data: bytes, *, most: int = 600, tail: bytes = b"", **limits: Any) -> list[Event]:
    """What ``data`` makes a decoder tell; fails where that depends on how it is cut, or on a ``tail`` read with it."""
    whole = feed([data], **limits)
    for chunks in cuts(data, most=most):
        assert feed(chunks, **limits) == whole, [len(chunk) for chunk in chunks]
    if tail:
        longer = feed([data + tail], **limits)
        assert longer[: len(whole)] == whole
    return whole
