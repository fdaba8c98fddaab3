"""The README's tables of limits and time-outs: complete, with the defaults of the code and the errors that come."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import fields
from typing import Any

import pytest

import rpcproto
from rpcproto import errors
from rpcproto.aio.options import MAX_THREADS
from rpcproto.config import KIB
from rpcproto.testing import FaultProxy, pair, proxied_pair
from tests._tables import in_words, section, tables
from tests._tree import IN_TREE

pytestmark = pytest.mark.tree

HEADING = "## Limits"
OWNERS = {"Limits": rpcproto.Limits, "Timeouts": rpcproto.Timeouts}
TABLES = dict(zip(OWNERS, tables(HEADING), strict=True)) if IN_TREE else {}
ROWS = {row[0].strip("`"): row for rows in TABLES.values() for row in rows}


@pytest.mark.parametrize("owner", OWNERS)
def test_each_is_in_the_table_with_its_default(owner: str) -> None:
    defaults = OWNERS[owner]()
    expected = {field.name: in_words(owner, getattr(defaults, field.name)) for field in fields(defaults)}
    assert {row[0].strip("`"): row[1] for row in TABLES[owner]} == expected


@pytest.mark.parametrize("name", ROWS)
def test_a_row_names_errors_and_limits_that_there_are(name: str) -> None:
    known = set(errors.__all__) | set(ROWS) | {"timeout=", "async def", "thread=True"}
    assert set(re.findall(r"`([^`]+)`", " ".join(ROWS[name]))) <= known


def test_the_rest_of_the_text() -> None:
    text = section(HEADING)
    assert f"max_threads={MAX_THREADS}" in text
    assert "live peers send every 5 s" in text
    assert rpcproto.Timeouts().heartbeat == 5 * 4


# ---- the errors that limits cause ------------------------------------------------------------------------------------


class Kit(rpcproto.Service):
    @rpcproto.request
    def size(self, value: bytes | list[bytearray]) -> int:
        return len(value)

    @rpcproto.request
    async def wait(self, *held: bytes) -> None:
        await asyncio.Event().wait()

    @rpcproto.request
    def wait_later(self) -> Awaitable[None]:
        return self.wait()


async def twice(client: rpcproto.Client, method: str, *args: object) -> None:
    """Two calls at once, the second of which is one too many."""
    first = client.request(method, *args)
    try:
        await client.request(method, *args)
    finally:
        first.cancel()


async def many(client: rpcproto.Client) -> None:
    calls = []
    try:
        while True:
            calls.append(client.request("Kit.size", bytes(64 * KIB)))
    finally:
        for call in calls:
            call.cancel()


async def give_up(client: rpcproto.Client) -> None:
    while True:
        call = client.request("Kit.wait")
        await client.ping()
        call.cancel()


Provoke = Callable[[rpcproto.Client], Awaitable[object]]

LIMITS: list[tuple[str, dict[str, int], type[rpcproto.RpcError], Provoke]] = [
    ("max_message", {"max_message": 1000}, rpcproto.MessageTooLarge, lambda c: c.request("Kit.size", bytes(2000))),
    ("max_running", {"max_running": 1}, rpcproto.Overloaded, lambda c: twice(c, "Kit.wait")),
    ("max_running", {"max_running": 1}, rpcproto.CallCancelled, lambda c: twice(c, "Kit.wait_later")),
    (
        "max_running_bytes",
        {"max_running_bytes": 1000},
        rpcproto.Overloaded,
        lambda c: twice(c, "Kit.wait", bytes(800)),
    ),
    ("max_queued", {"max_queued": 64 * KIB}, rpcproto.Overloaded, many),
    ("cancel_burst", {"cancel_burst": 2, "cancel_rate": 0}, rpcproto.ConnectionLost, give_up),
]


@pytest.mark.parametrize(
    ("name", "limits", "error", "provoke"), LIMITS, ids=[f"{case[0]}-{case[2].__name__}" for case in LIMITS]
)
def test_the_error_of_a_limit(
    run, name: str, limits: dict[str, int], error: type[rpcproto.RpcError], provoke: Provoke
) -> None:
    options = {"limits": rpcproto.Limits(**limits)}

    async def main() -> None:
        async with pair(Kit(), server=options, client=options) as (_, client):
            with pytest.raises(error) as caught:
                await provoke(client)
        assert type(caught.value) is error
        assert f"`{error.__name__}`" in ROWS[name][2]
        if limits:  # metadata of more than the protocol allows is no matter of the limit
            assert name in str(caught.value)

    run(main())


def quick(**timeouts: float) -> dict[str, Any]:
    return {"timeouts": rpcproto.Timeouts(**timeouts)}


def test_the_error_of_request(run) -> None:
    async def main() -> None:
        async with pair(Kit(), client=quick(request=0.05)) as (_, client):
            with pytest.raises(rpcproto.DeadlineExceeded, match=r"0\.05 s \(Timeouts\.request"):
                await client.request("Kit.wait")
        assert "`DeadlineExceeded`" in ROWS["request"][2]

    run(main())


def test_the_error_of_greeting(run) -> None:
    async def main() -> None:
        async with rpcproto.serve(Kit(), "tcp://127.0.0.1:0") as server, FaultProxy(server.address) as proxy:
            proxy.down.stop()
            with pytest.raises(rpcproto.ConnectFailed, match=r"no greeting within 0\.05 s"):
                await rpcproto.connect(proxy.address, **quick(greeting=0.05))
        assert "`ConnectFailed`" in ROWS["greeting"][2]

    run(main())


def test_the_error_of_heartbeat(run) -> None:
    async def main() -> None:
        async with proxied_pair(Kit(), client=quick(heartbeat=0.2, linger=0.05)) as (_, client, proxy):
            proxy.up.stop()
            proxy.down.stop()
            with pytest.raises(rpcproto.ConnectionLost, match="nothing was heard"):
                await client.request("Kit.wait")
        assert "`ConnectionLost`" in ROWS["heartbeat"][2]

    run(main())
