"""Latencies in logarithmic buckets: 32 for each power of two, so a bucket is at most 3 % wide.

Memory does not grow with the number of calls, and histograms of several processes add up. ``benchmarks/ceiling.c``
uses the same buckets and the same interpolation, so both sides' quantiles mean the same.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["Histogram", "bucket", "bucket_bounds"]

BUCKETS = 64 * 32
"""Enough for 2**63 ns."""


def bucket(ns: int) -> int:
    """The number of the bucket for a duration of ``ns`` nanoseconds, 0 or more."""
    if ns < 64:
        return ns
    shift = ns.bit_length() - 6  # leaves six significant bits
    return (shift << 5) + (ns >> shift)


def bucket_bounds(number: int) -> tuple[int, int]:
    """The bucket's lowest duration and its width, in nanoseconds."""
    if number < 64:
        return number, 1
    shift = (number >> 5) - 1
    return (number - (shift << 5)) << shift, 1 << shift


class Histogram:
    """Counts durations.

    Args:
        pairs: bucket numbers and counts to begin with, as :meth:`pairs` gave them.
    """

    __slots__ = ("counts",)

    def __init__(self, pairs: Iterable[tuple[int, int]] = ()) -> None:
        self.counts = [0] * BUCKETS
        for number, count in pairs:
            self.counts[number] += count

    def record(self, ns: int) -> None:
        """Count one duration of ``ns`` nanoseconds."""
        if ns < 64:
            self.counts[ns] += 1
        else:  # bucket(), without the call: this runs beside what is measured
            shift = ns.bit_length() - 6
            self.counts[(shift << 5) + (ns >> shift)] += 1

    def add(self, other: Histogram) -> None:
        """Add the counts of another histogram."""
        for number, count in other.pairs():
            self.counts[number] += count

    def total(self) -> int:
        """How many durations were counted."""
        return sum(self.counts)

    def quantile(self, q: float) -> float:
        """The duration in nanoseconds below which the share ``q`` (0 to 1) lies; 0.0 if nothing was counted.

        Durations are taken to lie evenly within their bucket.
        """
        rank = q * self.total()
        below = 0
        for number, count in self.pairs():
            if below + count >= rank:
                low, width = bucket_bounds(number)
                return low + width * (rank - below) / count
            below += count
        return 0.0

    def pairs(self) -> list[tuple[int, int]]:
        """Bucket numbers and counts of the buckets that are not empty, in order."""
        return [(number, count) for number, count in enumerate(self.counts) if count]
