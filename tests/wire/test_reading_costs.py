"""Linear time, by counting what is copied instead of by a clock.

The counts are taken from the pure form of the decoder, which is the source of the compiled one: every copy of received
bytes goes through ``_bytes``. It runs in a process of its own, since the build is chosen once per process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.wire import frames
from tests.wire.feeding import START, RecordingSink, new_decoder, push

ROOT = Path(__file__).parent.parent.parent

COUNT = """
import sys
from rpcproto.wire import _bytes
from tests.wire.feeding import RecordingSink, new_decoder, push

copied = 0

def counting(function, size_of):
    def wrapper(*args):
        global copied
        copied += size_of(*args)
        return function(*args)
    return wrapper

_bytes.copy_out = counting(_bytes.copy_out, lambda data, start, stop: stop - start)
_bytes.copy_bytes = counting(_bytes.copy_bytes, lambda data, at, source, size: size)

data = sys.stdin.buffer.read()
for step in map(int, sys.argv[1:]):
    copied = 0
    sink = RecordingSink()
    decoder = new_decoder(sink)
    for at in range(0, len(data), step):
        push(decoder, sink, data[at : at + step])
    print(copied, len(sink.events))
"""


def copied(data: bytes, *steps: int) -> list[int]:
    """Bytes copied for ``data`` read in pieces of each size; the events must be the same."""
    environment = {**os.environ, "RPCPROTO_PURE": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", COUNT, *map(str, steps)],
        input=data,
        capture_output=True,
        env=environment,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr.decode()
    counts = [line.split() for line in done.stdout.decode().splitlines()]
    assert len({events for _, events in counts}) == 1
    return [int(count) for count, _ in counts]


SMALL = START + b"".join(frames.opening(call_id, b"x" * 40) for call_id in range(1, 2001, 2))
LARGE = START + frames.opening(1, bytes((1 << 20) - 100), size=(1 << 20) - 100)


@pytest.mark.parametrize(("data", "most"), [(SMALL, 80.0), (LARGE, 0.2)], ids=["small", "large"])
def test_row_4_a_dribble_of_single_bytes_is_read_in_linear_time(data: bytes, most: float) -> None:
    (count,) = copied(data, 1)
    assert count <= most * len(data)


def test_row_4_a_long_frame_dribbled_is_read_in_linear_time() -> None:
    # Each read may copy a bounded piece, not again all that came of the frame so far.
    data = START + frames.reply(2, bytes(20_000))
    slow, whole = copied(data, 1, len(data))
    assert whole <= 3 * len(data)
    assert slow <= 100 * len(data)


def test_row_4_a_long_head_dribbled_is_read_in_linear_time() -> None:
    head = frames.head(0, "m", size=0, buffers=[1] * 2000)
    data = START + frames.frame(1, 1, head + bytes(2000), flags=frames.WHOLE)
    slow, whole = copied(data, 1, len(data))
    assert whole <= 3 * len(data)
    assert slow <= 100 * len(data)


def test_a_large_message_is_not_copied_beyond_the_first_read_of_it() -> None:
    assert max(copied(LARGE, 1 << 30, 100_000, 1_000)) <= 2 * 65_536


def test_reads_are_as_few_as_the_buffers_allow() -> None:
    sink = RecordingSink()
    decoder = new_decoder(sink)
    push(decoder, sink, START)
    before = decoder.reads
    push(decoder, sink, b"".join(frames.opening(call_id, b"x" * 40) for call_id in range(1, 20_001, 2)))
    size = decoder.bytes_received - 64
    assert decoder.reads - before <= 2 + size // (256 * 1024) + 1
