"""What middleware may be, what it covers, and what it cannot do."""

from __future__ import annotations

import asyncio
import functools

import pytest

import rpcproto
from rpcproto.aio.handler import Handler
from rpcproto.aio.link import Link
from rpcproto.aio.middleware_handlers import CoveredHandler
from rpcproto.aio.middleware_layers import read_middleware
from rpcproto.testing import pair
from tests.aio._ends import failure
from tests.aio._middleware import FORMS, Bench, Notes, use


async def passing(call, proceed):
    return await proceed(call)


def serve(*middleware, service=None):
    return rpcproto.serve(service or Bench(), "tcp://127.0.0.1:0", middleware=list(middleware))


# ---- what is refused -------------------------------------------------------------------------------------------------


class Silly:
    async def __call__(self, call, proceed):
        return await proceed(call)


async def one(call):
    pass


async def three(call, proceed, more):
    pass


async def generates(call, proceed):
    yield await proceed(call)


def plain(call, proceed):
    return proceed(call)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (passing, r"middleware must be a list, not <function passing at .*>; put it into one: \[passing\]"),
        (None, "middleware must be a list, not None"),
        ([plain], "the middleware plain is not a coroutine function: write it with async def"),
        ([generates], "the middleware generates is an async generator: call `await proceed.call.`, not yield"),
        ([one], r"the middleware one is called with two arguments, \(call, proceed\), and takes \(call\)"),
        ([three], r"the middleware three is called with two arguments.*and takes \(call, proceed, more\)"),
        ([Silly], r"the middleware Silly is a class; pass an instance of it: Silly\(...\)"),
        ([3], r"3 is no middleware, which is an async def f\(call, proceed\)"),
        ([rpcproto.covering(plain)], "the middleware plain is not a coroutine function"),
        ([rpcproto.covering(rpcproto.covering(passing))], r"has a covering\(\) already; say all in one"),
        ([rpcproto.covering(passing, kinds="requests")], "kinds= of the middleware passing: 'requests' is none of req"),
        ([rpcproto.covering(passing, kinds=())], r"kinds= of the middleware passing must be text or several"),
        ([rpcproto.covering(passing, sides="both")], "sides= .*: 'both' is none of client, server"),
        ([rpcproto.covering(passing, methods=3)], "methods= of the middleware passing must be text or several"),
        ([rpcproto.covering(passing, methods=[b"x"])], "methods= of the middleware passing must be text or several"),
    ],
)
def test_what_is_no_middleware_is_refused_at_once(given, text):
    with pytest.raises(rpcproto.ConfigurationError, match=text):
        rpcproto.serve(Bench(), "tcp://127.0.0.1:0", middleware=given)
    with pytest.raises(rpcproto.ConfigurationError, match=text):
        rpcproto.connect("tcp://127.0.0.1:1", middleware=given)
    with pytest.raises(rpcproto.ConfigurationError, match=text):
        rpcproto.connect_blocking("tcp://127.0.0.1:1", middleware=given)


def test_a_pattern_that_covers_nothing_served_is_refused():
    with pytest.raises(rpcproto.ConfigurationError, match=r"'Bnch\.\*' is none of the methods served, which are Benc"):
        serve(rpcproto.covering(passing, methods=["Bench.task", "Bnch.*"]))
    serve(rpcproto.covering(passing, methods="Worker.*", sides="client"))
    rpcproto.connect("tcp://127.0.0.1:1", middleware=[rpcproto.covering(passing, methods="Bnch.*")])


@pytest.mark.parametrize(
    "good",
    [
        passing,
        Silly(),
        Silly().__call__,
        functools.partial(three, more=1),
        functools.wraps(passing)(lambda call, proceed: passing(call, proceed)),
    ],
    ids=["function", "object", "method", "partial", "wrapped"],
)
def test_what_is_middleware(good):
    (layer,) = read_middleware((good,), "server")
    assert layer.function is good
    assert (layer.patterns, layer.sides) == (None, ("server",))
    assert layer.kinds == ("request", "notify", "stream", "channel")


def test_what_covering_makes_tells_what_it_is():
    found = rpcproto.covering(passing, methods="Kv.*", kinds="stream", sides=("client", "server"))
    assert repr(found).startswith("covering(<function passing")
    assert repr(found).endswith("methods='Kv.*', kinds='stream', sides=('client', 'server'))")


# ---- what is covered -------------------------------------------------------------------------------------------------


