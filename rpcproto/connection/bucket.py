"""A token bucket: so many at once, so many a second after."""

from __future__ import annotations


class TokenBucket:
    """Bounds how often a peer may do what costs us more than it costs the peer.

    Args:
        burst: tokens when full.
        rate: tokens a second that come back.
    """

    __slots__ = ("at", "burst", "rate", "tokens")

    def __init__(self, burst: int, rate: float) -> None:
        self.burst = burst
        self.rate = rate
        self.tokens = float(burst)
        self.at = 0.0

    def take(self, now: float) -> bool:
        """Take one token at time ``now`` (seconds, monotonic). False if there is none."""
        if self.tokens < 1.0:
            self.tokens = min(float(self.burst), self.tokens + (now - self.at) * self.rate)
            self.at = now
            if self.tokens < 1.0:
                return False
        elif self.tokens == self.burst:
            self.at = now
        self.tokens -= 1.0
        return True
