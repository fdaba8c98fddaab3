"""The numbers of this package: sizes, extension types of msgpack, kinds of items, what ``prescan`` counts and tells.

Never compiled: the compiled modules take the numbers from ``_layout.pxd``, and a test compares the two.
"""

from __future__ import annotations

# ---- sizes -----------------------------------------------------------------------------------------------------------

INLINE_MAX = 64 * 1024
"""Bytes up to this size travel in the body, larger ones as a buffer: a message of this size is still one frame."""

SNAPSHOT_MAX = 4096
"""Mutable values up to this size are copied when they are encoded. A page: the copy costs less than keeping track."""

KEEP_PACKER_MAX = 1024 * 1024
"""A packer keeps as much memory as its largest body took; after a body above this it is let go."""

MAX_DEPTH = 64
"""Deepest nesting of arrays and maps. Cap'n Proto has the same; what is nested deeper is mostly gone wrong."""

# ---- extension types: the table in msgpack.py says what they hold ----------------------------------------------------

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

# ---- what the first byte of an item says -----------------------------------------------------------------------------
# Below FIXED: that many bytes follow. Otherwise a kind, and in its low three bits the width of the number that
# follows, 0 if the number is part of the first byte.

FIXED = 0x40
FIXED_EXTENSION = 0x40
EXTENSION = 0x48
TEXT = 0x50
ARRAY = 0x58
MAP = 0x60
INVALID = 0x68

# ---- what scan() tells, as a sum -------------------------------------------------------------------------------------

HAS_EXTENSIONS = 1
"""The body has items of extension types."""
HAS_MARKS = 2
"""Some of them are empty: they mark an array as a tuple or a set."""
HAS_RISKY_KEYS = 4
"""A map has keys whose hashes the peer can choose, in a number or of a kind that matters (see ``flood``)."""
HAS_MANY_CONTAINERS = 8
"""So many that the garbage collector would run several times while they are built."""

LARGE_MAP = 64
"""Entries above which a map's int keys matter: below, keys that all collide cost some 30 ms per MiB."""
MOST_TINY_KEYS = 169
"""Keys of one byte that a map may have: the ints from -32 to 127 and None, and MAX_SAME again."""
MANY_CONTAINERS = 5000

# ---- memory of the decoded objects in bytes, beside 8 for the place that refers to each of them ----------------------

SMALL_EXTENSION_WEIGHT = 160  # an int, a complex, a datetime with its zone
EXTENSION_WEIGHT = 640  # an array over a view of a buffer, with its shape and type
SMALL_MAP_WEIGHT = 168  # the table of a dict of up to 5 entries
ENTRY_WEIGHT = 110  # an entry of a larger dict: 42 to 60, half more while it grows, and a text is interned
PAIR_WEIGHT = 72  # an entry that is a tuple first, because the keys are looked at
SET_WEIGHT = 200
SET_ITEM_WEIGHT = 146  # an item of a set of 5, the worst size

# ---- what flood allows -----------------------------------------------------------------------------------------------

MAX_SAME = 8
"""Keys whose hash occurred before. -1 and -2 share one, as do ints that differ by 2^61 - 1."""

MAX_STEPS = 32
"""Steps a key on average. Twice what any harmless sequence was found to take."""

SMALLEST_TABLE = 128
"""Smaller tables are not looked at: what collides there is cheap."""
