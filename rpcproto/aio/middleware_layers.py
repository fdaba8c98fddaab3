"""The list of middleware as it is kept: checked, chosen from by method, and nested around a call."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from rpcproto.aio.handler import is_coroutine_function, layers
from rpcproto.aio.middleware import Call, Covering, Middleware, Side
from rpcproto.errors import ConfigurationError, LocalProtocolError

__all__ = ["Innermost", "Layer", "check_patterns", "choose", "read_middleware", "run_layers"]

KINDS = ("request", "notify", "stream", "channel")
SIDES = ("client", "server")

Innermost = Callable[[Any], Awaitable[Any]]
"""What a call comes to in the end: given the call, it returns the result."""


class Layer(NamedTuple):
    """One middleware, and what it covers."""

    function: Middleware
    name: str
    patterns: tuple[str, ...] | None
    kinds: tuple[str, ...]
    sides: tuple[str, ...]

    def covers(self, kind: str, method: str) -> bool:
        """Whether it covers calls of this method."""
        return kind in self.kinds and (
            self.patterns is None or any(fnmatchcase(method, pattern) for pattern in self.patterns)
        )


# ---- reading ---------------------------------------------------------------------------------------------------------


def read_middleware(middleware: Any, side: Side) -> tuple[Layer, ...]:
    """Check what was given as ``middleware=``.

    Args:
        middleware: a list or tuple of coroutine functions and of what :func:`~rpcproto.covering` makes of them.
        side: what is covered by those that do not say it.

    Raises:
        ConfigurationError: something in it is no middleware; the text names it and the remedy.
    """
    if not isinstance(middleware, (list, tuple)):
        what = f"; put it into one: [{_name(middleware)}]" if callable(middleware) else ""
        raise ConfigurationError(f"middleware must be a list, not {middleware!r:.100}{what}")
    return tuple(_read(each, side) for each in middleware)


def _read(given: Any, side: Side) -> Layer:
    covering = given if isinstance(given, Covering) else Covering(given, None, None, None)
    function = covering.function
    name = _name(function)
    if isinstance(function, Covering):
        raise ConfigurationError(f"{function!r} has a covering() already; say all in one")
    if isinstance(function, type):
        raise ConfigurationError(f"the middleware {name} is a class; pass an instance of it: {name}(...)")
    if not callable(function):
        raise ConfigurationError(f"{function!r:.100} is no middleware, which is an async def f(call, proceed)")
    found = [layer for layer, _ in layers(function)]
    if any(inspect.isasyncgenfunction(layer) for layer in found):
        raise ConfigurationError(f"the middleware {name} is an async generator: call `await proceed(call)`, not yield")
    if not any(is_coroutine_function(layer) for layer in found):
        raise ConfigurationError(f"the middleware {name} is not a coroutine function: write it with async def")
    try:
        signature = inspect.signature(function)
        signature.bind(None, None)
    except TypeError:
        raise ConfigurationError(
            f"the middleware {name} is called with two arguments, (call, proceed), and takes {signature}"
        ) from None
    patterns = None if covering.methods is None else _texts(covering.methods, f"methods= of the middleware {name}")
    return Layer(
        function,
        name,
        patterns,
        _choice(covering.kinds, KINDS, KINDS, f"kinds= of the middleware {name}"),
        _choice(covering.sides, SIDES, (side,), f"sides= of the middleware {name}"),
    )


def _name(function: Any) -> str:
    name = getattr(function, "__qualname__", None)
    return name if isinstance(name, str) else f"{type(function).__qualname__} object"


def _texts(given: Any, what: str) -> tuple[str, ...]:
    values = [given] if isinstance(given, str) else given
    if not isinstance(values, Iterable) or not (found := tuple(values)) or not all(type(v) is str for v in found):
        raise ConfigurationError(f"{what} must be text or several texts, not {given!r:.100}")
    return found


def _choice(given: Any, allowed: tuple[str, ...], default: tuple[str, ...], what: str) -> tuple[str, ...]:
    if given is None:
        return default
    found = _texts(given, what)
    for value in found:
        if value not in allowed:
            raise ConfigurationError(f"{what}: {value!r} is none of {', '.join(allowed)}")
    return found


def check_patterns(found: tuple[Layer, ...], methods: Iterable[str]) -> None:
    """Refuse a pattern of methods that covers none of those served, which is a slip, and would fail nobody.

    Raises:
        ConfigurationError: there is one.
    """
    names = list(methods)
    for layer in found:
        if layer.sides != ("server",):
            continue  # it may be meant for calls made
        for pattern in layer.patterns or ():
            if not any(fnmatchcase(name, pattern) for name in names):
                raise ConfigurationError(
                    f"methods= of the middleware {layer.name}: {pattern!r} is none of the methods served, which are"
                    f" {', '.join(sorted(names)[:20])}"
                )


# ---- running ---------------------------------------------------------------------------------------------------------


def choose(found: tuple[Layer, ...], side: Side, kind: str, method: str) -> tuple[Layer, ...]:
    """Those that cover the calls of one method."""
    return tuple(layer for layer in found if side in layer.sides and layer.covers(kind, method))


async def run_layers(found: tuple[Layer, ...], call: Call, innermost: Innermost, index: int = 0) -> Any:
    """Have a call go through middleware, from the one at ``index`` on, and return its result."""
    if index == len(found):
        return await innermost(call)
    step = _Step(found, call, innermost, index)
    try:
        return await found[index].function(call, step)
    finally:
        step.over = True


class _Step:
    """What one middleware is given as ``proceed``."""

    __slots__ = ("_call", "_found", "_index", "_innermost", "_times", "_under_way", "over")

    def __init__(self, found: tuple[Layer, ...], call: Call, innermost: Innermost, index: int) -> None:
        self._found = found
        self._call = call
        self._innermost = innermost
        self._index = index
        self._times = 0
        self._under_way = False
        self.over = False

    async def __call__(self, call: Call, /) -> Any:
        self._check(call)
        self._times += 1
        self._under_way = True
        metadata = dict(call.metadata) if call.side == "client" else None
        args, deadline = call.args, call.deadline
        try:
            return await run_layers(self._found, call, self._innermost, self._index + 1)
        finally:
            self._under_way = False
            call.args, call.deadline = args, deadline
            if metadata is not None:
                call.metadata.clear()
                call.metadata.update(metadata)

    def _check(self, call: object) -> None:
        ours = self._call
        if call is not ours:
            text = f"takes the call that the middleware was given, not {call!r:.100}; set args of it instead"
        elif self.over:
            text = "was called after the middleware had returned"
        elif self._under_way:
            text = "was called while it is under way: await it first"
        elif self._times and ours.kind in ("stream", "channel"):
            text = f"was called twice: a {ours.kind} proceeds once, since its items may have been seen"
        else:
            return
        raise LocalProtocolError(f"{ours.method}: proceed() of the middleware {self._found[self._index].name} {text}")
