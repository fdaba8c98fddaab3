"""The built-in methods: whom they tell, what, and how much of it."""

from __future__ import annotations

import asyncio
import os

import pytest

import rpcproto
from rpcproto.aio import inspector
from rpcproto.aio.introspection import Introspection
from rpcproto.aio.service import build_registry, request
from rpcproto.errors import ConfigurationError
from rpcproto.testing import pair
from tests._certificates import mutual
from tests.aio._ends import Kit, failure, poll
from tests.aio._services import refusal

SECRET = "correct horse battery staple"
TCP = "tcp://127.0.0.1:0"
CLOSED = ("server", "methods", "connections", "calls")
"""The methods that are not for everybody."""


class Shop(rpcproto.Service):
    """Sells things."""

    @rpcproto.request
    def price(self, item: str, count: int = 1) -> int:
        """What it costs."""
        return 3 * count


# ---- who is told -----------------------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_authenticated_peers_are_told(run, address):
    async def main():
        async with pair(Shop(), address) as (server, client):
            api = client.of(Introspection)
            assert await api.health() == "serving"
            for method in CLOSED:
                outcome = await failure(getattr(api, method)())
                if server.address.startswith("tcp:"):
                    assert isinstance(outcome, rpcproto.NotPermitted)
                else:
                    assert isinstance(outcome, dict)

    run(main())


@pytest.mark.parametrize("method", CLOSED)
def test_a_refusal_says_what_to_do(run, method):
    async def main():
        async with pair(Shop(), TCP) as (server, client):
            error = await failure(client.request(f"rpcproto.{method}"))
            assert type(error) is rpcproto.NotPermitted
            assert str(error).startswith(
                f"rpcproto.{method} at {server.address}: it is for authenticated peers, and {server.peers[0].address}"
                " has not proved who it is: connect by unix: as the user of the server, or give both ends a shared"
            )
            assert "introspection='all'" in str(error)
            assert server.peers[0].stats()["handlers_failed"] == 0

    run(main())


def test_a_secret_is_enough(run):
    async def main():
        options = {"secret": SECRET}
        async with pair(Shop(), TCP, server=options, client=options) as (_, client):
            (told,) = (await client.of(Introspection).connections())["connections"]
            assert (told["authenticated"], told["certificate"], told["user"]) == (True, None, None)

    run(main())


def test_a_certificate_of_the_client_is_enough_and_is_told(run):
    async def main():
        options = {"ssl": mutual()}
        async with pair(Shop(), "tls://127.0.0.1:0", server=options, client=options) as (_, client):
            (told,) = (await client.of(Introspection).connections())["connections"]
            subject = dict(field for group in client.peer.certificate["subject"] for field in group)
            assert told["certificate"] == subject.get("commonName")
            assert told["authenticated"] is True

    run(main())


def test_everybody_may_be_told(run):
    async def main():
        async with pair(Shop(), TCP, server={"introspection": "all"}) as (_, client):
            assert not (await client.of(Introspection).connections())["connections"][0]["authenticated"]

    run(main())


def test_nobody_may_be_told_but_the_health(run):
    async def main():
        async with pair(Shop(), server={"introspection": "none"}) as (_, client):
            assert client.peer.authenticated
            for method in CLOSED:
                assert type(await failure(client.request(f"rpcproto.{method}"))) is rpcproto.NoSuchMethod
            assert await client.of(Introspection).health("Shop") == "serving"

    run(main())


@pytest.mark.parametrize("value", ["everyone", True, None, ""])
def test_what_introspection_cannot_be(value):
    with pytest.raises(ConfigurationError, match=r"introspection= must be one of 'authenticated', 'all', 'none', not "):
        rpcproto.serve(Shop(), TCP, introspection=value)


def test_clients_have_no_built_in_methods(run):
    async def main():
        async with pair(Shop(), client={"service": Shop()}) as (server, _):
            assert type(await failure(server.peers[0].request("rpcproto.health"))) is rpcproto.NoSuchMethod

    run(main())


# ---- reserved names --------------------------------------------------------------------------------------------------


def test_reserved_names_are_refused():
    class Own(rpcproto.Service):
        service_name = "rpcproto"

        @request
        def health(self):
            pass

    class Named(rpcproto.Service):
        @request(name="rpcproto.x")
        def x(self):
            pass

    told = "names that begin with 'rpcproto.' are those of built-in methods; choose another service_name, name= or key"
    assert refusal(Own()) == f"method name 'rpcproto.health' of {__name__}.{Own.__qualname__}.health: {told}"
    assert told in refusal(Named())
    assert told in refusal({"rpcproto.": len})
    assert list(build_registry({"rpcproto": len, "rpcprotox.y": len, "Rpcproto.y": len}))


