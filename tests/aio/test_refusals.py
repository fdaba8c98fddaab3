"""Calls that cannot be served, and what their callers are told."""

from __future__ import annotations

import asyncio

import pytest

import rpcproto
from rpcproto.testing import pair
from tests.aio._ends import Kit

pytestmark = pytest.mark.smoke


@pytest.mark.parametrize("mode", ["inline", "task", "thread"])
def test_tracebacks_are_told_only_if_the_server_is_set_so(run, address, mode):
    def inline():
        raise LookupError("find me")

    async def task():
        raise LookupError("find me")

    service = {"inline": inline, "task": task, "thread": rpcproto.request(thread=True)(lambda: inline())}

    async def main():
        async with pair(service, address) as (_, client):
            with pytest.raises(rpcproto.RemoteError) as caught:
                await client.request(mode)
            assert caught.value.traceback == ""
            assert (caught.value.type_name, caught.value.text) == ("LookupError", "find me")
            assert str(caught.value) == "LookupError: find me"
            assert caught.value.method == mode
        async with pair(service, address, server={"tracebacks": True}) as (_, client):
            with pytest.raises(rpcproto.RemoteError) as caught:
                await client.request(mode)
            assert 'raise LookupError("find me")' in caught.value.traceback
            assert __file__ in caught.value.traceback

    run(main())


@pytest.mark.parametrize("mode", ["inline", "task", "thread", "stream"])
def test_a_handler_can_say_that_it_is_not_permitted(run, mode):
    def inline():
        raise rpcproto.NotPermitted("for managers")

    async def task():
        inline()

    service = {
        "inline": inline,
        "task": task,
        "thread": rpcproto.request(thread=True)(lambda: inline()),
        "stream": rpcproto.stream(lambda: inline()),
    }

    async def main():
        async with pair(service, "inproc://not-permitted", server={"tracebacks": True}) as (server, client):
            with pytest.raises(rpcproto.NotPermitted) as caught:
                if mode == "stream":
                    await client.stream(mode).__anext__()
                else:
                    await client.request(mode)
            assert str(caught.value) == f"{mode} at inproc://not-permitted: for managers"
            assert caught.value.method == mode
            assert not isinstance(caught.value, rpcproto.Refused)
            assert server.peers[0].stats()["handlers_failed"] == 0

    run(main())


@pytest.mark.parametrize("mode", ["inline", "task", "thread"])
def test_wrong_arguments_are_refused_before_the_handler_starts(run, address, mode):
    def inline(a, b=1):
        raise TypeError("the handler's own")

    async def task(a, b=1):
        raise TypeError("the handler's own")

    service = {"inline": inline, "task": task, "thread": rpcproto.request(thread=True)(lambda a, b=1: inline(a, b))}

    async def main():
        async with pair(service, address) as (_, client):
            for args in ((), (1, 2, 3)):
                with pytest.raises(rpcproto.Refused, match=rf"takes 1 to 2 arguments, {len(args)} given"):
                    await client.request(mode, *args)
            with pytest.raises(rpcproto.RemoteError, match="TypeError: the handler's own"):
                await client.request(mode, 1)

    run(main())


def test_the_kind_of_a_call_must_fit(run, address):
    async def main():
        kit = Kit()
        async with pair(kit, address) as (server, client):
            with pytest.raises(rpcproto.NoSuchMethod, match=r"Kit\.note is another kind of call"):
                await client.request("Kit.note", 1)
            client.notify("Kit.echo", 1)
            await client.ping()
            assert kit.notes == []
            assert server.peers[0].stats()["calls_refused"] == 2

    run(main())


NAMES = [
    "__class__",
    "Kit.__init__",
    "Kit.until",
    "_x",
    "Kit",
    "Kit.",
    ".echo",
    "Kit.echo.x",
    "Kit.echo\0",
    "Kit.ech\u043e",
]


def test_row_64_only_registered_names_are_served(run, address):
    async def main():
        async with pair(Kit(), address) as (_, client):
            for name in [*NAMES, "é" * 127, "x" * 255]:
                with pytest.raises(rpcproto.NoSuchMethod) as caught:
                    await client.request(name, 1)
                assert caught.value.method == name
            for name in ["", "x" * 256, "é" * 128]:
                with pytest.raises(rpcproto.LocalProtocolError, match="1 to 255 bytes"):
                    client.request(name, 1)
                with pytest.raises(rpcproto.LocalProtocolError, match="1 to 255 bytes"):
                    client.notify(name, 1)
            assert await client.request("Kit.echo", 1) == 1

    run(main())


def test_row_64_a_name_that_is_no_text_is_an_error_of_the_library(run, address):
    async def main():
        async with pair(Kit(), address) as (_, client):
            for name in [None, "\ud800"]:
                with pytest.raises(rpcproto.LocalProtocolError):
                    client.request(name, 1)
            for name in [7, b"Kit.echo"]:
                with pytest.raises((rpcproto.LocalProtocolError, TypeError)):
                    client.request(name, 1)
            assert await client.request("Kit.echo", 1) == 1

    run(main())


def test_more_method_names_than_ids(run):
    """Names beyond the 4,095 that can be bound travel with each call."""
    service = {f"m{number}": (lambda number=number: number) for number in range(4_100)}

    async def main():
        async with pair(service) as (_, client):
            for _ in range(2):
                answers = await asyncio.gather(*(client.request(name) for name in service))
                assert answers == list(range(4_100))

    run(main())


def test_row_65_a_remote_error_never_becomes_a_local_class(run, address):
    class Claims(Exception):
        pass

    Claims.__module__, Claims.__qualname__ = "rpcproto.errors", "ConnectionLost"

    def claim():
        raise Claims("trust me")

    def interrupt():
        raise KeyboardInterrupt

    async def main():
        async with pair({"claim": claim, "interrupt": interrupt}, address) as (_, client):
            with pytest.raises(rpcproto.RemoteError) as caught:
                await client.request("claim")
            assert type(caught.value) is rpcproto.RemoteError
            assert caught.value.type_name == "rpcproto.errors.ConnectionLost"
            with pytest.raises(rpcproto.RemoteError, match="KeyboardInterrupt"):
                await client.request("interrupt")

    run(main())


def test_what_has_begun_is_not_refused_as_if_it_had_not(run, address):
    """A plain handler that returns an awaitable has run in part when there turns out to be no room for the rest."""
    ran = []
    finish = asyncio.Event()

    async def rest(number):
        await finish.wait()
        return number

    def begin(number):
        ran.append(number)
        return rest(number)

    async def main():
        limits = rpcproto.Limits(max_running=1)
        async with pair({"begin": begin}, address, server={"limits": limits}) as (server, client):
            first = client.request("begin", 1)
            with pytest.raises(rpcproto.CallCancelled, match=r"had begun: 1 calls .* max_running") as caught:
                await client.request("begin", 2)
            assert not isinstance(caught.value, rpcproto.Refused)
            assert ran == [1, 2]
            finish.set()
            assert await first == 1
            assert await client.request("begin", 3) == 3
            assert server.peers[0].stats()["calls_running"] == 0

    run(main())
