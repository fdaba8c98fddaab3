"""Raw sockets against a live server: whatever they send, they are told why, and nobody else notices."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import rpcproto
from rpcproto._build import PURE
from rpcproto.wire.spec import ErrorCode, FrameType
from tests.connection.test_connection_breaches import BREACHES
from tests.wire import frames
from tests.wire.arena import CALL, GREETING, MIB, arena, goaway, rss
from tests.wire.frames import Frame

Run = Callable[..., Any]

# ---- greetings ----------------------------------------------------------------------------------------------------

STRANGERS = {
    "row 1: HTTP": (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", ErrorCode.GREETING),
    "row 1: TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500), ErrorCode.GREETING),
    "row 1: wrong magic": (b"\xabRPC\n\x1a\n" + bytes(57), ErrorCode.GREETING),
    "row 1: newlines converted": (frames.MAGIC.replace(b"\r\n", b"\n"), ErrorCode.GREETING),
    "row 1: a lot of noise": (bytes(range(256)) * 2000, ErrorCode.GREETING),
    "row 2: a frame first": (frames.ping(), ErrorCode.GREETING),
    "row 3: a later version": (frames.greeting(1, major=2), ErrorCode.VERSION),
    "row 3: an earlier version": (frames.greeting(1, major=0), ErrorCode.VERSION),
    "row 3: a capability it must know": (frames.greeting(1, must=4), ErrorCode.VERSION),
    "the same role": (frames.greeting(2), ErrorCode.GREETING),
    "a limit out of range": (frames.greeting(1, max_frame=1), ErrorCode.GREETING),
    "a mechanism that is not agreed": (frames.greeting(1, mechanism=1), ErrorCode.AUTHENTICATION),
}


@pytest.mark.parametrize("what", STRANGERS)
def test_row_1_2_and_3_strangers_are_told_and_closed(run: Run, what: str) -> None:
    data, code = STRANGERS[what]

    async def main() -> None:
        async with arena() as place:
            peer = await place.peer()
            peer.send(data)
            found, text = goaway(await peer.frames())
            assert found == code
            assert 0 < len(text) < 300

    run(main())


@pytest.mark.parametrize("sent", [b"", frames.MAGIC[:3], GREETING[:63], GREETING, GREETING + CALL[:10]])
def test_row_1_and_41_peers_that_just_leave(run: Run, sent: bytes) -> None:
    async def main() -> None:
        async with arena() as place:
            peer = await place.peer()
            peer.send(sent)
            peer.writer.write_eof()
            assert (await peer.frames())[-1:] in ([], [Frame(FrameType.GOAWAY, 0, 0x100, 0, bytes(8))])

    run(main())


def test_row_3_unknown_optional_capabilities_and_later_minor_versions_are_welcome(run: Run) -> None:
    async def main() -> None:
        async with arena() as place:
            peer = await place.peer()
            peer.send(frames.greeting(1, may=0xFFFF_FFFF, minor=77, reserved=b"\xff" * 8), CALL)
            await peer.reader.readexactly(64)
            assert (await peer.next_frame()).kind in (FrameType.REPLY, FrameType.ERROR)

    run(main())


def test_fault_85_a_greeting_that_does_not_come_in_time(run: Run) -> None:
    async def main() -> None:
        async with arena(timeouts=rpcproto.Timeouts(greeting=0.2)) as place:
            silent, slow = await place.peer(), await place.peer()
            slow.send(GREETING[:20])
            for peer in (silent, slow):
                assert goaway(await peer.frames())[0] == ErrorCode.GREETING

    run(main())


def test_fault_85_a_crowd_that_never_greets_is_bounded(run: Run) -> None:
    """The oldest of those that say nothing make room; who has greeted stays, and who greets gets in."""

    async def main() -> None:
        async with arena(limits=rpcproto.Limits(max_arriving=8)) as place:
            crowd = [await place.peer() for _ in range(8)]
            for newcomer in range(3 * 8):
                crowd.append(await place.peer())
                with suppress(ConnectionError):
                    await crowd[newcomer].rest()  # only ends because it was cut
                assert len(place.server._arriving) <= 8
            async with rpcproto.connect(place.server.address) as client:
                assert await client.request("echo", 1) == 1

    run(main())


# ---- frames -------------------------------------------------------------------------------------------------------


class Touch:
    """Pickled, a program that makes a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self.path,))


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 127, 128, 65_535])
def test_fault_77_nothing_is_unpickled_whatever_codec_is_named(run: Run, tmp_path: Path, codec: int) -> None:
    """In arguments, in metadata, and in what an error says."""
    trap = tmp_path / "trap"
    pickled = pickle.dumps(Touch(trap))
    pickle.loads(pickled)
    trap.unlink()  # so it works where somebody does unpickle it

    async def main() -> None:
        async with arena() as place:
            peer = await place.peer()
            peer.send(
                GREETING,
                frames.opening(1, pickled, name="echo", codec=codec),
                frames.opening(3, pickled, name="echo", codec=codec, metadata=pickled),
                frames.frame(FrameType.ERROR, 2, pickled, flags=4, aux=codec),
            )
            await peer.frames()

    run(main())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("what", BREACHES)
