# never compiled
# The numbers of spec.py as C constants. tests/wire/test_spec.py compares the two files.
cdef enum:
    HEADER_SIZE = 16
    INLINE_MAX = 65536
    MIN_COST = 64
    MIN_FRAGMENT = 1024
    MAX_METADATA = 16384
    MAX_BUFFERS = 65535
    MAX_METHOD_NAME = 255
    MAX_METHOD_IDS = 4096
    PAD_MAX = 15
    CREDIT_MAX = 2147483647
    CALL_ID_MAX = 281474976710655

cdef enum:
    REQUEST = 1
    NOTIFY = 2
    STREAM = 3
    CHANNEL = 4
    REPLY = 5
    ITEM = 6
    ERROR = 7
    CANCEL = 8
    CREDIT = 9
    PING = 10
    GOAWAY = 11
    AUTH = 12
    PAD = 13

cdef enum:
    FIRST = 0x01
    MORE = 0x02
    END = 0x04
    IGNORABLE = 0x08
    HEAD = 0x10

cdef enum:
    NAME = 0x01
    DEADLINE = 0x02
    METADATA = 0x04
    SIZE = 0x08
    BUFFERS = 0x10

cdef enum:
    ITEMS = 2