def test_the_built_in_methods_are_what_callers_were_promised():
    server = rpcproto.serve(Shop(), TCP)
    handlers = {name: entry.handler for name, entry in server._options.entries.items() if name.startswith("rpcproto.")}
    functions = {name.removeprefix("rpcproto."): handler.function for name, handler in handlers.items()}
    assert set(functions) == {"health", *CLOSED}
    for name, function in functions.items():
        assert function.__doc__ == getattr(Introspection, name).__doc__
        assert handlers[f"rpcproto.{name}"].mode == "inline"


# ---- what is told ----------------------------------------------------------------------------------------------------


def test_the_server(run):
    async def main():
        service = [Shop(), {"double": abs, "math.sum": sum}]
        options = {"limits": rpcproto.Limits(max_running=7), "timeouts": rpcproto.Timeouts(heartbeat=None)}
        async with pair(service, server=options) as (server, client):
            server.health.set(False, "math")
            told = await client.of(Introspection).server()
            assert told["version"] == rpcproto.__version__
            assert told["build"] == ("pure" if rpcproto._build.PURE else "compiled")
            assert told["pid"] == os.getpid()
            assert told["uptime"] >= 0
            assert told["addresses"] == server.addresses
            assert told["health"] == "serving"
            assert told["services"] == [
                {
                    "name": "Shop",
                    "defined": f"{__name__}.Shop",
                    "doc": "Sells things.",
                    "methods": 1,
                    "health": "serving",
                },
                {"name": "", "defined": "", "doc": "", "methods": 1, "health": "serving"},
                {"name": "math", "defined": "", "doc": "", "methods": 1, "health": "not serving"},
            ]
            assert (told["connections"], told["greeting"], told["running"]) == (1, 0, 0)
            assert told["budget"].keys() == {"size", "reserved", "waiting"}
            assert told["limits"]["max_running"] == 7
            assert told["timeouts"]["heartbeat"] is None

    run(main())


def test_connections_that_have_not_greeted_are_counted(run):
    async def main():
        async with pair(Shop(), TCP, server={"introspection": "all"}) as (server, client):
            host, port = server.address.removeprefix("tcp://").split(":")
            _, writer = await asyncio.open_connection(host, int(port))
            await poll(lambda: len(server._links) == 2)
            told = await client.of(Introspection).server()
            assert (told["connections"], told["greeting"]) == (1, 1)
            assert len((await client.of(Introspection).connections())["connections"]) == 1
            writer.close()
            await writer.wait_closed()

    run(main())


def test_methods_by_prefix(run):
    async def main():
        async with pair([Shop(), {"Shop.items": len, "double": abs}]) as (_, client):
            api = client.of(Introspection)

            async def names(*args):
                page = await api.methods(*args)
                return [method["name"] for method in page["methods"]], page["left_out"]

            assert await names() == (["Shop.items", "Shop.price", "double"], 0)
            assert await names("Shop.") == (["Shop.items", "Shop.price"], 0)
            assert await names("Shop.price") == (["Shop.price"], 0)
            assert await names("x") == ([], 0)
            assert await names("", 1) == (["Shop.items"], 2)
            assert await names("rpcproto.c") == (["rpcproto.connections", "rpcproto.calls"], 0)
            first, again = (await api.methods("Shop.p"))["methods"], (await api.methods("Shop.p"))["methods"]
            assert first == again
            assert first[0]["signature"] == "(item: str, count: int = 1) -> int"
            assert first[0]["doc"] == "What it costs."

    run(main())


def test_connections_page_by_page(run):
    async def main():
        async with pair(Shop()) as (server, first):
            async with rpcproto.connect(server.address) as second, rpcproto.connect(server.address):
                async with rpcproto.connect(server.address):
                    pass
                api = first.of(Introspection)
                await second.request("Shop.price", "tea")
                page = await api.connections(0, 2)
                assert ([one["id"] for one in page["connections"]], page["left_out"]) == ([1, 2], 1)
                told = page["connections"][1]
                assert told["stats"]["calls_served"] == 1
                assert (told["state"], told["address"], told["authenticated"]) == ("open", server.address, True)
                assert told["age"] >= 0
                page = await api.connections(after=2)
                assert ([one["id"] for one in page["connections"]], page["left_out"]) == ([3], 0)
                assert (await api.connections(after=3)) == {"connections": [], "left_out": 0}

    run(main())


