"""Peers and asynchronous clients used in another thread, or on another loop, than their own: told, and harmless."""

from __future__ import annotations

import asyncio
import threading

import pytest

import rpcproto
from rpcproto.testing import pair
from tests.aio._blocking import PATIENCE
from tests.aio._ends import Kit
from tests.conftest import loop_factory


def calls_of(peer):
    return {
        "request": lambda: peer.request("Kit.echo", 1),
        "notify": lambda: peer.notify("Kit.note", 1),
        "ping": lambda: peer._session.ping(),
        "stream": lambda: peer.stream("Kit.echo", 1),
        "channel": lambda: peer.channel("Kit.echo", 1),
    }


def run_in_thread(function):
    """In a thread without a loop."""
    found = []

    def work():
        try:
            found.append(function())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(PATIENCE)
    return found[0]


def test_fault_88_row_75_a_call_from_another_thread_is_refused(run):
    async def main():
        kit = Kit()
        async with pair(kit, "tcp://127.0.0.1:0") as (_, client):
            for call in calls_of(client.peer).values():
                error = run_in_thread(call)
                assert isinstance(error, rpcproto.LocalProtocolError)
                assert "use `peer.blocking`" in str(error)
                assert "rpcproto.connect_blocking()" in str(error)
            assert client.stats()["calls_opened"] == 0
            assert await client.request("Kit.echo", 2) == 2
            assert kit.notes == []

    run(main())


def test_fault_88_in_a_handler_in_a_thread_the_error_names_what_to_use(run):
    async def main():
        @rpcproto.request(thread=True)
        def handler(blocking):
            peer = rpcproto.peer()
            return peer.blocking.request("Kit.echo", 1) if blocking else peer.request("Kit.echo", 1)

        async with pair({"handler": handler}, client={"service": Kit()}) as (_, client):
            with pytest.raises(rpcproto.RemoteError, match=r"rpcproto\.peer\(\)\.blocking"):
                await client.request("handler", False)
            assert await client.request("handler", True) == 1

    run(main())


def test_fault_88_a_call_from_a_thread_with_another_loop_is_refused(run):
    async def call(client):
        await client.request("Kit.echo", 1)

    async def main():
        async with pair(Kit(), "tcp://127.0.0.1:0") as (_, client):
            error = await asyncio.to_thread(lambda: run_in_thread(lambda: asyncio.run(call(client))))
            assert isinstance(error, rpcproto.LocalProtocolError)
        await asyncio.get_running_loop().shutdown_default_executor()

    run(main())


def test_a_loop_may_go_on_in_another_thread(blocking_loop):
    """Connected in one thread, used in the one that the loop then runs in."""
    loop = loop_factory()()

    async def begin():
        server = await rpcproto.serve(Kit(), "tcp://127.0.0.1:0")
        return server, await rpcproto.connect(server.address)

    async def use(server, client):
        assert await client.request("Kit.echo", 1) == 1
        await client.close()
        await server.close()
        return client.closed

    server, client = loop.run_until_complete(begin())
    assert run_in_thread(lambda: loop.run_until_complete(use(server, client))) is True
    loop.close()
