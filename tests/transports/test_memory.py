from __future__ import annotations

import asyncio
import contextvars

import pytest

from rpcproto.transports.memory import TURN, MemoryTransport
from tests.transports.peers import BufferedPeer, PlainPeer


def joined(one, other):
    """Two protocols joined; returns their transports."""
    first, second = MemoryTransport.pair(asyncio.get_running_loop(), {"peername": "other"}, {"peername": "one"})
    first.start(one)
    second.start(other)
    return first, second


async def turns(count=3):
    for _ in range(count):
        await asyncio.sleep(0)


def ended(coroutine):
    """Run the test body, then close what it returned."""

    async def main():
        for transport in await coroutine:
            transport.abort()
        await turns()

    return main()


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


# Ends


def test_closing_with_output_waits_until_it_is_read(run):
    async def main():
        one, other = PlainPeer(), BufferedPeer()
        first, second = joined(one, other)
        second.pause_reading()
        first.write(b"last words")
        first.close()
        assert first.is_closing()
        await turns()
        assert not one.is_lost
        second.resume_reading()
        await turns(5)
        assert other.data == b"last words"
        assert (one.error, other.error) == (None, None)
        assert other.calls == ["made", "eof", "lost"]
        assert one.calls == ["made", "lost"]

    run(main())


def test_closing_while_the_other_end_aborts(run):
    async def main():
        one, other = PlainPeer(), PlainPeer()
        first, second = joined(one, other)
        second.pause_reading()
        first.write(b"unread")
        first.close()
        await turns()
        second.abort()
        await turns(5)
        assert isinstance(one.error, ConnectionResetError)
        assert one.is_lost
        assert other.calls == ["made", "lost"]

    run(main())


def test_an_abort_drops_what_was_not_read(run):
    async def main():
        one, other = PlainPeer(), PlainPeer()
        first, second = joined(one, other)
        first.write(b"unread")
        second.write(b"unread")
        first.abort()
        assert first.get_write_buffer_size() == second.get_write_buffer_size() == 0
        await turns(5)
        assert one.calls == other.calls == ["made", "lost"]
        assert one.error is None
        assert isinstance(other.error, ConnectionResetError)
        assert one.data == other.data == b""

    run(main())


def test_an_answer_arrives_although_the_pipe_is_broken(run):
    """The other end has answered and closed; that we write meanwhile must not lose the answer."""

    async def main():
        one, other = PlainPeer(keep_open=True), PlainPeer()
        first, second = joined(one, other)
        second.write(b"answer")
        second.close()
        first.pause_reading()
        await turns()
        first.resume_reading()
        await turns(1)
        first.write(b"one more question")
        await turns(5)
        assert one.data == b"answer"
        assert isinstance(one.error, BrokenPipeError)

    run(main())


def test_both_ends_may_close_at_once(run):
    async def main():
        one, other = PlainPeer(), PlainPeer()
        first, second = joined(one, other)
        first.close()
        second.close()
        await turns(5)
        assert one.calls == other.calls == ["made", "lost"]
        assert one.error is None
        assert other.error is None

    run(main())


def test_calls_after_the_end_do_nothing(run):
    async def main():
        one = PlainPeer()
        first, _ = joined(one, PlainPeer())
        first.abort()
        await turns(5)
        first.close()
        first.abort()
        first.write(b"x")
        first.write_eof()
        first.pause_reading()
        first.resume_reading()
        first.set_write_buffer_limits(0, 0)
        await turns(5)
        assert one.calls == ["made", "lost"]
        assert first.get_protocol() is None

    run(main())


def test_an_end_that_was_never_started_can_be_aborted(run):
    async def main():
        first, second = MemoryTransport.pair(asyncio.get_running_loop(), {}, {})
        one = PlainPeer()
        first.start(one)
        second.abort()
        await turns(5)
        assert isinstance(one.error, ConnectionResetError)

    run(main())


# Protocols that misbehave


class Wrong(Exception):
    pass


def failing(*arguments):
    raise Wrong


