"""What the decoder makes of valid frames: every type, every part of a head, every way to cut them into reads."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from rpcproto.wire.memory import LoopMemory
from rpcproto.wire.spec import ErrorCode, Flag, FrameType, Role
from tests.wire import frames
from tests.wire.feeding import START, RecordingSink, cut, feed, feed_every_way, new_decoder, push, told

ALL_FRAMES = b"".join(
    [
        START,
        frames.opening(1, b"request", name="echo", method=1, deadline=1500, metadata=b"meta"),
        frames.opening(3, b"again", name=None, method=1),
        frames.opening(5, b"notify", kind=FrameType.NOTIFY),
        frames.opening(7, b"stream", kind=FrameType.STREAM),
        frames.opening(9, b"channel", kind=FrameType.CHANNEL, flags=Flag.FIRST | Flag.HEAD),
        frames.opening(11, b"bodyB1B2", size=4, buffers=[2, 0, 2]),
        frames.reply(2, b"reply"),
        frames.item(9, b"item"),
        frames.item(9, b"", flags=Flag.END | Flag.FIRST),
        frames.error(4, ErrorCode.HANDLER_RAISED, "ValueError", "no", "Traceback"),
        frames.cancel(6),
        frames.credit(1000, 0, 1),
        frames.credit(5 << 20, 13),
        frames.ping(b"abcdefgh"),
        frames.ping(b"abcdefgh", answer=True),
        frames.auth(1, b"n" * 32),
        *frames.fragments(15, b"f" * 3000, 1100),
        frames.frame(99, 77, b"skipped", flags=Flag.IGNORABLE),
        frames.goaway(ErrorCode.NO_ERROR, 15, "bye"),
    ]
)
ALL_EVENTS: list[tuple[Any, ...]] = [
    ("open", 1, 1, 1, 1, "echo", 1500, b"meta", b"request", None, 7),
    ("open", 1, 3, 1, 1, None, -1, None, b"again", None, 5),
    ("open", 2, 5, 1, 0, "echo", -1, None, b"notify", None, 6),
    ("open", 3, 7, 1, 0, "echo", -1, None, b"stream", None, 6),
    ("open", 4, 9, 1, 0, "echo", -1, None, b"channel", None, 7),
    ("large", 1, 11, 8, [2, 0, 2]),
    ("open", 1, 11, 1, 0, "echo", -1, None, b"body", [b"B1", b"", b"B2"], 8),
    ("reply", 2, 1, None, b"reply", None, 5),
    ("item", 9, 1, Flag.FIRST, None, b"item", None, 4),
    ("item", 9, 1, Flag.FIRST | Flag.END, None, b"", None, 0),
    ("error", 4, 0x301, b"\x0a\x00ValueError\x02\x00no\x09\x00Traceback"),
    ("cancel", 6, 0x204),
    ("credit", 0, 1, 1000),
    ("credit", 13, 0, 5 << 20),
    ("ping", 0, b"abcdefgh"),
    ("ping", 1, b"abcdefgh"),
    ("auth", 1, b"n" * 32),
    ("large", 1, 15, 3000, None),
    ("open", 1, 15, 1, 0, "echo", -1, None, b"f" * 3000, None, 3000),
    ("goaway", 0x100, 15, "bye"),
]


@pytest.mark.smoke
def test_row_4_and_fault_2_every_frame_type_cut_at_every_offset() -> None:
    events = feed_every_way(ALL_FRAMES, most=len(ALL_FRAMES), tail=frames.ping() * 3)
    assert events[1:] == ALL_EVENTS
    assert events[0][1].role == Role.INITIATOR


def test_row_4_three_frames_at_every_pair_of_offsets() -> None:
    data = START[:8] + START[8:] + frames.reply(2, b"r") + frames.credit(1)
    whole = feed([data])
    for first in range(60, len(data)):
        for second in range(first + 1, len(data)):
            assert feed(cut(data, [first, second])) == whole


@pytest.mark.parametrize("quantum", [1, 2, 3, 1000])
def test_the_quantum_changes_nothing_but_the_turns(quantum: int) -> None:
    assert feed_every_way(ALL_FRAMES, most=50, quantum=quantum)[1:] == ALL_EVENTS


@pytest.mark.parametrize(
    ("size", "step"), [(65_537, 65_536), (100_000, 1_024), (200_000, 65_536), (1 << 20, 1 << 19), (3 << 20, 1 << 20)]
)
def test_fragments_arrive_as_one_message(size: int, step: int) -> None:
    body = bytes(range(251)) * (size // 251 + 1)
    pieces = frames.fragments(1, body[:size], step)
    events = told(*pieces, most=4, max_frame=(1 << 20) + 100)
    assert events == [
        ("large", 1, 1, size, None),
        ("open", 1, 1, 1, 0, "echo", -1, None, body[:size], None, size),
    ]


def test_row_8_fragments_of_several_calls_and_control_frames_interleave() -> None:
    calls = {1: b"a" * 5000, 3: b"b" * 7000, 5: b"c" * 4000}
    queues = [frames.fragments(call_id, body, 1500) for call_id, body in calls.items()]
    pieces = []
    while any(queues):
        for queue in queues:
            if queue:
                pieces += [queue.pop(0), frames.ping(), frames.reply(2, b"r")]
    events = told(*pieces)
    opened = {event[2]: event[8] for event in events if event[0] == "open"}
    assert opened == calls
    pings = [event for event in events if event[0] == "ping"]
    assert len(pings) == len(pieces) // 3


def test_buffers_are_cut_anywhere() -> None:
    sizes = [0, 1, 30_000, 0, 5, 20_000, 0]
    body = b"the body"
    parts = [bytes([65 + at]) * size for at, size in enumerate(sizes)]
    data = body + b"".join(parts)
    flags = Flag.FIRST | Flag.HEAD | Flag.MORE
    start = frames.frame(
        FrameType.REQUEST, 1, frames.head(0, "m", size=len(body), buffers=sizes) + data[:1024], flags=flags, aux=2
    )
    pieces = [start, frames.more(1, data[1024:31_007]), frames.more(1, data[31_007:], last=True)]
    assert told(*pieces, most=40)[-1] == ("open", 1, 1, 2, 0, "m", -1, None, body, parts, len(data))


@pytest.mark.parametrize("sizes", [[], [0], [0, 1, 0]])
def test_fault_10_empty_buffers_keep_their_places(sizes: list[int]) -> None:
    buffers = [b"x" * size for size in sizes]
    piece = frames.opening(1, b"".join(buffers), size=0, buffers=sizes)
    assert told(piece)[-1][8:] == (b"", buffers, sum(sizes))


def test_fault_10_a_large_message_of_nothing_but_zero_sizes_around_one_buffer() -> None:
    sizes = [0, 70_000, 0]
    piece = frames.opening(1, b"z" * 70_000, size=0, buffers=sizes)
    assert told(piece, most=20)[-1][8:] == (b"", [b"", b"z" * 70_000, b""], 70_000)


@pytest.mark.parametrize("count", [1, 1023, 1024, 1025, 4096])
def test_fault_13_many_small_buffers(count: int) -> None:
    data = bytes(range(16)) * count
    piece = frames.opening(1, data, size=0, buffers=[16] * count)
    name, *_, buffers, size = told(piece, most=3)[-1]
    assert (name, size, len(buffers)) == ("open", 16 * count, count)
    assert set(buffers) == {bytes(range(16))}


def test_fault_13_the_most_buffers_there_may_be() -> None:
    start = frames.head(0, "m", size=0, buffers=[16] * 65_535)
    flags = Flag.FIRST | Flag.HEAD | Flag.MORE
    data = bytes(16 * 65_535)
    first = frames.frame(FrameType.REQUEST, 1, start + data[: 400 * 1024], flags=flags)
    events = feed([START + first, frames.more(1, data[400 * 1024 :], last=True)])
    assert len(events[-1][9]) == 65_535


def test_the_head_of_a_large_frame_may_come_in_pieces() -> None:
    start = frames.head(0, "m" * 255, deadline=1, metadata=b"d" * 2000, size=0, buffers=[100] * 2000)
    piece = frames.frame(FrameType.REQUEST, 1, start + bytes(200_000), flags=frames.WHOLE)
    whole = feed([START + piece])
    for at in range(64, 64 + 16 + len(start) + 2, 37):
        assert feed([START + piece[: at - 64], piece[at - 64 :]]) == whole
    assert whole[-1][5:8] == ("m" * 255, 1, b"d" * 2000)


@pytest.mark.parametrize("admit", [True, False])
def test_a_message_that_is_thrown_away_leaves_the_rest_alone(admit: bool) -> None:
    pieces = [*frames.fragments(1, b"l" * 200_000, 65_000), frames.opening(3, b"after")]
    events = told(*pieces, most=30, admit=admit)
    assert events[-1] == ("open", 1, 3, 1, 0, "echo", -1, None, b"after", None, 5)
    assert len([event for event in events if event[0] == "open"]) == 1 + admit


def test_an_undecided_message_waits_until_it_is_admitted() -> None:
    body = bytes(range(256)) * 400
    sink = RecordingSink(admit=None)
    decoder = new_decoder(sink)
    push(decoder, sink, START + frames.first(1, b"", len(body)) + frames.ping())
    assert [event[0] for event in sink.events] == ["greeting", "large", "ping"]
    (message,) = sink.open
    message.admit()
    message.expected = message.total
    push(decoder, sink, frames.more(1, body, last=True))
    assert sink.events[-1][8] == body


def test_a_forgotten_message_is_not_delivered_and_its_frame_skipped() -> None:
    body = b"x" * 300_000
    sink = RecordingSink()
    decoder = new_decoder(sink)
    data = START + frames.first(1, body[:100_000], len(body))
    push(decoder, sink, data[:50_000])
    decoder.forget(1)
    push(decoder, sink, data[50_000:] + frames.ping() + frames.more(1, body[100_000:150_000]) + frames.ping())
    assert [event[0] for event in sink.events] == ["greeting", "large", "ping", "stray", "ping"]
    assert not decoder.assemblies
    assert not decoder.incomplete()


def test_fault_18_a_message_thrown_away_that_never_ends_is_not_kept() -> None:
    # The peer is told that its message is not wanted, and simply stops sending it.
    sink = RecordingSink(admit=False)
    decoder = new_decoder(sink)
    push(decoder, sink, START)
    for call_id in range(1, 101, 2):
        push(decoder, sink, frames.first(call_id, b"x" * 2000, 5 << 20))
    assert not decoder.assemblies
    assert not decoder.incomplete()


def test_incomplete_tells_of_a_cut_frame_and_of_a_cut_message() -> None:
    first, *_, last = frames.fragments(1, b"x" * 3000, 1500)
    for data, incomplete in (
        (START, False),
        (START + first[:5], True),
        (START + first[:-1], True),
        (START + first, True),
        (START + first + last, False),
    ):
        sink = RecordingSink()
        decoder = new_decoder(sink)
        push(decoder, sink, data)
        assert decoder.incomplete() is incomplete


def test_row_56_the_rest_waits_for_resume_after_a_quantum() -> None:
    sink = RecordingSink()
    decoder = new_decoder(sink, quantum=512)
    data = START + frames.ping() * 2000
    room = memoryview(decoder.get_buffer(-1))
    room[: len(data)] = data
    decoder.buffer_updated(len(data))
    seen = []
    while sink.backlog:
        seen.append(len(sink.events) - 1)
        sink.backlog = False
        decoder.resume()
    assert seen == [512, 1024, 1536]
    assert len(sink.events) == 2001
    decoder.resume()
    assert len(sink.events) == 2001


def test_pause_holds_back_what_was_read_already() -> None:
    class Pausing(RecordingSink):
        def on_ping(self, *told: Any) -> int:
            decoder.pause()
            return super().on_ping(*told)

    sink = Pausing()
    decoder = new_decoder(sink)
    data = START + frames.ping() + frames.credit(1)
    memoryview(decoder.get_buffer(-1))[: len(data)] = data
    decoder.buffer_updated(len(data))
    assert [event[0] for event in sink.events] == ["greeting", "ping"]
    assert sink.backlog
    decoder.resume()
    assert [event[0] for event in sink.events] == ["greeting", "ping", "credit"]


def test_row_75_two_decoders_of_a_loop_read_within_one_another() -> None:
    # A handler that runs the loop itself, say.
    memory = LoopMemory()

    class Nesting(RecordingSink):
        def on_ping(self, *told: Any) -> int:
            push(inner, inside, START + frames.opening(1, b"inner" * 100) * 1)
            return super().on_ping(*told)

    outside, inside = Nesting(), RecordingSink()
    outer, inner = new_decoder(outside, memory), new_decoder(inside, memory)
    push(outer, outside, START + frames.ping() + frames.opening(1, b"outer" * 100))
    assert outside.events[-1][8] == b"outer" * 100
    assert inside.events[-1][8] == b"inner" * 100


def test_row_70_delivered_bytes_never_change() -> None:
    class Keeping(RecordingSink):
        def on_open(self, *told: Any) -> int:
            self.keep.append((bytes(told[-3]), told[-3]))
            return 0

    sink = Keeping()
    decoder = new_decoder(sink)
    push(decoder, sink, START)
    for at, size in enumerate((10, 5000, 70_000, 200_000, 10, 70_000, 200_000)):
        body = bytes([at]) * size
        pieces = [frames.opening(2 * at + 1, body)] if size <= 65_536 else frames.fragments(2 * at + 1, body, 65_000)
        for piece in pieces:
            push(decoder, sink, piece)
    gc.collect()
    assert all(kept == copy for copy, kept in sink.keep)
    assert [len(kept) for _, kept in sink.keep] == [10, 5000, 70_000, 200_000, 10, 70_000, 200_000]


def test_counters() -> None:
    sink = RecordingSink()
    decoder = new_decoder(sink)
    push(decoder, sink, START)
    push(decoder, sink, frames.ping() + frames.opening(1, b"x"))
    for piece in frames.fragments(3, b"x" * 5000, 2000):
        push(decoder, sink, piece)
    assert (decoder.frames, decoder.messages) == (5, 2)
    assert decoder.bytes_received == 64 + 24 + len(frames.opening(1, b"x")) + 5000 + 3 * 16 + len(
        frames.head(0, "echo", size=5000)
    )
    assert decoder.reads == sink.reads_done == 5 or decoder.reads == sink.reads_done
