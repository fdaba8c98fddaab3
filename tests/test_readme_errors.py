"""The README's table of errors: complete, and what it says of each is so.

Each case provokes one error and tells whether its handler ran; the table must agree.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

import rpcproto
from rpcproto import errors
from rpcproto.testing import pair
from tests._tables import section, tables
from tests._tree import IN_TREE

pytestmark = pytest.mark.tree

HEADING = "### When a call fails"
ROWS = {row[0].split("`")[1]: row for row in tables(HEADING)[0]} if IN_TREE else {}
BASES = {"RpcError", "CallFailed", "ProtocolError"}
"""Not raised themselves; the text below the table has them."""
ONLY_A_CAUSE = {"RemoteProtocolError", "InternalError"}
"""They end the connection, so that calls fail with ConnectionLost."""


class Kit(rpcproto.Service):
    """Knows whether a handler has begun."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()

    @rpcproto.request
    def reply(self, size: int) -> bytes:
        self.begun.set()
        return bytes(size)

    @rpcproto.request
    def fail(self) -> None:
        self.begun.set()
        raise LookupError("no cake left")

    @rpcproto.request
    async def wait(self) -> None:
        self.begun.set()
        await asyncio.Event().wait()

    @rpcproto.request
    def forbid(self) -> None:
        self.begun.set()
        raise rpcproto.NotPermitted("not for you")

    @rpcproto.request
    async def give_up(self) -> None:
        self.begun.set()
        raise asyncio.CancelledError

    @rpcproto.notify
    def notified(self) -> None:
        self.begun.set()

    @rpcproto.channel
    async def talk(self, channel: rpcproto.Channel) -> None:
        async for _ in channel:
            self.begun.set()


Provoke = Callable[[Kit, rpcproto.Server, rpcproto.Client], Awaitable[object]]


async def begun(kit: Kit, call: rpcproto.Reply, then: Awaitable[object]) -> None:
    """Let a call's handler begin, then something happen, and wait for the call."""
    await kit.begun.wait()
    await then
    await call


async def overload(kit: Kit, server: rpcproto.Server, client: rpcproto.Client) -> None:
    one = client.request("Kit.wait")
    await kit.begun.wait()
    kit.begun.clear()
    try:
        await client.request("Kit.wait")
    finally:
        one.cancel()


async def leave(kit: Kit, server: rpcproto.Server, client: rpcproto.Client) -> None:
    one = client.request("Kit.wait")
    await kit.begun.wait()
    kit.begun.clear()
    closing = asyncio.ensure_future(server.close())
    try:
        while True:
            await client.request("Kit.reply", 1)
            kit.begun.clear()
    finally:
        one.cancel()
        await closing


async def send_after_end(kit: Kit, server: rpcproto.Server, client: rpcproto.Client) -> None:
    async with client.channel("Kit.talk") as channel:
        channel.end()
        await channel.send(1)


async def send_after_cancel(kit: Kit, server: rpcproto.Server, client: rpcproto.Client) -> None:
    channel = client.channel("Kit.talk")
    channel.cancel()
    await channel.send(1)


async def close_and_call(kit: Kit, server: rpcproto.Server, client: rpcproto.Client) -> None:
    await client.close()
    await client.request("Kit.reply", 1)


async def connect_to_nobody(kit: Kit, server: rpcproto.Server, client: rpcproto.Client) -> None:
    await server.close()
    await rpcproto.connect(server.address)


CASES: list[tuple[type[rpcproto.RpcError], str, Provoke]] = [
    (rpcproto.RemoteError, "yes", lambda k, s, c: c.request("Kit.fail")),
    (rpcproto.DeadlineExceeded, "perhaps", lambda k, s, c: c.request("Kit.wait", timeout=0.05)),
    (rpcproto.DeadlineExceeded, "no", lambda k, s, c: c.request("Kit.wait", timeout=0)),
    (rpcproto.ConnectionLost, "yes", lambda k, s, c: begun(k, c.request("Kit.wait"), s.close(grace=0))),
    (rpcproto.ConnectionClosed, "yes", lambda k, s, c: begun(k, c.request("Kit.wait"), c.close(grace=0))),
    (rpcproto.ConnectionClosed, "no", close_and_call),
    (rpcproto.ConnectFailed, "no", connect_to_nobody),
    (rpcproto.Refused, "no", lambda k, s, c: c.request("Kit.reply")),
    (rpcproto.NoSuchMethod, "no", lambda k, s, c: c.request("Kit.reply!", 1)),
    (rpcproto.NoSuchMethod, "no", lambda k, s, c: c.request("Kit.notified")),
    (rpcproto.NotPermitted, "yes", lambda k, s, c: c.request("Kit.forbid")),
    (rpcproto.Overloaded, "no", overload),
    (rpcproto.GoingAway, "no", leave),
    (rpcproto.CallCancelled, "yes", lambda k, s, c: c.request("Kit.give_up")),
    (rpcproto.CallCancelled, "no", send_after_cancel),
    (rpcproto.SerializationError, "no", lambda k, s, c: c.request("Kit.reply", object())),
    (rpcproto.MessageTooLarge, "no", lambda k, s, c: c.request("Kit.reply", bytes(200_000))),
    (rpcproto.MessageTooLarge, "yes", lambda k, s, c: c.request("Kit.reply", 200_000)),
    (rpcproto.ConfigurationError, "no", lambda k, s, c: c.request("Kit.reply", 1, codec="smoke signals")),
    (rpcproto.LocalProtocolError, "no", lambda k, s, c: rpcproto.connect(s.address).request("Kit.reply", 1)),
    (rpcproto.LocalProtocolError, "no", send_after_end),
]


@pytest.mark.parametrize(
    ("error", "ran", "provoke"), CASES, ids=[f"{error.__name__}-{ran}-{n}" for n, (error, ran, _) in enumerate(CASES)]
)
def test_an_error_comes_as_the_table_says(run, error: type[rpcproto.RpcError], ran: str, provoke: Provoke) -> None:
    limits = {"limits": rpcproto.Limits(max_message=100_000, max_running=1)}

    async def main() -> None:
        kit = Kit()
        async with pair(kit, "inproc://errors", server=limits, client=limits) as (server, client):
            with pytest.raises(error) as caught:
                await provoke(kit, server, client)
            assert type(caught.value) is error
            if ran != "perhaps":
                assert kit.begun.is_set() == (ran == "yes")
            says = ROWS[error.__name__][2]
            if says == "`.maybe_executed` says":
                assert caught.value.maybe_executed == (ran == "yes")
            else:
                assert says == "perhaps" or ran in says.replace(";", "").replace(",", "").split()

    run(main())


def test_each_error_of_a_call_is_in_the_table_and_has_a_case() -> None:
    assert set(ROWS) == set(errors.__all__) - BASES
    assert set(ROWS) == {error.__name__ for error, _, _ in CASES} | ONLY_A_CAUSE


def test_the_bases_are_in_the_text() -> None:
    text = section(HEADING)
    assert [name for name in BASES if f"`{name}`" not in text] == []


@pytest.mark.parametrize("name", ROWS)
def test_the_base_that_the_table_tells_is_one(name: str) -> None:
    for base in ROWS[name][0].split("`")[3::2]:
        assert issubclass(getattr(errors, name), getattr(errors, base))
