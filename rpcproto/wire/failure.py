"""The payload of an ERROR frame: type name, text and traceback, each a ``u16`` length and UTF-8."""

from __future__ import annotations

import struct

from rpcproto.errors import RemoteProtocolError
from rpcproto.wire.spec import MAX_ERROR_TEXT, MAX_ERROR_TRACEBACK, MAX_METHOD_NAME, ErrorCode

_LENGTH = struct.Struct("<H")


def encode_failure(type_name: str, text: str, traceback: str = "") -> bytes:
    """Encode; what is too long is cut: the type name and text at their end, the traceback at its start."""
    parts = (
        _cut(type_name, MAX_METHOD_NAME),
        _cut(text, MAX_ERROR_TEXT),
        traceback.encode("utf-8", "backslashreplace")[-MAX_ERROR_TRACEBACK:],
    )
    return b"".join(_LENGTH.pack(len(part)) + part for part in parts)


def decode_failure(payload: bytes) -> tuple[str, str, str]:
    """Decode to (type name, text, traceback). Broken UTF-8 is replaced, since the text is only shown.

    Raises:
        RemoteProtocolError: the lengths do not fit the payload (``FRAME_SIZE``).
    """
    texts = []
    at = 0
    for _ in range(3):
        if len(payload) - at < _LENGTH.size:
            raise _misfit(payload)
        (size,) = _LENGTH.unpack_from(payload, at)
        at += _LENGTH.size
        if len(payload) - at < size:
            raise _misfit(payload)
        texts.append(payload[at : at + size].decode("utf-8", "replace"))
        at += size
    if at != len(payload):
        raise _misfit(payload)
    return texts[0], texts[1], texts[2]


def _cut(text: str, limit: int) -> bytes:
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= limit:
        return data
    return data[:limit].decode("utf-8", "ignore").encode()


def _misfit(payload: bytes) -> RemoteProtocolError:
    return RemoteProtocolError(f"an ERROR of {len(payload)} bytes does not hold three texts", code=ErrorCode.FRAME_SIZE)
