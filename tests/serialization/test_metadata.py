"""Metadata to bytes and back, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcproto.errors import SerializationError
from rpcproto.serialization import MsgpackCodec
from rpcproto.serialization.metadata import MAX_SIZE, decode_metadata, encode_metadata

VALUES = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text() | st.binary()
)


@given(st.dictionaries(st.text(max_size=20), VALUES, max_size=20))
def test_it_comes_back_as_it_was(metadata: dict[str, Any]) -> None:
    assert decode_metadata(encode_metadata(metadata)) == metadata


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ([("a", 1)], "metadata must be a dict, not list"),
        ("text", "metadata must be a dict, not str"),
        ({1: "a"}, "the key 1 must be text"),
        ({"a": [1]}, r"metadata\['a'\]: a value of type list"),
        ({"a": {}}, "a value of type dict"),
        ({"a": object()}, "a value of type object"),
        ({"a": "x" * MAX_SIZE}, "above 16384; it belongs into the arguments"),
        ({"a": b"x" * 100_000}, "belongs into the arguments"),
        ({"a": "\ud800"}, "value"),
    ],
)
def test_what_cannot_be_sent(metadata: Any, text: str) -> None:
    with pytest.raises(SerializationError, match=text):
        encode_metadata(metadata)


def test_the_largest() -> None:
    fits = {"k": "x" * (MAX_SIZE - 6)}
    assert len(encode_metadata(fits)) == MAX_SIZE
    with pytest.raises(SerializationError, match="metadata of 16385 bytes"):
        encode_metadata({"k": fits["k"] + "x"})


@pytest.mark.parametrize("value", [[1], "text", {1: 2}, None])
def test_what_a_peer_may_not_send(value: Any) -> None:
    data = bytes(MsgpackCodec().encode_value(value, []))
    with pytest.raises(SerializationError, match="not a dict with text as keys"):
        decode_metadata(data)


@given(st.binary(max_size=200))
def test_any_bytes_are_metadata_or_refused(data: bytes) -> None:
    try:
        metadata = decode_metadata(data)
    except SerializationError:
        return
    assert all(type(key) is str for key in metadata)
