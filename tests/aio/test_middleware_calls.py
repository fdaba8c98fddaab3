"""Middleware where calls are made: Replies stay Replies, and time, cancel, context and closing go through it."""

from __future__ import annotations

import asyncio
import weakref

import pytest

import rpcproto
from rpcproto.testing import pair
from tests.aio._ends import failure, gone, poll, turns
from tests.aio._middleware import Bench, Notes


async def passing(call, proceed):
    return await proceed(call)


def covered(*middleware, **options):
    """``pair`` with middleware at the client."""
    return pair(Bench(), client={"middleware": list(middleware or (passing,))}, **options)


# ---- the Reply -------------------------------------------------------------------------------------------------------


def test_a_covered_request_is_a_reply(run):
    async def main():
        async with covered() as (_, client):
            reply = client.request("Bench.plain", 1)
            assert isinstance(reply, rpcproto.Reply)
            assert repr(reply) == "<Reply Bench.plain pending>"
            called = []
            reply.add_done_callback(called.append)
            assert await asyncio.gather(reply, reply, asyncio.shield(reply)) == [1, 1, 1]
            assert await reply == reply.result() == 1
            assert (reply.done(), reply.cancelled(), reply.exception()) == (True, False, None)
            assert called == [reply]
            done, _ = await asyncio.wait([client.request("Bench.plain", n) for n in range(3)])
            assert sorted(each.result() for each in done) == [0, 1, 2]

    run(main())


def test_a_covered_notify_is_done_when_it_was_handed_over(run):
    async def main():
        bench = Bench()
        async with pair(bench, client={"middleware": [passing]}) as (_, client):
            assert await client.notify("Bench.note", 1) is None
            client.notify("Bench.note", 2)
            await poll(lambda: bench.noted == [1, 2])

    run(main())


@pytest.mark.parametrize("when", ["at once", "later"])
def test_cancelling_a_covered_request(run, when):
    notes = Notes()

    async def main():
        bench = Bench()
        async with pair(bench, client={"middleware": [notes]}) as (server, client):
            await client.request("Bench.plain", 1)
            notes.log.clear()
            reply = client.request("Bench.wait")
            if when == "later":
                await bench.begun.wait()
            assert reply.cancel("enough")
            assert not reply.cancel()
            with pytest.raises(asyncio.CancelledError, match="enough"):
                await reply
            await poll(lambda: not client._link.covered)
            if when == "at once":  # so the middleware never began, and nothing was sent
                assert (notes.log, bench.begun.is_set()) == ([], False)
            else:
                assert notes.log[-1] == ("raised", "CancelledError")
                await poll(lambda: bench.ended == ["cancelled"])
            await poll(lambda: server.peers[0].stats()["calls_running"] == 0)

    run(main())


def test_swallowing_a_cancel_leaves_nothing(run):
    ended = []

    async def stubborn(call, proceed):
        try:
            return await proceed(call)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            ended.append("swallowed")
            return "instead"

    async def main():
        bench = Bench()
        async with pair(bench, client={"middleware": [stubborn]}) as (server, client):
            reply = client.request("Bench.wait")
            await bench.begun.wait()
            reply.cancel()
            assert reply.cancelled()
            stream = client.stream("Bench.endless")
            assert await anext(stream) == "first"
            stream.cancel()
            await poll(lambda: ended == ["swallowed"] * 2)
            assert reply.cancelled()
            await poll(lambda: not client._link.covered)
            await poll(lambda: server.peers[0].stats()["calls_running"] == 0)
            assert client.stats()["calls_pending"] == client.stats()["flows_open"] == 0

    run(main())


@pytest.mark.parametrize("kind", ["request", "stream", "channel"])
def test_middleware_that_cancels_itself(run, kind):
    async def give_up(call, proceed):
        raise asyncio.CancelledError

    async def main():
        async with covered(give_up) as (_, client):
            with pytest.raises(rpcproto.CallCancelled, match="given up by its middleware"):
                if kind == "request":
                    await client.request("Bench.plain", 1)
                else:
                    async for _ in getattr(client, kind)("Bench.items", 1):
                        pass

    run(main())


