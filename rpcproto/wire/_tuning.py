"""Numbers of this implementation, not of the protocol. ``_tuning.pxd`` has the same for C; never compiled."""

from __future__ import annotations

UNDECIDED = 0
ADMITTED = 1
DISCARDED = 2
"""States of an assembly."""

AWAITING_GREETING = 0
FRAMES = 1
STOPPED = 2
"""States of a decoder: waiting for the greeting, parsing frames, parsing nothing more."""

HEADROOM = 96 * 1024
"""Room before the read area, for the part of a frame that the last read left over: a small frame with its head."""

READ_SMALL = 16 * 1024
READ_NORMAL = 64 * 1024
READ_LARGE = 256 * 1024
"""What is offered to a read: little after a large message, whose bytes would only be copied; much after full reads."""

SCRATCH_SIZE = 64 * 1024
SCRATCHES_KEPT = 16

PACK_MAX = 4096
"""Payloads up to this are copied behind their header: one part for a whole batch of small messages, and the sender may
use its buffer again at once. Larger ones are sent from where they are."""

ALIGNMENT = 64
"""Of receive buffers: a cache line, and what numpy and SIMD code like best."""

POOLED_MIN = 16 * 1024
POOL_ENTRIES = 64
POOL_BYTES = 64 * 1024 * 1024