def test_what_is_not_covered_keeps_its_handler():
    bench = Bench()
    server = serve(rpcproto.covering(passing, methods="Bench.plain"), rpcproto.covering(passing, kinds="channel"))
    bare = rpcproto.serve(bench, "tcp://127.0.0.1:0")._options.entries
    for name, entry in server._options.entries.items():
        if name == "Bench.plain" or bare[name].handler.kind.name == "CHANNEL":
            assert type(entry.handler) is CoveredHandler
            assert entry.handler.original.mode == bare[name].handler.mode
        else:
            assert type(entry.handler) is Handler
            assert (entry.mode, entry.function.__func__) == (bare[name].mode, bare[name].function.__func__)


def test_a_covered_handler_reads_as_the_original():
    handler = serve(rpcproto.covering(passing, methods="Bench.plain"))._options.entries["Bench.plain"].handler
    assert (handler.name, handler.owner) == (handler.original.name, handler.original.owner)
    assert handler.signature is handler.original.signature
    assert handler.misfit([1]) is None


def test_without_middleware_a_client_calls_the_session_itself(run):
    async def main():
        async with pair(Bench(), server={"middleware": [passing]}) as (_, client):
            session = client._link.session
            assert type(client._link) is Link
            for kind in ("request", "notify", "stream", "channel"):
                assert getattr(client.peer, kind) == getattr(session, kind)
            assert client.request == session.request

    run(main())


def test_kinds_that_are_not_covered_are_calls_of_the_session_itself(run):
    async def main():
        covering = rpcproto.covering(passing, kinds=["stream", "channel"])
        async with pair(Bench(), client={"middleware": [covering]}) as (_, client):
            session = client._link.session
            assert client.request == session.request
            assert client.peer.notify == session.notify
            assert client.peer.stream != session.stream

    run(main())


@pytest.mark.parametrize("side", ["client", "server"])
def test_methods_and_kinds_choose(run, side):
    seen = []

    async def note(call, proceed):
        seen.append(call.method)
        return await proceed(call)

    async def main():
        covering = [
            rpcproto.covering(note, methods=("Bench.p*", "*.talk"), kinds=("request", "channel")),
            rpcproto.covering(note, methods="*.thread"),
        ]
        async with pair(Bench(), **{side: {"middleware": covering}}) as (_, client):
            for kind, method, args, result in FORMS:
                assert await use(client, kind, f"Bench.{method}", *args) == result
            assert (await client.request("Bench.plain", 1)) == 1

    run(main())
    assert seen == ["Bench.plain", "Bench.thread", "Bench.talk", "Bench.plain_talk", "Bench.plain"]


def test_calls_back_are_covered_where_it_is_said(run):
    """By default a list is for what its end is for; ``sides=`` extends it to calls back."""
    seen = []

    def noting(name):
        async def note(call, proceed):
            seen.append((name, call.side, call.method))
            return await proceed(call)

        return note

    async def main():
        both = ("client", "server")
        server = {"middleware": [noting("s"), rpcproto.covering(noting("s both"), sides=both)]}
        client = {
            "middleware": [noting("c"), rpcproto.covering(noting("c back"), sides="server")],
            "service": {"double": lambda n: 2 * n},
        }
        async with pair(Bench(), server=server, client=client) as (_, client):
            assert await client.request("Bench.call_back", "double", 4) == 8

    run(main())
    assert seen == [
        ("c", "client", "Bench.call_back"),
        ("s", "server", "Bench.call_back"),
        ("s both", "server", "Bench.call_back"),
        ("s both", "client", "double"),
        ("c back", "server", "double"),
    ]


# ---- proceeding ------------------------------------------------------------------------------------------------------


async def another(call, proceed):
    await proceed(object())


async def at_once(call, proceed):
    await asyncio.gather(proceed(call), proceed(call))


async def twice(call, proceed):
    await proceed(call)
    await proceed(call)


@pytest.mark.parametrize("side", ["client", "server"])
@pytest.mark.parametrize(
    ("middleware", "kind", "text"),
    [
        (another, "request", "takes the call that the middleware was given, not <object object at "),
        (at_once, "request", "was called while it is under way: await it first"),
        (twice, "stream", "was called twice: a stream proceeds once, since its items may have been seen"),
        (twice, "channel", "was called twice: a channel proceeds once"),
    ],
)
def test_what_proceed_refuses(run, side, middleware, kind, text):
    method = {"request": "task", "stream": "items", "channel": "talk"}[kind]

    async def main():
        async with pair(Bench(), **{side: {"middleware": [middleware]}}) as (_, client):
            with pytest.raises(rpcproto.RpcError) as caught:
                await use(client, kind, f"Bench.{method}", 2)
            error = caught.value
            if side == "client":
                assert type(error) is rpcproto.LocalProtocolError
            else:
                assert error.type_name == "rpcproto.LocalProtocolError"
            assert f"Bench.{method}: proceed() of the middleware {middleware.__name__} {text}" in str(error)

    run(main())


