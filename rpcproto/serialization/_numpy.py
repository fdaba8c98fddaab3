"""numpy arrays and scalars, taken apart and put together again.

numpy is not needed and never imported for its own sake: a value can only be an array if the program has imported it,
so it is looked up in ``sys.modules``. It is imported when an array arrives.

Types are told by numpy's own short text (``<f8``, ``>i4``, ``|S10``, ``<M8[ns]``). Only texts of that form are given
to numpy: what else it understands includes objects and whole records.
"""

from __future__ import annotations

import math
import re
import sys
from functools import lru_cache
from typing import Any

from rpcproto.errors import SerializationError
from rpcproto.serialization import _layout as layout
from rpcproto.serialization._extensions import Unencodable

__all__ = ["decode_array", "decode_scalar", "encode_array", "encode_scalar", "is_array", "is_scalar"]

MAX_DIMENSIONS = 32  # of numpy 1; each takes 16 bytes of memory where one is sent

# Times without a unit are deprecated.
_TYPE = re.compile(r"[<>|]([biufcSUV]\d{1,9}|[mM]8\[\d{0,9}[a-zA-Z]{1,2}\])")
_SCALAR_KINDS = "biufcmM"  # text and bytes of fixed size lose what trails


def is_array(value: object) -> bool:
    """Whether this is an array, exactly: subclasses have a behaviour of their own."""
    numpy: Any = sys.modules.get("numpy")
    return numpy is not None and type(value) is numpy.ndarray


def is_scalar(value: object) -> bool:
    """Whether this is one of numpy's scalars."""
    numpy: Any = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.generic)


def encode_array(array: Any) -> tuple[bytes | memoryview, list[Any]]:
    """The data of an array, copied only where it is small or neither in C nor in Fortran order, and its description.

    Returns:
        The data, flat; and type, shape and order.

    Raises:
        Unencodable: an array of objects, of records, or of a type that is not numpy's.
    """
    numpy: Any = sys.modules["numpy"]
    text = _type_text(array.dtype)
    order = "C"
    if array.flags.c_contiguous:
        flat = array.reshape(-1)
    elif array.flags.f_contiguous:
        order = "F"
        flat = array.T.reshape(-1)
    else:
        flat = numpy.ascontiguousarray(array).reshape(-1)
    # As bytes: many types, times among them, have no format of the buffer protocol.
    data = flat.tobytes() if flat.nbytes <= layout.SNAPSHOT_MAX else memoryview(flat.view(numpy.uint8))
    return data, [text, list(array.shape), order]


def decode_array(view: memoryview, text: object, shape: object, order: object) -> Any:
    """An array over the memory of ``view``, without a copy.

    Raises:
        SerializationError: the description is malformed or does not fit the data, or numpy is not installed.
    """
    numpy = _import_numpy()
    dtype = _type_of(text)
    if not isinstance(shape, list) or len(shape) > MAX_DIMENSIONS or order not in ("C", "F"):
        raise SerializationError("msgpack: a malformed array")
    if not all(type(n) is int and 0 <= n < 2**63 for n in shape):
        raise SerializationError("msgpack: the shape of an array must be numbers from 0")
    if math.prod(shape) * dtype.itemsize != view.nbytes:
        raise SerializationError(f"msgpack: {view.nbytes} bytes for an array of type {text} and shape {shape}")
    if not view.nbytes:
        return numpy.empty(shape, dtype, order)
    return numpy.ndarray(shape, dtype, view, 0, None, order)


def encode_scalar(value: Any) -> list[Any]:
    """Type and bytes of a scalar.

    Raises:
        Unencodable: it is not a number or a time, or of a type that is not numpy's.
    """
    if type(value) is not value.dtype.type or value.dtype.kind not in _SCALAR_KINDS:
        raise Unencodable(f"a {type(value).__module__}.{type(value).__name__}: convert it to a Python type")
    return [_type_text(value.dtype), value.tobytes()]


def decode_scalar(text: object, data: object) -> Any:
    """The inverse of :func:`encode_scalar`.

    Raises:
        SerializationError: the description is malformed or does not fit the data, or numpy is not installed.
    """
    numpy = _import_numpy()
    dtype = _type_of(text)
    if dtype.kind not in _SCALAR_KINDS or type(data) is not bytes or len(data) != dtype.itemsize:
        raise SerializationError("msgpack: a malformed numpy scalar")
    return numpy.frombuffer(data, dtype)[0]


@lru_cache(maxsize=256)
def _type_text(dtype: Any) -> str:
    text: str = dtype.str
    if dtype.hasobject or not dtype.itemsize or not _TYPE.fullmatch(text) or sys.modules["numpy"].dtype(text) != dtype:
        raise Unencodable(f"numpy data of type {dtype}: only numbers, bools, times, and text or bytes of fixed size")
    return text


def _type_of(text: object) -> Any:
    if not isinstance(text, str):
        raise SerializationError("msgpack: an unknown type of array")
    return _named_type(text)


@lru_cache(maxsize=256)
def _named_type(text: str) -> Any:
    if not _TYPE.fullmatch(text):
        raise SerializationError("msgpack: an unknown type of array")
    try:
        return _import_numpy().dtype(text)
    except (TypeError, ValueError) as error:
        raise SerializationError(f"msgpack: numpy here has no type {text!r}: {error}") from error


def _import_numpy() -> Any:
    try:
        import numpy as np
    except ImportError as error:
        raise SerializationError("msgpack: a numpy array arrived, and numpy is not installed here") from error
    return np