def test_row_2_to_13_breaches_are_told_although_more_is_sent(run: Run, what: str) -> None:
    data, code = BREACHES[what]

    async def main() -> None:
        async with arena() as place:
            peer = await place.peer()
            peer.send(GREETING, data, frames.ping() * 10_000)
            found, text = goaway(await peer.frames())
            assert found == code
            assert text

    run(main())


def test_row_4_a_dribble_of_single_bytes(run: Run) -> None:
    async def main() -> None:
        async with arena() as place:
            peer = await place.peer()
            data = GREETING + frames.opening(1, b"\x91\xa5alive", codec=2, name="echo")
            for at in range(len(data)):
                peer.send(data[at : at + 1])
                await asyncio.sleep(0)
            await peer.reader.readexactly(64)
            frame = await peer.next_frame()
            assert (frame.kind, frame.payload) == (FrameType.REPLY, b"\xa5alive")

    run(main())


@pytest.mark.parametrize("length", [0xFFFF_FFFF, 0x7FFF_FFFF, MIB + 1])
def test_row_5_and_fault_1_huge_lengths_allocate_nothing(run: Run, length: int) -> None:
    async def main() -> None:
        async with arena() as place:
            before = rss()
            peers = [await place.peer() for _ in range(100)]
            for peer in peers:
                peer.send(GREETING, frames.HEADER.pack(length, FrameType.REQUEST, 0x13, 1, 1))
            for peer in peers:
                assert goaway(await peer.frames())[0] == ErrorCode.FRAME_SIZE
            assert rss() - before < len(peers) * 128 * 1024

    run(main())


def test_row_6_what_may_be_skipped_is_skipped(run: Run) -> None:
    async def main() -> None:
        async with arena() as place:
            peer = await place.peer()
            peer.send(GREETING, frames.frame(99, 5, bytes(500_000), flags=0xE8), frames.ping(b"go on..."))
            await peer.reader.readexactly(64)
            assert await peer.next_frame() == Frame(FrameType.PING, 0, 1, 0, b"go on...")

    run(main())


# ---- memory -------------------------------------------------------------------------------------------------------


def test_row_53_and_fault_3_many_large_messages_announced_and_never_sent(run: Run) -> None:
    async def main() -> None:
        async with arena() as place:
            before = rss()
            peer = await place.peer()
            head = frames.head(0, "echo", size=16 * MIB)
            flags = frames.Flag.FIRST | frames.Flag.HEAD | frames.Flag.MORE
            peer.send(
                GREETING,
                *(frames.frame(FrameType.REQUEST, at, head, flags=flags, aux=1) for at in range(1, 1001, 2)),
                frames.ping(b"all read"),
            )
            await peer.reader.readexactly(64)
            while (await peer.next_frame()).kind != FrameType.PING:
                pass
            assert place.budget.reserved == 64 * MIB
            assert rss() - before < 16 * MIB + (place.budget.reserved if PURE else 0)  # which touches what it reserves
            await place.others_are_fine()
            await peer.close()
            await asyncio.sleep(0.05)
            assert place.budget.reserved == 0

    run(main())