def test_a_reply_and_its_error_are_let_go_of(run, no_gc):
    class Wrong(Exception):
        pass

    async def fail(call, proceed):
        raise Wrong

    async def main():
        async with covered(fail) as (_, client):
            reply = client.request("Bench.plain", 1)
            with pytest.raises(Wrong):
                await reply
            found = weakref.ref(reply.exception())
            del reply
            await turns()
            assert gone(found)

    run(main())


def test_errors_of_options_are_raised_where_the_call_is_made(run):
    async def main():
        async with covered() as (_, client):
            with pytest.raises(rpcproto.ConfigurationError):
                client.request("Bench.plain", timeout=-1)
            with pytest.raises(rpcproto.ConfigurationError):
                client.stream("Bench.items", codec="none such")
            with pytest.raises(rpcproto.SerializationError):
                client.notify("Bench.note", metadata={"a": []})
            with pytest.raises(TypeError, match="unknown"):
                client.channel("Bench.talk", unknown=1)
            assert not client._link.covered

    run(main())


@pytest.mark.parametrize("name", [3, "", "x" * 300])
def test_what_is_no_method_name_is_refused_as_without(run, name):
    async def main():
        errors = []
        for middleware in ([], [rpcproto.covering(passing, methods="Bench.*")]):
            async with pair(Bench(), client={"middleware": middleware}) as (_, client):
                with pytest.raises((TypeError, rpcproto.LocalProtocolError)) as caught:
                    client.request(name)
                errors.append(type(caught.value))
        assert errors[0] is errors[1]

    run(main())


def test_other_errors_pass_through_it(run):
    notes = Notes()

    async def main():
        async with covered(notes) as (_, client):
            assert type(await failure(client.request("Bench.plain", object()))) is rpcproto.SerializationError
            assert type(await failure(client.request("Bench.absent"))) is rpcproto.NoSuchMethod
            error = await failure(client.request("Bench.fail", "x"))
            assert (type(error), error.type_name) == (rpcproto.RemoteError, "KeyError")
        assert type(await failure(client.request("Bench.plain", 1))) is rpcproto.ConnectionClosed

    run(main())
    raised = [note[1] for note in notes.log if note[0] == "raised"]
    assert raised == ["SerializationError", "NoSuchMethod", "RemoteError", "ConnectionClosed"]


def test_an_error_can_become_a_result(run):
    async def forgive(call, proceed):
        try:
            return await proceed(call)
        except rpcproto.RemoteError as error:
            return error.type_name

    async def main():
        async with covered(forgive) as (_, client):
            assert await client.request("Bench.fail", "x") == "KeyError"
            assert [item async for item in client.stream("Bench.fail_late", "x")] == [1]

    run(main())


# ---- metadata and context --------------------------------------------------------------------------------------------


def test_metadata_both_ways(run):
    async def client_side(call, proceed):
        assert call.metadata == {"tenant": "shop"}
        call.metadata["token"] = "t"
        result = await proceed(call)
        assert call.reply_metadata == {"pages": 3, "by": "server"}
        call.reply_metadata["seen"] = True
        return result

    async def server_side(call, proceed):
        assert call.metadata == {"tenant": "shop", "token": "t"}
        call.metadata["user"] = "alice"
        result = await proceed(call)
        call.reply_metadata["by"] = "server"
        return result

    def handler():
        call = rpcproto.current_call()
        call.reply_metadata = {"pages": 3}
        return call.metadata

    async def main():
        ends = {"server": {"middleware": [server_side]}, "client": {"middleware": [client_side]}}
        async with pair({"handler": handler}, **ends) as (_, client):
            given = {"tenant": "shop"}
            reply = client.request("handler", metadata=given)
            assert await reply == {"tenant": "shop", "token": "t", "user": "alice"}
            assert reply.metadata == {"pages": 3, "by": "server", "seen": True}
            assert given == {"tenant": "shop"}

    run(main())


