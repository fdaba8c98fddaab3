"""The token bucket."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rpcproto.connection.bucket import TokenBucket


def test_so_many_at_once() -> None:
    bucket = TokenBucket(5, 1.0)
    assert [bucket.take(100.0) for _ in range(7)] == [True] * 5 + [False] * 2


def test_so_many_a_second_after_that() -> None:
    bucket = TokenBucket(5, 10.0)
    for _ in range(5):
        bucket.take(100.0)
    assert not bucket.take(100.05)
    assert bucket.take(100.11)
    assert not bucket.take(100.12)
    assert [bucket.take(100.35) for _ in range(3)] == [True, True, False]


def test_no_more_than_the_burst_is_saved_up() -> None:
    bucket = TokenBucket(3, 10.0)
    for _ in range(3):
        bucket.take(0.0)
    assert [bucket.take(1e6) for _ in range(4)] == [True, True, True, False]


def test_a_rate_of_0_never_refills() -> None:
    bucket = TokenBucket(1, 0.0)
    assert [bucket.take(now) for now in (0.0, 1e9)] == [True, False]


@given(st.integers(1, 20), st.floats(0.1, 100.0), st.lists(st.floats(0.0, 1.0), max_size=200))
def test_never_more_than_burst_and_rate_allow(burst: int, rate: float, pauses: list[float]) -> None:
    bucket = TokenBucket(burst, rate)
    now, taken = 50.0, 0
    for pause in pauses:
        now += pause
        taken += bucket.take(now)
        assert taken <= burst + (now - 50.0) * rate + 1e-6


def test_row_29_a_long_and_slow_life_does_not_use_it_up() -> None:
    # Lifetime counters once cut off honest clients (nghttp2 #1984).
    bucket = TokenBucket(10, 5.0)
    assert all(bucket.take(1000.0 + at * 0.25) for at in range(10_000))
