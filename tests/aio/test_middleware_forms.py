"""Middleware at either end, around calls of each kind and handlers of each form: the same shape sees them all."""

from __future__ import annotations

import asyncio

import pytest

import rpcproto
from rpcproto.testing import pair
from tests.aio._ends import poll
from tests.aio._middleware import FORMS, Bench, Notes, use

each_form = pytest.mark.parametrize(("kind", "method", "args", "result"), FORMS, ids=[form[1] for form in FORMS])
each_side = pytest.mark.parametrize("side", ["client", "server"])


def ends(side, *middleware):
    """Keyword arguments of ``pair`` for middleware at one side."""
    return {side: {"middleware": list(middleware)}}


@each_side
@each_form
def test_it_sees_the_call_its_items_and_its_result(run, side, kind, method, args, result):
    notes = Notes()

    async def main():
        bench = Bench()
        async with pair(bench, **ends(side, notes)) as (_, client):
            assert await use(client, kind, f"Bench.{method}", *args) == result
            await poll(lambda: notes.log and notes.log[-1][0] == "end")
            assert bench.noted == (["x"] if kind == "notify" else [])

    run(main())
    items = {"stream": [0, 1], "channel": [1, 2, 3, 6]}.get(kind, [])
    assert notes.log[0] == ("begin", kind, args)
    assert sorted(note[1] for note in notes.log[1:-1]) == items
    assert notes.log[-1] == ("end", result if kind == "request" else None)


@each_form
def test_both_ends_and_several_nest(run, address, kind, method, args, result):
    log = []

    async def main():
        names = {"client": ["c1", "c2"], "server": ["s1", "s2"]}
        options = {side: {"middleware": [Notes(log, name) for name in names[side]]} for side in names}
        async with pair(Bench(), address, **options) as (_, client):
            assert await use(client, kind, f"Bench.{method}", *args) == result
            await poll(lambda: sum(note[1] == "end" for note in log) == 4)

    run(main())
    assert [note[0] for note in log if note[1] == "begin"] == ["c1", "c2", "s1", "s2"]
    for side in "cs":
        assert [note[0] for note in log if note[1] == "end" and note[0][0] == side] == [f"{side}2", f"{side}1"]
    if kind == "channel":  # items pass in the order of the nesting, in both directions
        assert [note[0] for note in log if note[1:] == ("sent", 1)] == ["c1", "c2"]
        assert [note[0] for note in log if note[1:] == ("received", 1)] == ["s1", "s2"]
    if kind in ("stream", "channel"):
        last = result[-1]
        assert [note[0] for note in log if note[1:] == ("sent", last)] == ["s2", "s1"]
        assert [note[0] for note in log if note[1:] == ("received", last)] == ["c2", "c1"]


@each_side
@each_form
def test_arguments_can_be_replaced(run, side, kind, method, args, result):
    async def replace(call, proceed):
        call.args = [4 if type(value) is int else "y" for value in call.args]
        return await proceed(call)

    async def main():
        bench = Bench()
        async with pair(bench, **ends(side, replace)) as (_, client):
            got = await use(client, kind, f"Bench.{method}", *args)
            if kind == "notify":
                await poll(lambda: bench.noted == ["y"])
            else:
                assert got == {"request": "y", "stream": [0, 1, 2, 3], "channel": [4, 8]}[kind]

    run(main())


@each_side
@each_form
def test_items_can_be_replaced(run, side, kind, method, args, result):
    """At the client those of a channel are changed on both ways."""

    async def replace(call, proceed):
        call.on_sent(lambda item: item + 10)
        call.on_received(lambda item: item + 100)
        return await proceed(call)

    async def main():
        async with pair(Bench(), **ends(side, replace)) as (_, client):
            got = await use(client, kind, f"Bench.{method}", *args)
            if kind == "stream":
                assert got == ([100, 101] if side == "client" else [10, 11])
            elif kind == "channel":
                first, second = (3 * 11 + 100, 3 * 12 + 100) if side == "client" else (3 * 101 + 10, 3 * 102 + 10)
                assert got == [first, second]
            else:
                assert got == result

    run(main())


