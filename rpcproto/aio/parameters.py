"""What a typed method takes: arguments as a caller writes them, and as they travel, by position.

Rules:

1. What a caller leaves out at the end is not sent: the default of the handler counts, and a handler that does not know
   the newest parameters yet can be called. A default of the signature is sent only where a later argument needs it.
2. A call that gives only positional arguments, and enough of them, needs nothing from here but :attr:`Parameters.least`
   and :attr:`Parameters.most`.
"""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Mapping
from typing import Any

from rpcproto.errors import ConfigurationError

__all__ = ["Parameters", "did_you_mean", "spelled"]

_EMPTY: Any = inspect.Parameter.empty


class Parameters:
    """The parameters of one method, without ``self``.

    Args:
        title: the method, for error texts.
        signature: its parameters.

    Attributes:
        names: of all that can be given by position.
        least: how many of them have no default.
        most: how many arguments can be given; ``sys.maxsize`` with ``*args``.

    Raises:
        ConfigurationError: a parameter cannot be given by position.
    """

    __slots__ = ("_defaults", "_positions", "_text", "least", "most", "names")

    def __init__(self, title: str, signature: inspect.Signature) -> None:
        self._text = title + spelled(signature)
        self._positions: dict[str, int] = {}
        self._defaults: list[Any] = []
        names: list[str] = []
        self.most = 0
        for name, parameter in signature.parameters.items():
            if parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD):
                stars = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
                raise ConfigurationError(
                    f"{self._text}: arguments travel by position, so {stars}{name} cannot be given; "
                    + ("name the parameters" if stars else "remove the * before it")
                )
            if parameter.kind is parameter.VAR_POSITIONAL:
                self.most = sys.maxsize
                continue
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
                self._positions[name] = len(names)
            names.append(name)
            self._defaults.append(parameter.default)
        self.names = tuple(names)
        self.least = sum(default is _EMPTY for default in self._defaults)
        self.most = max(self.most, len(names))

    def __str__(self) -> str:
        return self._text

    def positional_only(self, position: int) -> bool:
        """Whether the argument at this position has no name for callers."""
        return self.names[position] not in self._positions

    def arrange(self, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> tuple[Any, ...]:
        """The arguments by position.

        Raises:
            TypeError: they do not fit; the text has the signature.
        """
        given = end = len(args)
        if given > self.most:
            most = "no arguments" if self.most == 0 else "1 argument" if self.most == 1 else f"{self.most} arguments"
            raise self._error(f"takes {'at most ' if 0 < self.most != self.least else ''}{most}, {given} given")
        for name in keywords:
            position = self._positions.get(name)
            if position is None:
                if name in self.names:
                    raise self._error(f"{name!r} can be given by position only")
                raise self._error(f"there is no argument {name!r}{did_you_mean(name, self._positions)}")
            if position < given:
                raise self._error(f"{name!r} is given by position and by name")
            end = max(end, position + 1)
        values = list(args)
        missing = []
        for position in range(given, max(end, self.least)):
            name = self.names[position]
            value = keywords[name] if name in keywords else self._defaults[position]
            if value is _EMPTY:
                missing.append(repr(name))
            elif value is ... and name not in keywords:
                raise self._error(f"{name!r} must be given too, since its default is known to the other side only")
            values.append(value)
        if missing:
            raise self._error(f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")
        return tuple(values)

    def _error(self, text: str) -> TypeError:
        return TypeError(f"{self._text}: {text}")


def did_you_mean(name: str, known: Mapping[str, Any]) -> str:
    """The end of an error text: the known name that is most like this one, if there is one like it."""
    like = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {like[0]!r}?" if like else ""


class _Plain(str):
    """Text that is its own ``repr``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def spelled(signature: inspect.Signature) -> str:
    """The signature as in the source: without quotes around annotations that are kept as text."""

    def plain(annotation: Any) -> Any:
        return _Plain(annotation) if isinstance(annotation, str) else annotation

    parameters = [
        parameter.replace(
            annotation=plain(parameter.annotation),
            default=_Plain("...") if parameter.default is ... else parameter.default,
        )
        for parameter in signature.parameters.values()
    ]
    return str(signature.replace(parameters=parameters, return_annotation=plain(signature.return_annotation)))
