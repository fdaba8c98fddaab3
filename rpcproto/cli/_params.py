"""Types of options that click does not have."""

from __future__ import annotations

import re

import click

__all__ = ["Size"]

_SIZE = re.compile(r"(?P<number>[0-9]*\.?[0-9]+(e[0-9]+)?)\s*(?P<unit>[kmg]?i?)b?", re.IGNORECASE)
_FACTORS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


class Size(click.ParamType[int]):
    """A number of bytes: ``1000``, ``1e6``, ``10k`` or ``10kB`` (10,000), ``64KiB`` (65,536)."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number of bytes, or click's usage error."""
        found = _SIZE.fullmatch(str(value).strip())
        factor = _FACTORS.get(found["unit"].lower()) if found else None
        if found is None or factor is None:
            self.fail(f"{value!r} is not a size; write 1000, 1e6, 10k or 64KiB", param, ctx)
        size = float(found["number"]) * factor
        if size != int(size):
            self.fail(f"{value!r} is not a whole number of bytes", param, ctx)
        return int(size)
