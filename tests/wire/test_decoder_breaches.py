"""What the decoder refuses: the rows of the fault plan that concern framing, and every rule of sections 1 and 2."""

from __future__ import annotations

import pytest

from rpcproto.wire.spec import ErrorCode, Flag, FrameType
from tests.wire import frames
from tests.wire.feeding import START, RecordingSink, breach, cuts, feed, feed_every_way, new_decoder, push, told

MESSAGES = [kind for kind in FrameType if kind <= FrameType.ITEM]
OPENINGS = [kind for kind in FrameType if kind <= FrameType.CHANNEL]
CONTROL = [kind for kind in FrameType if kind > FrameType.ITEM]
FIXED = {FrameType.CANCEL: 0, FrameType.CREDIT: 8, FrameType.PING: 8}


def on_call(kind: int) -> int:
    return 0 if kind in (FrameType.PING, FrameType.GOAWAY, FrameType.AUTH, FrameType.PAD) else 1


# ---- greeting -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "start", [b"GET / HTTP/1.1\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01", b"\xabRPC\n\x1a\n ", b"SSH-2.0-x"]
)
def test_row_1_another_protocol_is_told_from_its_first_bytes(start: bytes) -> None:
    data = start + b"more of it" * 1000
    for chunks in [[data], *cuts(data, most=20)]:
        ((_, code, text),) = feed(chunks)
        assert code == ErrorCode.GREETING
        assert repr(start[:1])[2:-1] in text
        assert len(text) < 200


def test_row_2_a_frame_before_the_greeting() -> None:
    ((_, code, _),) = feed([frames.ping() * 10])
    assert code == ErrorCode.GREETING


def test_row_2_a_second_greeting() -> None:
    assert breach(frames.greeting(1))[0] in (ErrorCode.FRAME_TYPE, ErrorCode.FRAME_SIZE)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"major": 0}, ErrorCode.VERSION),
        ({"major": 2}, ErrorCode.VERSION),
        ({"must": 1}, ErrorCode.VERSION),
        ({"must": 1 << 31}, ErrorCode.VERSION),
        ({"role": 2}, ErrorCode.GREETING),
        ({"role": 0}, ErrorCode.GREETING),
        ({"role": 3}, ErrorCode.GREETING),
        ({"max_frame": 131_071}, ErrorCode.GREETING),
        ({"max_frame": 1 << 24}, ErrorCode.GREETING),
        ({"call_window": 65_535}, ErrorCode.GREETING),
        ({"call_window": 1 << 31}, ErrorCode.GREETING),
        ({"connection_window": 65_535}, ErrorCode.GREETING),
        ({"connection_window": (1 << 20) - 1}, ErrorCode.GREETING),
        ({"connection_window": 1 << 31}, ErrorCode.GREETING),
    ],
)
def test_row_3_greetings_that_are_refused(changes: dict[str, int], code: int) -> None:
    ((_, found, _),) = feed_every_way(frames.greeting(**({"role": 1} | changes)) + frames.ping())
    assert found == code


@pytest.mark.parametrize("changes", [{"minor": 9}, {"may": 0xFFFF_FFFF}, {"reserved": b"\xff" * 8}])
def test_row_3_greetings_of_later_minor_versions_are_understood(changes: dict[str, object]) -> None:
    greeting = frames.greeting(1, **changes)  # type: ignore[arg-type]
    assert [event[0] for event in feed_every_way(greeting + frames.ping())] == ["greeting", "ping"]


def test_row_3_a_version_error_names_both_versions() -> None:
    ((_, _, text),) = feed([frames.greeting(1, major=7, minor=3)])
    assert "7.3" in text
    assert "1.0" in text


# ---- header -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*FrameType, 14, 200])
@pytest.mark.parametrize("length", [(1 << 20) + 1, 1 << 24, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF])
def test_row_5_and_fault_1_a_length_above_the_limit_allocates_nothing(kind: int, length: int) -> None:
    header = frames.HEADER.pack(length, kind, Flag.FIRST | Flag.HEAD | Flag.IGNORABLE, 0, on_call(kind))
    sink = RecordingSink()
    decoder = new_decoder(sink)
    push(decoder, sink, START + header)
    assert sink.events[-1][:2] == ("breach", ErrorCode.FRAME_SIZE)
    assert str(length) in sink.events[-1][2]
    assert "max_frame" in sink.events[-1][2]
    assert not sink.open


