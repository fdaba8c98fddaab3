"""Typed clients: what their methods call, with which arguments and options, and what they say when they cannot."""

from __future__ import annotations

import copy
import gc
import inspect
import traceback
import weakref
from typing import Any, Protocol, TypeVar

import pytest

import rpcproto
from rpcproto.aio import typed
from rpcproto.aio.typed import Typed
from tests.aio._shop import Shop

T = TypeVar("T")


class Settled:
    """An awaitable that is done."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __await__(self) -> Any:
        return self.value
        yield


class FakePeer(Typed):
    """Records the calls made of it; the result of each is its number."""

    def __init__(self) -> None:
        self._proxies = None
        self.calls: list[tuple[Any, ...]] = []

    def _call(self, verb: str, *args: Any, **options: Any) -> Settled:
        self.calls.append((verb, *args, *options.items()))
        return Settled(len(self.calls))

    def request(self, *args: Any, **options: Any) -> Settled:
        return self._call("request", *args, **options)

    def notify(self, *args: Any, **options: Any) -> Settled:
        return self._call("notify", *args, **options)

    def stream(self, *args: Any, **options: Any) -> Settled:
        return self._call("stream", *args, **options)

    def channel(self, *args: Any, **options: Any) -> Settled:
        return self._call("channel", *args, **options)

    def __repr__(self) -> str:
        return "<fake>"


def result(coroutine: Any) -> Any:
    """What a coroutine that waits for nothing returns."""
    with pytest.raises(StopIteration) as caught:
        coroutine.send(None)
    return caught.value.value


# ---- calls ---------------------------------------------------------------------------------------------------------


def test_each_kind_of_call() -> None:
    peer = FakePeer()
    shop = peer.of(Shop)
    assert result(shop.price("tea", 2)) == 1
    assert isinstance(shop.soon("tea"), Settled)
    assert isinstance(shop.prices("tea"), Settled)
    assert isinstance(shop.trade("EUR"), Settled)
    assert shop.log("sold") is None
    assert result(shop.flush()) == 6
    assert result(shop.pay()) == 7
    assert peer.calls == [
        ("request", "Shop.price", "tea", 2),
        ("request", "Shop.soon", "tea"),
        ("stream", "Shop.prices", "tea"),
        ("channel", "Shop.trade", "EUR"),
        ("notify", "Shop.log", "sold"),
        ("notify", "Shop.flush"),
        ("request", "Bank.pay"),
    ]


def test_arguments_by_name() -> None:
    peer = FakePeer()
    shop = peer.of(Shop)
    result(shop.price(count=2, item="tea"))
    result(shop.price("tea", currency="USD"))
    shop.prices(item="tea")
    shop.log(line="sold")
    assert [call[2:] for call in peer.calls] == [("tea", 2), ("tea", 1, "USD"), ("tea",), ("sold",)]


def test_an_argument_may_be_called_as_an_option() -> None:
    class Api(Protocol):
        async def wait(self, timeout: float, codec: str, prefix: str, args: int, target: int) -> None: ...

    peer = FakePeer()
    result(peer.of(Api).wait(prefix="p", timeout=1, codec="c", args=3, target=4))
    assert peer.calls == [("request", "Api.wait", 1, "c", "p", 3, 4)]


def test_wrong_arguments_are_not_sent() -> None:
    peer = FakePeer()
    shop: Any = peer.of(Shop)
    with pytest.raises(TypeError) as caught:
        shop.price().send(None)
    text = "Shop.price(item: str, count: int = 1, currency: str = 'EUR') -> int: 'item' is missing"
    assert str(caught.value) == text
    for call in (lambda: shop.log(), lambda: shop.prices("tea", 1), lambda: shop.soon(iten="tea")):
        with pytest.raises(TypeError, match=r"^Shop\.\w+\("):
            call()
    assert peer.calls == []


def test_a_coroutine_does_nothing_until_it_is_awaited() -> None:
    peer = FakePeer()
    coroutine = peer.of(Shop).price("tea")
    assert inspect.iscoroutine(coroutine)
    assert coroutine.__qualname__ == "Shop.price"
    coroutine.close()
    assert peer.calls == []


# ---- options -------------------------------------------------------------------------------------------------------


def test_options() -> None:
    peer = FakePeer()
    raw = rpcproto.serialization.registry.get("raw")
    shop = peer.of(Shop, timeout=5, codec="raw", prefix="Other")
    result(shop.price("tea"))
    shop.prices("tea")
    shop.log("sold")
    result(peer.of(Shop, timeout=None).pay())
    assert peer.calls == [
        ("request", "Other.price", "tea", ("timeout", 5), ("codec", raw)),
        ("stream", "Other.prices", "tea", ("timeout", 5), ("codec", raw)),
        ("notify", "Other.log", "sold", ("codec", raw)),
        ("request", "Bank.pay", ("timeout", None)),
    ]
    tenant = {"tenant": "secret"}
    marked = peer.of(Shop, metadata=tenant)
    tenant["late"] = "not seen"
    marked.log("sold")
    assert peer.calls[-1] == ("notify", "Shop.log", "sold", ("metadata", {"tenant": "secret"}))
    assert repr(marked) == "<Shop of <fake> metadata=['tenant']>"
    assert repr(shop) == "<Shop of <fake> timeout=5 codec='raw' prefix='Other'>"
    assert repr(peer.of(Shop)) == "<Shop of <fake>>"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"timeout": -1}, "timeout must be 0 or more seconds"),
        ({"timeout": "soon"}, "timeout must be a number of seconds or None, not 'soon'"),
        ({"codec": "none"}, "no codec is called 'none'"),
        ({"prefix": 5}, "prefix must be a string, not 5"),
        ({"metadata": 5}, "metadata must be a dict, not int"),
    ],
)
def test_wrong_options(options: Any, text: str) -> None:
    with pytest.raises((rpcproto.ConfigurationError, rpcproto.SerializationError), match=text):
        FakePeer().of(Shop, **options)


def test_wrong_classes() -> None:
    peer = FakePeer()
    for wrong in (5, "Shop", len, int, FakePeer(), None, [Shop]):
        with pytest.raises(rpcproto.ConfigurationError):
            peer.of(wrong)  # type: ignore[arg-type]

    class Taken(Protocol):
        @rpcproto.request
        async def __call__(self) -> int: ...
        @rpcproto.request
        async def __repr__(self) -> str: ...  # type: ignore[override]

    with pytest.raises(rpcproto.ConfigurationError, match=r"Taken.__repr__: the name is taken; use another one"):
        peer.of(Taken)


# ---- the object ----------------------------------------------------------------------------------------------------


def test_the_one_without_options_is_kept() -> None:
    peer, other = FakePeer(), FakePeer()
    assert peer.of(Shop) is peer.of(Shop)
    assert peer.of(Shop) is not other.of(Shop)
    assert type(peer.of(Shop)) is type(other.of(Shop)) is type(peer.of(Shop, timeout=1))
    assert peer.of(Shop, timeout=1) is not peer.of(Shop, timeout=1)


def test_type_arguments_make_no_difference() -> None:
    class Store(Protocol[T]):
        async def get(self) -> T: ...

    peer = FakePeer()
    assert peer.of(Store[int]) is peer.of(Store[int])
    assert type(peer.of(Store[int])) is type(peer.of(Store[str])) is type(peer.of(Store))


def test_it_looks_like_its_class() -> None:
    shop = FakePeer().of(Shop)
    assert isinstance(shop, Shop)
    assert type(shop).__doc__ == "What a shop offers."
    assert {"price", "soon", "prices", "trade", "log", "flush", "pay"} <= set(dir(shop))
    assert shop.price.__name__ == "price"
    assert shop.price.__doc__ == "The price of some of an item."
    assert list(inspect.signature(shop.price).parameters) == ["item", "count", "currency"]
    assert inspect.iscoroutinefunction(shop.price)
    assert not inspect.iscoroutinefunction(shop.soon)
    assert copy.copy(shop).price("tea").close() is None
    with pytest.raises(AttributeError):
        shop.price = None  # type: ignore[method-assign,assignment]


def test_a_parameter_called_self() -> None:
    class Api(Protocol):
        @staticmethod
        async def f(self: int) -> int: ...

    peer = FakePeer()
    result(peer.of(Api).f(5))
    result(peer.of(Api).f(self=6))
    assert [call[2:] for call in peer.calls] == [(5,), (6,)]


def test_wrong_names() -> None:
    shop: Any = FakePeer().of(Shop)
    with pytest.raises(AttributeError) as caught:
        _ = shop.prize
    text = "Shop has no remote method 'prize'; did you mean 'price'?"
    assert str(caught.value) == text
    shown = traceback.format_exception(caught.value)[-1]
    assert shown == f"AttributeError: {text}\n"  # Python adds no guess of its own
    assert not hasattr(shop, "unlike_any")
    assert not hasattr(shop, "__len__")


def test_what_a_service_leaves_out() -> None:
    class Counter(rpcproto.Service):
        total = 0

        @rpcproto.request
        async def add(self, n: int) -> int:
            return n

        @rpcproto.request
        def quick(self, n: int) -> int:
            return n

    peer = FakePeer()
    counter = peer.of(Counter)
    result(counter.add(1))
    assert peer.calls == [("request", "Counter.add", 1)]
    with pytest.raises(AttributeError, match=r"^Counter.quick: as a plain def .* or write a Protocol for callers$"):
        counter.quick(1)
    with pytest.raises(AttributeError, match="Counter has no remote method 'total'"):
        _ = counter.total


def test_nothing_is_kept_for_ever() -> None:
    class Gone(Protocol):
        async def ask(self) -> int: ...

    peer = FakePeer()
    kept = weakref.ref(Gone), weakref.ref(peer), weakref.ref(type(peer.of(Gone)))
    assert Gone in typed._classes
    del peer, Gone
    gc.collect()
    gc.collect()  # the first one lets the class go that was made
    assert [reference() for reference in kept] == [None, None, None]
