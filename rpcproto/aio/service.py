"""What a server offers: services, the decorators that declare their methods, and the registry made of them.

Rules:

1. Everything is decided when the registry is built: the wire name of each method, and how its handler is run. A call
   costs one look-up in a plain dict. No name that came over the wire ever reaches ``getattr``, so ``__class__``,
   ``_private``, dotted or look-alike names are absent, not forbidden.
2. Only what was declared is served: methods with a decorator, and what a mapping names.
3. A definition that could not work is refused when it is built, with a text that names the method and the remedy.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import partialmethod
from typing import Any, NamedTuple, TypeVar, overload

from rpcproto.aio.handler import Handler
from rpcproto.aio.introspection import RESERVED
from rpcproto.errors import ConfigurationError
from rpcproto.wire.spec import MAX_METHOD_NAME, FrameType

__all__ = ["Service", "build_registry", "channel", "notify", "request", "stream"]

MARK = "__rpcproto__"
"""Attribute of a function that holds its declaration. ``functools.wraps`` copies it, so a decorator may go on top."""

F = TypeVar("F", bound=Callable[..., Any])


class Service:
    """Base class of everything that is served. Methods are declared by decorators::

        class Echo(rpcproto.Service):
            @rpcproto.request
            def echo(self, value):
                return value

    The wire name of a method is ``Class.method``, by the class of the instance that is served.

    A method that overrides a declared one takes over its declaration, so a base class can define what its subclasses
    implement, and adding a subclass takes nothing off the wire. Decorated again, the new declaration replaces the old
    one altogether. ``method = None`` in a subclass removes it.
    """

    service_name: str | None = None
    """Stands for the class name in wire names, also in subclasses. Set it on instances to serve two of one class."""


class Declaration(NamedTuple):
    """What a decorator noted on a function."""

    kind: FrameType
    name: str | None
    thread: bool


# ---- decorators ------------------------------------------------------------------------------------------------------


@overload
def request(function: F, /) -> F: ...
@overload
def request(*, name: str | None = None, thread: bool = False) -> Callable[[F], F]: ...
def request(function: Any = None, /, *, name: str | None = None, thread: bool = False) -> Any:
    """Declare a method that takes one message and answers with one.

    A plain function runs on the event loop, at once and in the order of arrival, so it must not block. A coroutine
    function runs as a task.

    Args:
        function: the method, when used without brackets.
        name: the whole wire name, instead of ``Class.method``. For a function in a mapping its key counts.
        thread: run it in a thread of the server's executor. For plain functions that block or compute.

    Raises:
        ConfigurationError: it cannot be declared so; the text says why.
    """
    return _declare("request", FrameType.REQUEST, function, name, thread)


@overload
def notify(function: F, /) -> F: ...
@overload
def notify(*, name: str | None = None, thread: bool = False) -> Callable[[F], F]: ...
def notify(function: Any = None, /, *, name: str | None = None, thread: bool = False) -> Any:
    """Declare a method that takes one message and does not answer. Arguments as for :func:`request`."""
    return _declare("notify", FrameType.NOTIFY, function, name, thread)


@overload
def stream(function: F, /) -> F: ...
@overload
def stream(*, name: str | None = None) -> Callable[[F], F]: ...
def stream(function: Any = None, /, *, name: str | None = None) -> Any:
    """Declare a method that takes one message and answers with many: an asynchronous generator, a generator, or a
    function that returns something to iterate. It goes on at the pace of its consumer, and is closed when that is gone.

    Args:
        function, name: as for :func:`request`.

    Raises:
        ConfigurationError: it cannot be declared so; the text says why.
    """
    return _declare("stream", FrameType.STREAM, function, name, False)


@overload
def channel(function: F, /) -> F: ...
@overload
def channel(*, name: str | None = None) -> Callable[[F], F]: ...
def channel(function: Any = None, /, *, name: str | None = None) -> Any:
    """Declare a method that exchanges many messages with its caller. Its first argument is the
    :class:`~rpcproto.Channel`.

    A coroutine function serves it as long as it runs; when it returns, the call ends. A plain function sets a consumer
    by ``channel.on_items(...)`` and returns; the call ends with the consumer.

    Args:
        function, name: as for :func:`request`.

    Raises:
        ConfigurationError: it cannot be declared so; the text says why.
    """
    return _declare("channel", FrameType.CHANNEL, function, name, False)


def _declare(decorator: str, kind: FrameType, function: Any, name: Any, thread: Any) -> Any:
    if name is not None:
        check_name(name, f"name= of @{decorator}")
    if not isinstance(thread, bool):
        raise ConfigurationError(f"thread= of @{decorator} must be True or False, not {thread!r}")
    declaration = Declaration(kind, name, thread)

    def mark(function: Any) -> Any:
        if not callable(function) and not isinstance(function, (staticmethod, classmethod, partialmethod)):
            raise ConfigurationError(
                f"@{decorator} goes on a function, not on {function!r}; a wire name is given as @{decorator}(name=...)"
            )
        if isinstance(function, type):
            raise ConfigurationError(f"@{decorator} goes on a method, not on the class {function.__qualname__}")
        if declaration_of(function) is not None:
            raise ConfigurationError(f"{_describe(function)} is decorated twice; one call kind per method")
        try:
            setattr(function, MARK, declaration)
        except AttributeError:
            raise ConfigurationError(
                f"@{decorator} cannot mark {_describe(function)}, which takes no attributes; "
                + _remedy(decorator, function)
            ) from None
        return function

    return mark if function is None else mark(function)


def _remedy(decorator: str, function: Any) -> str:
    if inspect.ismethod(function):
        return (
            f"decorate it in its class, derived from rpcproto.Service, or call it in a function: @{decorator} def ..."
        )
    return "wrap it in a function"


def declaration_of(function: Any) -> Declaration | None:
    found = getattr(function, MARK, None)
    if found is None and isinstance(function, (staticmethod, classmethod)):
        found = getattr(function.__func__, MARK, None)
    return found if isinstance(found, Declaration) else None


# ---- the registry ----------------------------------------------------------------------------------------------------


def build_registry(services: Any) -> dict[str, Handler]:
    """The handlers that a server offers, by wire name.

    Args:
        services: a :class:`Service`, a mapping of wire names to functions, or a sequence of these. A function of a
            mapping is a request unless it is decorated otherwise.

    Raises:
        ConfigurationError: something in it cannot be served; the text names it and the remedy.
    """
    registry: dict[str, Handler] = {}
    parts = services if isinstance(services, (list, tuple)) else [services]
    for part in parts:
        if isinstance(part, Service):
            found = _handlers_of_service(part)
        elif isinstance(part, Mapping):
            found = _handlers_of_mapping(part)
        else:
            raise ConfigurationError(_not_a_service(part))
        for handler in found:
            if handler.name.startswith(RESERVED):
                raise ConfigurationError(
                    f"method name {handler.name!r} of {handler.owner}: names that begin with {RESERVED!r} are those of"
                    " built-in methods; choose another service_name, name= or key"
                )
            other = registry.setdefault(handler.name, handler)
            if other is not handler:
                raise ConfigurationError(
                    f"method name {handler.name!r} is used twice: by {other.owner} and by {handler.owner}; set name= on"
                    " one of them, or service_name on one of the services"
                )
    if not registry:
        raise ConfigurationError("there is nothing to serve: the mapping or sequence is empty")
    return registry


def _handlers_of_service(service: Service) -> Iterator[Handler]:
    cls = type(service)
    title = f"{cls.__module__}.{cls.__qualname__}"
    prefix: Any = service.service_name
    if prefix is None:
        prefix = cls.__name__
    else:
        check_name(prefix, f"service_name of {title}")
    declared = declared_methods(cls)
    if not declared:
        raise ConfigurationError(_nothing_declared(cls, title))
    for attribute, declaration in declared.items():
        owner = f"{title}.{attribute}"
        function = getattr(service, attribute)
        if not callable(function):
            raise ConfigurationError(f"{owner} is declared as a method but is {function!r}")
        name = declaration.name
        if name is None:
            name = f"{prefix}.{attribute}"
            check_name(name, f"wire name of {owner}")
        yield Handler(name, declaration.kind, function, thread=declaration.thread, owner=owner)


def declared_methods(cls: type) -> dict[str, Declaration]:
    """Declarations by attribute name, in the order of definition, base classes first."""
    declared: dict[str, Declaration] = {}
    for base in reversed(cls.__mro__):
        for attribute, value in vars(base).items():
            declaration = declaration_of(value)
            if declaration is not None:
                declared[attribute] = declaration
            elif value is None:
                declared.pop(attribute, None)
    return declared


def _handlers_of_mapping(functions: Mapping[Any, Any]) -> Iterator[Handler]:
    for name, function in functions.items():
        check_name(name, "a key of the mapping")
        if isinstance(function, Service) or (isinstance(function, type) and issubclass(function, Service)):
            raise ConfigurationError(f"{name!r}: a mapping holds functions; pass a service itself, or in a list")
        if not callable(function):
            raise ConfigurationError(f"{name!r}: {function!r} is not callable")
        declaration = declaration_of(function) or Declaration(FrameType.REQUEST, None, False)
        owner = f"{_describe(function)} (key {name!r})"
        yield Handler(name, declaration.kind, function, thread=declaration.thread, owner=owner)


def check_name(name: Any, what: str) -> None:
    """Refuse a name that the wire cannot carry, or that would deceive a reader of logs."""
    if not isinstance(name, str):
        raise ConfigurationError(f"{what} must be a string, not {name!r}")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise ConfigurationError(f"{what} is not valid Unicode: {name!r}") from None
    if not 1 <= size <= MAX_METHOD_NAME:
        raise ConfigurationError(f"{what} must have 1 to {MAX_METHOD_NAME} bytes in UTF-8, not {size}: {name[:40]!r}")
    if not name.isprintable():
        raise ConfigurationError(f"{what} must be printable, without control or invisible characters: {name!r}")


def _describe(function: Any) -> str:
    name = getattr(function, "__qualname__", None)
    if not isinstance(name, str):
        return repr(function)
    module = getattr(function, "__module__", None)
    return f"{module}.{name}" if isinstance(module, str) else name


def _nothing_declared(cls: type, title: str) -> str:
    text = (
        f"{title} declares no methods; decorate them with @rpcproto.request, @rpcproto.notify, @rpcproto.stream or"
        " @rpcproto.channel"
    )
    plain = [
        attribute
        for base in reversed(cls.__mro__[: cls.__mro__.index(Service)])
        for attribute, value in vars(base).items()
        if inspect.isfunction(value) and not attribute.startswith("_")
    ]
    return f"{text} (undecorated: {', '.join(plain)})" if plain else text


def _not_a_service(thing: Any) -> str:
    if isinstance(thing, type):
        if issubclass(thing, Service):
            return f"{thing.__qualname__} is a class; pass an instance of it: {thing.__qualname__}(...)"
        return f"{thing.__qualname__} is a class, and not a Service; derive it from rpcproto.Service, pass an instance"
    if declared_methods(type(thing)):
        name = type(thing).__qualname__
        return f"{name} has decorated methods but is not a Service; derive it from rpcproto.Service"
    if callable(thing):
        return f'{_describe(thing)} is a function; give it a wire name: {{"name": function}}'
    return f"a Service, a mapping of names to functions or a list of these can be served, not {thing!r}"