def test_fault_3_messages_below_the_call_window_that_are_never_finished(run: Run) -> None:
    async def main() -> None:
        async with arena() as place:
            before = rss()
            peer = await place.peer()
            pieces = [frames.first(at, bytes(1024), MIB) for at in range(1, 201, 2)]
            peer.send(GREETING, *pieces)
            assert goaway(await peer.frames())[0] == ErrorCode.FLOW_CONTROL
            assert rss() - before < 16 * MIB

    run(main())


@pytest.mark.parametrize("silent", [5, 60])
def test_fault_3_a_message_that_stops_is_given_up(run: Run, silent: int) -> None:
    async def main() -> None:
        timeouts = rpcproto.Timeouts(message=0.3, heartbeat=0.4) if silent == 5 else rpcproto.Timeouts(heartbeat=0.3)
        async with arena(timeouts=timeouts) as place:
            peer = await place.peer()
            peer.send(GREETING, frames.first(1, bytes(5000), MIB))

            async def stay_alive() -> None:
                while True:
                    await asyncio.sleep(0.05)
                    peer.send(frames.ping())

            alive = asyncio.ensure_future(stay_alive()) if silent == 5 else None
            try:
                code, text = goaway(await peer.frames())
            finally:
                if alive is not None:
                    alive.cancel()
            if silent == 5:
                assert code == ErrorCode.PROTOCOL
                assert "5000 of 1048576 bytes" in text
            else:
                assert code == ErrorCode.HEARTBEAT

    run(main())


# ---- floods -------------------------------------------------------------------------------------------------------

FLOODS = {
    "empty fragments": ([frames.first(1, b"", MIB), frames.more(1, b"") * 100_000], ErrorCode.FLOOD),
    "tiny fragments": ([frames.first(1, b"", MIB), frames.more(1, b"x") * 100_000], ErrorCode.FLOOD),
    "credit of 1": ([frames.credit(1) * 100_000], ErrorCode.FLOOD),
    "cancels": (
        [frames.opening(1, b"\x91\x01", codec=2, name="echo"), frames.cancel(1) * 30_000],
        ErrorCode.FLOOD,
    ),
}


@pytest.mark.parametrize("what", FLOODS)
def test_fault_83_floods_are_ended_with_a_reason(run: Run, what: str) -> None:
    pieces, code = FLOODS[what]

    async def main() -> None:
        async with arena() as place:
            before = rss()
            peer = await place.peer()
            data = GREETING + b"".join(pieces)
            peer.send(data[: 800 * 1024])  # what is discarded after a breach is bounded
            assert goaway(await peer.frames())[0] == code
            assert rss() - before < 8 * MIB

    run(main())


def test_fault_83_and_row_55_pings_of_a_peer_that_does_not_read(run: Run) -> None:
    async def main() -> None:
        async with arena() as place:
            before = rss()
            peer = await place.peer()
            peer.reader._transport.pause_reading()  # type: ignore[attr-defined]
            peer.send(GREETING)
            total = 0
            try:
                while total < 64 * MIB:
                    peer.send(frames.ping() * 10_000)
                    total += 240_000
                    await asyncio.wait_for(peer.writer.drain(), 0.5)
                    await place.others_are_fine()
            except (TimeoutError, ConnectionError):
                pass
            assert total < 64 * MIB
            assert rss() - before < 16 * MIB
            peer.writer.transport.abort()
            await asyncio.sleep(0.05)

    run(main())


class Counter(rpcproto.Service):
    def __init__(self) -> None:
        self.count = 0

    @rpcproto.notify(name="count")
    def add(self, value: object) -> None:
        self.count += 1


def test_row_56_a_hundred_thousand_frames_in_one_go_hold_nobody_up(run: Run) -> None:
    counter = Counter()

    async def main() -> None:
        async with arena(counter) as place:
            peer = await place.peer()
            kind = FrameType.NOTIFY
            peer.send(GREETING, frames.opening(1, b"\x91\x01", kind=kind, codec=2, method=1, name="count"))
            peer.send(
                *(
                    frames.opening(at, b"\x91\x01", kind=kind, codec=2, method=1, name=None)
                    for at in range(3, 200_001, 2)
                )
            )
            await place.client.ping()
            assert counter.count < 100_000
            peer.send(frames.ping(b"all read"))
            await peer.reader.readexactly(64)
            while (await peer.next_frame()).payload != b"all read":
                pass
            assert counter.count == 100_000

    run(main())
