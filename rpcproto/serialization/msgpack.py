"""The default codec: msgpack, made exact in its types and safe against what a peer may send.

Rules:

1. A value arrives with the type and content it was sent with, or encoding raises
   :class:`~rpcproto.errors.SerializationError` with the path to what cannot be sent, as in
   ``args[0]['x'][3]: a collections.OrderedDict, which would arrive as a plain dict``.
2. No body reaches the unpacker before :mod:`~rpcproto.serialization.prescan` has looked through it.
3. A payload of msgpack's own types costs one look at each value and nothing else. The rest is paid for by those who
   use it.

In the body: None, bool, int of 64 bits, float, str, list, dict, and bytes of up to 65,536 bytes. All others are items
of an extension type. *source* stands for data: bytes if it has up to 4,096, else the number of the buffer that holds
it. Buffers are used in their order, each once. A *description* is a msgpack array.

====  ===========  ===================================================================================================
type  Python       content
====  ===========  ===================================================================================================
-1    datetime     with the time zone ``datetime.UTC``: the timestamp of the msgpack specification
1     tuple        empty. A mark: the array whose first item it is, without it, is a tuple
2     set          empty. The same for a set
3     frozenset    empty. The same for a frozenset
4     int          beyond 64 bits: two's complement, big-endian, at most 1,024 bytes
5     complex      two 64-bit floats, big-endian
6     datetime     any other: a byte 0 or 1 (``fold``), then ISO 8601 as of ``isoformat()``, naive or with a UTC offset
7     bytes        above 65,536 bytes: description [source]
8     bytearray    description [source]
9     memoryview   description [source], or [source, format, shape] if not flat and of format "B". Arrives writable,
                   on the memory it was received into
10    ndarray      description [source, type, shape, order]: the type as numpy's ``dtype.str``, order "C" or "F".
                   Arrives writable, on the memory it was received into
11    numpy        a scalar: description [type, bytes]
====  ===========  ===================================================================================================

Keys of dicts and items of sets may be any of these that have a hash, memoryview excepted. Subclasses are refused, since
their type would be lost; so are arrays of objects and of records. Order of a dict is kept, order of a set is not.
"""

from __future__ import annotations

import gc
import struct
from collections.abc import Sequence
from typing import Any

from msgpack import Packer, unpackb

from rpcproto.errors import ConfigurationError, SerializationError
from rpcproto.serialization import _layout as layout
from rpcproto.serialization import flood, prescan
from rpcproto.serialization._extensions import Unencodable
from rpcproto.serialization._reader import Reader
from rpcproto.serialization._writer import Writer
from rpcproto.serialization.codec import Codec

__all__ = ["MsgpackCodec"]

MOST_PER_BYTE = 176
"""No byte of a body made here counts for more than 162: a description of 4 bytes that names a buffer counts for 648."""

# What packer, unpacker and the hooks raise for a value or a body that is not as it should be.
FAULTS = (ValueError, TypeError, OverflowError, RuntimeError, BufferError, struct.error)


