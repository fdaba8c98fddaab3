"""The compiled decoder and its pure form tell the same of any bytes, however they are cut.

Inputs are random bytes, frames with random fields, and transcripts that were damaged: bits flipped, pieces taken out,
doubled or exchanged, numbers put to their extremes.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rpcproto._build import PURE
from rpcproto.wire.spec import FrameType
from tests.wire import frames
from tests.wire.feeding import START, cut
from tests.wire.oracle import Oracle, events_of
from tests.wire.test_transcripts import NAMES, Role, read

pytestmark = pytest.mark.skipif(PURE, reason="compares the compiled modules with the pure ones")

several = settings(max_examples=2 * settings.default.max_examples, suppress_health_check=[HealthCheck.too_slow])

STREAMS = [bytes(read(name)[Role.INITIATOR].data) for name in NAMES]
SHORT = [stream for stream in STREAMS if len(stream) < 20_000]
EXTREMES = [0, 1, 0x7F, 0x80, 0xFF, 0xFFFF, 0x10000, 0x100000, 0x100001, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 48]

numbers = st.one_of(st.sampled_from(EXTREMES), st.integers(0, 70))
heads = st.builds(
    frames.head,
    st.one_of(st.integers(0, 4), st.sampled_from([4095, 4096, 65_535])),
    st.one_of(st.none(), st.binary(max_size=6)),
    deadline=st.one_of(st.none(), st.sampled_from([0, 1, 0xFFFFFFFF])),
    metadata=st.one_of(st.none(), st.binary(max_size=5)),
    size=st.one_of(st.none(), st.integers(0, 12), st.sampled_from([5000, 1 << 61, 1 << 62, 1 << 63, (1 << 64) - 1])),
    buffers=st.one_of(st.none(), st.lists(st.sampled_from([0, 1, 5, 3000, 1 << 62, (1 << 64) - 1]), max_size=3)),
    parts=st.one_of(st.none(), st.none(), st.integers(0, 255)),
)
payloads = st.one_of(
    st.binary(max_size=20),
    st.builds(bytes.__add__, heads, st.binary(max_size=12)),
    st.builds(lambda start, size: start + bytes(size), heads, st.sampled_from([1023, 1024, 3000, 65_536, 70_000])),
)
random_frames = st.builds(
    lambda kind, call_id, payload, flags, aux: frames.frame(kind, call_id, payload, flags=flags, aux=aux),
    st.one_of(st.sampled_from(list(FrameType)), st.sampled_from([FrameType.REQUEST, FrameType.REPLY, 0, 14, 255])),
    st.one_of(st.integers(0, 6), st.sampled_from([(1 << 48) - 1, 1 << 48, (1 << 64) - 1])),
    payloads,
    st.one_of(st.sampled_from([0x01, 0x05, 0x11, 0x15, 0x13, 0x02, 0x04, 0x00]), st.integers(0, 255)),
    st.one_of(st.integers(0, 3), st.integers(0, 65_535)),
)
limits = st.fixed_dictionaries(
    {},
    optional={
        "max_frame": st.sampled_from([65_536, 1 << 20]),
        "quantum": st.sampled_from([1, 2, 7]),
    },
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A transcript with up to four injuries behind its greeting."""
    data = bytearray(draw(st.sampled_from(SHORT)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0 if draw(st.booleans()) else 64, max(64, len(data) - 1)))
        size = draw(st.integers(1, 40))
        match draw(st.sampled_from(["flip", "cut", "double", "number", "insert"])):
            case "flip" if at < len(data):
                data[at] ^= 1 << draw(st.integers(0, 7))
            case "cut":
                del data[at : at + size]
            case "double":
                data[at:at] = data[at : at + size]
            case "number":
                data[at : at + 4] = (draw(numbers) & 0xFFFFFFFF).to_bytes(4, "little")
            case "insert":
                data[at:at] = draw(random_frames)
    return bytes(data)


@st.composite
def in_chunks(draw: st.DrawFn, data: bytes) -> list[bytes]:
    if draw(st.booleans()):
        return cut(data, sorted(draw(st.lists(st.integers(0, len(data)), max_size=8))))
    step = draw(st.sampled_from([1, 2, 3, 7, 16, 17, 63, 1000]))
    step = max(step, len(data) // 3000)
    return [data[at : at + step] for at in range(0, len(data), step)]


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with Oracle() as oracle:
        yield oracle


def compare(oracle: Oracle, chunks: list[bytes], admit: bool | None, limits: dict[str, int]) -> None:
    assert events_of(chunks, admit, limits) == oracle.ask(chunks, admit, limits)


admits = st.sampled_from([True, True, False, None])


@several
@given(st.data(), st.binary(max_size=300), st.booleans(), admits)
def test_row_68_any_bytes(oracle: Oracle, data: st.DataObject, noise: bytes, greeted: bool, admit: bool | None) -> None:
    stream = START + noise if greeted else noise
    compare(oracle, data.draw(in_chunks(stream)), admit, {})


@several
@given(st.data(), st.lists(random_frames, max_size=8), admits, limits)
@example(None, [frames.first(1, b"x" * 2000, 5000), frames.opening(1, b"y")], True, {})
def test_row_68_any_frames(
    oracle: Oracle, data: st.DataObject | None, pieces: list[bytes], admit: bool | None, limits: dict[str, int]
) -> None:
    stream = START + b"".join(pieces)
    compare(oracle, data.draw(in_chunks(stream)) if data else [stream], admit, limits)


@several
@given(st.data(), damaged(), admits, limits)
def test_row_68_and_69_damaged_transcripts(
    oracle: Oracle, data: st.DataObject, stream: bytes, admit: bool | None, limits: dict[str, int]
) -> None:
    compare(oracle, data.draw(in_chunks(stream)), admit, limits)


@pytest.mark.parametrize("stream", range(len(STREAMS)))
def test_row_68_whole_transcripts(oracle: Oracle, stream: int) -> None:
    for step in (1, 13, 1000, 1 << 20):
        data = STREAMS[stream]
        compare(oracle, [data[at : at + step] for at in range(0, len(data), step)], True, {})


@several
@given(st.data(), st.lists(random_frames, max_size=6), admits)
def test_fault_2_the_cut_makes_no_difference(data: st.DataObject, pieces: list[bytes], admit: bool | None) -> None:
    stream = START + b"".join(pieces)
    assert events_of(data.draw(in_chunks(stream)), admit, {}) == events_of([stream], admit, {})
