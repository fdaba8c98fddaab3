# never compiled
# The numbers of _tuning.py as C constants. tests/aio/test_tuning.py compares the two files.
cdef enum:
    FLUSH_LIMIT = 1048576
    HAND_OVER = 65536
    DISCARD_MAX = 1048576
    INLINE = 0
    TASK = 1
    THREAD = 2
    COVERED = 3
