from __future__ import annotations

import asyncio

import pytest

from rpcproto.errors import ConfigurationError
from rpcproto.transports import Address, connect, listen, parse, register, registry
from rpcproto.transports.registry import transport_of
from rpcproto.transports.tcp import TcpTransport


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch):
    from rpcproto.transports import address

    monkeypatch.setattr(registry, "_transports", dict(registry._transports))
    monkeypatch.setattr(address, "_parsers", dict(address._parsers))


class Fake:
    """Remembers how it was called."""

    def __init__(self):
        self.calls = []

    async def connect(self, address, protocol_factory, *, timeout):
        self.calls.append((address, protocol_factory, timeout))
        return "transport", "protocol"

    async def listen(self, address, protocol_factory, *, backlog, insecure, sock):
        self.calls.append((address, protocol_factory, backlog, insecure, sock))
        return "listener"


def test_a_new_scheme_brings_its_parser(run):
    fake = Fake()
    register("fake", fake, lambda text, rest: Address("fake", path=rest.removeprefix("//")))

    async def main():
        assert await connect("fake://x", asyncio.Protocol, timeout=3) == ("transport", "protocol")
        assert await listen("fake://x", asyncio.Protocol, backlog=5, insecure=True) == "listener"

    run(main())
    address = Address("fake", path="x")
    assert fake.calls == [(address, asyncio.Protocol, 3), (address, asyncio.Protocol, 5, True, None)]


def test_a_known_scheme_can_be_given_to_another_transport(run):
    fake = Fake()
    assert isinstance(transport_of(parse("tcp://127.0.0.1:1")), TcpTransport)
    register("tcp", fake)
    assert transport_of(parse("tcp://127.0.0.1:1")) is fake


def test_addresses_may_be_parsed_before(run):
    fake = Fake()
    register("tcp", fake)
    run(connect(Address("tcp", "h", 1), asyncio.Protocol, timeout=3))
    assert fake.calls == [(Address("tcp", "h", 1), asyncio.Protocol, 3)]


@pytest.mark.parametrize("function", [connect, listen])
def test_a_wrong_address_is_refused_before_anything_happens(run, function):
    options = {"timeout": 3} if function is connect else {}
    with pytest.raises(ConfigurationError, match="must start with one of"):
        run(function("nonsense", asyncio.Protocol, **options))


def test_a_scheme_without_a_transport_is_refused():
    with pytest.raises(ConfigurationError, match="there is no transport for other:"):
        transport_of(Address("other", path="x"))
