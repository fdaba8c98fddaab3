"""Prepares a payload that holds more than msgpack's own types: copies its containers, with extension types in place.

The slow way of encoding. A payload of msgpack's own types does not come here unless it failed to pack, and comes here
to find out where.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgpack import ExtType

from rpcproto.errors import SerializationError
from rpcproto.serialization import _extensions, _numpy, flood
from rpcproto.serialization import _layout as layout
from rpcproto.serialization._extensions import Unencodable
from rpcproto.serialization.codec import flatten

__all__ = ["Writer"]

TUPLE_MARK = ExtType(layout.TUPLE, b"")
SET_MARK = ExtType(layout.SET, b"")
FROZENSET_MARK = ExtType(layout.FROZENSET, b"")

MAX_TEXT = 2**32 - 1
MAX_KEY_SHOWN = 40
VIEW_FORMATS = frozenset("?bBhHiIlLqQnNfdcP")
"""What ``memoryview.cast`` takes."""


class Writer:
    """Prepares one payload.

    Args:
        pack: packs the description of a buffer.
        buffers: where the buffers go.
        careful: whether to look into each text, because packing has failed.
    """

    __slots__ = ("base", "buffers", "careful", "pack")

    def __init__(self, pack: Callable[[Any], bytes], buffers: list[bytes | memoryview], careful: bool) -> None:
        self.pack = pack
        self.buffers = buffers
        self.base = len(buffers)
        self.careful = careful

    def prepare(self, value: Any, depth: int, hashed: bool) -> Any:
        """What to pack in place of ``value``; hashable if ``value`` is.

        Args:
            value: the value.
            depth: how many containers may still be opened.
            hashed: whether it is a key of a dict or an item of a set, or inside one.

        Raises:
            Unencodable: the value, or one in it, cannot be sent.
        """
        kind = type(value)
        if kind is str:
            if self.careful:
                _check_text(value)
            return value
        if kind is int:
            if -0x8000000000000000 <= value <= 0xFFFFFFFFFFFFFFFF:
                return value
            return _extensions.encode_int(value)
        if value is None or kind is bool or kind is float:
            return value
        if kind is bytes:
            if len(value) <= layout.INLINE_MAX:
                return value
            return self._with_buffer(layout.BYTES, value, [])
        if kind is dict:
            return self._map(value, depth)
        if kind is list:
            return self._items(value, (), depth, hashed)
        if kind is tuple:
            return self._items(value, (TUPLE_MARK,), depth, hashed)
        if kind is set or kind is frozenset:
            return self._set(value, SET_MARK if kind is set else FROZENSET_MARK, depth)
        return self._other(value, kind, hashed)

    def items(self, args: tuple[Any, ...], depth: int) -> tuple[Any, ...]:
        """What to pack in place of the arguments of a call. As for :meth:`prepare`."""
        return self._items(args, (), depth, False)

    def _items(self, value: Any, mark: tuple[Any, ...], depth: int, hashed: bool) -> tuple[Any, ...]:
        _check_depth(depth)
        result = list(mark)
        index = 0
        try:
            for item in value:
                result.append(self.prepare(item, depth - 1, hashed))
                index += 1
        except Unencodable as problem:
            problem.path.append(f"[{index}]")
            raise
        return tuple(result)

    def _map(self, value: dict[Any, Any], depth: int) -> dict[Any, Any]:
        _check_depth(depth)
        result: dict[Any, Any] = {}
        key: Any = None
        in_key = False
        try:
            for key, item in value.items():
                in_key = True
                ready = self.prepare(key, depth - 1, True)
                in_key = False
                result[ready] = self.prepare(item, depth - 1, False)
        except Unencodable as problem:
            problem.path.append(".<key>" if in_key else f"[{_shown(key)}]")
            raise
        if len(result) != len(value):
            raise Unencodable("a dict with several keys that are not numbers")
        if flood.collide(value, len(value)):
            raise Unencodable(f"a dict of {len(value)} keys whose hashes collide, which receivers refuse")
        return result

    def _set(self, value: Any, mark: ExtType, depth: int) -> tuple[Any, ...]:
        _check_depth(depth)
        result: list[Any] = [mark]
        try:
            for item in value:
                result.append(self.prepare(item, depth - 1, True))  # noqa: PERF401  compiles better
        except Unencodable as problem:
            problem.path.append(".<item>")
            raise
        if flood.collide(value, len(value)):
            raise Unencodable(f"a set of {len(value)} items whose hashes collide, which receivers refuse")
        return tuple(result)

    def _other(self, value: Any, kind: type, hashed: bool) -> Any:
        encode = _extensions.ENCODERS.get(kind)
        if encode is not None:
            return encode(value)
        if kind is bytearray:
            return self._with_buffer(layout.BYTEARRAY, value, [])
        if kind is memoryview:
            if hashed:
                raise Unencodable("a memoryview as a key or item of a set: it arrives writable, which has no hash")
            return self._with_buffer(layout.MEMORYVIEW, value, _describe_view(value))
        if _numpy.is_array(value):
            data, description = _numpy.encode_array(value)
            return self._with_buffer(layout.ARRAY_OF_NUMPY, data, description)
        if _numpy.is_scalar(value):
            return ExtType(layout.SCALAR_OF_NUMPY, self.pack(_numpy.encode_scalar(value)))
        raise Unencodable(_unknown(kind))

    def _with_buffer(self, code: int, value: Any, description: list[Any]) -> ExtType:
        try:
            data: Any = flatten(value)
        except SerializationError as error:  # a view that was released
            raise Unencodable(str(error)) from error
        if len(data) > layout.SNAPSHOT_MAX:
            self.buffers.append(data)
            data = len(self.buffers) - self.base - 1
        return ExtType(code, self.pack([data, *description]))


def _check_depth(depth: int) -> None:
    if depth <= 0:
        raise Unencodable("nested too deep: more than 64 containers in one another, or one in itself")


def _check_text(value: str) -> None:
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise Unencodable(f"a str that is not valid Unicode: {error.reason} at position {error.start}") from error
    if size > MAX_TEXT:
        raise Unencodable(f"a str of {size} bytes; the limit is {MAX_TEXT}: send it encoded, as bytes")


def _describe_view(view: memoryview) -> list[Any]:
    try:
        code = view.format.removeprefix("@")
        shape = list(view.shape or ())
    except ValueError as error:
        raise Unencodable(str(error)) from error
    if code == "B" and len(shape) == 1:
        return []
    if code not in VIEW_FORMATS:
        raise Unencodable(f"a memoryview of format {view.format!r}: send its bytes, or an array")
    if 0 in shape and len(shape) > 1:
        raise Unencodable(f"a memoryview of shape {view.shape}: send an array")
    return [code, shape]


def _shown(key: Any) -> str:
    """A key for an error's text. Its type is one of the table, so its repr is harmless."""
    text = repr(key[:MAX_KEY_SHOWN] if isinstance(key, (str, bytes)) else key)
    return text if len(text) <= MAX_KEY_SHOWN else text[:MAX_KEY_SHOWN] + "..."


def _unknown(kind: type) -> str:
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    for base in (bool, int, str, float, bytes, list, tuple, dict, set, frozenset, bytearray, complex):
        if issubclass(kind, base):
            return f"a {name}, which would arrive as a plain {base.__name__}: convert it, if that will do"
    return f"a value of type {name} cannot be sent with msgpack: convert it, or use another codec"
