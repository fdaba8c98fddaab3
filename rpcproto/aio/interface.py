"""What a class of method signatures says about calls: which methods it has, of which kind, under which wire name.

The class is a :class:`typing.Protocol`, or the :class:`~rpcproto.Service` that the server serves. Rules:

1. A signature is kept to the letter. A method becomes the kind of call whose result is what a type checker takes it
   for, and one for which there is no such kind is not offered::

       signature                                   kind        a call gives
       async def f(...) -> T                       request     a coroutine; nothing is sent until it is awaited
       def f(...) -> Awaitable[T], -> Reply        request     a Reply; the call has been sent
       def f(...) -> AsyncIterator[T], -> Stream   stream      a Stream
       async def f(...) -> ...: yield              stream      a Stream
       def f(...) -> Channel                       channel     a Channel
       @notify async def f(...) -> None            notify      a coroutine, done when it was handed to the system
       @notify def f(...) -> None                  notify      None
       @notify def f(...) -> Reply                 notify      its handle

   AsyncIterable and AsyncGenerator are taken as AsyncIterator; of what only a generator has a Stream has ``aclose``.
   A decorator has the last word where the signature leaves the kind open.
2. A Protocol is written for callers, so a method of it that is none of these is an error, at once. The methods of a
   Service are written for the server. Those that a caller would see with another type (a plain ``def`` that returns
   its result, a channel, which takes the Channel as an argument) are left out, each with its reason; call them by
   name, or write a Protocol.
3. The wire name is ``prefix.method``, or what ``name=`` of the decorator says. The prefix is the ``service_name`` of
   the class, else its name: for a Protocol as for a Service. Nothing is guessed; a Protocol ``ShopApi`` does not find
   a service ``Shop``. Call both alike, or set ``service_name`` on one of them.
4. Methods of a Protocol whose names begin with an underscore are ignored unless decorated; of a Service only decorated
   methods count.
5. Only the outermost name of a return annotation is looked at. It may be imported for type checkers only.
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Coroutine
from enum import Enum, auto
from typing import Any, Literal, NamedTuple

from rpcproto.aio.handler import is_coroutine_function, layers
from rpcproto.aio.parameters import Parameters
from rpcproto.aio.reply import Reply
from rpcproto.aio.service import Declaration, Service, check_name, declaration_of, declared_methods
from rpcproto.aio.stream import Channel, Stream
from rpcproto.errors import ConfigurationError
from rpcproto.wire.spec import FrameType

__all__ = ["Form", "Interface", "Method", "read_interface"]

_FOR_SIGNATURES: dict[str, Any] = {}
_FOR_ATTRIBUTES: dict[str, Any] = {}
if sys.version_info >= (3, 14):  # annotations are evaluated when asked for, and may name what only type checkers import
    import annotationlib

    _FOR_SIGNATURES = {"annotation_format": annotationlib.Format.STRING}
    _FOR_ATTRIBUTES = {"format": annotationlib.Format.FORWARDREF}


class Form(Enum):
    """What a call of a method gives to its caller."""

    COROUTINE = auto()
    OBJECT = auto()
    """The Reply, Stream or Channel itself."""
    NOTHING = auto()


class Method(NamedTuple):
    """One method that can be called."""

    attribute: str
    wire_name: str | None
    """The whole wire name, if a decorator gives it."""
    kind: FrameType
    form: Form
    parameters: Parameters
    signature: inspect.Signature
    doc: str | None


class Interface(NamedTuple):
    """What a class says about calls."""

    title: str
    prefix: str
    methods: dict[str, Method]
    left_out: dict[str, str]
    """Methods of a service that callers cannot use, with the reasons."""

    def wire_names(self, prefix: str | None) -> tuple[str, ...]:
        """The wire name of each method.

        Args:
            prefix: stands for the prefix of the class, if not None.
        """
        if prefix is None:
            prefix = self.prefix
        else:
            check_name(prefix, "prefix")
        names = tuple(method.wire_name or f"{prefix}.{method.attribute}" for method in self.methods.values())
        for name in names:
            check_name(name, "wire name")
        return names


def read_interface(api: Any) -> Interface:
    """Read a class.

    Args:
        api: a Protocol, also with type arguments (``Store[int]``), or a subclass of Service.

    Raises:
        ConfigurationError: it is no such class, or not fit for remote calls; the text names what and the remedy.
    """
    cls = typing.get_origin(api) or api
    if not isinstance(cls, type):
        what = f"pass its class, {type(cls).__qualname__}" if isinstance(cls, Service) else _WANTED
        raise ConfigurationError(f"{api!r} is not a class: {what}")
    title = cls.__qualname__.rpartition("<locals>.")[2]
    prefix = getattr(cls, "service_name", None)
    if prefix is None:
        prefix = cls.__name__
    check_name(prefix, f"service_name of {title}")
    members: dict[str, tuple[Any, Declaration | None]]
    if issubclass(cls, Service):
        declared = declared_methods(cls).items()
        members = {name: (inspect.getattr_static(cls, name), declaration) for name, declaration in declared}
    elif getattr(cls, "_is_protocol", False):
        members = _members_of_protocol(cls, title)
    else:
        raise ConfigurationError(f"{title} is neither a Protocol nor a Service: {_WANTED}")
    methods: dict[str, Method] = {}
    left_out: dict[str, str] = {}
    for name, (value, declaration) in members.items():
        try:
            methods[name] = _read_method(f"{title}.{name}", name, value, declaration, cls)
        except ConfigurationError as error:
            if not issubclass(cls, Service):
                raise
            left_out[name] = f"{error}. Call it by its wire name, or write a Protocol for callers"
    if not methods:
        reasons = "".join(f"\n  {reason}" for reason in left_out.values())
        raise ConfigurationError(f"{title} has no methods that could be called{reasons and ':'}{reasons}")
    return Interface(title, prefix, methods, left_out)


_WANTED = "a typing.Protocol with the methods of the peer is wanted, or the Service class that it serves"


def _members_of_protocol(cls: type, title: str) -> dict[str, tuple[Any, Declaration | None]]:
    members: dict[str, tuple[Any, Declaration | None]] = {}
    for base in reversed(cls.__mro__):
        if base is object or base is typing.Protocol or base is typing.Generic:
            continue
        for name, value in vars(base).items():
            declaration = declaration_of(value) or (members[name][1] if name in members else None)
            if name == "service_name" or (name.startswith("_") and declaration is None):
                continue
            if not (callable(value) or isinstance(value, (staticmethod, classmethod))) or isinstance(value, type):
                raise ConfigurationError(f"{title}.{name} is not a method: all that a peer has are methods")
            members[name] = (value, declaration)
        for name in inspect.get_annotations(base, **_FOR_ATTRIBUTES):
            if name != "service_name" and not name.startswith("_"):
                raise ConfigurationError(f"{title}.{name} is an attribute: all that a peer has are methods")
    return members


def _read_method(title: str, attribute: str, value: Any, declaration: Declaration | None, cls: type) -> Method:
    # Bound to whatever, since inspect then knows which parameter is self.
    function = value.__get__(_NOBODY, cls) if hasattr(type(value), "__get__") else value
    try:
        signature = inspect.signature(function, **_FOR_SIGNATURES)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{title} does not tell its parameters, of which the first must be self") from error
    kind, form = _classify(title, function, signature.return_annotation, declaration and declaration.kind, cls)
    return Method(
        attribute,
        declaration and declaration.name,
        kind,
        form,
        Parameters(title, signature),
        signature,
        inspect.getdoc(function),
    )


_NOBODY = object()


# ---- kinds -----------------------------------------------------------------------------------------------------------

_Result = Literal["awaitable", "coroutine", "items", "channel", "none", "unsaid", "other"]

_RESULTS: list[tuple[Any, _Result]] = [
    (Awaitable, "awaitable"),
    (Reply, "awaitable"),
    (Coroutine, "coroutine"),
    (AsyncIterator, "items"),
    (AsyncIterable, "items"),
    (AsyncGenerator, "items"),
    (Stream, "items"),
    (Channel, "channel"),
    (None, "none"),
    (type(None), "none"),
    (inspect.Signature.empty, "unsaid"),
]
"""What the outermost part of a return annotation says."""

_BY_NAME: dict[str, _Result] = {result.__name__: said for result, said in _RESULTS if isinstance(result, type)} | {
    "None": "none"
}


def _classify(
    title: str, function: Any, annotation: Any, declared: FrameType | None, cls: type
) -> tuple[FrameType, Form]:
    """The kind of call, and what it gives.

    Raises:
        ConfigurationError: there is none that gives what the signature says.
    """
    said = _result(annotation, function)
    found = [layer for layer, _ in layers(function)]
    kind: FrameType | None
    if any(inspect.isasyncgenfunction(layer) for layer in found):
        kind, form = FrameType.STREAM, Form.OBJECT
    elif any(is_coroutine_function(layer) for layer in found):
        if said in ("items", "channel"):
            raise ConfigurationError(
                f"{title}: as a coroutine function it gives its result when it is awaited, not at once: write it"
                " without async"
            )
        kind, form = (declared if declared == FrameType.NOTIFY else FrameType.REQUEST), Form.COROUTINE
    elif declared == FrameType.NOTIFY:
        forms = {"none": Form.NOTHING, "coroutine": Form.COROUTINE, "awaitable": Form.OBJECT, "unsaid": Form.OBJECT}
        if said not in forms:
            raise ConfigurationError(f"{title}: a notify has no result: annotate it with -> None")
        kind, form = FrameType.NOTIFY, forms[said]
    else:
        kind = {
            "awaitable": FrameType.REQUEST,
            "coroutine": FrameType.REQUEST,
            "items": FrameType.STREAM,
            "channel": FrameType.CHANNEL,
        }.get(said)
        if kind is None and said == "unsaid" and declared in (FrameType.STREAM, FrameType.CHANNEL):
            kind = declared
        form = Form.COROUTINE if said == "coroutine" else Form.OBJECT
    if issubclass(cls, Service) and declared == FrameType.CHANNEL:
        raise ConfigurationError(f"{title}: a handler is given the Channel, a caller gets it")
    if kind is None:
        raise ConfigurationError(
            f"{title}: as a plain def it would give its result at once, which no remote call can: write async def"
            + ("" if issubclass(cls, Service) else ", or decorate it with @rpcproto.notify,")
            + " or -> AsyncIterator[...] for a stream"
        )
    if declared is not None and kind != declared:
        raise ConfigurationError(
            f"{title} is declared as a {declared.name.lower()}, but written as a {kind.name.lower()}"
        )
    return kind, form


def _result(annotation: Any, function: Any) -> _Result:
    if isinstance(annotation, str):
        annotation = _resolve(annotation.strip("'\" ").partition("[")[0].strip(), function)
        if isinstance(annotation, str):
            return _BY_NAME.get(annotation, "other")
    head = typing.get_origin(annotation) or annotation
    return next((said for result, said in _RESULTS if head is result), "other")


def _resolve(name: str, function: Any) -> Any:
    """What a dotted name means where the function was defined; the last part of the name, if it is not known there."""
    if name == "None":
        return None
    first, *rest = name.split(".")
    value: Any = _NOBODY
    for layer, _ in layers(function):
        value = getattr(layer, "__globals__", {}).get(first, value)
    for part in rest:
        value = getattr(value, part, _NOBODY)
    return name.rpartition(".")[2] if value is _NOBODY else value
