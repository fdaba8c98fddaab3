"""Whether what is served is what callers were promised: names, kinds of call and parameters, not types.

A handler conforms if every call that fits the signature of the caller fits the handler too, and means the same there:
arguments travel by position, so their names must be the same at the same positions.
"""

from __future__ import annotations

import inspect
from typing import Any

from rpcproto.aio.handler import Handler
from rpcproto.aio.interface import Method, read_interface
from rpcproto.aio.parameters import did_you_mean, spelled
from rpcproto.aio.service import build_registry
from rpcproto.errors import ConfigurationError
from rpcproto.wire.spec import FrameType

__all__ = ["check", "check_all"]


def check(service: Any, api: Any, /, *, prefix: str | None = None) -> None:
    """Check that a service has all methods of a class, as ``client.of(api)`` will call them.

    ``serve(..., implements=api)`` does it when the server is made; use this in tests.

    Args:
        service: as for :func:`~rpcproto.serve`.
        api: as for :meth:`Client.of <rpcproto.Client.of>`: a :class:`typing.Protocol`, or a Service class.
        prefix: the part of wire names before the dot, instead of the class's ``service_name`` or name.

    Raises:
        ConfigurationError: a method is missing, is another kind of call, or its parameters are not those of the class.
            The text lists all that is wrong. Annotations are not compared.
    """
    registry = build_registry(service)
    interface = read_interface(api)
    names = interface.wire_names(prefix)
    others = {name: handler for name, handler in registry.items() if name not in names}
    wrong = []
    for name, method in zip(names, interface.methods.values(), strict=True):
        handler = registry.get(name)
        if handler is None:
            wrong.append(f"{name} is not served{did_you_mean(name, others)}")
        elif handler.kind != method.kind:
            wrong.append(f"{name} is a {handler.kind.name.lower()}, but {method.parameters} is a {_kind(method)}")
        elif handler.signature is not None:
            text = _difference(handler, handler.signature, method)
            if text is not None:
                wrong.append(
                    f"{name}: {handler.owner}{spelled(handler.signature)} does not fit {method.parameters}: {text}"
                )
    if wrong:
        raise ConfigurationError(f"{interface.title} is not implemented:\n  " + "\n  ".join(wrong))


def check_all(service: Any, apis: Any) -> None:
    """Check one class, or each of a sequence of them."""
    for api in apis if isinstance(apis, (list, tuple)) else [apis]:
        check(service, api)


def _kind(method: Method) -> str:
    return method.kind.name.lower()


def _difference(handler: Handler, signature: inspect.Signature, method: Method) -> str | None:
    """Why some call that fits the method does not fit the handler, or means something else there."""
    theirs = list(signature.parameters.values())
    if handler.kind == FrameType.CHANNEL:
        theirs = theirs[1:]  # the Channel
    variadic = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in theirs)
    theirs = [
        parameter
        for parameter in theirs
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    ours = method.parameters
    for position, (parameter, name) in enumerate(zip(theirs, ours.names, strict=False)):
        anonymous = parameter.kind is parameter.POSITIONAL_ONLY or ours.positional_only(position)
        if parameter.name != name and not anonymous:
            return f"argument {position + 1} is {parameter.name!r} there and {name!r} here"
    if len(ours.names) > len(theirs) and not variadic:
        return f"it does not take {ours.names[len(theirs)]!r}"
    if ours.most > len(ours.names) and not variadic:
        return "it does not take *args"
    for parameter in theirs[ours.least :]:
        if parameter.default is parameter.empty:
            return f"it needs {parameter.name!r}, which callers may leave out"
    return None
