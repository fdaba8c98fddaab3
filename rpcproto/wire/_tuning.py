"""Numbers of this implementation, not of the protocol. ``_tuning.pxd`` has the same for C; never compiled."""

from __future__ import annotations

UNDECIDED = 0
ADMITTED = 1
DISCARDED = 2
"""States of an assembly."""

AWAITING_GREETING = 0
FRAMES = 1
STOPPED = 2
AUTHENTICATING = 3
"""States of a decoder: waiting for the greeting, parsing frames, parsing nothing more, parsing what may come before the
peer has proved who it is."""

AUTHENTICATING_MAX = 1032
"""Longest payload then: that of the GOAWAY by which the peer refuses."""

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

BATCH = 16
BATCH_MIN = 8
BATCH_MAX = 32
"""Messages that wait for a read to be handled before they go out all the same: half of the calls under way where that
is known, within bounds. If all waited, the two ends would take turns instead of working side by side: 0.31 of the
ceiling instead of 0.69 with 64 small calls in flight, 0.46 instead of 0.95 with 32 (medians of 3 and 5 runs of
``rpcproto bench -c``). Smaller batches cost more in system calls. For large messages they bring nothing, since the
receiver begins while the system still copies: 0.58 instead of 0.59 with 10 KB and batches of 8."""

ITEM_BATCH = 64 * 1024
"""Bytes of items that wait for the turn of the loop to end before they go out all the same."""

ALIGNMENT = 64
"""Of receive buffers: a cache line, and what numpy and SIMD code like best."""

COPY_ALIGNMENT = 16
"""Of the first large piece of a fragment within what is taken at once, and of where large pieces are cut.

``rep movsb``, by which Linux copies to and from sockets, is some 20 times slower on AMD Zen 3 and later where the
destination lies 1 to 15 bytes above the source modulo 4,096 (glibc bug 30994; ``benchmarks/copying.py``). Memory is
aligned to 16, and what is sent with nothing else on its way begins a page of the kernel's. So the distance is 0 or at
least 16 then; else it is a matter of chance (1 in 256).
"""

POOLED_MIN = 16 * 1024
POOL_ENTRIES = 64
POOL_BYTES = 64 * 1024 * 1024
