"""The connected pair of the test kit."""

from __future__ import annotations

import pytest

import rpcproto
from rpcproto.testing import pair, proxied_pair


class Kit(rpcproto.Service):
    @rpcproto.request
    def echo(self, value):
        return value

    @rpcproto.request
    async def back(self, value):
        return await rpcproto.peer().request("Kit.echo", value)


def test_a_pair_is_connected_and_closed(run):
    async def main():
        async with pair(Kit(), client={"service": Kit()}) as (server, client):
            assert await client.request("Kit.back", 1) == 1
            assert await server.peers[0].request("Kit.echo", 2) == 2
            assert server.address.startswith("inproc://")
        assert client.closed
        assert "closed" in repr(server)

    run(main())


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:0", "unix://{folder}/s", "inproc://pair-here"])
def test_a_pair_may_be_anywhere(run, tmp_path, address):
    async def main():
        async with pair(Kit(), address.format(folder=tmp_path), server={"tracebacks": True}) as (server, client):
            assert await client.request("Kit.echo", 1) == 1
            assert server.address.partition(":")[0] == address.partition(":")[0]

    run(main())


def test_two_pairs_do_not_meet(run):
    async def main():
        async with pair(Kit()) as (first, _), pair(Kit()) as (second, _):
            assert first.address != second.address

    run(main())


def test_a_proxied_pair_goes_through_the_proxy(run):
    async def main():
        async with proxied_pair(Kit(), client={"codec": "raw"}) as (server, client, proxy):
            assert await client.request("Kit.echo", b"x" * 100) == b"x" * 100
            assert client.address == proxy.address != server.address
            assert proxy.up.forwarded == client.stats()["bytes_sent"] + 64
            assert proxy.connections == 1

    run(main())


def test_an_error_in_the_block_comes_out(run):
    async def main():
        for make in (pair, proxied_pair):
            with pytest.raises(ZeroDivisionError):
                async with make(Kit()):
                    1 / 0  # noqa: B018

    run(main())
