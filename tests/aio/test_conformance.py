"""Whether a service is what callers were promised, and what is said if not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Protocol

import pytest

import rpcproto
from rpcproto import check


class Shop(Protocol):
    async def price(self, item: str, count: int = 1) -> int: ...
    def prices(self, item: str) -> AsyncIterator[int]: ...
    def trade(self, currency: str) -> rpcproto.Channel: ...
    @rpcproto.notify
    def log(self, line: str) -> None: ...


class ShopService(rpcproto.Service):
    service_name = "Shop"

    @rpcproto.request
    def price(self, item: str, count: int = 2, more: int = 3, *, local: int = 4) -> int:
        return count

    @rpcproto.stream
    def prices(self, item):
        return [item]

    @rpcproto.channel
    async def trade(self, channel, currency): ...

    @rpcproto.notify
    async def log(self, line): ...

    @rpcproto.request
    def beyond(self): ...


class One(Protocol):
    async def f(self, a: int, b: int = 0) -> int: ...


class Variadic(Protocol):
    async def f(self, a: int, *rest: int) -> int: ...


class PositionalOnly(Protocol):
    async def f(self, a: int, b: int, /) -> int: ...


def difference(function: Any, api: Any = One) -> str | None:
    try:
        check({f"{api.__name__}.f": function}, api)
    except rpcproto.ConfigurationError as error:
        return str(error)
    return None


def test_a_service_that_conforms() -> None:
    check(ShopService(), Shop)
    check([{"other": len}, ShopService()], Shop)
    check(ShopService(), ShopService)


@pytest.mark.parametrize(
    ("function", "api"),
    [
        (lambda a, b=5: None, One),
        (lambda *args: None, One),
        (lambda a, *args: None, One),
        (lambda a=1, b=2, c=3: None, One),
        (lambda x, y=0, /: None, One),
        (lambda *args: None, Variadic),
        (lambda a, *others: None, Variadic),
        (lambda x, y: None, PositionalOnly),
        (dict, One),  # does not tell its parameters
    ],
)
def test_handlers_that_fit(function: Any, api: Any) -> None:
    assert difference(function, api) is None


def swapped(b: int, a: int = 0) -> None: ...


@pytest.mark.parametrize(
    ("function", "api", "text"),
    [
        (swapped, One, "argument 1 is 'b' there and 'a' here"),
        (lambda a: None, One, "it does not take 'b'"),
        (lambda a, c=1: None, One, "argument 2 is 'c' there and 'b' here"),
        (lambda a, b: None, One, "it needs 'b', which callers may leave out"),
        (lambda a, b=0, *, c=0: None, Variadic, "it does not take *args"),
        (lambda a, b, *rest: None, Variadic, "it needs 'b', which callers may leave out"),
        (lambda a, b, c: None, PositionalOnly, "it needs 'c', which callers may leave out"),
    ],
)
def test_handlers_that_do_not_fit(function: Any, api: Any, text: str) -> None:
    said = difference(function, api)
    assert said is not None
    assert said.endswith(": " + text)


def test_the_text_shows_both_signatures() -> None:
    assert difference(swapped) == (
        "One is not implemented:\n"
        "  One.f: tests.aio.test_conformance.swapped (key 'One.f')(b: int, a: int = 0) -> None does not fit"
        " One.f(a: int, b: int = 0) -> int: argument 1 is 'b' there and 'a' here"
    )


def test_all_that_is_wrong_is_told() -> None:
    class Other(rpcproto.Service):
        service_name = "Shop"

        @rpcproto.request
        def prize(self, item): ...

        @rpcproto.request
        def prices(self, item): ...

        @rpcproto.channel
        async def trade(self, channel): ...

    with pytest.raises(rpcproto.ConfigurationError) as caught:
        check(Other(), Shop)
    head, price, prices, trade, log = str(caught.value).splitlines()
    assert head == "Shop is not implemented:"
    assert price == "  Shop.price is not served; did you mean 'Shop.prize'?"
    assert prices == "  Shop.prices is a request, but Shop.prices(item: str) -> AsyncIterator[int] is a stream"
    assert trade.endswith(": it does not take 'currency'")
    assert log == "  Shop.log is not served"


def test_prefixes() -> None:
    class ShopApi(Protocol):
        async def price(self, item: str) -> int: ...

    check(ShopService(), ShopApi, prefix="Shop")
    with pytest.raises(rpcproto.ConfigurationError, match=r"ShopApi.price is not served; did you mean 'Shop.price'\?"):
        check(ShopService(), ShopApi)


def test_serve_checks() -> None:
    rpcproto.serve(ShopService(), "inproc://shop", implements=Shop)
    rpcproto.serve([ShopService(), {"One.f": lambda a, b=0: a}], "inproc://shop", implements=[Shop, One])
    with pytest.raises(rpcproto.ConfigurationError, match="One is not implemented"):
        rpcproto.serve(ShopService(), "inproc://shop", implements=(Shop, One))
    with pytest.raises(rpcproto.ConfigurationError, match="not a class"):
        rpcproto.serve(ShopService(), "inproc://shop", implements="Shop")
