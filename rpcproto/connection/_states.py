"""States of a connection. ``_states.pxd`` has the same for C; never compiled."""

from __future__ import annotations

WAITING = 0
OPEN = 1
DRAINING = 2
CLOSED = 3
