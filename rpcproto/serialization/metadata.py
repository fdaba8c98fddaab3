"""Metadata: a small dict that goes along with a call or an answer, beside its arguments or result.

Keys are text, values are text, bytes, numbers, booleans or None. It is msgpack on the wire, whatever the codec of the
call, and opaque to the connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rpcproto.errors import SerializationError
from rpcproto.serialization.msgpack import MsgpackCodec

__all__ = ["MAX_SIZE", "decode_metadata", "encode_metadata"]

MAX_SIZE = 16 * 1024
"""Bytes when encoded (PROTOCOL.md 2.1)."""

_CODEC = MsgpackCodec()
_KINDS = (str, bytes, int, float, bool, type(None))


def encode_metadata(metadata: Mapping[str, Any]) -> bytes:
    """Metadata to bytes.

    Raises:
        SerializationError: it is no mapping, a key or value is of another type than those above, or it is too large.
    """
    if not isinstance(metadata, Mapping):
        raise SerializationError(f"metadata must be a dict, not {type(metadata).__name__}")
    for key, value in metadata.items():
        if type(key) is not str:
            raise SerializationError(f"metadata: the key {key!r:.100} must be text")
        if type(value) not in _KINDS:
            raise SerializationError(
                f"metadata[{key!r:.100}]: a value of type {type(value).__name__}; text, bytes, numbers, bools and None "
                "can be sent, larger things belong into the arguments"
            )
    buffers: list[bytes | memoryview] = []
    data = _CODEC.encode_value(dict(metadata), buffers)
    size = len(data) + sum(len(buffer) for buffer in buffers)
    if size > MAX_SIZE:
        raise SerializationError(f"metadata of {size} bytes, above {MAX_SIZE}; it belongs into the arguments")
    return bytes(data)


def decode_metadata(data: bytes) -> dict[str, Any]:
    """Bytes to metadata.

    Raises:
        SerializationError: the peer sent something else.
    """
    metadata = _CODEC.decode_value(data, None)
    if type(metadata) is not dict or not all(type(key) is str for key in metadata):
        raise SerializationError("the metadata sent is not a dict with text as keys")
    return metadata