@pytest.mark.parametrize("size", [65_536, 65_537, (1 << 20) - 1, 1 << 20])
def test_row_5_lengths_up_to_the_limit_are_accepted(size: int) -> None:
    events = told(frames.reply(2, b"r" * size), most=3)
    assert events[-1] == ("reply", 2, 1, None, b"r" * size, None, size)


@pytest.mark.parametrize("kind", CONTROL)
def test_row_5_control_frames_are_small(kind: FrameType) -> None:
    header = frames.HEADER.pack(65_537, kind, 0, 0, on_call(kind))
    assert breach(header)[0] == ErrorCode.FRAME_SIZE


@pytest.mark.parametrize("kind", MESSAGES)
def test_row_5_length_0(kind: FrameType) -> None:
    flags = Flag.FIRST | (Flag.HEAD if kind <= FrameType.CHANNEL else Flag(0))
    events = told(frames.frame(kind, 2, flags=flags))
    assert events[-1][:2] == ("breach", ErrorCode.HEAD) if kind <= FrameType.CHANNEL else events[-1][-1] == 0


@pytest.mark.parametrize("flags", [0x20, 0x40, 0x80, 0xE0])
def test_row_6_unknown_flags_are_ignored(flags: int) -> None:
    pieces = [
        frames.opening(1, b"x", flags=frames.WHOLE | flags),
        frames.frame(FrameType.REPLY, 2, b"r", flags=Flag.FIRST | flags),
        frames.frame(FrameType.PING, 0, bytes(8), flags=flags),
    ]
    assert [event[0] for event in told(*pieces)] == ["open", "reply", "ping"]


@pytest.mark.parametrize("kind", [0, 14, 100, 255])
@pytest.mark.parametrize("size", [0, 1, 1000, 100_000])
def test_row_6_an_unknown_type_is_skipped_if_it_may_be(kind: int, size: int) -> None:
    unknown = frames.frame(kind, 7 << 48, b"?" * size, flags=Flag.IGNORABLE | Flag.MORE)
    assert told(unknown, frames.ping(), most=100) == [("ping", 0, b"12345678")]
    code, text = breach(frames.frame(kind, 1, b"?" * size, flags=Flag.FIRST), most=100)
    assert code == ErrorCode.FRAME_TYPE
    assert str(kind) in text


def test_row_6_ignorable_does_not_hide_a_known_type() -> None:
    assert breach(frames.frame(FrameType.PING, 0, b"short", flags=Flag.IGNORABLE))[0] == ErrorCode.FRAME_SIZE


@pytest.mark.parametrize("kind", FIXED)
@pytest.mark.parametrize("change", [-8, -1, 1, 8])
def test_row_7_frames_of_a_fixed_length(kind: FrameType, change: int) -> None:
    size = FIXED[kind] + change
    if size >= 0:
        code, text = breach(frames.frame(kind, on_call(kind), bytes(size)))
        assert code == ErrorCode.FRAME_SIZE
        assert kind.name in text
    assert told(frames.frame(kind, on_call(kind), bytes(FIXED[kind])))


@pytest.mark.parametrize("size", [16, 17, 65_536])
def test_row_7_a_pad_is_short(size: int) -> None:
    code, text = breach(frames.frame(FrameType.PAD, 0, bytes(size)))
    assert (code, text) == (ErrorCode.FRAME_SIZE, f"a PAD frame of {size} bytes")


@pytest.mark.parametrize("size", [0, 1, 15])
def test_a_pad_is_skipped(size: int) -> None:
    assert told(frames.frame(FrameType.PAD, 0, b"?" * size), frames.ping()) == [("ping", 0, b"12345678")]


@pytest.mark.parametrize("size", [0, 7, 1033, 2000])
def test_row_7_goaway_has_bounds(size: int) -> None:
    assert breach(frames.frame(FrameType.GOAWAY, 0, bytes(size)))[0] == ErrorCode.FRAME_SIZE


@pytest.mark.parametrize("size", [8, 1032])
def test_row_7_goaway_within_bounds(size: int) -> None:
    assert told(frames.frame(FrameType.GOAWAY, 0, bytes(size)))[0][0] == "goaway"


@pytest.mark.parametrize("kind", FrameType)
@pytest.mark.parametrize("call_id", [1 << 48, 1 << 63, (1 << 64) - 1])
def test_row_13_a_call_id_has_48_bits(kind: FrameType, call_id: int) -> None:
    payload = frames.head(0, "m") if kind <= FrameType.CHANNEL else bytes(FIXED.get(kind, 8))
    flags = Flag.FIRST | (Flag.HEAD if kind <= FrameType.CHANNEL else Flag(0))
    assert breach(frames.frame(kind, call_id, payload, flags=flags))[0] == ErrorCode.CALL_ID


