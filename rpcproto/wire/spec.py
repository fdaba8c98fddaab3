"""The numbers of the protocol. ``PROTOCOL.md`` beside this file is its text; ``spec.pxd`` the same numbers for C.

Never compiled: the compiled modules take the numbers from the ``.pxd``, and a test compares the two.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag

__all__ = [
    "CALL_ID_MAX",
    "CREDIT_MAX",
    "GREETING_SIZE",
    "HEADER_SIZE",
    "INLINE_MAX",
    "MAGIC",
    "MAX_ERROR_TEXT",
    "MAX_ERROR_TRACEBACK",
    "MAX_METHOD_IDS",
    "MAX_METHOD_NAME",
    "MINOR",
    "MIN_COST",
    "MIN_FRAGMENT",
    "VERSION",
    "CreditClass",
    "ErrorCode",
    "Flag",
    "FrameType",
    "HeadPart",
    "Mechanism",
    "Role",
]

MAGIC = b"\xabRPC\r\n\x1a\n"
"""First 8 bytes of a greeting. No text protocol and no TLS record starts so; a newline conversion breaks it (PNG's
trick)."""

VERSION = 1
MINOR = 0
GREETING_SIZE = 64
HEADER_SIZE = 16

CALL_ID_MAX = 2**48 - 1
"""48 bits last 8,900 years at 1,000 calls/s and 29 years at 300,000/s; ids are never used twice in a connection."""

CREDIT_MAX = 2**31 - 1
"""No connection window may exceed it (RFC 9113, 6.9.1)."""

INLINE_MAX = 64 * 1024
"""A message of up to this many bytes is one frame and keeps its place in the order; larger ones are bulk."""

MIN_COST = 64
"""What the smallest message costs of a window, and a message above the call window, whose bytes are admitted apart."""

MIN_FRAGMENT = 1024
"""Fragments below this, other than the last one of a message, are tolerated once a message (CVE-2019-9518)."""

MAX_METADATA = 16 * 1024
"""Bytes of a metadata block: gRPC's hard limit for headers (channel_arg_names.h)."""

MAX_BUFFERS = 65_535
"""Buffers of a message. Their sizes must fit into its first frame."""

MAX_METHOD_NAME = 255
MAX_METHOD_IDS = 4096
"""Method ids 1 to 4095 can be bound to names in each direction; id 0 means "the name is given, bind nothing"."""

PAD_MAX = 15
"""Bytes that a PAD may have."""

MAX_ERROR_TEXT = 4096
MAX_ERROR_TRACEBACK = 16 * 1024


class FrameType(IntEnum):
    """What a frame is. 1 to 4 open a call of that kind."""

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


class Flag(IntFlag):
    """Flags of a frame header. Unknown ones are ignored."""

    FIRST = 0x01
    """The frame starts a message."""
    MORE = 0x02
    """The message goes on in a later frame of the same call and type."""
    END = 0x04
    """Nothing follows from this side in this call."""
    IGNORABLE = 0x08
    """A receiver that does not know the type skips the frame."""
    HEAD = 0x10
    """The payload starts with a head."""


class HeadPart(IntFlag):
    """Which parts a head has, in this order. An absent part costs no bytes."""

    NAME = 0x01
    DEADLINE = 0x02
    METADATA = 0x04
    SIZE = 0x08
    BUFFERS = 0x10


class Role(IntEnum):
    """Who opened the connection: the initiator's call ids are odd, the acceptor's even."""

    INITIATOR = 1
    ACCEPTOR = 2


class Mechanism(IntEnum):
    """How a side wants to authenticate. Both must ask for the same; there is no falling back."""

    NONE = 0
    SHARED_SECRET = 1


class CreditClass(IntEnum):
    """``aux`` of a CREDIT frame. On call 0: which of the two connection windows it refills. On a call: whether it
    admits a large message, or refills the window of the call's items."""

    CALLS = 0
    REPLIES = 1
    ADMISSION = 0
    ITEMS = 2


class ErrorCode(IntEnum):
    """Error codes. 0x01xx end the connection, 0x02xx and above one call. ``PROTOCOL.md`` says which are safe to
    retry."""

    NO_ERROR = 0x0100
    PROTOCOL = 0x0101
    GREETING = 0x0102
    VERSION = 0x0103
    FRAME_SIZE = 0x0104
    FRAME_TYPE = 0x0105
    HEAD = 0x0106
    CALL_ID = 0x0107
    CALL_STATE = 0x0108
    FLOW_CONTROL = 0x0109
    FLOOD = 0x010A
    SLOW_CONSUMER = 0x010B
    HEARTBEAT = 0x010C
    AUTHENTICATION = 0x010D
    INTERNAL = 0x010E

    OVERLOADED = 0x0201
    GOING_AWAY = 0x0202
    NO_SUCH_METHOD = 0x0203
    CANCELLED = 0x0204
    DEADLINE_EXCEEDED = 0x0205
    UNSUPPORTED_CODEC = 0x0206
    BAD_MESSAGE = 0x0207
    MESSAGE_TOO_LARGE = 0x0208
    UNENCODABLE_RESULT = 0x0209
    NOT_PERMITTED = 0x020A

    HANDLER_RAISED = 0x0301


REQUEST, NOTIFY, STREAM, CHANNEL, REPLY, ITEM, ERROR, CANCEL, CREDIT, PING, GOAWAY, AUTH, PAD = (
    int(kind) for kind in FrameType
)
ITEMS = int(CreditClass.ITEMS)
FIRST, MORE, END, IGNORABLE, HEAD = (int(flag) for flag in Flag)
NAME, DEADLINE, METADATA, SIZE, BUFFERS = (int(part) for part in HeadPart)
"""The same as plain numbers, under the names of ``spec.pxd``: what the compiled modules use in both builds."""
