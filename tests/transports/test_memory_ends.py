"""How a connection in memory ends, what protocols may do wrong, and the rest of the interface."""

from __future__ import annotations

import asyncio
import contextvars

import pytest

from rpcproto.transports.memory import MemoryTransport
from tests.transports.peers import BufferedPeer, PlainPeer, ended, joined, turns

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
