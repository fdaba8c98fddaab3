# never compiled
# The numbers of _layout.py as C constants. tests/serialization/test_layout.py compares the two files.
cdef enum:
    INLINE_MAX = 65536
    SNAPSHOT_MAX = 4096
    KEEP_PACKER_MAX = 1048576
    MAX_DEPTH = 64

cdef enum:
    TIMESTAMP = -1
    TUPLE = 1
    SET = 2
    FROZENSET = 3
    INTEGER = 4
    COMPLEX = 5
    DATETIME = 6
    BYTES = 7
    BYTEARRAY = 8
    MEMORYVIEW = 9
    ARRAY_OF_NUMPY = 10
    SCALAR_OF_NUMPY = 11

cdef enum:
    FIXED = 0x40
    FIXED_EXTENSION = 0x40
    EXTENSION = 0x48
    TEXT = 0x50
    ARRAY = 0x58
    MAP = 0x60
    INVALID = 0x68

cdef enum:
    HAS_EXTENSIONS = 1
    HAS_MARKS = 2
    HAS_RISKY_KEYS = 4
    HAS_MANY_CONTAINERS = 8
    LARGE_MAP = 64
    MOST_TINY_KEYS = 169
    MANY_CONTAINERS = 5000

cdef enum:
    SMALL_EXTENSION_WEIGHT = 160
    EXTENSION_WEIGHT = 640
    SMALL_MAP_WEIGHT = 168
    ENTRY_WEIGHT = 110
    PAIR_WEIGHT = 72
    SET_WEIGHT = 200
    SET_ITEM_WEIGHT = 146

cdef enum:
    MAX_SAME = 8
    MAX_STEPS = 32
    SMALLEST_TABLE = 128
