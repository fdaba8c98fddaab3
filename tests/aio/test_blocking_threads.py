"""Blocking clients used by many threads, handlers that call back and wait, interrupts."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading

import pytest

import rpcproto
from rpcproto.aio import portal as portal_module
from rpcproto.aio import threads
from tests.aio._blocking import PATIENCE, Desk, served, together

THREADS = 32
CALLS = 50


def test_fault_89_row_75_many_threads_on_one_connection(desk):
    """Every thread gets its own answers; none waits for a wake-up that was lost."""

    def work(number):
        for each in range(CALLS):
            nonce = number * CALLS + each
            assert client.request("Desk.echo", nonce) == nonce

    with rpcproto.connect_blocking(desk.address) as client:
        assert together(THREADS, work) == []
        assert client.stats()["calls_opened"] == THREADS * CALLS
        assert client.stats()["calls_pending"] == 0


def test_many_threads_connect_and_close(desk):
    def work(number):
        with rpcproto.connect_blocking(desk.address) as client:
            assert client.request("Desk.echo", number) == number

    assert together(8, work) == []


def descend(other):
    """A handler that calls the other end, which calls back, and so on."""

    @rpcproto.request(thread=True)
    def down(depth, timeout=PATIENCE):
        if depth == 0:
            return [threading.current_thread().name.split("_")[0]]
        return [depth, *rpcproto.peer().blocking.request(other, depth - 1, timeout=timeout)]

    return down


def test_fault_89_nested_calls_to_depth_10(blocking_loop):
    with served({"A.down": descend("B.down")}) as server:
        with rpcproto.connect_blocking(server.address, service={"B.down": descend("A.down")}) as client:
            expected = [*range(10, 0, -1), "rpcproto handler"]
            assert client.request("A.down", 10) == expected
            assert [future.result(PATIENCE) for future in [client.submit("A.down", 10) for _ in range(5)]] == (
                [expected] * 5
            )


def test_nested_calls_without_threads_left_are_told_of(blocking_loop):
    """One thread on side A, which waits for B, which waits for a thread of A."""
    told = threading.Event()
    lines = []

    class Listener(logging.Handler):
        def emit(self, record):
            lines.append(record.getMessage())
            told.set()

    leaf = rpcproto.request(thread=True)(lambda: "done")
    listener = Listener()
    logging.getLogger("rpcproto").addHandler(listener)
    try:
        with served({"A.down": descend("B.down"), "A.leaf": leaf}, max_threads=1) as server:
            with rpcproto.connect_blocking(server.address, service={"B.down": descend("A.leaf")}) as client:
                future = client.submit("A.down", 2)
                assert told.wait(PATIENCE)
                client.close(grace=0)
        assert isinstance(future.exception(PATIENCE), rpcproto.ConnectionClosed)
    finally:
        logging.getLogger("rpcproto").removeHandler(listener)
    (line,) = lines
    assert line.startswith("all 1 threads for handlers waited for calls of their own")
    assert "max_threads=" in line


def test_a_deadline_in_a_thread_without_which_none_is_left_has_a_note(desk, monkeypatch):
    load = threads.Load(1)
    load.add(1)
    load.add(1)
    monkeypatch.setattr(threads._local, "load", load, raising=False)
    with rpcproto.connect_blocking(desk.address) as client:
        with pytest.raises(rpcproto.DeadlineExceeded) as caught:
            client.request("Desk.wait", timeout=0.01)
        assert caught.value.__notes__ == [load.describe()]
        load.work_done(None)
        with pytest.raises(rpcproto.DeadlineExceeded) as caught:
            client.request("Desk.wait", timeout=0.01)
        assert not hasattr(caught.value, "__notes__")


# -- Interrupts and loops that are gone -------------------------------------------------------------------------------


def test_an_interrupt_gives_the_call_up(desk):
    """Ctrl-C while a thread waits: the handler is cancelled, and the connection lives on."""

    def interrupt(number, frame):
        raise KeyboardInterrupt

    desk.on_arrival = lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with rpcproto.connect_blocking(desk.address) as client:
            with pytest.raises(KeyboardInterrupt):
                client.request("Desk.wait")
            assert desk.cancelled.wait(PATIENCE)
            assert client.request("Desk.echo", 1) == 1
            assert client.stats()["calls_pending"] == 0
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_lost_wake_up_is_made_good(desk, monkeypatch):
    """An exception out of a signal handler can come between asking for a wake-up and making it."""
    monkeypatch.setattr(portal_module, "_LOOK", 0.01)
    with rpcproto.connect_blocking(desk.address) as client:
        client._portal._woken = True
        assert client.request("Desk.echo", 1) == 1


def test_a_call_that_is_given_up_before_it_began_is_not_made(desk):
    """Jobs run in order, so what was given up before its turn is never sent."""
    hold = threading.Event()
    with rpcproto.connect_blocking(desk.address) as client:
        client._portal.put(lambda: hold.wait(PATIENCE))
        future = client.submit("Desk.note", 1)
        assert future.cancel()
        hold.set()
        client.ping()
        assert client.stats()["calls_opened"] == 0


def test_a_closed_loop_does_not_keep_threads_waiting(blocking_loop, monkeypatch):
    """A peer of a loop that ended, such as the one a handler has kept."""
    monkeypatch.setattr(portal_module, "_LOOK", 0.01)
    kept = []
    with served({"keep": lambda: kept.append(rpcproto.peer())}) as server:
        with rpcproto.connect_blocking(server.address) as client:
            client.request("keep")
    with pytest.raises(rpcproto.ConnectionLost, match="the event loop of the connection is closed"):
        kept[0].blocking.request("any")
    kept[0].blocking._portal._woken = True  # as if it had been closed just now, with a wake-up under way
    with pytest.raises(rpcproto.ConnectionLost, match="the event loop of the connection is closed"):
        kept[0].blocking.request("any")
    assert kept[0].blocking.closed


def test_a_peer_of_a_loop_that_is_not_in_a_thread_of_its_own(run):
    """``peer.blocking`` works for any client and server, from threads other than the loop's."""
    desk = Desk()

    async def main():
        async with rpcproto.serve(desk, "tcp://127.0.0.1:0") as server:
            async with rpcproto.connect(server.address) as client:
                blocking = client.peer.blocking
                assert await asyncio.to_thread(blocking.request, "Desk.echo", 1) == 1
                assert await asyncio.to_thread(blocking.notify, "Desk.note", 1) is None
                assert await asyncio.to_thread(blocking.ping) > 0
                with pytest.raises(rpcproto.LocalProtocolError, match="would hold up the event loop"):
                    blocking.request("Desk.echo", 1)
                await asyncio.to_thread(blocking.close, 0)
                assert client.closed
            await asyncio.get_running_loop().shutdown_default_executor()

    run(main())
