"""Python values to JSON and back, for the command line.

JSON has fewer types than msgpack. What it lacks is written so:

- bytes and everything bytes-like: ``{"$bytes": "<base64>"}``, which is understood in arguments too;
- NaN and infinities: ``"NaN"``, ``"Infinity"``, ``"-Infinity"`` (as protobuf's JSON does);
- tuples, sets and numpy arrays: arrays; keys of maps that are not text: their JSON as text;
- anything else, a date for instance: its text.
"""

from __future__ import annotations

import base64
import json
import math
from typing import Any

from ._exit import printable

__all__ = ["BYTES_KEY", "dumps", "parse_argument", "pretty", "to_json"]

BYTES_KEY = "$bytes"
LINE_WIDTH = 80


def to_json(value: object) -> Any:
    """``value`` built from what JSON has: dict with text keys, list, str, int, float, bool and None."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {BYTES_KEY: base64.b64encode(bytes(value)).decode("ascii")}
    if isinstance(value, dict):
        return {key if isinstance(key, str) else dumps(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_json(item) for item in value]
    if hasattr(value, "tolist"):  # numpy's arrays and scalars
        return to_json(value.tolist())
    return str(value)


def dumps(value: object) -> str:
    """``value`` as JSON on one line, in ASCII: for programs."""
    return json.dumps(to_json(value), allow_nan=False)


def pretty(value: object) -> str:
    """``value`` as JSON for people, indented unless it fits one line. Control characters are escaped."""
    plain = to_json(value)
    line = printable(json.dumps(plain, allow_nan=False, ensure_ascii=False))
    if len(line) <= LINE_WIDTH:
        return line
    return printable(json.dumps(plain, allow_nan=False, ensure_ascii=False, indent=2))


def parse_argument(text: str) -> object:
    """The value of a JSON text given on the command line.

    Raises:
        ValueError: it is not JSON, or ``$bytes`` holds no base64. The text says what is wrong with it.
    """
    return json.loads(text, object_hook=_bytes_hook)


def _bytes_hook(value: dict[str, object]) -> object:
    if value.keys() != {BYTES_KEY}:
        return value
    encoded = value[BYTES_KEY]
    if not isinstance(encoded, str):
        raise ValueError(f"{BYTES_KEY} must hold base64 text, not {json.dumps(encoded)}")
    try:
        return base64.b64decode(encoded, validate=True)
    except ValueError as error:
        raise ValueError(f"{BYTES_KEY} must hold base64 text: {error}") from None
