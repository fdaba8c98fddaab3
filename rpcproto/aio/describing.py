"""Methods as callers want to read of them: signature, documentation, how they run."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import partial
from typing import Any, TypedDict

from rpcproto.aio.handler import Handler, layers
from rpcproto.wire.spec import FrameType

__all__ = ["MethodInfo", "ParameterInfo", "describe", "doc_of"]

MAX_DOC = 4096
MAX_TEXT = 200
"""Characters of a docstring, and of one default or annotation: what is longer is cut off, and ends in three dots."""

_PLACE = re.compile(r" at 0x[0-9a-fA-F]+")
"""Where an object lies in memory, as the default ``repr`` tells it: of no use to callers, but to attackers."""


class ParameterInfo(TypedDict):
    """One argument of a method, as callers give it."""

    name: str
    """With a ``*`` before it if it stands for any number of arguments."""
    annotation: str | None
    default: str | None
    """The ``repr`` of its default; None if it must be given."""


class MethodInfo(TypedDict):
    """One method."""

    name: str
    kind: str
    """``request``, ``notify``, ``stream`` or ``channel``."""
    runs: str
    """``inline``: on the event loop, at once; ``task``; or ``thread``. Within middleware: ``task`` or ``thread``."""
    signature: str
    """As in the source, with what callers can give; ``(...)`` for builtin functions that do not tell."""
    parameters: list[ParameterInfo] | None
    """None where they are not known."""
    returns: str | None
    """The return annotation."""
    doc: str
    defined: str
    """The function behind it, by module and name."""


def describe(handler: Handler) -> MethodInfo:
    """Describe a method. Nothing of its code is run, but the ``repr`` of its defaults is."""
    within = handler.within
    signature = handler.signature
    parameters = None if signature is None else _parameters(signature, handler.kind == FrameType.CHANNEL)
    returns = None if signature is None else _annotation(signature.return_annotation)
    return {
        "name": handler.name,
        "kind": handler.kind.name.lower(),
        "runs": "task" if within is not handler and within.mode == "inline" else within.mode,
        "signature": _spelled(parameters, returns),
        "parameters": parameters,
        "returns": returns,
        "doc": doc_of(within.function),
        "defined": handler.owner,
    }


def doc_of(function: Callable[..., Any] | type) -> str:
    """The docstring of a function, of what it wraps, or of a class, with its indentation taken off; cut off if it is
    long."""
    for layer, _ in layers(function):
        doc = None if isinstance(layer, partial) else inspect.getdoc(layer)
        if doc:
            return _cut(doc, MAX_DOC)
    return ""


def _parameters(signature: inspect.Signature, is_channel: bool) -> list[ParameterInfo]:
    found: list[ParameterInfo] = []
    for parameter in list(signature.parameters.values())[is_channel:]:  # a channel's first one is the Channel
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD):
            continue  # arguments travel by position
        stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
        needed = parameter.default is parameter.empty and not stars
        found.append(
            {
                "name": stars + parameter.name,
                "annotation": _annotation(parameter.annotation),
                "default": None if needed else "()" if stars else _text_of(parameter.default),
            }
        )
    return found


def _spelled(parameters: list[ParameterInfo] | None, returns: str | None) -> str:
    texts = ["..."] if parameters is None else []
    for parameter in parameters or ():
        text = parameter["name"]
        if parameter["annotation"] is not None:
            text += f": {parameter['annotation']}"
        if parameter["default"] is not None and not text.startswith("*"):
            text += f"{'=' if parameter['annotation'] is None else ' = '}{parameter['default']}"
        texts.append(text)
    return f"({', '.join(texts)}){'' if returns is None else f' -> {returns}'}"


def _annotation(annotation: Any) -> str | None:
    if annotation is inspect.Signature.empty:
        return None
    return _cut(annotation, MAX_TEXT) if isinstance(annotation, str) else _text_of(annotation, inspect.formatannotation)


def _text_of(value: Any, spell: Callable[[Any], str] = repr) -> str:
    try:
        return _cut(_PLACE.sub("", spell(value)), MAX_TEXT)
    except Exception:  # of a class of the application's
        return "..."


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."
