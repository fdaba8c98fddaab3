# never compiled
# The numbers of _tuning.py as C constants. tests/wire/test_spec.py compares the two files.
cdef enum:
    UNDECIDED = 0
    ADMITTED = 1
    DISCARDED = 2
    AWAITING_GREETING = 0
    FRAMES = 1
    STOPPED = 2
    AUTHENTICATING = 3
    AUTHENTICATING_MAX = 1032
    HEADROOM = 98304
    READ_SMALL = 16384
    READ_NORMAL = 65536
    READ_LARGE = 262144
    SCRATCH_SIZE = 65536
    SCRATCHES_KEPT = 16
    PACK_MAX = 4096
    BATCH = 16
    BATCH_MIN = 8
    BATCH_MAX = 32
    ITEM_BATCH = 65536
    ALIGNMENT = 64
    COPY_ALIGNMENT = 16
    POOLED_MIN = 16384
    POOL_ENTRIES = 64
    POOL_BYTES = 67108864
