"""Numbers of the shell. ``_tuning.pxd`` has the same for C; never compiled."""

from __future__ import annotations

FLUSH_LIMIT = 1024 * 1024
"""Bulk taken from the queue for one system call: what a ping may have to wait behind once it is taken."""

HAND_OVER = 64 * 1024
"""What the transport is given to wait for a full socket, and up to where parts are joined for a transport."""

DISCARD_MAX = 1024 * 1024
"""Input thrown away after a breach, while the reason is on its way to the peer."""

INLINE = 0
TASK = 1
THREAD = 2
COVERED = 3
"""How a handler is run."""
