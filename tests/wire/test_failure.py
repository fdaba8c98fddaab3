"""The payload of ERROR frames: three texts, cut to their limits, decoded from anything."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcproto.errors import RemoteProtocolError
from rpcproto.wire.failure import decode_failure, encode_failure
from rpcproto.wire.spec import ErrorCode
from tests.wire import frames

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


def test_the_layout() -> None:
    assert frames.error(1, 0x301, "KeyError", "'k'", "Tb")[16:] == encode_failure("KeyError", "'k'", "Tb")
    assert encode_failure("", "é") == bytes.fromhex("0000 0200 c3a9 0000")


@given(TEXT, TEXT, TEXT)
def test_round_trip(type_name: str, text: str, traceback: str) -> None:
    assert decode_failure(encode_failure(type_name, text, traceback)) == (type_name, text, traceback)


def test_row_19_what_is_too_long_is_cut() -> None:
    type_name, text, traceback = decode_failure(encode_failure("T" * 300, "x" * 5000, "first" + "y" * 20_000 + "last"))
    assert type_name == "T" * 255
    assert text == "x" * 4096
    assert len(traceback) == 16_384
    assert traceback.endswith("last")


@pytest.mark.parametrize("shift", range(4))
def test_texts_are_cut_between_characters(shift: int) -> None:
    _, text, traceback = decode_failure(encode_failure("", "x" * shift + "😀" * 2000, "😀" * 5000))
    assert text == "x" * shift + "😀" * ((4096 - shift) // 4)
    assert set(traceback) <= {"😀", "\N{REPLACEMENT CHARACTER}"}
    assert len(encode_failure("", "x" * shift + "😀" * 2000)) <= 4096 + 6


def test_lone_surrogates_are_escaped() -> None:
    assert decode_failure(encode_failure("\ud800", "a\udfffb", "\ud800")) == ("\\ud800", "a\\udfffb", "\\ud800")


def test_broken_utf8_of_a_peer_is_shown_as_far_as_it_goes() -> None:
    assert decode_failure(b"\x01\x00\xff\x02\x00\xc3(\x00\x00") == ("�", "�(", "")


@pytest.mark.parametrize(
    "payload",
    [b"", b"\x00", bytes(4), bytes(5), bytes(7), b"\x01\x00", b"\xff\xff" + bytes(100), b"\x00\x00\x05\x00abc"],
)
def test_lengths_that_do_not_fit(payload: bytes) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode_failure(payload)
    assert caught.value.code == ErrorCode.FRAME_SIZE


@given(st.binary(max_size=60))
def test_any_payload_is_decoded_or_refused(payload: bytes) -> None:
    try:
        texts = decode_failure(payload)
    except RemoteProtocolError as error:
        texts = (error.code,)
    assert len(texts) == 3 or texts == (ErrorCode.FRAME_SIZE,)