class MsgpackCodec(Codec):
    """msgpack with extension types; see the module.

    Args:
        max_object_bytes: memory in bytes that the Python objects of one body may take, beside 4 times the size of
            the body. The default, 256 MiB, is about a million small dicts. Both sides check it.

    Raises:
        ConfigurationError: the number is not above 0.
    """

    __slots__ = ("max_object_bytes", "packs", "unchecked_size")

    def __init__(self, max_object_bytes: int = prescan.MAX_OBJECT_BYTES) -> None:
        super().__init__("msgpack", 2)
        if max_object_bytes <= 0:
            raise ConfigurationError(f"max_object_bytes must be above 0, not {max_object_bytes}")
        self.max_object_bytes = max_object_bytes
        self.unchecked_size = max_object_bytes // MOST_PER_BYTE
        self.packs: list[Any] = []  # bound methods of packers that nobody uses at the moment

    def encode_args(self, args: tuple[Any, ...], buffers: list[bytes | memoryview]) -> bytes | memoryview:
        body: bytes | None = None
        try:
            if _are_plain(args, layout.MAX_DEPTH - 1):
                body = self._pack(args)
        except FAULTS:
            pass  # an int beyond 64 bits, a str that is not Unicode: the slow way deals with it
        if body is None:
            return self._encode(args, buffers, "args")
        return body if len(body) <= self.unchecked_size else self._within_budget(body, "args")

    def encode_value(self, value: Any, buffers: list[bytes | memoryview]) -> bytes | memoryview:
        body: bytes | None = None
        try:
            if _is_plain(value, layout.MAX_DEPTH):
                body = self._pack(value)
        except FAULTS:
            pass
        if body is None:
            return self._encode(value, buffers, "value")
        return body if len(body) <= self.unchecked_size else self._within_budget(body, "value")

    def decode_args(self, body: bytes | memoryview, buffers: list[memoryview] | None) -> Sequence[Any]:
        args = self.decode_value(body, buffers)
        if type(args) is not list:
            raise SerializationError(f"msgpack: the arguments must be an array, not a {type(args).__name__}")
        return args

    def decode_value(self, body: bytes | memoryview, buffers: list[memoryview] | None) -> Any:
        found = prescan.scan(body, layout.MAX_DEPTH, self.max_object_bytes)
        if found or buffers:
            return self._decode(body, buffers, found)
        try:
            return unpackb(body, strict_map_key=False)
        except FAULTS as error:
            raise _undecodable(error) from error

    def _pack(self, value: Any) -> bytes:
        # The packer is ours alone while it works: packing can start the garbage collector, and so any code at all.
        try:
            pack = self.packs.pop()
        except IndexError:
            pack = Packer().pack
        body: bytes = pack(value)
        if len(body) <= layout.KEEP_PACKER_MAX:
            self.packs.append(pack)
        return body

    def _encode(self, value: Any, buffers: list[bytes | memoryview], root: str) -> bytes:
        """Encode what is not plain, or find out why it could not be packed."""
        start = len(buffers)
        fault: Exception | None = None
        for careful in (False, True):
            writer = Writer(self._pack, buffers, careful)
            try:
                if root == "args":
                    prepared: Any = writer.items(value, layout.MAX_DEPTH)
                else:
                    prepared = writer.prepare(value, layout.MAX_DEPTH, False)
                body = self._pack(prepared)
            except Unencodable as problem:
                del buffers[start:]
                raise SerializationError(problem.text(root)) from problem.__cause__
            except FAULTS as error:
                del buffers[start:]
                fault = error
            else:
                return self._within_budget(body, root)
        raise SerializationError(f"{root}: cannot be encoded: {fault}") from fault

    def _within_budget(self, body: bytes, root: str) -> bytes:
        """Refuse a body that would be refused when it arrives."""
        if len(body) > self.unchecked_size:
            try:
                prescan.scan(body, layout.MAX_DEPTH, self.max_object_bytes)
            except SerializationError as error:
                raise SerializationError(f"{root}: {error}") from error
        return body

    def _decode(self, body: bytes | memoryview, buffers: list[memoryview] | None, found: int) -> Any:
        # While thousands of containers are built there is no garbage, and the collector would look for some again
        # and again: 300 ms instead of 60 for a MiB of small lists on Python 3.11.
        pause = found & layout.HAS_MANY_CONTAINERS and gc.isenabled()
        if pause:
            gc.disable()
        try:
            if found & ~layout.HAS_MANY_CONTAINERS or buffers:
                return Reader(buffers).read(body, found)
            return unpackb(body, strict_map_key=False)
        except SerializationError:
            raise
        except FAULTS as error:
            raise _undecodable(error) from error
        finally:
            if pause:
                gc.enable()


def _is_plain(value: Any, depth: int) -> bool:
    """Whether msgpack's own types do for a value, each exactly; ``depth`` is how many containers may be opened."""
    kind = type(value)
    if kind is str or kind is int or kind is float or kind is bool or value is None:
        return True
    if kind is bytes:
        return len(value) <= layout.INLINE_MAX
    if kind is list:
        return depth > 0 and _are_plain(value, depth - 1)
    if kind is dict:
        return depth > 0 and _is_plain_dict(value, depth - 1)
    return False


def _are_plain(values: Any, depth: int) -> bool:
    for value in values:  # noqa: SIM110  a generator would cost more in Python
        if not _is_plain(value, depth):
            return False
    return True


def _is_plain_dict(value: dict[Any, Any], depth: int) -> bool:
    text = True
    for key, item in value.items():
        if type(key) is not str:
            text = False
            if not _is_plain(key, depth):
                return False
        if not _is_plain(item, depth):
            return False
    return text or len(value) <= layout.LARGE_MAP or not flood.collide(value, len(value))


def _undecodable(error: Exception) -> SerializationError:
    return SerializationError(f"msgpack: the body cannot be decoded: {error}")