def test_proceed_after_the_middleware_has_returned(run):
    kept = []

    async def early(call, proceed):
        kept.append((call, proceed))

    async def main():
        async with pair(Bench(), client={"middleware": [early]}) as (_, client):
            assert await client.request("Bench.plain", 1) is None
            ((call, proceed),) = kept
            error = await failure(proceed(call))
            assert "proceed() of the middleware" in str(error)
            assert "was called after the middleware had returned" in str(error)

    run(main())


@pytest.mark.parametrize("side", ["client", "server"])
def test_a_request_can_be_tried_again(run, side):
    """What is further in sees the same arguments each time, whatever it did with them."""
    seen = []
    failing = [OSError("first"), OSError("second")]

    async def retry(call, proceed):
        for _ in range(5):
            try:
                return await proceed(call)
            except OSError:
                pass
        return None

    async def alter(call, proceed):
        seen.append((call.args, dict(call.metadata)))
        call.args = (*call.args, "more")
        if side == "client":
            call.metadata["tried"] = len(seen)
        if failing:
            raise failing.pop()
        return await proceed(call)

    async def main():
        service = {"many": lambda *args: [*args, rpcproto.current_call().metadata]}
        async with pair(service, **{side: {"middleware": [retry, alter]}}) as (_, client):
            got = await client.request("many", 1, metadata={"a": 1})
            assert got == [1, "more", {"a": 1, "tried": 3} if side == "client" else {"a": 1}]

    run(main())
    assert seen == [((1,), {"a": 1})] * 3


def test_the_handler_runs_as_often_as_it_is_tried(run):
    async def twice(call, proceed):
        return [await proceed(call), await proceed(call)]

    async def main():
        bench = Bench()
        middleware = [rpcproto.covering(twice, kinds=("request", "notify"))]
        async with pair(bench, server={"middleware": middleware}, client={"middleware": middleware}) as (_, client):
            await client.notify("Bench.note", 1)
            assert await client.request("Bench.plain", 1) == [[1, 1], [1, 1]]
            assert bench.noted == [1] * 4

    run(main())


# ---- what it sees ----------------------------------------------------------------------------------------------------


def test_a_call_tells_of_itself(run):
    seen = []

    async def look(call, proceed):
        seen.append((call.method, call.kind, call.side, call.peer, call.time_left, repr(call)))
        return await proceed(call)

    async def main():
        async with pair(Bench(), server={"middleware": [look]}, client={"middleware": [look]}) as (server, client):
            await client.request("Bench.plain", 1, timeout=5)
            await client.request("Bench.plain", 1, timeout=None)
            peers = [client.peer, server.peers[0]] * 2
            assert [call[3] for call in seen] == peers
            assert seen[0][5] == f"<Call of request Bench.plain, client side, peer {client.peer.address}>"

    run(main())
    assert [call[:3] for call in seen[:2]] == [("Bench.plain", "request", side) for side in ("client", "server")]
    assert all(4 < call[4] <= 5 for call in seen[:2])
    assert [call[4] for call in seen[2:]] == [None, None]


def test_bad_things_to_set(run):
    async def check(call, proceed):
        with pytest.raises(rpcproto.ConfigurationError, match=r"args of the call of .* must be a tuple or list"):
            call.args = "text"
        for hook in (3, passing):
            with pytest.raises(rpcproto.ConfigurationError, match="a hook for items is a plain function that returns"):
                call.on_sent(hook)
        return await proceed(call)

    async def main():
        async with pair(Bench(), client={"middleware": [check]}) as (_, client):
            assert await client.request("Bench.plain", 1) == 1

    run(main())


def test_objects_can_keep_what_they_saw(run):
    notes = Notes()

    async def main():
        async with pair(Bench(), server={"middleware": [notes]}) as (_, client):
            await asyncio.gather(*(client.request("Bench.plain", number) for number in range(3)))

    run(main())
    assert [note for note in notes.log if note[0] == "begin"] == [("begin", "request", (n,)) for n in range(3)]
