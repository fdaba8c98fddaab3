"""Error codes of the wire to exceptions, by a fixed table: a class is never looked up by a name that a peer sent."""

from __future__ import annotations

from rpcproto.errors import (
    CallCancelled,
    CallFailed,
    DeadlineExceeded,
    GoingAway,
    MessageTooLarge,
    NoSuchMethod,
    NotPermitted,
    Overloaded,
    Refused,
    RemoteError,
    SerializationError,
)
from rpcproto.wire.spec import ErrorCode

_CLASSES: dict[int, type[CallFailed]] = {
    ErrorCode.OVERLOADED: Overloaded,
    ErrorCode.GOING_AWAY: GoingAway,
    ErrorCode.NO_SUCH_METHOD: NoSuchMethod,
    ErrorCode.CANCELLED: CallCancelled,
    ErrorCode.DEADLINE_EXCEEDED: DeadlineExceeded,
    ErrorCode.UNSUPPORTED_CODEC: Refused,
    ErrorCode.BAD_MESSAGE: Refused,
    ErrorCode.NOT_PERMITTED: NotPermitted,
}


def failure(
    code: int, type_name: str, text: str, traceback: str, method: str, peer: str
) -> CallFailed | SerializationError:
    """The exception for an ERROR or CANCEL of the peer.

    Args:
        code: of the wire; an unknown one becomes a RemoteError.
        type_name, text, traceback: as the peer tells them.
        method: the method called.
        peer: address of the peer.
    """
    if code == ErrorCode.MESSAGE_TOO_LARGE:
        return MessageTooLarge(f"{method} at {peer}: {text}")
    known = _CLASSES.get(code)
    if known is not None:
        return known(f"{method} at {peer}: {text}", method=method, peer=peer)
    message = f"{type_name}: {text}" if type_name else text
    return RemoteError(
        message, type_name=type_name, text=text, traceback=traceback, code=code, method=method, peer=peer
    )


def too_large(what: str, size: int, limit: int, whose: str) -> MessageTooLarge:
    """The error for a message above a limit, or with too many buffers."""
    if size > limit:
        text = f"{what}: {size} bytes, above {whose} max_message of {limit}, a setting of Limits"
    else:
        text = f"{what}: its buffers are too many: at most 65,535, and their sizes must fit into the peer's max_frame"
    return MessageTooLarge(text, size=size, limit=limit)
