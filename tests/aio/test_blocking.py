"""Blocking clients: connecting, calling, failing, closing."""

from __future__ import annotations

import asyncio
import threading
import traceback
import weakref

import numpy as np
import pytest

import rpcproto
from rpcproto.aio import loop_thread
from tests.aio._blocking import PATIENCE, Desk, served

pytestmark = pytest.mark.smoke


def loop_threads():
    return [thread for thread in threading.enumerate() if thread.name == "rpcproto loop"]


def test_what_a_peer_can_do(desk):
    with rpcproto.connect_blocking(desk.address) as client:
        assert client.request("Desk.echo", {"x": [1, None]}) == {"x": [1, None]}
        assert client.request("Desk.echo", b"raw", codec="raw") == b"raw"
        assert client.notify("Desk.note", "heard") is None
        assert desk.noted.wait(PATIENCE)
        assert desk.notes == ["heard"]
        assert 0 < client.ping() < PATIENCE
        assert client.stats()["calls_opened"] == 3
        assert client.address == desk.address
        assert client.state == {}
        assert not client.closed
        assert repr(client) == f"<BlockingClient {desk.address}>"
    assert client.closed
    assert repr(client) == f"<BlockingClient {desk.address} closed>"


@pytest.mark.parametrize("address", ["unix"], indirect=True)
def test_large_arrays_over_a_unix_socket(blocking_loop, address):
    with served(Desk(), address) as server, rpcproto.connect_blocking(server.address) as client:
        array = np.arange(500_000.0).reshape(1000, 500)
        assert np.array_equal(client.request("Desk.echo", array), array)


def test_errors_are_the_same_with_the_callers_line_in_their_traceback(desk):
    with rpcproto.connect_blocking(desk.address) as client:
        for method, argument, expected in (
            ("Desk.fail", "cake", rpcproto.RemoteError),
            ("Desk.nothing", 1, rpcproto.NoSuchMethod),
            ("Desk.echo", object(), rpcproto.SerializationError),
        ):
            with pytest.raises(expected) as caught:
                client.request(method, argument)
            frames = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
            assert frames[:2] == ["test_errors_are_the_same_with_the_callers_line_in_their_traceback", "request"]
        with pytest.raises(rpcproto.SerializationError, match=r"args\[0\]"):
            client.notify("Desk.note", object())
        with pytest.raises(TypeError, match="seconds"):
            client.request("Desk.echo", 1, seconds=1)
        with pytest.raises(rpcproto.ConfigurationError, match="timeout must be"):
            client.request("Desk.echo", 1, timeout=-1)
        assert client.request("Desk.echo", 1) == 1


def test_metadata(desk):
    service = {"metadata": lambda: rpcproto.current_call().metadata}
    with served(service) as server, rpcproto.connect_blocking(server.address) as client:
        assert client.request("metadata", metadata={"a": 1}) == {"a": 1}
        assert client.submit("metadata", metadata={"b": 2}).result(PATIENCE) == {"b": 2}


def test_calls_of_a_handler_in_a_thread_take_over_its_deadline_and_trace(desk):
    """Back to its peer, and on to somebody else by a client of its own."""

    def tell():
        call = rpcproto.current_call()
        return call.metadata, call.time_left is not None and call.time_left <= PATIENCE

    def ask():
        back = rpcproto.peer().blocking
        calls = [each.request("tell", timeout=None) for each in (back, other)]
        return [*calls, *(each.submit("tell", timeout=None).result(PATIENCE) for each in (back, other))]

    trace = {"traceparent": "00-1-2-03"}
    service = {"ask": rpcproto.request(thread=True)(ask)}
    with served({"tell": tell}) as elsewhere, rpcproto.connect_blocking(elsewhere.address) as other:
        with served(service) as server, rpcproto.connect_blocking(server.address, service={"tell": tell}) as client:
            assert client.request("ask", timeout=PATIENCE, metadata=trace) == [(trace, True)] * 4
        assert other.request("tell", timeout=None) == ({}, False)


def test_neither_results_nor_errors_are_kept_by_a_cycle(desk, no_gc):
    with rpcproto.connect_blocking(desk.address) as client:
        result = client.request("Desk.echo", np.arange(3000))
        references = [weakref.ref(result)]
        del result
        try:
            client.request("Desk.fail", "cake")
        except rpcproto.RemoteError as error:
            references.append(weakref.ref(error))
        assert [reference() for reference in references] == [None, None]


def test_timeouts_are_those_of_the_asynchronous_client(desk):
    timeouts = rpcproto.Timeouts(request=0.01)
    with rpcproto.connect_blocking(desk.address, timeouts=timeouts) as client:
        with pytest.raises(rpcproto.DeadlineExceeded):
            client.request("Desk.wait")
        with pytest.raises(rpcproto.DeadlineExceeded, match=r"Desk\.wait at tcp:"):
            client.request("Desk.wait", timeout=0.02)
        assert client.request("Desk.echo", 1, timeout=None) == 1
        with pytest.raises(rpcproto.DeadlineExceeded):
            client.ping(timeout=0)


def test_a_failed_connect_leaves_nothing(blocking_loop):
    with pytest.raises(rpcproto.ConnectFailed, match="refused"):
        rpcproto.connect_blocking("tcp://127.0.0.1:1")
    with pytest.raises(rpcproto.ConfigurationError, match="is not an address"):
        rpcproto.connect_blocking("nonsense")
    assert loop_thread._current is None
    assert loop_threads() == []