@pytest.mark.parametrize("kind", [kind for kind in FrameType if on_call(kind) and kind != FrameType.CREDIT])
def test_row_13_frames_of_calls_have_an_id(kind: FrameType) -> None:
    payload = frames.head(0, "m") if kind <= FrameType.CHANNEL else b""
    flags = Flag.FIRST | (Flag.HEAD if kind <= FrameType.CHANNEL else Flag(0))
    assert breach(frames.frame(kind, 0, payload, flags=flags))[0] == ErrorCode.CALL_ID


@pytest.mark.parametrize("kind", [kind for kind in FrameType if not on_call(kind)])
def test_row_13_frames_of_the_connection_have_none(kind: FrameType) -> None:
    assert breach(frames.frame(kind, 1, bytes(8)))[0] == ErrorCode.CALL_ID


# ---- heads --------------------------------------------------------------------------------------------------------

BAD_HEADS = {
    "cut off": b"\x00\x00\x01",
    "unknown part": frames.head(0, "m", parts=0x21),
    "all parts and more": frames.head(0, "m", parts=0xFF),
    "empty name": frames.head(0, ""),
    "name past the end": b"\x00\x00\x01\x00\x09short",
    "name missing": frames.head(0, parts=0x01),
    "name that is no UTF-8": frames.head(0, b"\xff\xfe"),
    "name with a surrogate": frames.head(0, b"\xed\xa0\x80"),
    "deadline cut off": frames.head(1, parts=0x02) + b"\x01\x02\x03",
    "metadata past the end": b"\x00\x00\x04\x00\xff\x00short",
    "size cut off": frames.head(0, parts=0x08) + bytes(7),
    "size above what there is": frames.head(0, "m", size=6) + b"12345",
    "size below what there is": frames.head(0, "m", size=4) + b"12345",
    "size beyond all bounds": frames.head(0, "m", size=(1 << 64) - 1),
    "sizes that add up beyond all bounds": frames.head(0, "m", size=1 << 62, buffers=[1 << 62, 1 << 62]),
    "buffers without size": frames.head(0, "m", buffers=[1]) + b"x",
    "buffers cut off": frames.head(0, "m", size=0, buffers=[1, 2])[:-1],
    "more buffers announced than there are bytes": frames.head(0, "m", size=0, parts=0x19) + b"\xff\xff\x00\x00",
    "buffers above the limit": frames.head(0, "m", size=0, parts=0x19) + b"\x00\x00\x01\x00",
    "buffers that do not fit": frames.head(0, "m", size=1, buffers=[1, 1]) + b"xx",
    "method id above 4095": frames.head(4096, "m"),
}


@pytest.mark.parametrize("what", BAD_HEADS)
def test_a_malformed_head(what: str) -> None:
    data = frames.frame(FrameType.REQUEST, 1, BAD_HEADS[what], flags=frames.WHOLE)
    code, text = breach(data, frames.ping() * 5)
    assert code == ErrorCode.HEAD
    assert text.startswith("call 1: ")


@pytest.mark.parametrize(
    "what", [what for what in BAD_HEADS if "what there is" not in what and "do not fit" not in what]
)
def test_a_malformed_head_of_a_message_in_several_frames(what: str) -> None:
    flags = Flag.FIRST | Flag.HEAD | Flag.MORE
    assert breach(frames.frame(FrameType.REQUEST, 1, BAD_HEADS[what], flags=flags), bytes(100))[0] == ErrorCode.HEAD


@pytest.mark.parametrize("kind", OPENINGS)
@pytest.mark.parametrize("more", [Flag(0), Flag.MORE])
def test_an_opening_frame_must_have_a_head(kind: FrameType, more: Flag) -> None:
    assert breach(frames.frame(kind, 1, bytes(20), flags=Flag.FIRST | more))[0] == ErrorCode.HEAD


@pytest.mark.parametrize("kind", MESSAGES)
def test_a_message_in_several_frames_must_tell_its_size(kind: FrameType) -> None:
    flags = Flag.FIRST | Flag.HEAD | Flag.MORE
    data = frames.frame(kind, 1, frames.head(0, "m") + bytes(2000), flags=flags)
    assert breach(data)[0] == ErrorCode.HEAD


def test_row_54_metadata_above_the_limit() -> None:
    most = 16 * 1024
    code, text = breach(frames.opening(1, metadata=bytes(most + 1)))
    assert code == ErrorCode.HEAD
    assert "16385 bytes of metadata, above 16384" in text
    assert told(frames.opening(1, metadata=bytes(most)))[0][7] == bytes(most)


