"""Puts a payload with extension types together again: the hooks that the unpacker calls.

The slow way of decoding. A body without extension types, and without keys that need a look, does not come here.
"""

from __future__ import annotations

from typing import Any

from msgpack import unpackb

from rpcproto.errors import SerializationError
from rpcproto.serialization import _extensions, _numpy, flood, prescan
from rpcproto.serialization import _layout as layout

__all__ = ["Reader"]

MAX_DESCRIPTION = layout.SNAPSHOT_MAX + 1024
"""Largest item that describes a buffer: what is kept in the body, its type and 64 dimensions."""

VIEW_FORMATS = frozenset("?bBhHiIlLqQnNfdcP")


class Mark:
    """First item of an array that is something else. Replaced before the array is handed out."""

    __slots__ = ()


TUPLE_MARK = Mark()
SET_MARK = Mark()
FROZENSET_MARK = Mark()


class Reader:
    """Decodes one body.

    Args:
        buffers: the buffers that came with it.
    """

    __slots__ = ("buffers", "marks", "used")

    def __init__(self, buffers: list[memoryview] | None) -> None:
        self.buffers = buffers or []
        self.used = 0
        self.marks = 0

    def read(self, body: bytes | memoryview, found: int) -> Any:
        """Decode a body that ``prescan`` has passed.

        Args:
            body: the body.
            found: what :func:`prescan.scan` told about it.

        Raises:
            SerializationError: marks or buffers are not used as they should be.
            Exception: whatever else hooks and unpacker raise for a body that no encoder makes.
        """
        value = unpackb(
            body,
            strict_map_key=False,
            timestamp=3,
            ext_hook=self.extension,
            list_hook=self.sequence if found & layout.HAS_MARKS else None,
            object_pairs_hook=self.mapping if found & layout.HAS_RISKY_KEYS else None,
        )
        if self.marks:
            raise SerializationError("msgpack: the mark of a tuple or set is not the first item of an array")
        if self.used != len(self.buffers):
            raise SerializationError(f"msgpack: {len(self.buffers)} buffers came, the body uses {self.used}")
        return value

    def extension(self, code: int, data: bytes) -> Any:
        """The value of an extension type: what the unpacker calls."""
        if code == layout.TUPLE or code == layout.SET or code == layout.FROZENSET:  # noqa: PLR1714  compiles to C
            if data:
                raise SerializationError("msgpack: the mark of a tuple or set must be empty")
            self.marks += 1
            return TUPLE_MARK if code == layout.TUPLE else SET_MARK if code == layout.SET else FROZENSET_MARK
        if layout.BYTES <= code <= layout.SCALAR_OF_NUMPY:
            return self._described(code, _description(data))
        decode = _extensions.DECODERS.get(code)
        if decode is None:
            raise SerializationError(f"msgpack: unknown extension type {code}")
        return decode(data)

    def sequence(self, items: list[Any]) -> Any:
        """The value of an array: what the unpacker calls."""
        first = items[0] if items else None
        if first is TUPLE_MARK:
            self.marks -= 1
            del items[0]
            return tuple(items)
        if first is SET_MARK or first is FROZENSET_MARK:
            self.marks -= 1
            del items[0]
            if flood.collide(items, len(items)):
                raise SerializationError(f"msgpack: a set of {len(items)} items whose hashes collide")
            result = set(items) if first is SET_MARK else frozenset(items)
            if len(result) != len(items):
                raise SerializationError("msgpack: a set with an item twice")
            return result
        return items

    def mapping(self, pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
        """The value of a map: what the unpacker calls, where the keys need a look."""
        if flood.collide([key for key, _ in pairs], len(pairs)):
            raise SerializationError(f"msgpack: a map of {len(pairs)} keys whose hashes collide")
        return dict(pairs)

    def _described(self, code: int, description: list[Any]) -> Any:
        source = description[0]
        count = len(description)
        if code == layout.SCALAR_OF_NUMPY and count == 2:
            return _numpy.decode_scalar(source, description[1])
        if code == layout.BYTES and count == 1:
            return bytes(self._buffer(source))
        if code == layout.BYTEARRAY and count == 1:
            return bytearray(self._buffer(source))
        if code == layout.MEMORYVIEW and count == 1:
            return self._buffer(source)
        if code == layout.MEMORYVIEW and count == 3:
            return _shaped(self._buffer(source), description[1], description[2])
        if code == layout.ARRAY_OF_NUMPY and count == 4:
            return _numpy.decode_array(self._buffer(source), description[1], description[2], description[3])
        raise SerializationError(f"msgpack: a malformed item of extension type {code}")

    def _buffer(self, source: Any) -> memoryview:
        """The data of an item: kept in the body, or the next buffer."""
        if type(source) is bytes:
            return memoryview(bytearray(source))
        if type(source) is not int or source != self.used or source >= len(self.buffers):
            raise SerializationError(
                f"msgpack: buffer {source!r} named where number {self.used} of {len(self.buffers)} is next"
            )
        self.used += 1
        return memoryview(self.buffers[source])


def _description(data: bytes) -> list[Any]:
    if len(data) > MAX_DESCRIPTION:
        raise SerializationError(f"msgpack: an item of {len(data)} bytes for a buffer; the limit is {MAX_DESCRIPTION}")
    if prescan.scan(data, 2, prescan.MAX_OBJECT_BYTES):
        raise SerializationError("msgpack: extension types in the description of a buffer")
    description = unpackb(data)
    if not isinstance(description, list) or not description:
        raise SerializationError("msgpack: the description of a buffer must be an array")
    return description


def _shaped(view: memoryview, code: Any, shape: Any) -> memoryview:
    if code not in VIEW_FORMATS or type(shape) is not list:
        raise SerializationError("msgpack: a malformed memoryview")
    if shape == [0] and not view.nbytes:  # cast refuses it
        return memoryview(bytearray(8)).cast(code)[:0]
    return view.cast(code, shape)