@pytest.mark.parametrize(
    ("kind", "method"),
    [
        (PlainPeer, "data_received"),
        (BufferedPeer, "get_buffer"),
        (BufferedPeer, "buffer_updated"),
        (PlainPeer, "eof_received"),
    ],
)
def test_an_error_in_a_callback_ends_the_connection(run, kind, method):
    async def main():
        one, other = PlainPeer(), kind()
        setattr(other, method, failing)
        first, _ = joined(one, other)
        first.write(b"x")
        first.write_eof()
        await turns(5)
        assert isinstance(other.error, Wrong)
        assert isinstance(one.error, ConnectionResetError)

    run(main())
    [error] = run.errors
    assert isinstance(error["exception"], Wrong)
    run.errors.clear()


def test_an_empty_buffer_is_an_error(run):
    async def main():
        other = BufferedPeer(size=0)
        first, _ = joined(PlainPeer(), other)
        first.write(b"x")
        await turns(5)
        assert isinstance(other.error, RuntimeError)

    run(main())
    assert "empty buffer" in str(run.errors.pop()["exception"])


@pytest.mark.parametrize("method", ["pause_writing", "resume_writing"])
def test_an_error_in_flow_control_is_reported(run, method):
    async def main():
        one, other = PlainPeer(), PlainPeer()
        setattr(one, method, failing)
        first, second = joined(one, other)
        first.set_write_buffer_limits(0, 0)
        first.write(b"x")
        await turns()
        assert other.data == b"x"
        return first, second

    run(ended(main()))
    assert run.errors.pop()["message"] == f"protocol.{method}() failed"


def test_an_error_in_connection_made_passes_and_ends_the_connection(run):
    async def main():
        one, other = PlainPeer(), PlainPeer()
        other.connection_made = failing
        with pytest.raises(Wrong):
            joined(one, other)
        await turns(5)
        assert isinstance(one.error, ConnectionResetError)
        assert isinstance(other.error, Wrong)

    run(main())


# The rest of the interface


def test_the_protocol_can_be_changed(run):
    async def main():
        one, plain, buffered = PlainPeer(), PlainPeer(), BufferedPeer(size=2)
        first, second = joined(one, plain)
        assert second.get_protocol() is plain
        first.write(b"plain")
        await turns()
        second.set_protocol(buffered)
        first.write(b"buffered")
        await turns()
        second.set_protocol(plain)
        first.write(b" again")
        await turns()
        assert (plain.data, buffered.data) == (b"plain again", b"buffered")
        return first, second

    run(ended(main()))


def test_a_part_half_taken_goes_on_with_another_protocol(run):
    class Handing(BufferedPeer):
        def buffer_updated(self, nbytes):
            super().buffer_updated(nbytes)
            self.transport.set_protocol(plain)

    plain = PlainPeer()

    async def main():
        buffered = Handing(size=4)
        first, second = joined(PlainPeer(), buffered)
        first.write(b"head and body")
        await turns()
        assert (buffered.data, plain.data) == (b"head", b" and body")
        assert first.get_write_buffer_size() == 0
        return first, second

    run(ended(main()))


def test_callbacks_run_in_the_context_of_the_start(run):
    name = contextvars.ContextVar("name", default="nobody")
    seen = []

    class Curious(BufferedPeer):
        def buffer_updated(self, nbytes):
            seen.append(name.get())

        def connection_lost(self, exc):
            seen.append(name.get())

    async def main():
        first, second = MemoryTransport.pair(asyncio.get_running_loop(), {}, {})
        first.start(PlainPeer())
        name.set("start")
        second.start(Curious())
        name.set("later")
        first.write(b"x")
        await turns()
        first.abort()
        await turns()

    run(main())
    assert seen == ["start", "start"]


def test_what_it_knows(run):
    async def main():
        first, second = joined(PlainPeer(), PlainPeer())
        assert first.get_extra_info("peername") == "other"
        assert second.get_extra_info("peername") == "one"
        assert first.get_extra_info("socket", "none") == "none"
        assert first.can_write_eof()
        assert "open" in repr(first)
        second.pause_reading()
        first.write(b"x")
        first.close()
        assert "closing" in repr(first)
        first.abort()
        assert "closed" in repr(first)
        await turns()

    run(main())
