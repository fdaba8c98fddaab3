"""The greeting, byte for byte, and what of a peer's is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcproto.errors import RemoteProtocolError
from rpcproto.wire.greeting import Greeting, check_magic, decode_greeting
from rpcproto.wire.spec import MAGIC, ErrorCode, Mechanism, Role
from tests.wire import frames

PLAIN: dict[str, Any] = {
    "role": Role.INITIATOR,
    "incarnation": 0x1122334455667788,
    "max_frame": 1 << 20,
    "max_message": 1 << 30,
    "call_window": 1 << 20,
    "connection_window": 8 << 20,
    "max_running": 1024,
}


def refusal(data: bytes, our_role: int = Role.ACCEPTOR) -> RemoteProtocolError:
    with pytest.raises(RemoteProtocolError) as caught:
        decode_greeting(data, our_role)
    return caught.value


def test_the_64_bytes() -> None:
    greeting = Greeting(**PLAIN, silence_ms=20_000, mechanism=Mechanism.SHARED_SECRET, capabilities=5)
    data = greeting.encode()
    assert data == frames.greeting(1, silence_ms=20_000, mechanism=1, may=5)
    assert data.hex(" ", 8) == (
        "ab5250430d0a1a0a 0100010100000000 0500000000001000 0000004000000000"
        " 0000100000008000 00040000204e0000 8877665544332211 0000000000000000"
    )


@given(
    st.builds(
        Greeting,
        role=st.just(Role.ACCEPTOR),
        incarnation=st.integers(0, 2**64 - 1),
        max_frame=st.integers(131_072, 2**24 - 1),
        max_message=st.integers(1, 2**63 - 1),
        call_window=st.integers(65_536, 2**20),
        connection_window=st.integers(2**20, 2**31 - 1),
        max_running=st.integers(0, 2**32 - 1),
        silence_ms=st.integers(0, 2**32 - 1),
        mechanism=st.integers(0, 255),
        capabilities=st.integers(0, 2**32 - 1),
        minor=st.integers(0, 255),
    )
)
def test_round_trip(greeting: Greeting) -> None:
    assert decode_greeting(greeting.encode(), Role.INITIATOR) == greeting


def test_row_3_later_minor_versions_and_unknown_capabilities_are_accepted() -> None:
    greeting = decode_greeting(frames.greeting(1, minor=200, may=0xFFFF_FFFF, reserved=b"\xff" * 8), Role.ACCEPTOR)
    assert (greeting.major, greeting.minor, greeting.capabilities) == (1, 200, 0xFFFF_FFFF)


@pytest.mark.parametrize("major", [0, 2, 255])
def test_row_3_another_major_version(major: int) -> None:
    error = refusal(frames.greeting(1, major=major, minor=4))
    assert error.code == ErrorCode.VERSION
    assert f"{major}.4" in str(error)
    assert "1.0" in str(error)


@pytest.mark.parametrize("must", [1, 0x8000_0000])
def test_row_3_a_capability_that_must_be_known(must: int) -> None:
    error = refusal(frames.greeting(1, must=must))
    assert error.code == ErrorCode.VERSION
    assert f"{must:#010x}" in str(error)


def test_the_version_is_told_before_anything_else_that_a_later_version_may_change() -> None:
    assert refusal(frames.greeting(9, major=2, max_frame=0, must=7)).code == ErrorCode.VERSION


@pytest.mark.parametrize(("role", "ours"), [(1, 1), (2, 2), (0, 1), (3, 2)])
def test_roles_that_do_not_meet(role: int, ours: int) -> None:
    assert refusal(frames.greeting(role), ours).code == ErrorCode.GREETING


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_frame", 131_071),
        ("max_frame", 2**24),
        ("max_message", 0),
        ("max_message", 2**63),
        ("call_window", 65_535),
        ("call_window", 2**31),
        ("connection_window", 2**20 - 1),
        ("connection_window", 2**31),
    ],
)
def test_a_limit_out_of_range_is_named(name: str, value: int) -> None:
    error = refusal(frames.greeting(1, **{name: value}))  # type: ignore[arg-type]
    assert error.code == ErrorCode.GREETING
    assert name.replace("_", " ") in str(error)
    assert str(value) in str(error)


@pytest.mark.parametrize("size", [0, 1, 63, 65])
def test_another_length(size: int) -> None:
    assert refusal((frames.greeting(1) + b"x")[:size]).code == ErrorCode.GREETING


def test_the_magic_is_compared_as_it_comes() -> None:
    for size in range(9):
        check_magic(MAGIC[:size])
    for at in range(8):
        wrong = bytearray(MAGIC)
        wrong[at] ^= 1
        for size in range(at):
            check_magic(bytes(wrong[:size]))
        for size in range(at + 1, 9):
            with pytest.raises(RemoteProtocolError) as caught:
                check_magic(bytes(wrong[:size]))
            assert caught.value.code == ErrorCode.GREETING


def test_row_60_only_a_short_piece_of_what_was_sent_is_told() -> None:
    error = refusal(b"SECRET-CANARY-0123456789" + bytes(40))
    assert "0123456789" not in str(error)
    assert len(str(error)) < 150