@each_side
@each_form
def test_it_can_refuse(run, side, kind, method, args, result):
    async def refuse(call, proceed):
        raise PermissionError("not you")

    async def main():
        bench = Bench()
        async with pair(bench, **ends(side, refuse)) as (server, client):
            if kind == "notify" and side == "server":
                await use(client, kind, f"Bench.{method}", *args)
                await poll(lambda: server.peers[0].stats()["handlers_failed"])
            elif side == "client":
                with pytest.raises(PermissionError, match="not you"):
                    await use(client, kind, f"Bench.{method}", *args)
            else:
                with pytest.raises(rpcproto.RemoteError) as caught:
                    await use(client, kind, f"Bench.{method}", *args)
                assert (caught.value.type_name, caught.value.text) == ("PermissionError", "not you")
            assert bench.noted == []
            assert client.stats()["flows_open"] == server.peers[0].stats()["flows_open"] == 0
            assert client.stats()["calls_pending"] == server.peers[0].stats()["calls_running"] == 0
            assert (await client.notify("Bench.note", 1) if side == "server" else None) is None

    run(main())


@each_side
@each_form
def test_it_can_answer_by_itself(run, side, kind, method, args, result):
    """A stream or channel that is not proceeded with has no items."""

    async def answer(call, proceed):
        return "cached"

    async def main():
        bench = Bench()
        async with pair(bench, **ends(side, answer)) as (server, client):
            if kind != "channel":
                got = await use(client, kind, f"Bench.{method}", *args)
                assert got == {"request": "cached", "stream": [], "notify": None}[kind] or kind == "notify"
            else:
                async with client.channel(f"Bench.{method}", *args) as channel:
                    assert [item async for item in channel] == []
            assert bench.noted == []
            await poll(lambda: server.peers[0].stats()["flows_open"] == 0)
            assert client.stats()["flows_open"] == client.stats()["calls_pending"] == 0

    run(main())


@each_side
@pytest.mark.parametrize("kind", ["request", "stream", "channel"])
@pytest.mark.parametrize("by", ["cancel", "leave"])
def test_a_call_given_up_cancels_it(run, side, kind, by):
    notes = Notes()
    method = {"request": "wait", "stream": "endless", "channel": "silent"}[kind]

    async def main():
        bench = Bench()
        async with pair(bench, **ends(side, notes)) as (server, client):
            call = getattr(client, kind)(f"Bench.{method}")
            if kind == "request" and by == "leave":
                task = asyncio.ensure_future(call)
                await bench.begun.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            elif kind != "request" and by == "leave":
                async with call:
                    await bench.begun.wait()
            else:
                await bench.begun.wait()
                call.cancel()
            await bench.over.wait()
            await poll(lambda: notes.log[-1] == ("raised", "CancelledError"))
            await poll(lambda: server.peers[0].stats()["calls_running"] == 0)
            assert bench.ended == ["cancelled"]
            assert client.stats()["flows_open"] == server.peers[0].stats()["flows_open"] == 0

    run(main())


@each_side
@pytest.mark.parametrize("kind", ["request", "stream", "channel"])
def test_a_call_whose_time_is_over(run, side, kind):
    notes = Notes()
    method = {"request": "wait", "stream": "endless", "channel": "silent"}[kind]

    async def main():
        bench = Bench()
        async with pair(bench, **ends(side, notes)) as (_, client):
            call = getattr(client, kind)(f"Bench.{method}", timeout=0.05)
            with pytest.raises(rpcproto.DeadlineExceeded):
                if kind == "request":
                    await call
                else:
                    async for _ in call:
                        pass
            await bench.over.wait()
            await poll(lambda: notes.log[-1][0] == "raised")

    run(main())
    assert notes.log[-1] == ("raised", "DeadlineExceeded" if side == "client" else "CancelledError")


@pytest.mark.parametrize("kind", ["request", "stream", "channel"])
def test_a_lost_connection_is_seen_at_the_client(run, kind):
    notes = Notes()
    method = {"request": "wait", "stream": "endless", "channel": "silent"}[kind]

    async def main():
        bench = Bench()
        async with pair(bench, client={"middleware": [notes]}) as (server, client):
            call = getattr(client, kind)(f"Bench.{method}")
            await bench.begun.wait()
            await server.peers[0].close(0)
            with pytest.raises(rpcproto.RpcError) as caught:
                if kind == "request":
                    await call
                else:
                    async for _ in call:
                        pass
            assert notes.log[-1] == ("raised", type(caught.value).__name__)

    run(main())
