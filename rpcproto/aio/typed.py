"""Typed clients: an object that calls the peer's methods and that type checkers take for the class it is made of.

    class Shop(Protocol):
        async def price(self, item: str, count: int = 1) -> int: ...

    await client.of(Shop).price("tea", count=2)          # sends the request Shop.price, with "tea", 2

What a class may look like is in :mod:`rpcproto.aio.interface`, which arguments are sent in
:mod:`rpcproto.aio.parameters`. Rules of this module:

1. One class is made for each class given, once, of closures; nothing is compiled from text. Objects of it hold the
   connection and the options, so one more costs little: ``client.of(Shop, timeout=5)`` is how options are given, as
   keyword arguments belong to the methods. The one without options is kept by the client; keep the others yourself.
2. A call that gives enough arguments, and all by position, is passed on as it is. Others are arranged first; if they
   do not fit, that is a TypeError with the signature, and nothing is sent.
3. ``async def`` methods are coroutine functions: nothing happens, and no error is raised, until they are awaited or
   made a task. Who wants the Reply, which is sent at once and like a future, declares ``def ... -> Awaitable[T]``.
4. The parameter of ``of`` is a ``Callable[..., T]`` and not a ``type[T]``, which mypy does not let a Protocol be given
   for (python/mypy #4717). All classes are callables that return ``T``; what else is callable is refused when it runs.
5. Types of arguments and results are the type checker's business, here as elsewhere; at run time nobody looks at them.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar
from weakref import WeakKeyDictionary

from rpcproto.aio.interface import Form, Interface, Method, read_interface
from rpcproto.aio.parameters import did_you_mean
from rpcproto.aio.streaming import to_seconds
from rpcproto.errors import ConfigurationError, NoSuchMethod
from rpcproto.serialization import registry
from rpcproto.serialization.codec import Codec
from rpcproto.serialization.metadata import encode_metadata
from rpcproto.wire.spec import FrameType

__all__ = ["Proxy", "Typed"]

T = TypeVar("T")

_DEFAULT: Any = object()
_classes: WeakKeyDictionary[type, type[Proxy]] = WeakKeyDictionary()


class Typed:
    """What clients and peers have in common: :meth:`of`.

    Attributes:
        _proxies: the proxies without options, by class; None before the first one.
    """

    __slots__ = ("_proxies",)

    _proxies: dict[Any, Any] | None

    def of(
        self,
        api: Callable[..., T],
        /,
        *,
        prefix: str | None = None,
        timeout: float | None = _DEFAULT,
        codec: str | Codec | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> T:
        """An object with the methods of a class, each of which calls the method of that name of the peer.

        Type checkers take it for an instance of the class: ``await client.of(Shop).price("tea")``.

        Args:
            api: a :class:`typing.Protocol` that describes the peer's methods, or the Service class that it serves.
                Which method becomes which kind of call is in :mod:`rpcproto.aio.interface`.
            prefix: the part of wire names before the dot, instead of the class's ``service_name`` or name.
            timeout: seconds that each call made through the object may take, None for no limit. By default 30 for
                requests (``Timeouts.request``), and no limit for streams and channels.
            codec: of all calls made through it; by default the connection's.
            metadata: a small dict that goes along with each call made through it.

        Raises:
            ConfigurationError: the class is not fit for remote calls, or an option makes no sense; the text says why.
            SerializationError: the metadata cannot be encoded.

            The methods raise what ``request``, ``notify``, ``stream`` and ``channel`` do, and TypeError, before
            anything is sent, for arguments that do not fit the signature.
        """
        proxies = self._proxies
        if prefix is None and timeout is _DEFAULT and codec is None and metadata is None:
            if proxies is None:
                proxies = self._proxies = {}
            try:
                found = proxies.get(api)
            except TypeError:  # it has no hash, so it is no class, as will be said
                found = None
            if found is None:
                found = proxies[api] = _class_of(api)(self, None, {})
            return typing.cast(T, found)
        options: dict[str, Any] = {}
        if timeout is not _DEFAULT:
            to_seconds(timeout)
            options["timeout"] = timeout
        if codec is not None:
            options["codec"] = registry.get(codec)
        if metadata is not None:
            encode_metadata(metadata)
            options["metadata"] = dict(metadata)
        return typing.cast(T, _class_of(api)(self, prefix, options))


class Proxy:
    """Base of the classes that are made. What is its own is called ``_rpc_...``, as no method should be."""

    # All in one, since each look at an attribute of a class that has __getattr__ costs more than unpacking this.
    __slots__ = ("__weakref__", "_rpc_state")

    _rpc_interface: Interface
    _rpc_usual_names: tuple[str, ...]

    def __init__(self, target: Any, prefix: str | None, options: dict[str, Any]) -> None:
        names = self._rpc_usual_names if prefix is None else self._rpc_interface.wire_names(prefix)
        notify_options = {name: value for name, value in options.items() if name != "timeout"}
        self._rpc_state = (target, names, (options, notify_options), prefix)

    def __getattr__(self, name: str) -> NoReturn:
        interface = self._rpc_interface
        text = interface.left_out.get(name)
        if text is None:
            text = f"{interface.title} has no remote method {name!r}{did_you_mean(name, interface.methods)}"
        # With a name, Python's own traceback does not add a guess of its own.
        raise AttributeError(text, name=name)

    def __repr__(self) -> str:
        target, _, (options, _), prefix = self._rpc_state
        if "codec" in options:
            options = options | {"codec": options["codec"].name}
        if "metadata" in options:  # which may hold what must not get into a log
            options = options | {"metadata": sorted(options["metadata"])}
        if prefix is not None:
            options = options | {"prefix": prefix}
        given = "".join(f" {name}={value!r}" for name, value in options.items())
        return f"<{self._rpc_interface.title} of {target!r}{given}>"


def _class_of(api: Any) -> type[Proxy]:
    key = typing.get_origin(api) or api
    found = _classes.get(key) if isinstance(key, type) else None
    if found is None:
        interface = read_interface(api)
        namespace: dict[str, Any] = {
            "__slots__": (),
            "__module__": key.__module__,
            "__doc__": key.__doc__,
            "_rpc_interface": interface,
            "_rpc_usual_names": interface.wire_names(None),
        }
        for index, method in enumerate(interface.methods.values()):
            if method.attribute in dir(Proxy):
                raise ConfigurationError(f"{interface.title}.{method.attribute}: the name is taken; use another one")
            namespace[method.attribute] = _describe(_MAKERS[method.form](index, method), method, interface)
        found = _classes[key] = type(interface.title, (Proxy,), namespace)
    return found


def _describe(function: Any, method: Method, interface: Interface) -> Any:
    """Make a function look like the method of the class to ``help``, ``inspect`` and whoever reads a traceback."""
    function.__name__ = method.attribute
    function.__qualname__ = f"{interface.title}.{method.attribute}"
    function.__doc__ = method.doc
    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    try:
        function.__signature__ = method.signature.replace(parameters=[itself, *method.signature.parameters.values()])
    except ValueError:  # a parameter of a static method is called self
        pass
    return function


# ---- what the methods do ---------------------------------------------------------------------------------------------


def _coroutine(index: int, method: Method) -> Callable[..., Any]:
    parameters, verb, choice = method.parameters, method.kind.name.lower(), method.kind == FrameType.NOTIFY
    least, most = parameters.least, parameters.most

    async def call(self: Proxy, /, *args: Any, **keywords: Any) -> Any:
        if keywords or not least <= len(args) <= most:
            args = parameters.arrange(args, keywords)
        target, names, options, _ = self._rpc_state
        try:
            return await getattr(target, verb)(names[index], *args, **options[choice])
        except NoSuchMethod as error:
            if method.wire_name is None:
                error.add_note(_hint(self))
            raise

    return call


def _object(index: int, method: Method) -> Callable[..., Any]:
    parameters, verb, choice = method.parameters, method.kind.name.lower(), method.kind == FrameType.NOTIFY
    least, most = parameters.least, parameters.most

    def call(self: Proxy, /, *args: Any, **keywords: Any) -> Any:
        if keywords or not least <= len(args) <= most:
            args = parameters.arrange(args, keywords)
        target, names, options, _ = self._rpc_state
        return getattr(target, verb)(names[index], *args, **options[choice])

    return call


def _nothing(index: int, method: Method) -> Callable[..., None]:
    send = _object(index, method)

    def call(self: Proxy, /, *args: Any, **keywords: Any) -> None:
        send(self, *args, **keywords)

    return call


_MAKERS = {Form.COROUTINE: _coroutine, Form.OBJECT: _object, Form.NOTHING: _nothing}


def _hint(proxy: Proxy) -> str:
    return (
        f"It was called by {proxy!r}, which takes the part before the dot from prefix=, else from service_name of"
        f" {proxy._rpc_interface.title}, else from the name of that class."
    )
