"""Recorded exchanges: they must be read as they always were, and written again byte for byte.

A transcript in ``transcripts/`` is text. A line that starts with ``>`` holds bytes of the initiator in hexadecimal, one
with ``<`` bytes of the acceptor; ``61*1024`` is a byte many times. Lines with ``=`` tell what the receiver makes of the
frame before them: the event as a Python literal, in which what is longer than 64 bytes is told by size and checksum.
``#`` starts a comment.

Transcripts are never changed, since peers of any release must understand them: a new one is added.
"""

from __future__ import annotations

import ast
import zlib
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rpcproto.wire.encoder import Encoder, encode_head
from rpcproto.wire.failure import decode_failure, encode_failure
from rpcproto.wire.greeting import Greeting, decode_greeting
from rpcproto.wire.memory import ScratchStack
from rpcproto.wire.spec import Flag, FrameType, Role
from tests.wire import frames
from tests.wire.feeding import feed, feed_every_way

FOLDER = Path(__file__).parent / "transcripts"
NAMES = sorted(path.stem for path in FOLDER.glob("*.txt"))
SIDES = {">": Role.INITIATOR, "<": Role.ACCEPTOR}


@dataclass
class Side:
    """What one side sent, and what it makes the other see."""

    data: bytearray = field(default_factory=bytearray)
    events: list[Any] = field(default_factory=list)


def read(name: str) -> dict[Role, Side]:
    """The two sides of a transcript."""
    sides = {role: Side() for role in Role}
    side = sides[Role.INITIATOR]
    for number, line in enumerate((FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines(), 1):
        mark, rest = line[:1], line[1:]
        if mark in SIDES:
            side = sides[SIDES[mark]]
            side.data += read_hex(rest.partition("#")[0])
        elif mark == "=":
            side.events.append(ast.literal_eval(rest.strip()))
        else:
            assert not line or mark == "#", f"{name}.txt:{number}: {line}"
    return sides


def read_hex(text: str) -> bytes:
    data = b""
    for word in text.split():
        digits, _, times = word.partition("*")
        data += bytes.fromhex(digits) * int(times or 1)
    return data


def shown(event: tuple[Any, ...]) -> tuple[Any, ...]:
    """An event as transcripts tell it."""

    def short(value: Any) -> Any:
        if isinstance(value, Greeting):
            return tuple(int(each) for each in astuple(value))
        if isinstance(value, list):
            return [short(each) for each in value]
        if isinstance(value, str | bytes) and len(value) > 64:
            data = value.encode() if isinstance(value, str) else value
            return f"{len(data)} bytes, crc32 {zlib.crc32(data):08x}"
        return value

    return tuple(short(value) for value in event)


def encode(frame: frames.Frame) -> bytes:
    """The frame as this release writes one with the same content."""
    out = Encoder(ScratchStack())
    payload = frame.payload
    if frame.kind == FrameType.CREDIT:
        out.number(frame.kind, frame.aux, frame.call_id, int.from_bytes(payload, "little"))
    elif frame.kind == FrameType.ERROR:
        out.frame(frame.kind, frame.flags, frame.aux, frame.call_id, encode_failure(*decode_failure(payload)))
    elif frame.kind <= FrameType.ITEM and frame.flags & Flag.HEAD:
        head = frames.read_head(payload)
        body = payload[head.length :]
        deadline = -1 if head.deadline is None else head.deadline
        if (head.name, head.metadata, head.size) == (None, None, None) and frame.kind <= FrameType.CHANNEL:
            flags = frame.flags & ~(Flag.FIRST | Flag.HEAD)
            out.opening(frame.kind, flags, frame.aux, frame.call_id, head.method, deadline, body, len(body))
        else:
            size = -1 if head.size is None else head.size
            start = encode_head(head.method, head.name, deadline, head.metadata, size, head.buffers)
            out.start(frame.kind, frame.flags, frame.aux, frame.call_id, start, len(body))
            out.append(body, len(body))
    elif frame.kind == FrameType.REPLY and frame.flags == Flag.FIRST | Flag.END:
        out.whole(frame.kind, Flag.END, frame.aux, frame.call_id, payload, len(payload))
    else:
        out.frame(frame.kind, frame.flags, frame.aux, frame.call_id, payload)
    return b"".join(out.take() or [])


def test_there_are_transcripts_of_everything() -> None:
    kinds, flags, codes = set(), Flag(0), set()
    for name in NAMES:
        for side in read(name).values():
            for frame in frames.split(bytes(side.data[64:])):
                kinds.add(frame.kind)
                flags |= Flag(frame.flags)
                if frame.kind in (FrameType.ERROR, FrameType.CANCEL, FrameType.GOAWAY):
                    codes.add(frame.aux)
    assert set(FrameType) <= kinds
    assert set(flags) == set(Flag)
    assert len(codes) > 10


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sender", Role)
def test_row_11_transcripts_are_read_as_they_always_were(name: str, sender: Role) -> None:
    side = read(name)[sender]
    events = feed_every_way(bytes(side.data), most=40, role=3 - sender)
    assert [shown(event) for event in events] == side.events


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sender", Role)
def test_row_11_transcripts_are_written_again_byte_for_byte(name: str, sender: Role) -> None:
    data = bytes(read(name)[sender].data)
    assert decode_greeting(data[:64], 3 - sender).encode() == data[:64]
    for frame in frames.split(data[64:]):
        assert encode(frame) == frames.frame(
            frame.kind, frame.call_id, frame.payload, flags=frame.flags, aux=frame.aux
        ), frame


@pytest.mark.parametrize("name", NAMES)
def test_row_4_transcripts_with_others_behind_them(name: str) -> None:
    for sender in Role:
        data = bytes(read(name)[sender].data)
        events = feed([data], role=3 - sender)
        if events[-1][0] != "breach":
            assert feed([data + frames.ping() * 100], role=3 - sender)[: len(events)] == events
