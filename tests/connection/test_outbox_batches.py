"""The outbound queue: when it has what was queued sent at once."""

from __future__ import annotations

import pytest

from rpcproto.connection.handler import CallHandler
from rpcproto.connection.outbox import Outbox
from rpcproto.wire.memory import ScratchStack
from tests.wire import frames

MIB = 1 << 20


def taken(box: Outbox) -> int:
    """How many frames go out next."""
    return len(frames.split(b"".join(box.take(MIB) or [])))


class Signals(CallHandler):
    """Notes what it is told of output."""

    def __init__(self) -> None:
        self.seen: list[bool] = []

    def on_output(self, at_once: bool) -> int:
        self.seen.append(at_once)
        return 0


@pytest.mark.parametrize("reading", [False, True])
def test_the_16th_completes_a_batch(reading: bool) -> None:
    handler = Signals()
    box = Outbox(ScratchStack(), handler)
    box.reading = reading
    for _ in range(40):
        box.ping(None)
        if handler.seen[-1:] == [True]:
            assert taken(box) == 16
            handler.seen.append(False)  # so that it is seen once
    assert taken(box) == 8
    if reading:
        assert handler.seen == [True, False] * 2
    else:
        assert handler.seen == ([False] * 15 + [True, False]) * 2 + [False] * 8


def test_a_batch_that_cannot_be_sent_is_told_with_everything_that_follows() -> None:
    handler = Signals()
    box = Outbox(ScratchStack(), handler)
    for _ in range(20):
        box.ping(None)
    assert handler.seen == [False] * 15 + [True] * 5


@pytest.mark.parametrize(
    ("pending", "size", "batch"),
    [(2, 4096, 8), (16, 1, 8), (17, 1, 8), (18, 1, 9), (40, 1, 20), (64, 1, 32), (1000, 1, 32), (2, 4097, 32)],
)
def test_batches_of_calls_have_half_of_what_is_under_way(pending: int, size: int, batch: int) -> None:
    handler = Signals()
    box = Outbox(ScratchStack(), handler)
    for _ in range(batch):
        assert True not in handler.seen
        box.signal_call(pending, size)
    assert handler.seen[-1] is True


def test_a_call_with_no_other_under_way_goes_at_once() -> None:
    handler = Signals()
    box = Outbox(ScratchStack(), handler)
    box.reading = True
    box.signal_call(1, 1)
    assert handler.seen == [True]