def test_inproc_needs_a_loop_in_common(blocking_loop):
    with served(Desk(), "inproc://elsewhere"):
        with pytest.raises(rpcproto.ConfigurationError, match="between loops use unix:// or tcp://"):
            rpcproto.connect_blocking("inproc://elsewhere")


def test_after_close(desk):
    client = rpcproto.connect_blocking(desk.address)
    peer = client._peer.blocking
    client.close()
    client.close(grace=0)
    for each in (client, peer):
        for call in (
            lambda each=each: each.request("Desk.echo", 1),
            lambda each=each: each.submit("Desk.echo", 1),
            lambda each=each: each.notify("Desk.note", 1),
            lambda each=each: each.stream("Desk.count", 1),
            each.ping,
        ):
            with pytest.raises(rpcproto.ConnectionClosed):
                call()
    assert loop_threads() == []


def test_after_close_while_another_client_keeps_the_loop(desk):
    with rpcproto.connect_blocking(desk.address) as other:
        with rpcproto.connect_blocking(desk.address) as client:
            assert len(loop_threads()) == 1
        with pytest.raises(rpcproto.ConnectionClosed):
            client.request("Desk.echo", 1)
        with pytest.raises(rpcproto.ConnectionClosed):
            client.submit("Desk.echo", 1).result(PATIENCE)
        assert other.request("Desk.echo", 1) == 1
    assert loop_threads() == []


def test_close_ends_calls_of_other_threads(desk):
    client = rpcproto.connect_blocking(desk.address)
    future = client.submit("Desk.wait")
    assert desk.arrived.wait(PATIENCE)
    client.close(grace=0)
    with pytest.raises(rpcproto.ConnectionClosed) as caught:
        future.result(PATIENCE)
    assert caught.value.maybe_executed


def test_an_error_within_the_block_closes_at_once(desk):
    with pytest.raises(ZeroDivisionError):
        with rpcproto.connect_blocking(desk.address) as client:
            waiting = client.submit("Desk.wait")
            assert desk.arrived.wait(PATIENCE)
            raise ZeroDivisionError
    assert isinstance(waiting.exception(PATIENCE), rpcproto.ConnectionClosed)


def test_the_server_ends(blocking_loop):
    desk = Desk()
    with served(desk) as server:
        client = rpcproto.connect_blocking(server.address)
        waiting = client.submit("Desk.wait")
        assert desk.arrived.wait(PATIENCE)
    client.wait_closed()
    assert isinstance(waiting.exception(PATIENCE), rpcproto.CallCancelled | rpcproto.ConnectionLost)
    with pytest.raises(rpcproto.ConnectionLost):
        client.request("Desk.echo", 1)
    client.close()


def test_an_unclosed_client_says_so(desk):
    client = rpcproto.connect_blocking(desk.address)
    peer = client._peer
    thread, kept = client._thread, client._client
    with pytest.warns(ResourceWarning, match=r"unclosed <BlockingClient tcp://.*>: use `with`, or close\(\) it"):
        del client
    assert peer.blocking.request("Desk.echo", 1) == 1
    thread.forget(kept)
    thread.portal.run(kept.close, 0)
    thread.leave()


# -- Where it may be called --------------------------------------------------------------------------------------------

WHERE = r"use rpcproto\.connect\(\)"


def test_fault_89_it_is_refused_in_a_thread_with_a_running_loop(desk):
    async def main(client, future):
        for call in (
            lambda: rpcproto.connect_blocking(desk.address),
            lambda: client.request("Desk.echo", 1),
            lambda: client.notify("Desk.note", 1),
            lambda: client.stream("Desk.count", 1),
            client.ping,
            client.close,
            client.wait_closed,
            future.result,
            future.exception,
        ):
            with pytest.raises(rpcproto.LocalProtocolError, match=WHERE):
                call()
        # What does not wait is allowed, and what waits in another thread.
        assert await asyncio.wrap_future(client.submit("Desk.echo", 1)) == 1
        assert await asyncio.to_thread(client.request, "Desk.echo", 2) == 2

    with rpcproto.connect_blocking(desk.address) as client:
        future = client.submit("Desk.wait")
        asyncio.run(main(client, future))
        future.cancel()
        assert not client.closed


def test_fault_89_a_plain_handler_cannot_block_its_own_loop(desk):
    """It would wait for an answer that only this loop can receive."""

    def handler():
        return client.request("Desk.echo", 1)

    def in_thread():
        return client.request("Desk.echo", 2) + rpcproto.peer().blocking.request("Desk.echo", 3)

    service = {"handler": handler, "in_thread": rpcproto.request(thread=True)(in_thread)}
    with rpcproto.connect_blocking(desk.address, service=service) as client:
        with pytest.raises(rpcproto.RemoteError, match=WHERE):
            client.request("Desk.call_back", "handler")
        assert client.request("Desk.call_back", "in_thread") == 5


def test_a_handler_in_a_thread_closes_its_own_connection(desk):
    closed = threading.Event()

    def leave():
        client.close(grace=0)
        closed.set()

    client = rpcproto.connect_blocking(desk.address, service={"leave": rpcproto.request(thread=True)(leave)})
    client.notify("Desk.note", 1)
    call = client.submit("Desk.call_back", "leave")
    assert isinstance(call.exception(PATIENCE), rpcproto.ConnectionClosed)
    assert closed.wait(PATIENCE)
