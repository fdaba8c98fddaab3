"""What ``submit`` returns behaves as a ``concurrent.futures.Future`` whose cancel gives the call up."""

from __future__ import annotations

import concurrent.futures
import threading

import pytest

import rpcproto
from tests.aio._blocking import PATIENCE


@pytest.fixture
def client(desk):
    with rpcproto.connect_blocking(desk.address) as client:
        yield client


def test_calls_overlap(client):
    futures = [client.submit("Desk.echo", n) for n in range(1000)]
    assert [future.result(PATIENCE) for future in futures] == list(range(1000))
    assert all(future.done() and not future.cancelled() and not future.running() for future in futures)
    assert {future.result() for future in concurrent.futures.as_completed(futures)} == set(range(1000))


def test_errors(client):
    remote = client.submit("Desk.fail", "cake")
    with pytest.raises(rpcproto.RemoteError, match="cake"):
        remote.result(PATIENCE)
    assert isinstance(remote.exception(), rpcproto.RemoteError)
    assert isinstance(client.submit("Desk.echo", object()).exception(PATIENCE), rpcproto.SerializationError)
    assert isinstance(client.submit("Desk.wait", timeout=0.01).exception(PATIENCE), rpcproto.DeadlineExceeded)
    assert isinstance(client.submit("Desk.echo", 1, wrong=1).exception(PATIENCE), TypeError)


def test_cancel_gives_the_call_up(client, desk):
    future = client.submit("Desk.wait")
    assert desk.arrived.wait(PATIENCE)
    assert future.cancel()
    assert future.cancel()
    assert future.cancelled()
    assert desk.cancelled.wait(PATIENCE)
    with pytest.raises(concurrent.futures.CancelledError):
        future.result()
    done, _ = concurrent.futures.wait([future], timeout=PATIENCE)
    assert done == {future}
    assert client.request("Desk.echo", 1) == 1


def test_cancel_wakes_those_who_wait(client, desk):
    future = client.submit("Desk.wait")
    waited = []
    started = threading.Event()

    def wait():
        started.set()
        waited.append(concurrent.futures.wait([future], timeout=PATIENCE).done)

    thread = threading.Thread(target=wait)
    thread.start()
    started.wait(PATIENCE)
    assert desk.arrived.wait(PATIENCE)
    future.cancel()
    thread.join(PATIENCE)
    assert waited == [{future}]


def test_cancel_after_the_end(client):
    future = client.submit("Desk.echo", 1)
    assert future.result(PATIENCE) == 1
    assert not future.cancel()
    assert future.result() == 1


def test_an_answer_that_crosses_a_cancel_is_dropped(client):
    """The future is cancelled by its thread while the loop is about to settle it."""
    hold, held = threading.Event(), threading.Event()
    future = client.submit("Desk.echo", 1)
    settle = future._settle
    client._portal.put(lambda: (held.set(), hold.wait(PATIENCE)))
    held.wait(PATIENCE)
    if not future.done():
        assert future.cancel()
    hold.set()
    client.ping()
    assert future.done()
    settle(_Settled())
    assert client.request("Desk.echo", 2) == 2


class _Settled:
    def cancelled(self):
        return False

    def exception(self):
        return None

    def result(self):
        return "too late"


def test_callbacks_run_on_the_loop_and_may_call_but_not_wait(client):
    found = []
    done = threading.Event()

    def callback(future):
        found.append(threading.current_thread().name)
        try:
            client.request("Desk.echo", 1)
        except rpcproto.LocalProtocolError:
            found.append("refused")
        client.submit("Desk.echo", 1).add_done_callback(lambda _: done.set())

    hold = threading.Event()
    client._portal.put(lambda: hold.wait(PATIENCE))
    client.submit("Desk.echo", 1).add_done_callback(callback)
    hold.set()
    assert done.wait(PATIENCE)
    assert found == ["rpcproto loop", "refused"]


def test_a_callback_that_exits_does_not_end_the_loop(client, caplog):
    def leave(future):
        raise SystemExit

    hold = threading.Event()
    client._portal.put(lambda: hold.wait(PATIENCE))
    future = client.submit("Desk.echo", 1)
    future.add_done_callback(leave)
    hold.set()
    assert future.result(PATIENCE) == 1
    assert client.request("Desk.echo", 2) == 2
    assert "a callback of the future of a call raised" in caplog.text
