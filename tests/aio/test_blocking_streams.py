"""Streams and channels of blocking clients."""

from __future__ import annotations

import gc
import itertools

import pytest

import rpcproto
from tests.aio._blocking import PATIENCE


@pytest.fixture
def client(desk):
    with rpcproto.connect_blocking(desk.address) as client:
        yield client


def test_a_stream(client):
    stream = client.stream("Desk.count", 10_000)
    assert stream.method == "Desk.count"
    assert list(stream) == list(range(10_000))
    assert list(stream) == []
    assert stream.over
    assert repr(stream) == "<BlockingStream Desk.count over>"


def test_a_stream_that_fails_gives_what_came_before(client):
    found = []
    with pytest.raises(rpcproto.RemoteError, match="no more"):
        for value in client.stream("Desk.count_and_fail", 3):
            found.append(value)  # noqa: PERF402  it raises at the end
    assert found == [0, 1, 2]


def test_a_stream_left_by_its_block_is_given_up(client, desk):
    with client.stream("Desk.count", 10**9) as stream:
        assert list(itertools.islice(stream, 3)) == [0, 1, 2]
    assert desk.cancelled.wait(PATIENCE)
    client.ping()
    assert client.stats()["flows_open"] == 0


def test_a_stream_that_nobody_refers_to_is_given_up(client, desk):
    for value in client.stream("Desk.count", 10**9):
        if value == 3:
            break
    gc.collect()
    assert desk.cancelled.wait(PATIENCE)
    assert client.request("Desk.echo", 1) == 1


def test_a_stream_that_cannot_be_opened(client):
    with pytest.raises(rpcproto.SerializationError):
        client.stream("Desk.count", object())
    with pytest.raises(rpcproto.NoSuchMethod):
        next(client.stream("Desk.nothing"))
    with pytest.raises(rpcproto.DeadlineExceeded):
        list(client.stream("Desk.count", 10**9, timeout=0.01))


def test_a_channel(client):
    with client.channel("Desk.double") as channel:
        for number in range(100):
            channel.send(number)
        channel.flush()
        assert channel.receive() == 0
        channel.end()
        assert list(channel) == list(range(2, 200, 2))
        with pytest.raises(EOFError, match="has sent its last value"):
            channel.receive()
        with pytest.raises(rpcproto.RpcError):
            channel.send(1)
    assert channel.over


def test_a_channel_left_by_its_block_is_given_up(client, desk):
    with client.channel("Desk.double") as channel:
        channel.send(1)
        assert channel.receive() == 2
    assert desk.cancelled.wait(PATIENCE)


def test_closing_the_client_ends_them(client):
    stream = client.stream("Desk.count", 10**9)
    channel = client.channel("Desk.double")
    assert next(stream) == 0
    client.close(grace=0)
    with pytest.raises(rpcproto.ConnectionClosed):
        list(stream)
    with pytest.raises(rpcproto.ConnectionClosed):
        channel.send(1)
    stream.close()
    channel.cancel()