def test_calls_of_all_connections_or_one(run):
    async def main():
        kit = Kit()
        async with pair(kit) as (server, first), rpcproto.connect(server.address) as second:
            api = first.of(Introspection)
            calls = [
                first.request("Kit.wait", "secret argument"),
                second.request("Kit.wait"),
                second.request("Kit.wait"),
            ]
            await kit.until(lambda: len(kit.started) == 3)
            page = await api.calls()
            assert [(one["connection"], one["id"], one["method"], one["state"]) for one in page["calls"]] == [
                (1, 1, "Kit.wait", "running"),
                (2, 1, "Kit.wait", "running"),
                (2, 3, "Kit.wait", "running"),
            ]
            assert page["left_out"] == 0
            assert "secret argument" not in repr(page)
            assert 0 < page["calls"][0]["time_left"] <= 30
            page = await api.calls(most=2)
            assert ([one["connection"] for one in page["calls"]], page["left_out"]) == ([1, 2], 1)
            page = await api.calls(2)
            assert ([one["connection"] for one in page["calls"]], page["left_out"]) == ([2, 2], 0)
            assert await api.calls(connection=1, most=0) == {"calls": [], "left_out": 1}
            assert (await api.server())["running"] == 3
            kit.gate.set()
            await asyncio.gather(*calls)

    run(main())


def test_calls_of_the_server_to_its_clients(run):
    async def main():
        kit = Kit()
        async with pair(Shop(), client={"service": kit}) as (server, client):
            call = server.peers[0].request("Kit.wait", timeout=None)
            await kit.until(lambda: kit.started)
            (told,) = (await client.of(Introspection).calls())["calls"]
            assert (told["direction"], told["state"], told["time_left"]) == ("out", "sent", None)
            kit.gate.set()
            await call

    run(main())


def test_an_answer_is_bounded_whatever_is_asked_for(run, monkeypatch):
    monkeypatch.setattr(inspector, "MAX_PAGE", 10)

    async def main():
        kit = Kit()
        async with pair([kit, {f"m{number}": abs for number in range(20)}]) as (_, client):
            calls = [client.request("Kit.wait", number) for number in range(25)]
            await kit.until(lambda: len(kit.started) == 25)
            api = client.of(Introspection)
            page = await api.calls(most=10**9)
            assert (len(page["calls"]), page["left_out"]) == (10, 15)
            methods = await api.methods("m", 10**9)
            assert (len(methods["methods"]), methods["left_out"]) == (10, 10)
            kit.gate.set()
            await asyncio.gather(*calls)

    run(main())


def test_a_thousand_methods_with_the_longest_texts_fit_into_an_answer(run):
    def handler(value="x" * 500):
        pass

    handler.__doc__ = "\N{SNOWMAN}" * 5000

    async def main():
        async with pair({f"service.method{number:04}": handler for number in range(1200)}) as (_, client):
            page = await client.of(Introspection).methods()
            assert (len(page["methods"]), page["left_out"]) == (1000, 200)

    run(main())


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (("calls", 0, -1), "ValueError: most must be a whole number from 0 to 1,000, not -1"),
        (("methods", "", "5"), "ValueError: most must be a whole number from 0 to 1,000, not '5'"),
        (("connections", 0, None), "ValueError: most must be a whole number from 0 to 1,000, not None"),
        (("calls", 7), "ValueError: there is no connection 7 now"),
        (("server", 1), "rpcproto.server() takes no arguments, 1 given"),
    ],
)
def test_arguments_that_make_no_sense(run, call, text):
    async def main():
        async with pair(Shop()) as (_, client):
            method, *args = call
            error = await failure(client.request(f"rpcproto.{method}", *args))
            assert text in str(error)

    run(main())


def test_a_client_with_another_codec(run):
    async def main():
        async with pair(Shop(), server={"codec": "raw"}, client={"codec": "raw"}) as (_, client):
            assert await client.of(Introspection, codec="msgpack").health() == "serving"

    run(main())


def test_the_blocking_client(desk):
    with rpcproto.connect_blocking(desk.address) as client:
        assert client.request("rpcproto.health") == "serving"


def test_methods_within_middleware_are_told_as_they_are_and_built_in_ones_are_not_covered(run):
    seen = []

    async def watch(call, proceed):
        seen.append(call.method)
        return await proceed(call)

    async def main():
        async with pair(Shop(), "inproc://covered", server={"middleware": [watch]}) as (_, client):
            (told,) = (await client.of(Introspection).methods())["methods"]
            assert (told["runs"], told["doc"]) == ("task", "What it costs.")
            assert told["signature"] == "(item: str, count: int = 1) -> int"
            assert await client.request("Shop.price", "tea", 2) == 6

    run(main())
    assert seen == ["Shop.price"]
