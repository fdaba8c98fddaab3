"""Types of options that click does not have, as functions from the text, and an option that several commands have."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

__all__ = ["size", "timeout_option"]

F = TypeVar("F", bound=Callable[..., Any])

_SIZE = re.compile(r"(?P<number>[0-9]*\.?[0-9]+(e[0-9]+)?)\s*(?P<unit>[kmg]?i?)b?", re.IGNORECASE)
_FACTORS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


def size(text: str) -> int:
    """The bytes that an option says: ``1000``, ``1e6``, ``10k`` or ``10kB`` (10,000), ``64KiB`` (65,536).

    Raises:
        click.BadParameter: it is not a size, or not a whole number of bytes.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None or found["unit"].lower() not in _FACTORS:
        raise click.BadParameter(f"{text!r} is not a size; write 1000, 1e6, 10k or 64KiB")
    number = float(found["number"]) * _FACTORS[found["unit"].lower()]
    if number != int(number):
        raise click.BadParameter(f"{text!r} is not a whole number of bytes")
    return int(number)


def timeout_option(default: float, text: str) -> Callable[[F], F]:
    """The option ``--timeout``, in seconds.

    Args:
        default: of it.
        text: for its help.
    """
    return click.option(
        "-t",
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        default=default,
        show_default=True,
        metavar="SECONDS",
        help=text,
    )
