"""Row 29: a peer that opens and gives up calls at wire speed (CVE-2023-44487, "rapid reset")."""

from __future__ import annotations

import asyncio

import pytest

import rpcproto
from rpcproto.aio.link import Link
from rpcproto.wire.spec import ErrorCode, FrameType
from tests.aio._ends import Kit
from tests.aio._hostile import flood, goaway
from tests.wire import frames

pytestmark = pytest.mark.smoke

PAIRS = 200_000
MAX_RUNNING = 64
MIN_ANSWERED = 10


LAG = 2_000
"""Calls between one and its cancel, so that both are not handled in one turn of the loop: the handler starts."""


def attack_of(pairs: int, lag: int) -> bytes:
    """Calls with their numbers as arguments, and their cancels ``lag`` calls later."""
    pieces = [frames.greeting(frames.INITIATOR)]
    for number in range(pairs + lag):
        if number < pairs:
            name = "work" if number == 0 else None
            body = b"\x91\xce" + number.to_bytes(4, "big")
            pieces.append(frames.opening(2 * number + 1, body, codec=2, method=1, name=name))
        if number >= lag:
            pieces.append(frames.cancel(2 * (number - lag) + 1))
    return b"".join(pieces)


class Work:
    """Handlers of each kind, which count how many there are."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.started: list[int] = []
        self.alive = 0
        self.most = 0
        self.gate = asyncio.Event()

    def __call__(self, number: int) -> object:
        if self.kind == "plain":
            self.begin(number)
            self.alive -= 1
            return None
        return self.task(number)

    def begin(self, number: int) -> None:
        self.started.append(number)
        self.alive += 1
        self.most = max(self.most, self.alive)

    async def run(self) -> None:
        try:
            while not self.gate.is_set():
                try:
                    await self.gate.wait()
                except asyncio.CancelledError:
                    if self.kind == "obedient":
                        raise
        finally:
            self.alive -= 1

    async def task(self, number: int) -> None:
        self.begin(number)
        await self.run()

    @property
    def handler(self) -> object:
        return self if self.kind in ("plain", "awaitable") else self.task


@pytest.fixture
def ends(monkeypatch):
    """Why connections were ended by this process."""
    errors = []
    end = Link.on_end

    def on_end(self, error):
        errors.append(error)
        end(self, error)

    monkeypatch.setattr(Link, "on_end", on_end)
    return errors


@pytest.mark.parametrize("kind", ["obedient", "stubborn", "awaitable", "plain"])
@pytest.mark.parametrize("lag", [0, LAG])
def test_row_29_open_and_cancel_at_wire_speed(run, kind, lag, ends):
    data = attack_of(PAIRS, lag)

    async def main():
        work = Work(kind)
        limits = rpcproto.Limits(max_running=MAX_RUNNING)
        async with rpcproto.serve([{"work": work.handler}, Kit()], "tcp://127.0.0.1:0", limits=limits) as server:
            async with rpcproto.connect(server.address) as client:
                attack = asyncio.create_task(asyncio.to_thread(flood, server.address, data))
                answered = 0
                while not attack.done():
                    assert await client.request("Kit.echo", answered) == answered
                    answered += 1
                found = await attack
                assert answered >= MIN_ANSWERED
                work.gate.set()
                while len(server.peers) > 1 or work.alive:
                    await asyncio.sleep(0)
                assert await client.request("Kit.echo", "still here") == "still here"
        assert [error.code for error in ends] == [ErrorCode.FLOOD]
        assert "cancel_burst" in str(ends[0])
        # A call is started once or refused, and those that run are never more than may.
        assert work.most <= MAX_RUNNING
        assert len(set(work.started)) == len(work.started) < PAIRS
        refused = [frame.call_id for frame in found if frame.kind == FrameType.ERROR]
        code = ErrorCode.CANCELLED if kind == "awaitable" else ErrorCode.OVERLOADED  # the former had begun to run
        assert {frame.aux for frame in found if frame.kind == FrameType.ERROR} <= {code}
        assert not {2 * number + 1 for number in work.started} & set(refused)
        if kind == "plain":
            assert len(work.started) >= limits.cancel_burst
        elif lag:
            assert len(work.started) >= MAX_RUNNING
            assert refused
        if lag and kind in ("stubborn", "awaitable"):
            assert len(work.started) == MAX_RUNNING, "a cancelled handler counts until it has ended"

    run(main())
    run.loop.run_until_complete(run.loop.shutdown_default_executor())


def test_row_29_the_reason_is_told(run):
    """By a GOAWAY, to a peer that sends no more than is discarded afterwards."""
    data = attack_of(3_000, 0)

    async def main():
        limits = rpcproto.Limits(cancel_burst=100, cancel_rate=1)
        async with rpcproto.serve({"work": Work("plain").handler}, "tcp://127.0.0.1:0", limits=limits) as server:
            code, text = goaway(await asyncio.to_thread(flood, server.address, data))
        assert code == ErrorCode.FLOOD
        assert "cancel_burst (100)" in text

    run(main())
    run.loop.run_until_complete(run.loop.shutdown_default_executor())
