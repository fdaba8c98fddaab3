"""Health: what an owner may say, and what callers are told."""

from __future__ import annotations

import pytest

import rpcproto
from rpcproto.aio.health import Health


def test_everything_is_serving_at_first() -> None:
    health = Health(["Shop.price", "Shop.items", "a.b.c", "double"])
    assert health.services() == {"Shop": "serving", "a.b": "serving", "": "serving"}
    assert health.status() == health.status("Shop") == "serving"
    assert health.status("Shop.price") == "unknown"
    assert repr(health) == "<Health serving>"


def test_one_service() -> None:
    health = Health(["Shop.price", "Desk.open"])
    health.set(False, "Shop")
    health.set(False, "Shop")
    assert health.services() == {"Shop": "not serving", "Desk": "serving", "": "serving"}
    assert repr(health) == "<Health serving, Shop not serving>"
    health.set(True, "Shop")
    assert health.status("Shop") == "serving"


def test_the_whole_server() -> None:
    health = Health(["Shop.price"])
    health.set(False)
    assert health.services() == {"Shop": "not serving", "": "not serving"}
    assert health.status("other") == "unknown"
    assert repr(health) == "<Health not serving>"
    health.set(False, "Shop")
    health.set(True)
    assert health.services() == {"Shop": "not serving", "": "serving"}


def test_a_service_that_is_not_there() -> None:
    with pytest.raises(rpcproto.ConfigurationError, match=r"no service 'Shopp' here; did you mean 'Shop'\?"):
        Health(["Shop.price"]).set(False, "Shopp")


def test_callers_are_told(run) -> None:
    async def main() -> None:
        async with rpcproto.serve({"Shop.price": len}, "tcp://127.0.0.1:0") as server:
            async with rpcproto.connect(server.address) as client:
                assert not client.peer.authenticated
                api = client.of(rpcproto.Introspection)
                assert await api.health() == await client.request("rpcproto.health") == "serving"
                server.health.set(False, service="Shop")
                assert [await api.health(name) for name in ("", "Shop", "x")] == ["serving", "not serving", "unknown"]
                assert await client.request("Shop.price", "tea") == 3, "it is served all the same"

    run(main())
