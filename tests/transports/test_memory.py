"""Delivery and flow control between the two ends."""

from __future__ import annotations

import pytest

from rpcproto.transports.memory import TURN
from tests.transports.peers import BufferedPeer, PlainPeer, ended, joined, turns


def test_nothing_is_delivered_inside_write(run):
    async def main():
        one, other = PlainPeer(), PlainPeer()
        first, second = joined(one, other)
        first.write(b"a")
        first.writelines([b"b", b"c"])
        first.write_eof()
        assert (other.data, other.eof) == (b"", False)
        await turns(1)
        assert (other.data, other.eof) == (b"abc", True)
        return first, second

    run(ended(main()))


def test_one_call_soon_serves_many_writes(run, monkeypatch):
    async def main():
        first, second = joined(PlainPeer(), BufferedPeer())
        await turns()
        calls = []
        call_soon = run.loop.call_soon
        monkeypatch.setattr(run.loop, "call_soon", lambda *args, **kw: calls.append(args) or call_soon(*args, **kw))
        for _ in range(100):
            first.write(b"x" * 10)
        assert len(calls) == 1
        monkeypatch.undo()
        return first, second

    run(ended(main()))


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_a_buffer_is_filled_across_parts_and_parts_across_buffers(run, size):
    async def main():
        other = BufferedPeer(size=size)
        sizes = []
        updated = other.buffer_updated
        other.buffer_updated = lambda nbytes: sizes.append(nbytes) or updated(nbytes)
        first, second = joined(PlainPeer(), other)
        parts = [bytes([number]) * number for number in range(1, 40)]
        first.writelines(parts)
        await turns()
        assert other.data == b"".join(parts)
        assert sizes == [size] * (780 // size) + [780 % size] * (780 % size > 0)
        return first, second

    run(ended(main()))


@pytest.mark.parametrize("kind", [PlainPeer, BufferedPeer])
def test_a_turn_is_bounded(run, kind):
    async def main():
        other = kind() if kind is PlainPeer else kind(size=10 * TURN)
        first, second = joined(PlainPeer(), other)
        for _ in range(TURN // 1024 * 3):
            first.write(b"x" * 1024)
        await turns(1)
        assert len(other.data) == TURN
        await turns(1)
        assert len(other.data) == 2 * TURN
        await turns(1)
        assert len(other.data) == 3 * TURN
        return first, second

    run(ended(main()))


def test_bytes_arrive_without_a_copy(run):
    class Keeping(PlainPeer):
        def data_received(self, data):
            self.kept = data

    async def main():
        other = Keeping()
        first, second = joined(PlainPeer(), other)
        data = b"x" * 100
        first.write(data)
        await turns()
        assert other.kept is data
        first.write(memoryview(data)[1:])
        await turns()
        assert other.kept == data[1:]
        assert type(other.kept) is bytes
        return first, second

    run(ended(main()))


@pytest.mark.parametrize("kind", [PlainPeer, BufferedPeer])
def test_buffers_are_held_until_they_are_delivered(run, kind):
    async def main():
        other = kind()
        first, second = joined(PlainPeer(), other)
        second.pause_reading()
        data = bytearray(b"x" * 100)
        first.write(data)
        await turns()
        with pytest.raises(BufferError):
            data.clear()
        second.resume_reading()
        await turns()
        data.clear()
        assert other.data == b"x" * 100
        return first, second

    run(ended(main()))


def test_other_buffers_are_sent_as_bytes(run):
    async def main():
        other = PlainPeer()
        first, second = joined(PlainPeer(), other)
        numbers = memoryview(bytes(range(16))).cast("I")
        first.write(numbers)
        first.write(memoryview(bytes(4)).cast("B", (2, 2)))
        first.write(memoryview(b""))
        await turns()
        assert other.data == bytes(range(16)) + bytes(4)
        return first, second

    run(ended(main()))


@pytest.mark.parametrize("data", ["text", None, 5, [b"x"]])
def test_only_bytes_can_be_written(run, data):
    async def main():
        first, second = joined(PlainPeer(), PlainPeer())
        with pytest.raises(TypeError, match="data must be bytes, a bytearray or a memoryview"):
            first.write(data)
        return first, second

    run(ended(main()))


def test_nothing_can_be_written_after_eof(run):
    async def main():
        first, second = joined(PlainPeer(), PlainPeer(keep_open=True))
        first.write_eof()
        first.write_eof()
        with pytest.raises(RuntimeError, match="after write_eof"):
            first.write(b"x")
        return first, second

    run(ended(main()))


# Flow control


def test_limits_of_zero_pause_at_once_and_resume_when_all_is_taken(run):
    async def main():
        one, other = PlainPeer(), BufferedPeer()
        first, second = joined(one, other)
        first.set_write_buffer_limits(0, 0)
        assert first.get_write_buffer_limits() == (0, 0)
        second.pause_reading()
        first.write(b"x" * 5000)
        assert one.writing_paused
        assert first.get_write_buffer_size() == 5000
        await turns()
        assert one.writing_paused
        second.resume_reading()
        await turns()
        assert not one.writing_paused
        assert first.get_write_buffer_size() == 0
        assert one.calls == ["made", "pause", "resume"]
        return first, second

    run(ended(main()))


def test_limits_are_high_and_low_water(run):
    async def main():
        one, other = PlainPeer(), BufferedPeer(size=10)
        first, second = joined(one, other)
        first.set_write_buffer_limits(high=100, low=20)
        second.pause_reading()
        first.write(b"x" * 100)
        assert not one.writing_paused
        first.write(b"x")
        assert one.writing_paused
        left = []
        resume = one.resume_writing
        one.resume_writing = lambda: left.append(first.get_write_buffer_size()) or resume()

        def pause_after(nbytes):
            other.take(b"x" * nbytes)
            if len(other.data) in (80, 90):
                second.pause_reading()

        other.buffer_updated = pause_after
        second.resume_reading()
        await turns()
        assert (first.get_write_buffer_size(), left) == (21, [])
        second.resume_reading()
        await turns()
        assert (first.get_write_buffer_size(), left) == (11, [11])
        return first, second

    run(ended(main()))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [((), (16384, 65536)), ((100,), (25, 100)), ((None, 100), (100, 400)), ((0,), (0, 0)), ((7, 7), (7, 7))],
)
def test_default_limits(run, arguments, expected):
    async def main():
        first, second = joined(PlainPeer(), PlainPeer())
        first.set_write_buffer_limits(*arguments)
        assert first.get_write_buffer_limits() == expected
        return first, second

    run(ended(main()))


@pytest.mark.parametrize("arguments", [(1, 2), (-1,), (None, -1)])
def test_wrong_limits(run, arguments):
    async def main():
        first, second = joined(PlainPeer(), PlainPeer())
        with pytest.raises(ValueError, match="must be at least"):
            first.set_write_buffer_limits(*arguments)
        return first, second

    run(ended(main()))


def test_a_lower_limit_pauses_at_once(run):
    async def main():
        one = PlainPeer()
        first, second = joined(one, PlainPeer())
        second.pause_reading()
        first.write(b"x")
        assert not one.writing_paused
        first.set_write_buffer_limits(0, 0)
        assert one.writing_paused
        return first, second

    run(ended(main()))


def test_pausing_in_the_middle_keeps_the_rest(run):
    class Stopping(BufferedPeer):
        def buffer_updated(self, nbytes):
            super().buffer_updated(nbytes)
            self.transport.pause_reading()

    async def main():
        other = Stopping(size=3)
        first, second = joined(PlainPeer(), other)
        first.write(b"0123456789")
        first.write_eof()
        await turns()
        assert other.data == b"012"
        assert not second.is_reading()
        for expected in (b"012345", b"012345678", b"0123456789"):
            second.resume_reading()
            assert second.is_reading()
            await turns()
            assert other.data == expected
        assert not other.eof
        second.resume_reading()
        await turns()
        assert other.eof
        return first, second

    run(ended(main()))
