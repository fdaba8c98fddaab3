"""Names and ids of codecs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rpcproto import serialization
from rpcproto.errors import ConfigurationError
from rpcproto.serialization import Codec, MsgpackCodec, RawCodec, by_id, get, register, registry


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    names, ids = dict(registry._by_name), dict(registry._by_id)
    yield
    registry._by_name.clear()
    registry._by_name.update(names)
    registry._by_id.clear()
    registry._by_id.update(ids)


def test_the_library_s_own() -> None:
    assert isinstance(get("raw"), RawCodec)
    assert isinstance(get("msgpack"), MsgpackCodec)
    assert (get("raw").id, get("msgpack").id) == (1, 2)
    assert by_id(1) is get("raw")
    assert by_id(2) is get("msgpack")
    assert by_id(0) is None
    assert by_id(77) is None


def test_a_codec_stands_for_itself() -> None:
    codec = MsgpackCodec(max_object_bytes=1000)
    assert get(codec) is codec


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match="no codec is called 'pickle'; there are msgpack, raw"):
        get("pickle")


@pytest.mark.parametrize("number", [128, 65_535])
def test_register(number: int) -> None:
    codec = Codec("mine", number)
    register(codec)
    register(codec)
    assert get("mine") is codec
    assert by_id(number) is codec


@pytest.mark.parametrize("number", [0, 1, 127, 65_536, -1])
def test_ids_out_of_range(number: int) -> None:
    with pytest.raises(ConfigurationError, match="must be 128 to 65535"):
        register(Codec("mine", number))
    assert "mine" not in registry._by_name


def test_names_and_ids_are_unique() -> None:
    register(Codec("mine", 128))
    with pytest.raises(ConfigurationError, match="<Codec 'mine' id=128> has its name or id"):
        register(Codec("mine", 129))
    with pytest.raises(ConfigurationError, match="has its name or id"):
        register(Codec("other", 128))
    with pytest.raises(ConfigurationError, match="has its name or id"):
        register(Codec("raw", 130))
    assert by_id(129) is None


def test_what_is_no_codec() -> None:
    with pytest.raises(ConfigurationError, match="must be derived"):
        register(object())  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="Codec has no name"):
        register(Codec("", 128))


def test_a_codec_that_was_never_initialised() -> None:
    class Forgetful(Codec):
        def __init__(self) -> None:
            pass

    with pytest.raises(ConfigurationError, match=r"Forgetful has no name or id: call Codec.__init__"):
        register(Forgetful())


def test_public_names() -> None:
    assert set(serialization.__all__) == {"Codec", "MsgpackCodec", "RawCodec", "by_id", "get", "register"}
