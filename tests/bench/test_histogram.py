"""Buckets and quantiles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcproto.bench.histogram import Histogram, bucket, bucket_bounds


@pytest.mark.parametrize(
    ("ns", "number"),
    [(0, 0), (1, 1), (63, 63), (64, 64), (65, 64), (66, 65), (127, 95), (128, 96), (2**30, 25 * 32 + 32)],
)
def test_bucket(ns: int, number: int) -> None:
    assert bucket(ns) == number


@given(st.integers(0, 2**50))
def test_a_bucket_holds_its_durations_and_is_at_most_a_32nd_wide(ns: int) -> None:
    low, width = bucket_bounds(bucket(ns))
    assert low <= ns < low + width
    assert width == 1 or width <= low / 32


@given(st.integers(0, 2**40))
def test_buckets_follow_one_another_without_a_gap(ns: int) -> None:
    low, width = bucket_bounds(bucket(ns))
    assert bucket_bounds(bucket(ns) + 1)[0] == low + width


def test_quantiles() -> None:
    histogram = Histogram()
    for ns in range(1, 100_001):
        histogram.record(ns)
    assert histogram.total() == 100_000
    assert histogram.quantile(0.5) == pytest.approx(50_000, rel=0.01)
    assert histogram.quantile(0.99) == pytest.approx(99_000, rel=0.01)
    assert histogram.quantile(1.0) == pytest.approx(100_000, rel=0.02)


def test_quantile_lies_evenly_within_a_bucket() -> None:
    histogram = Histogram([(bucket(64), 4)])  # 64 and 65
    assert histogram.quantile(0.25) == 64.5
    assert histogram.quantile(1.0) == 66.0


def test_quantile_of_nothing() -> None:
    assert Histogram().quantile(0.5) == 0.0


def test_add() -> None:
    first, second = Histogram(), Histogram()
    first.record(10)
    second.record(10)
    second.record(5000)
    first.add(second)
    assert first.pairs() == [(10, 2), (bucket(5000), 1)]
    assert second.total() == 2
    assert Histogram(first.pairs()).pairs() == first.pairs()


@given(st.integers(0, 2**63 - 1))
def test_a_duration_is_counted_in_its_bucket(ns: int) -> None:
    histogram = Histogram()
    histogram.record(ns)
    assert histogram.pairs() == [(bucket(ns), 1)]
