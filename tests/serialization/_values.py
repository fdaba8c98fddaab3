"""Values that the msgpack codec can carry, and how to compare what arrives with what was sent."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import numpy as np
from hypothesis import strategies as st

from rpcproto.serialization import MsgpackCodec

codec = MsgpackCodec()


def received(buffers: list[Any]) -> list[memoryview] | None:
    """Buffers as the wire hands them out: memory of their own."""
    return [memoryview(bytearray(buffer)) for buffer in buffers] or None


def through(value: Any) -> Any:
    """Encode as a value and as an argument, receive, decode."""
    buffers: list[Any] = []
    body = codec.encode_value(value, buffers)
    result = codec.decode_value(body, received(buffers))
    in_args: list[Any] = []
    args_body = codec.encode_args((1, value), in_args)
    args = codec.decode_args(memoryview(bytearray(args_body)), received(in_args))
    assert len(args) == 2
    assert args[0] == 1
    assert shown(args[1]) == shown(result)
    return result


def shown(value: Any) -> Any:
    """A value as something that == compares to the last detail: types, order of dicts, NaN, shape and content."""
    kind = type(value)
    if kind in (list, tuple):
        return kind, [shown(item) for item in value]
    if kind in (set, frozenset):
        return kind, sorted(map(repr, map(shown, value)))
    if kind is dict:
        return kind, [(shown(key), shown(item)) for key, item in value.items()]
    if kind is memoryview:
        return kind, value.format.strip("@"), value.shape, value.tobytes()
    if isinstance(value, (np.ndarray, np.generic)):
        return kind, value.dtype.str, value.shape, value.tobytes()
    return kind, repr(value)


def exact(value: Any) -> bool:
    return bool(shown(through(value)) == shown(value))


keys = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=10)
    | st.binary(max_size=10)
    | st.datetimes(timezones=st.none() | st.just(UTC)),
    lambda inner: st.tuples(inner) | st.tuples(inner, inner) | st.frozensets(inner, max_size=4),
    max_leaves=4,
)
buffers_of = st.binary(max_size=20) | st.integers(4090, 4100).map(bytes) | st.integers(65_530, 65_540).map(bytes)
leaves = (
    keys
    | st.complex_numbers()
    | st.builds(bytearray, buffers_of)
    | st.builds(memoryview, buffers_of)
    | buffers_of
    | st.builds(lambda n: np.arange(n, dtype="<u2"), st.integers(0, 3000))
    | st.builds(np.float32, st.floats(width=32))
)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.lists(inner, max_size=5).map(tuple)
        | st.dictionaries(keys, inner, max_size=5)
        | st.sets(keys, max_size=5)
    ),
    max_leaves=10,
)
