"""One method of a service as the server runs it: what to call, and how.

The kind of function is found out here, once, when the server is set up. Asking at every call is slow, and asking the
wrong way misses coroutine functions behind decorators, partial objects and compiled code.
"""

from __future__ import annotations

import asyncio.coroutines
import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import CodeType, MethodType
from typing import Any, Literal

from rpcproto.errors import ConfigurationError
from rpcproto.wire.spec import FrameType

__all__ = ["Handler", "Mode"]

Mode = Literal["inline", "thread", "task", "covered"]
"""How a handler is run: called on the loop, called in an executor, or called on the loop and awaited in a task. Covered
ones are given the items of the call, which middleware has a look at."""

MAX_LAYERS = 100
"""Wrappers looked through. An object may claim to wrap itself."""


class Handler:
    """One method as the server runs it.

    Args:
        name: its wire name.
        kind: the frame that calls it: ``FrameType.REQUEST``, ``NOTIFY``, ``STREAM`` or ``CHANNEL``.
        function: what to call with the positional arguments of the call; a method must be bound.
        thread: run it in a thread.
        owner: where it is defined, for error texts.

    Attributes:
        mode: how to run it. What it returns is still to be looked at: a plain function may return an awaitable, and a
            coroutine function behind a plain wrapper may have been run to its end by that.
        signature: the parameters, None for the few builtin functions that do not tell.

    Raises:
        ConfigurationError: it could never be called successfully; the text says why.
    """

    __slots__ = ("function", "kind", "mode", "name", "owner", "signature")

    def __init__(self, name: str, kind: FrameType, function: Callable[..., Any], *, thread: bool, owner: str) -> None:
        self.name = name
        self.kind = kind
        self.function = function
        self.owner = owner
        self.mode: Mode = "task" if kind == FrameType.STREAM else _classify(function, thread, owner)
        self.signature = _signature(function, owner)

    @property
    def within(self) -> Handler:
        """This one, or the one that this has middleware around."""
        return self

    def __repr__(self) -> str:
        return f"<Handler {self.name} {self.kind.name.lower()} {self.mode}>"

    def misfit(self, args: Sequence[Any]) -> str | None:
        """Why the handler cannot be called with these positional arguments; None if it can, or does not tell.

        Slow. Do not ask before a call, but call the handler, and see :meth:`blame_arguments`.
        """
        if self.signature is None:
            return None
        try:
            self.signature.bind(*args)
        except TypeError:
            return f"{self.name}() takes {_arity(self.signature)}, {len(args)} given"
        return None

    def blame_arguments(self, error: TypeError, args: Sequence[Any]) -> str | None:
        """Tell a call with the wrong arguments, which is the caller's fault, from a TypeError of the handler's own.

        Args:
            error: what ``function(*args)`` raised.
            args: the arguments.

        Returns:
            A text for the caller if the arguments do not fit and no code of the handler ran; None if the handler is to
            blame.
        """
        text = self.misfit(args)
        if text is None:
            return None
        codes = {code for layer, _ in layers(self.function) if (code := _code_of(layer)) is not None}
        entry = error.__traceback__
        while entry is not None:
            if entry.tb_frame.f_code in codes:
                return None
            entry = entry.tb_next
        return text


def layers(function: Any) -> Iterator[tuple[Any, bool]]:
    """The function and what it wraps, from the outside in.

    Yields:
        A layer, and whether calling the function surely calls this layer and returns what it returns. That holds for
        bound methods, partial objects and ``__call__``, not for what ``functools.wraps`` says is wrapped.
    """
    sure = True
    for _ in range(MAX_LAYERS):
        yield function, sure
        if isinstance(function, partial):
            function = function.func
        elif isinstance(function, MethodType):
            function = function.__func__
        elif (wrapped := getattr(function, "__wrapped__", None)) is not None:
            function = wrapped
            sure = False
        elif isinstance(function, type) or _code_of(function) is not None:
            return
        else:
            call = inspect.getattr_static(type(function), "__call__", None)
            if _code_of(call) is None and getattr(call, "__wrapped__", None) is None:
                return  # a builtin
            function = call


def _code_of(function: Any) -> CodeType | None:
    code = getattr(function, "__code__", None)
    return code if isinstance(code, CodeType) else None


def _has_flags(function: Any, flags: int) -> bool:
    # inspect.iscoroutinefunction() and its like know Python's own functions only; compiled functions have flags too.
    code = getattr(function, "__code__", None)
    return bool(getattr(code, "co_flags", 0) & flags)


_COROUTINE_MARK = getattr(asyncio.coroutines, "_is_coroutine", None)
"""Set on a function by those who want it taken for a coroutine function, such as older Cython. Gone in Python 3.14."""


def is_coroutine_function(function: Any) -> bool:
    return (
        inspect.iscoroutinefunction(function)
        or _has_flags(function, inspect.CO_COROUTINE | inspect.CO_ITERABLE_COROUTINE)
        or (_COROUTINE_MARK is not None and getattr(function, "_is_coroutine", None) is _COROUTINE_MARK)
    )


def _classify(function: Callable[..., Any], thread: bool, owner: str) -> Mode:
    for layer, sure in layers(function):
        if inspect.isasyncgenfunction(layer) or _has_flags(layer, inspect.CO_ASYNC_GENERATOR):
            raise ConfigurationError(f"{owner} is an async generator, which gives many values: declare it with @stream")
        if is_coroutine_function(layer):
            if not thread:
                return "task"
            if sure:
                raise ConfigurationError(
                    f"{owner} is a coroutine function, which runs on the event loop: leave out thread=True, or decorate"
                    " it again where that is inherited"
                )
        elif sure and _has_flags(layer, inspect.CO_GENERATOR):
            raise ConfigurationError(f"{owner} is a generator, which cannot be sent: return a list of its values")
    return "thread" if thread else "inline"


def _signature(function: Callable[..., Any], owner: str) -> inspect.Signature | None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        if isinstance(function, MethodType) and _code_of(function.__func__) is not None:
            raise ConfigurationError(f"{owner} is a method without a parameter for self") from error
        return None
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
            raise ConfigurationError(
                f"{owner} cannot be called: arguments are positional on the wire, and its parameter"
                f" {parameter.name!r} is keyword-only without a default"
            )
    return signature


def _arity(signature: inspect.Signature) -> str:
    least = most = 0
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            return f"at least {_count(least)}"
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            most += 1
            least += parameter.default is parameter.empty
    if most == 0:
        return "no arguments"
    return _count(most) if least == most else f"{least} to {_count(most)}"


def _count(number: int) -> str:
    return f"{number} argument" if number == 1 else f"{number} arguments"
