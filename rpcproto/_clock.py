"""The clock that deadlines and heartbeats are read from: seconds that only go forward.

Never compiled: compiled modules take the C body in ``_clock.pxd`` by ``cimport``, pure Python takes this function.
Both read CLOCK_MONOTONIC, so their values can be compared with each other.
"""

from __future__ import annotations

from time import monotonic

__all__ = ["monotonic"]
