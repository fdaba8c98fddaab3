"""The asyncio protocol of one connection: what the loop calls, and what only a loop can do for a session.

``get_buffer`` and ``buffer_updated`` of a link *are* the decoder's methods, so reading costs no Python frame. The rest
happens rarely: beginning and end, time, pausing.

The end of a connection::

    close(grace)   GOAWAY, let running and pending calls end, GOAWAY with the last id, part
    on_end(error)  a breach: GOAWAY with the reason, part
    abort()        now

To part is to shut down writing, and to discard input until the other end has closed, but not for long: closing at once,
with input unread, would destroy what is still on its way to the other end (RFC 9112, 9.6).

Whichever it is, ``connection_lost`` comes last, and ends what is left.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from rpcproto import _clock, transports
from rpcproto._logs import log
from rpcproto.aio import _tuning as tuning
from rpcproto.aio.discard import Discard
from rpcproto.aio.peer import Peer
from rpcproto.aio.writer import Writer
from rpcproto.errors import ConnectionClosed, ConnectionLost
from rpcproto.wire.spec import ErrorCode, Role

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from rpcproto.aio.identity import Identity
    from rpcproto.aio.session import Session
    from rpcproto.connection.budget import ReassemblyBudget

_CLOSE_WAIT = 0.25
"""Seconds that the transport gets to close by itself before it is aborted, and cancelled handlers to end."""

_NEVER = float("inf")


class Link(asyncio.BufferedProtocol):
    """One connection.

    Args:
        session: its calls.
        role: ours.
        identity: of the peer.
        budget: the reassembly budget.
        on_open: called with the link when the peer has greeted, and proved what it had to.
        on_close: called with the link when it is over, and again when a handler has ended after that.
        executor: makes or returns the executor for handlers in threads.
    """

    def __init__(
        self,
        session: Session,
        role: int,
        identity: Identity,
        budget: ReassemblyBudget,
        on_open: Callable[[Link], None],
        on_close: Callable[[Link], None],
        executor: Callable[[], Executor],
    ) -> None:
        self.session = session
        self.role = role
        self.identity = identity
        self.executor = executor
        self.transport: asyncio.Transport | None = None
        self.closed = asyncio.Event()
        self.opened = False
        self.heard = 0.0
        self.since = 0.0
        self.bytes_heard = 0
        self.bytes_told = 0
        self.stalled: float | None = None
        self.next_check = _NEVER
        self._on_open = on_open
        self._on_close = on_close
        self._change = asyncio.Event()
        self._unwanted = False
        self._leaving = False
        self._linger: asyncio.TimerHandle | None = None
        self._interval = _NEVER
        self._beating = False
        self._reading_paused = False
        self._resuming = False
        session.link = self
        session.attach(role, budget)
        self.peer = session.peer = Peer(session, self)
        assert session.decoder is not None
        assert session.connection is not None
        self.connection = session.connection
        self.decoder = session.decoder
        self.get_buffer = session.decoder.get_buffer  # type: ignore[method-assign]
        self.buffer_updated = session.decoder.buffer_updated  # type: ignore[method-assign]

    # -- The loop calls ------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's are none by inheritance
        session = self.session
        self.transport = transport
        if self._unwanted:
            transport.abort()
            return
        if transports.is_encrypted(transport):
            # With (0, 0) the loops' TLS would pause with nothing to write, and never resume.
            transport.set_write_buffer_limits(tuning.HAND_OVER, 0)
        else:
            transport.set_write_buffer_limits(0, 0)
        self.connection.peer = transports.describe_peer(transport)
        session.writer = Writer(session.loop, transport, transports.direct_descriptor(transport), self.connection)
        transport.write(self.identity.meet(transport, self.connection, session.limits, session.timeouts))
        if refusal := self.identity.refusal():
            self.connection.abandon(ErrorCode.AUTHENTICATION, refusal)
            return
        self.heard = self.since = _clock.monotonic()
        self._check_at(self.heard + session.timeouts.greeting)

    def pause_writing(self) -> None:
        if self.session.writer is not None:
            self.session.writer.pause()

    def resume_writing(self) -> None:
        if self.session.writer is not None:
            self.session.writer.resume()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        session = self.session
        writer = session.writer
        session.runtime.ticker.forget(session)
        if self._linger is not None:
            self._linger.cancel()
        if self.decoder.incomplete():
            text = "the connection ended within a message"
        else:
            text = "the peer closed the connection"
        cause = exc or (writer.failed if writer is not None else None)
        if cause is not None:
            text = f"the connection broke: {cause}"
        error = ConnectionLost(text, peer=self.connection.peer)
        error.__cause__ = cause
        self.connection.lost(error)
        self._detach()
        self.transport = None
        self.closed.set()
        self._change.set()
        self._on_close(self)

    # -- The session calls ---------------------------------------------------------------------------------------------

    def on_open(self) -> None:
        """The peer's greeting has come, and its proof if it owed one."""
        self.opened = True
        self.identity.opened()
        greeting = self.connection.greeting
        assert greeting is not None
        timeouts = self.session.timeouts
        patiences = [timeouts.message]
        if timeouts.heartbeat is not None:
            patiences.append(timeouts.heartbeat)
        if greeting.silence_ms:
            patiences.append(greeting.silence_ms / 1000)
        self._interval = min(patiences) / 4
        self._beating = len(patiences) > 1
        self.heard = _clock.monotonic()
        self.next_check = _NEVER
        self._check_at(self.heard + self._interval)
        self._on_open(self)

    def on_call_done(self) -> None:
        """A handler that did not answer at once has ended."""
        self._change.set()
        if self.closed.is_set():
            self._on_close(self)

    def on_backlog(self) -> None:
        """The quantum is used up: let others run, then go on with what was read."""
        self._pause_reading()
        if not self._resuming and not self.connection.paused:
            self._resuming = True
            self.session.loop.call_soon(self._resume)

    def on_pause(self, paused: bool) -> None:
        """Stop reading while our replies are not taken, or go on."""
        if paused:
            self.stalled = _clock.monotonic()
            self.bytes_told = self.session.writer.bytes_sent if self.session.writer is not None else 0
            self._check_at(self.stalled + self.session.timeouts.stall)
            self._pause_reading()
        else:
            self.stalled = None
            if not self._resuming:
                self._resuming = True
                self.session.loop.call_soon(self._resume)

    def on_drain(self) -> None:
        """The peer is shutting down: nothing to do but to end when our calls have."""

    def on_end(self, error: BaseException) -> None:
        """End the connection after an error: the reason first, if there is one to tell."""
        self._change.set()
        transport = self.transport
        writer = self.session.writer
        if transport is None or writer is None:
            return
        if self.connection.outbox.control.size == 0:
            transport.abort()
            return
        if self.role == Role.ACCEPTOR and getattr(error, "code", 0) == ErrorCode.AUTHENTICATION:
            log.warning("turned away %s: %s", self.connection.peer, error)
        writer.flush()
        self._part(transport, self.session.timeouts.linger)

    def on_time(self, now: float) -> float:
        """Liveness and stalls. Returns when to look again, in monotonic seconds."""
        session = self.session
        connection = self.connection
        if now < self.next_check:
            return self.next_check
        lateness = now - self.next_check
        self.next_check = _NEVER
        if not self.opened:
            code, what = ErrorCode.GREETING, "no greeting"
            if connection.greeting is not None:
                code, what = ErrorCode.AUTHENTICATION, "no proof of the shared secret"
            connection.abandon(code, f"{what} within {session.timeouts.greeting:g} s (Timeouts.greeting)")
            return _NEVER
        if lateness > self._interval:
            self.heard += lateness  # the loop stood still: what the peer sent meanwhile is not read yet
        received = self.decoder.bytes_received
        if received != self.bytes_heard or connection.paused:
            self.bytes_heard = received
            self.heard = now
        silence = session.timeouts.heartbeat
        if silence is not None and now - self.heard > silence:
            connection.abandon(
                ErrorCode.HEARTBEAT,
                f"nothing was heard of {connection.peer} for {now - self.heard:.1f} s (Timeouts.heartbeat)",
            )
            return _NEVER
        again = now + self._interval
        sent = session.writer.bytes_sent if session.writer is not None else 0
        if self.stalled is not None:
            stall = session.timeouts.stall
            if sent != self.bytes_told:
                self.stalled = now
            elif now - self.stalled >= stall:
                connection.abandon(
                    ErrorCode.SLOW_CONSUMER,
                    f"{connection.queued()} bytes wait for {connection.peer}, which took none for {stall:g} s"
                    " (Timeouts.stall)",
                )
                return _NEVER
            again = min(again, self.stalled + stall)
        elif sent == self.bytes_told and self._beating:
            session.ping_quietly()
        self.bytes_told = sent
        connection.check_progress(now)
        self.next_check = again
        return again

    # -- Ending --------------------------------------------------------------------------------------------------------

    async def close(self, grace: float) -> None:
        """Shut down: tell the peer, let calls end for at most ``grace`` seconds, then end what is left.

        Can be called again, from several tasks; a shorter grace of a later call counts. Cancelled, it ends the
        connection at once.
        """
        try:
            if self.opened and self.connection.end is None:
                if not self._leaving:
                    self._leaving = True
                    self.connection.go_away(False)
                if grace > 0:
                    await self._calls_done(grace)
        finally:
            self.finish(min(grace, self.session.timeouts.linger))
        await self.wait_closed()

    def finish(self, patience: float = 0.0) -> None:
        """End now, but send what is queued if the socket takes it.

        Args:
            patience: seconds that the peer gets to read it.
        """
        transport = self.transport
        if transport is None:
            self._unwanted = True
            return
        if self.connection.end is None:
            self.connection.go_away(True)
            if self.session.writer is not None:
                self.session.writer.flush()
            self.connection.lost(ConnectionClosed("closed by this side", peer=self.connection.peer))
        self._part(transport, max(patience, _CLOSE_WAIT))

    def abort(self) -> None:
        """End now, losing what is queued."""
        self._unwanted = True
        if self.transport is not None:
            self.transport.abort()

    async def wait_closed(self) -> None:
        """Wait, after :meth:`finish`, until the transport is gone and the handlers have ended, but not for long."""
        await self.closed.wait()
        works = [running.work for running in self.connection.running.values()]
        tasks = [work for work in works if isinstance(work, asyncio.Task) and work is not asyncio.current_task()]
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSE_WAIT)

    async def _calls_done(self, grace: float) -> None:
        """Wait until no call is under way in either direction and all is sent, at most ``grace`` seconds."""
        connection = self.connection
        writer = self.session.writer
        assert writer is not None
        try:
            async with asyncio.timeout(grace):
                if connection.calls:
                    calls: list[Any] = list(connection.calls.values())  # replies, which are like futures
                    await asyncio.wait(calls)
                while connection.end is None and (connection.running or connection.flows or not writer.drained()):
                    self._change.clear()
                    if not (connection.running or connection.flows):
                        writer.on_drained = self._change.set
                    await self._change.wait()
        except TimeoutError:
            pass

    def _part(self, transport: asyncio.Transport, patience: float) -> None:
        """Send nothing more, and end the connection when the peer has, or after ``patience`` seconds."""
        loop = self.session.loop
        unsent = self.session.writer.unsent if self.session.writer is not None else 0
        self._detach()
        if self._linger is not None:
            at = min(self._linger.when(), loop.time() + patience)
            self._linger.cancel()
            self._linger = loop.call_at(at, transport.abort)
            return
        self._linger = loop.call_later(patience, transport.abort)
        if transport.is_closing():
            return
        transport.set_protocol(Discard(self, transport))
        if unsent:
            transport.close()
            return
        try:
            transports.end_writing(transport)
        except OSError:  # the peer is gone, and the loop about to find out
            transport.abort()
            return
        if self._reading_paused:
            transport.resume_reading()

    def _detach(self) -> None:
        """Let go of the socket. Of a notify that is on its way to it nobody knows whether it will arrive."""
        writer = self.session.writer
        end = self.connection.end
        if writer is not None:
            kind = ConnectionClosed if isinstance(end, ConnectionClosed) else ConnectionLost
            peer = self.connection.peer
            for handle in writer.detach():
                error = kind(f"{handle.method} at {peer}: {end}; it may have run", peer=peer, maybe_executed=True)
                error.__cause__ = end
                self.session.on_failure(handle, error)

    # -- Inside --------------------------------------------------------------------------------------------------------

    def _check_at(self, when: float) -> None:
        if when < self.next_check:
            self.next_check = when
            self.session.runtime.ticker.wake_at(self.session, when)

    def _pause_reading(self) -> None:
        if not self._reading_paused and self.transport is not None and not self.transport.is_closing():
            self._reading_paused = True
            self.transport.pause_reading()

    def _resume(self) -> None:
        self._resuming = False
        if self.transport is None or self.connection.paused:
            return
        self.decoder.resume()
        if self._resuming or self.connection.paused or self.transport is None or not self._reading_paused:
            return
        self._reading_paused = False
        if not self.transport.is_closing():
            self.transport.resume_reading()