def test_fault_13_buffers_above_the_limit() -> None:
    most = 65_535
    code, text = breach(frames.opening(1, size=0, buffers=[0] * (most + 1)), most=3)
    assert code == ErrorCode.HEAD
    assert "65536 buffers, above 65535" in text
    assert told(frames.opening(1, size=0, buffers=[0] * most), most=3)


# ---- fragments ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [FrameType.REQUEST, FrameType.REPLY])
@pytest.mark.parametrize("again", ["cut", "whole", "with buffers", "large"])
def test_row_8_first_twice(kind: FrameType, again: str) -> None:
    """FIRST while a message of the same call is incomplete, in each shape a message can have."""
    start = frames.first(1, b"a" * 2000, 5000, kind=kind)
    name = "echo" if kind <= FrameType.CHANNEL else None
    second = {
        "cut": frames.first(1, b"b" * 2000, 5000, kind=kind),
        "whole": frames.opening(1, b"b", kind=kind, name=name),
        "with buffers": frames.opening(1, b"b", kind=kind, name=name, size=0, buffers=[1]),
        "large": frames.opening(1, b"b" * 70_000, kind=kind, name=name),
    }[again]
    assert breach(start, second, most=50)[0] == ErrorCode.CALL_STATE


@pytest.mark.parametrize("kind", MESSAGES)
def test_row_8_a_continuation_without_a_beginning_is_told(kind: FrameType) -> None:
    events = told(frames.more(1, b"x" * 2000, kind=kind), frames.ping())
    assert events == [("stray", kind, 1), ("ping", 0, b"12345678")]


def test_row_8_a_continuation_of_another_type_is_no_continuation() -> None:
    events = told(frames.first(1, b"a" * 2000, 5000), frames.more(1, b"b" * 3000, kind=FrameType.ITEM, last=True))
    assert events[-1] == ("stray", FrameType.ITEM, 1)


@pytest.mark.parametrize("last", [2999, 3001])
def test_row_8_fragments_that_do_not_add_up(last: int) -> None:
    pieces = [frames.first(1, b"a" * 2000, 5000), frames.more(1, b"b" * last, last=True)]
    assert breach(*pieces)[0] == ErrorCode.HEAD


def test_row_8_a_fragment_beyond_what_was_announced_is_refused_before_it_is_read() -> None:
    header = frames.HEADER.pack(3001, FrameType.REQUEST, Flag.MORE, 1, 1)
    assert breach(frames.first(1, b"a" * 2000, 5000), header)[0] == ErrorCode.HEAD


@pytest.mark.parametrize("sizes", [(1023, 1023), (0, 0), (0, 1)])
def test_row_9_more_than_one_tiny_fragment(sizes: tuple[int, int]) -> None:
    pieces = [frames.first(1, b"a" * 2000, 9000), *(frames.more(1, b"b" * size) for size in sizes)]
    code, text = breach(*pieces)
    assert code == ErrorCode.FLOOD
    assert "1024" in text


def test_row_9_one_tiny_fragment_and_a_tiny_last_one_are_tolerated() -> None:
    pieces = [
        frames.first(1, b"", 2001),
        frames.more(1, b"b" * 1024),
        frames.more(1, b"c" * 976),
        frames.more(1, b"d", last=True),
    ]
    assert breach(*pieces)[0] == ErrorCode.FLOOD
    assert told(pieces[0], pieces[1], frames.more(1, b"c" * 977, last=True))[-1][-1] == 2001


def test_row_21_more_than_was_admitted() -> None:
    pieces = [frames.first(1, b"", 5 << 20), frames.more(1, b"b" * 1024)]
    assert breach(*pieces, most=50, admit=None)[0] == ErrorCode.FLOW_CONTROL


def test_nothing_is_parsed_after_a_breach() -> None:
    events = told(frames.ping(), frames.frame(200), frames.ping(), frames.opening(1, b"x"), frames.frame(201))
    assert [event[0] for event in events] == ["ping", "breach"]


def test_fault_15_an_exception_of_the_sink_is_a_bug_that_ends_the_connection() -> None:
    class Broken(RecordingSink):
        def on_ping(self, aux: int, payload: bytes) -> int:
            raise KeyError("planted")

    sink = Broken()
    decoder = new_decoder(sink)
    push(decoder, sink, START + frames.ping() + frames.credit(1))
    name, kind, text = sink.events[-1]
    assert (name, kind) == ("breach", "InternalError")
    assert "KeyError: 'planted'" in text
    assert sink.reads_done == 1