def test_metadata_of_the_answer_pass_untouched(run):
    async def main():
        async with pair({"f": _with_metadata}, client={"middleware": [passing]}) as (_, client):
            reply = client.request("f")
            await reply
            assert reply.metadata == {"a": 1}

    run(main())


def _with_metadata():
    rpcproto.current_call().reply_metadata = {"a": 1}


@pytest.mark.parametrize("side", ["client", "server"])
def test_metadata_that_cannot_be_sent(run, side):
    async def spoil(call, proceed):
        result = await proceed(call)
        call.reply_metadata = {"a": object()}
        return result

    async def main():
        async with pair(Bench(), **{side: {"middleware": [spoil]}}) as (_, client):
            error = await failure(client.request("Bench.plain", 1))
            assert type(error) is (rpcproto.SerializationError if side == "client" else rpcproto.RemoteError)
            assert "metadata['a']" in str(error)

    run(main())


@pytest.mark.parametrize("way", ["inline", "task"])
def test_calls_made_by_handlers_keep_their_deadline_and_trace(run, way):
    seen = []

    async def look(call, proceed):
        seen.append((call.metadata, rpcproto.current_call().method, call.time_left))
        return await proceed(call)

    def inline():
        return rpcproto.peer().request("back", timeout=None)

    async def task():
        return await rpcproto.peer().request("back", timeout=None)

    def back():
        call = rpcproto.current_call()
        return [call.metadata, call.time_left < 7]

    async def main():
        covering = rpcproto.covering(look, sides="client")
        service = {"inline": inline, "task": task}
        async with pair(service, server={"middleware": [covering]}, client={"service": {"back": back}}) as (_, client):
            got = await client.request(way, timeout=7, metadata={"traceparent": "t", "other": 1})
            assert got == [{"traceparent": "t"}, True]

    run(main())
    ((metadata, method, left),) = seen
    assert (metadata, method) == ({"traceparent": "t"}, way)
    assert 6 < left < 7


# ---- time ------------------------------------------------------------------------------------------------------------


def test_a_deadline_holds_although_middleware_does_not_proceed(run):
    cancelled = []

    async def stall(call, proceed):
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            cancelled.append(call.kind)
            raise

    async def main():
        async with covered(stall) as (_, client):
            error = await failure(client.request("Bench.plain", 1, timeout=0.01))
            assert type(error) is rpcproto.DeadlineExceeded
            assert "its middleware did not end within its timeout" in str(error)
            with pytest.raises(rpcproto.DeadlineExceeded):
                await anext(client.stream("Bench.items", 1, timeout=0.01))
            await turns()

    run(main())
    assert cancelled == ["request", "stream"]


def test_nothing_is_sent_when_the_time_is_over(run):
    async def late(call, proceed):
        call.deadline = 1e-9
        return await proceed(call)

    async def main():
        bench = Bench()
        async with pair(bench, client={"middleware": [late]}) as (server, client):
            error = await failure(client.request("Bench.plain", 1))
            assert "not sent, its time was over before middleware proceeded" in str(error)
            with pytest.raises(rpcproto.DeadlineExceeded):
                await anext(client.stream("Bench.items", 1))
            assert server.peers[0].stats()["calls_served"] == 0

    run(main())


def test_middleware_can_set_a_deadline_for_what_is_further_in(run):
    async def hasten(call, proceed):
        before = call.deadline
        call.deadline = call.deadline - call.time_left + 0.02
        try:
            return await proceed(call)
        except rpcproto.DeadlineExceeded:
            assert call.deadline < before
            return "too slow"

    async def main():
        async with covered(hasten) as (_, client):
            assert await client.request("Bench.wait") == "too slow"

    run(main())


def test_middleware_sees_the_deadline_pass_and_may_answer(run):
    async def fallback(call, proceed):
        try:
            return await proceed(call)
        except rpcproto.DeadlineExceeded:
            await asyncio.sleep(0)
            return "fallback"

    async def main():
        async with covered(fallback) as (_, client):
            assert await client.request("Bench.wait", timeout=0.02) == "fallback"

    run(main())
