"""What a Protocol or a Service says about calls, and what is refused or left out, with which words."""

from __future__ import annotations

import collections.abc
import functools
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Coroutine
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

import pytest

import rpcproto
from rpcproto.aio.interface import Form, read_interface
from rpcproto.errors import ConfigurationError
from tests.aio._services import traced

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator as Unknown

T = TypeVar("T")
Numbers = AsyncIterator[int]


def kinds(api: Any) -> dict[str, tuple[str, Form]]:
    return {name: (method.kind.name.lower(), method.form) for name, method in read_interface(api).methods.items()}


def refusal(api: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        read_interface(api)
    return str(caught.value)


# ---- protocols -----------------------------------------------------------------------------------------------------


class All(Protocol):
    async def coroutine(self, value: int) -> int: ...
    def awaitable(self) -> Awaitable[int]: ...
    def reply(self) -> rpcproto.Reply: ...
    def coroutine_object(self) -> Coroutine[Any, Any, int]: ...
    def iterator(self) -> AsyncIterator[int]: ...
    def iterable(self) -> AsyncIterable[int]: ...
    def generator(self) -> AsyncGenerator[int, None]: ...
    def stream(self) -> rpcproto.Stream: ...
    def qualified(self) -> collections.abc.AsyncIterator[int]: ...
    def quoted(self) -> "AsyncIterator[int]": ...  # noqa: UP037
    def alias(self) -> Numbers: ...
    def channel(self) -> rpcproto.Channel: ...
    async def yields(self) -> AsyncIterator[int]:
        yield 1

    @rpcproto.notify
    def note(self) -> None: ...
    @rpcproto.notify
    def untyped_note(self): ...
    @rpcproto.notify
    def note_handle(self) -> Awaitable[None]: ...
    @rpcproto.notify
    async def note_coroutine(self) -> None: ...
    @rpcproto.stream
    def untyped_stream(self): ...
    @rpcproto.channel
    def untyped_channel(self): ...
    @traced
    async def decorated(self) -> int: ...


def test_kinds() -> None:
    assert kinds(All) == {
        "coroutine": ("request", Form.COROUTINE),
        "awaitable": ("request", Form.OBJECT),
        "reply": ("request", Form.OBJECT),
        "coroutine_object": ("request", Form.COROUTINE),
        "iterator": ("stream", Form.OBJECT),
        "iterable": ("stream", Form.OBJECT),
        "generator": ("stream", Form.OBJECT),
        "stream": ("stream", Form.OBJECT),
        "qualified": ("stream", Form.OBJECT),
        "quoted": ("stream", Form.OBJECT),
        "alias": ("stream", Form.OBJECT),
        "channel": ("channel", Form.OBJECT),
        "yields": ("stream", Form.OBJECT),
        "note": ("notify", Form.NOTHING),
        "untyped_note": ("notify", Form.OBJECT),
        "note_handle": ("notify", Form.OBJECT),
        "note_coroutine": ("notify", Form.COROUTINE),
        "untyped_stream": ("stream", Form.OBJECT),
        "untyped_channel": ("channel", Form.OBJECT),
        "decorated": ("request", Form.COROUTINE),
    }


def test_annotations_need_not_be_known_at_run_time() -> None:
    class Late(Protocol):
        def known_by_name(self) -> AsyncIterator[asyncio.Event]: ...
        def also(self) -> nowhere.AsyncIterator[int]: ...  # type: ignore[name-defined]  # noqa: F821

    assert {kind for kind, _ in kinds(Late).values()} == {"stream"}

    class Renamed(Protocol):
        def count(self) -> Unknown[int]: ...

    assert "Renamed.count: as a plain def it would give its result at once" in refusal(Renamed)


def test_annotations_that_are_no_text() -> None:
    namespace: dict[str, Any] = {}
    exec(
        "from typing import AsyncIterator, Protocol, Optional\n"
        "class Api(Protocol):\n"
        "    def count(self) -> AsyncIterator[int]: ...\n"
        "    def bare(self) -> AsyncIterator: ...\n"
        "    async def ask(self, value: Optional[int] = None) -> None: ...\n",
        namespace,
    )
    assert [kind for kind, _ in kinds(namespace["Api"]).values()] == ["stream", "stream", "request"]


def test_names() -> None:
    class Shop(Protocol):
        async def price(self) -> int: ...
        @rpcproto.request(name="Bank.pay")
        async def pay(self) -> int: ...

    class Named(Protocol):
        service_name: ClassVar[str] = "Shop"

        async def price(self) -> int: ...

    interface = read_interface(Shop)
    assert interface.title == "Shop"
    assert interface.wire_names(None) == ("Shop.price", "Bank.pay")
    assert interface.wire_names("My") == ("My.price", "Bank.pay")
    assert read_interface(Named).wire_names(None) == ("Shop.price",)
    with pytest.raises(ConfigurationError, match="prefix must have 1 to"):
        interface.wire_names("")
    with pytest.raises(ConfigurationError, match="wire name must have 1 to"):
        interface.wire_names("x" * 250)
    Named.service_name = ""
    assert "service_name of Named must have 1 to" in refusal(Named)


def test_inherited_methods() -> None:
    class Base(Protocol):
        async def base(self) -> int: ...
        @rpcproto.notify
        def note(self) -> None: ...

    class Child(Base, Protocol):
        async def child(self) -> int: ...
        def note(self) -> None: ...

    assert kinds(Child) == {
        "base": ("request", Form.COROUTINE),
        "note": ("notify", Form.NOTHING),
        "child": ("request", Form.COROUTINE),
    }
    assert read_interface(Child).wire_names(None) == ("Child.base", "Child.note", "Child.child")


def test_generic_protocols() -> None:
    class Store(Protocol[T]):
        async def get(self, key: str) -> T: ...

    class Old(Protocol, Generic[T]):
        async def get(self, key: str) -> T: ...

    for api in (Store, Store[int], Old[int]):
        assert list(read_interface(api).methods) == ["get"]


def test_private_names_are_ignored() -> None:
    class Api(Protocol):
        _cache: int

        async def ask(self) -> int: ...
        def _helper(self) -> int: ...
        def __len__(self) -> int: ...
        @rpcproto.request
        async def _declared(self) -> int: ...

    assert list(read_interface(Api).methods) == ["ask", "_declared"]


def test_static_and_class_methods() -> None:
    class Api(Protocol):
        @staticmethod
        async def static(value: int) -> int: ...
        @classmethod
        async def of_class(cls, value: int) -> int: ...

    assert [method.parameters.names for method in read_interface(Api).methods.values()] == [("value",), ("value",)]


class PlainResult(Protocol):
    def f(self) -> int: ...


class PlainNone(Protocol):
    def f(self) -> None: ...


class Untyped(Protocol):
    def f(self): ...


class Future(Protocol):
    def f(self) -> asyncio.Future[int]: ...


class AsyncStream(Protocol):
    async def f(self) -> AsyncIterator[int]: ...


class NotifyWithResult(Protocol):
    @rpcproto.notify
    def f(self) -> int: ...


class RequestThatStreams(Protocol):
    @rpcproto.request
    def f(self) -> AsyncIterator[int]: ...


class StreamThatAnswers(Protocol):
    @rpcproto.stream
    async def f(self) -> int: ...


class KeywordOnly(Protocol):
    async def f(self, *, a: int) -> int: ...


class NoSelf(Protocol):
    async def f() -> int: ...  # type: ignore[misc]


class WithProperty(Protocol):
    @property
    def f(self) -> int: ...


class WithAttribute(Protocol):
    f: int


class WithValue(Protocol):
    f: int = 5


class WithClass(Protocol):
    class f: ...  # noqa: N801


class Empty(Protocol):
    pass


class Abstract:
    async def f(self) -> int: ...


@pytest.mark.parametrize(
    ("api", "text"),
    [
        (
            PlainResult,
            "PlainResult.f: as a plain def it would give its result at once, which no remote call can: write",
        ),
        (PlainNone, "write async def, or decorate it with @rpcproto.notify, or -> AsyncIterator[...] for a stream"),
        (Untyped, "Untyped.f: as a plain def"),
        (Future, "Future.f: as a plain def"),
        (AsyncStream, "AsyncStream.f: as a coroutine function it gives its result when it is awaited, not at once"),
        (NotifyWithResult, "NotifyWithResult.f: a notify has no result: annotate it with -> None"),
        (RequestThatStreams, "RequestThatStreams.f is declared as a request, but written as a stream"),
        (StreamThatAnswers, "StreamThatAnswers.f is declared as a stream, but written as a request"),
        (KeywordOnly, "KeywordOnly.f(*, a: int) -> int: arguments travel by position, so a cannot be given"),
        (NoSelf, "NoSelf.f does not tell its parameters, of which the first must be self"),
        (WithProperty, "WithProperty.f is not a method: all that a peer has are methods"),
        (WithAttribute, "WithAttribute.f is an attribute: all that a peer has are methods"),
        (WithValue, "WithValue.f is not a method"),
        (WithClass, "WithClass.f is not a method"),
        (Empty, "Empty has no methods that could be called"),
        (Abstract, "Abstract is neither a Protocol nor a Service: a typing.Protocol with the methods of the peer is"),
        (len, "<built-in function len> is not a class: a typing.Protocol"),
        ("Shop", "'Shop' is not a class"),
    ],
)
def test_what_is_refused(api: Any, text: str) -> None:
    assert text in refusal(api)


# ---- services ------------------------------------------------------------------------------------------------------


class Counter(rpcproto.Service):
    @rpcproto.request
    async def add(self, n: int) -> int:
        return n

    @rpcproto.request
    def quick(self, n: int) -> int:
        return n

    @rpcproto.request(name="Other.name")
    async def named(self) -> None: ...

    @rpcproto.notify
    def note(self, line: str) -> None: ...

    @rpcproto.stream
    async def count(self, n: int) -> AsyncIterator[int]:
        yield n

    @rpcproto.stream
    def listed(self, n: int) -> list[int]:
        return [n]

    @rpcproto.channel
    async def chat(self, channel: rpcproto.Channel) -> None: ...

    @rpcproto.request
    async def optional(self, *, key: int = 1) -> None: ...

    async def helper(self) -> None: ...


def test_a_service() -> None:
    interface = read_interface(Counter)
    assert kinds(Counter) == {
        "add": ("request", Form.COROUTINE),
        "named": ("request", Form.COROUTINE),
        "note": ("notify", Form.NOTHING),
        "count": ("stream", Form.OBJECT),
    }
    assert interface.wire_names(None) == ("Counter.add", "Other.name", "Counter.note", "Counter.count")
    advice = ". Call it by its wire name, or write a Protocol for callers"
    plain = "as a plain def it would give its result at once, which no remote call can: write async def"
    assert interface.left_out == {
        "quick": f"Counter.quick: {plain} or -> AsyncIterator[...] for a stream{advice}",
        "listed": f"Counter.listed: {plain} or -> AsyncIterator[...] for a stream{advice}",
        "chat": f"Counter.chat: a handler is given the Channel, a caller gets it{advice}",
        "optional": "Counter.optional(*, key: int = 1) -> None: arguments travel by position, so key cannot be given;"
        f" remove the * before it{advice}",
    }


def test_a_service_by_its_names() -> None:
    class Renamed(Counter):
        service_name = "Public"

    assert read_interface(Renamed).wire_names(None)[0] == "Public.add"


def test_a_service_without_usable_methods() -> None:
    class Plain(rpcproto.Service):
        @rpcproto.request
        def quick(self) -> int:
            return 1

    text = refusal(Plain)
    assert text.startswith("Plain has no methods that could be called:\n  Plain.quick: as a plain def")
    assert refusal(rpcproto.Service) == "Service has no methods that could be called"
    assert "is not a class: pass its class, Counter" in refusal(Counter())


def test_odd_members_of_a_service() -> None:
    async def plain(self: object, a: int, b: int) -> int:
        return a

    class Odd(rpcproto.Service):
        part = rpcproto.request(functools.partialmethod(plain, 5))

    (method,) = read_interface(Odd).methods.values()
    assert (method.form, method.parameters.names) == (Form.COROUTINE, ("b",))
