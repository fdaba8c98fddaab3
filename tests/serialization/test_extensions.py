"""The values that are complete in themselves, and their bytes."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcproto.errors import SerializationError
from rpcproto.serialization import _extensions as extensions
from rpcproto.serialization import _layout as layout
from rpcproto.serialization._extensions import Unencodable


def through(value: Any) -> Any:
    item = extensions.encode_int(value) if type(value) is int else extensions.ENCODERS[type(value)](value)
    body = msgpack.packb(item)
    return msgpack.unpackb(body, timestamp=3, ext_hook=lambda code, data: extensions.DECODERS[code](data))


@pytest.mark.parametrize(
    "value", [2**64, -(2**63) - 1, 2**2000, -(2**2000), 2**8191 - 1, 1 - 2**8191], ids=int.bit_length
)
def test_fault_73_ints_beyond_64_bits(value: int) -> None:
    assert through(value) == value


@given(st.integers(min_value=2**64) | st.integers(max_value=-(2**63) - 1))
def test_any_int(value: int) -> None:
    assert through(value) == value


def test_ints_have_a_limit() -> None:
    for value in (2**8191, -(2**8192)):
        with pytest.raises(Unencodable, match=r"an int of 819\d bits; the limit is 8191"):
            extensions.encode_int(value)
    with pytest.raises(SerializationError, match="an int of 1025 bytes; the limit is 1024"):
        extensions.DECODERS[layout.INTEGER](bytes(1025))


@pytest.mark.parametrize("value", [0j, 1 - 2j, complex("nan"), complex(-0.0, float("inf"))])
def test_complex(value: complex) -> None:
    assert repr(through(value)) == repr(value)


@pytest.mark.parametrize("size", [0, 15, 17])
def test_a_malformed_complex(size: int) -> None:
    with pytest.raises(struct.error):
        extensions.DECODERS[layout.COMPLEX](bytes(size))


@pytest.mark.parametrize(
    "value",
    [
        datetime(2024, 2, 29, 12, 30, 15, 123456),  # noqa: DTZ001  naive on purpose
        datetime(2024, 10, 27, 2, 30, fold=1),  # noqa: DTZ001
        datetime.min,  # noqa: DTZ901
        datetime.max,  # noqa: DTZ901
        datetime.min.replace(tzinfo=UTC),
        datetime.max.replace(tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=5, minutes=45))),
        datetime(2024, 1, 1, tzinfo=timezone(-timedelta(hours=23, seconds=59, microseconds=1))),
        datetime(2024, 1, 1, fold=1, tzinfo=UTC),
    ],
    ids=str,
)
def test_fault_73_datetimes(value: datetime) -> None:
    """The repr shows the zone and the fold, which == does not compare."""
    assert repr(through(value)) == repr(value)


@given(
    st.datetimes(
        timezones=st.none() | st.just(UTC) | st.timedeltas(timedelta(hours=-23), timedelta(hours=23)).map(timezone)
    )
)
def test_any_datetime(value: datetime) -> None:
    assert repr(through(value)) == repr(value)


def test_utc_is_the_timestamp_of_msgpack() -> None:
    assert extensions.ENCODERS[datetime](datetime(2024, 1, 1, tzinfo=UTC)) == msgpack.Timestamp(1704067200, 0)


@pytest.mark.parametrize("zone", [ZoneInfo("UTC"), timezone(timedelta(hours=1), "CET")], ids=repr)
def test_zones_with_a_name_are_refused(zone: Any) -> None:
    with pytest.raises(Unencodable, match=r"the time zone .*astimezone"):
        extensions.ENCODERS[datetime](datetime(2024, 1, 1, tzinfo=zone))


@pytest.mark.parametrize("data", [b"", b"\0", b"\2" + b"2024-01-01", b"\x002024-13-01", b"\0" + b"x" * 64, b"\0\xff"])
def test_a_malformed_datetime(data: bytes) -> None:
    with pytest.raises(SerializationError, match="malformed datetime") as caught:
        extensions.DECODERS[layout.DATETIME](data)
    assert caught.value.__cause__ is None  # which would show the peer's text


def test_the_path_is_read_from_the_outside() -> None:
    problem = Unencodable("a set")
    problem.path += ["[3]", "['x']", "[0]"]
    assert problem.text("args") == "args[0]['x'][3]: a set"
