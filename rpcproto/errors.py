"""Every error that rpcproto raises, in one tree.

::

    RpcError
    ├── ConfigurationError (ValueError)     a setting, address or service definition makes no sense
    ├── ProtocolError                       the rules of the protocol were broken ...
    │   ├── LocalProtocolError                  ... by the code on this side
    │   └── RemoteProtocolError                 ... by the peer; ``code`` says how
    ├── ConnectFailed (ConnectionError)     no connection could be made
    ├── ConnectionLost (ConnectionError)    the connection ended; ``maybe_executed`` tells about this call
    │   └── ConnectionClosed                    ... because this side closed it
    ├── CallFailed                          one call failed, its connection lives on
    │   ├── Refused                             never started, safe to send again
    │   │   ├── Overloaded                          a limit of this side or of the peer was reached
    │   │   ├── GoingAway                           the peer is shutting down
    │   │   └── NoSuchMethod                        the peer has no such method
    │   ├── CallCancelled                       the peer gave the call up
    │   ├── DeadlineExceeded (TimeoutError)     the time allowed for the call is over
    │   ├── NotPermitted                        the peer does not let this caller do that
    │   └── RemoteError                         the handler raised, or its result could not be sent
    ├── SerializationError (ValueError)     a value could not be encoded or decoded
    │   └── MessageTooLarge                     a message exceeds a limit of this side or of the peer
    └── InternalError                       a bug in rpcproto

Errors are told apart by cause, and each says whether the call may have run: only :class:`Refused` promises that it
did not. All of them can be pickled. What becomes of a call is told by an error of this tree, with one exception:
:exc:`asyncio.CancelledError`, raised where the *caller* cancelled. Python's own errors mean what they always do:
:exc:`TypeError` an argument of a wrong type, :exc:`EOFError` that a channel has ended.
"""

from __future__ import annotations

__all__ = [
    "CallCancelled",
    "CallFailed",
    "ConfigurationError",
    "ConnectFailed",
    "ConnectionClosed",
    "ConnectionLost",
    "DeadlineExceeded",
    "GoingAway",
    "InternalError",
    "LocalProtocolError",
    "MessageTooLarge",
    "NoSuchMethod",
    "NotPermitted",
    "Overloaded",
    "ProtocolError",
    "Refused",
    "RemoteError",
    "RemoteProtocolError",
    "RpcError",
    "SerializationError",
]


class RpcError(Exception):
    """Base of every error of this library. Not raised itself.

    Fields beside the message are keyword arguments with defaults, so that ``cls(message)`` plus the instance's
    ``__dict__``, which is what pickle stores, rebuilds any of them.
    """


class ConfigurationError(RpcError, ValueError):
    """A setting, an address or a service definition is wrong. The text names it and what is allowed."""


class ProtocolError(RpcError):
    """The rules of the protocol were broken. Ends the connection.

    Args:
        message: what was wrong, with the offending number and the limit.
        code: the connection error code of ``wire.spec.ErrorCode`` that the other side is told.
    """

    def __init__(self, message: str, *, code: int = 0x0101) -> None:
        super().__init__(message)
        self.code = code


class LocalProtocolError(ProtocolError):
    """This side tried something that the protocol forbids. A bug in the code that drives the connection."""


class RemoteProtocolError(ProtocolError):
    """The peer sent something that the protocol forbids, or told us that we did."""


class ConnectFailed(RpcError, ConnectionError):
    """No connection could be made.

    Args:
        message: the address, and for each address tried what happened there.
        address: the address that was asked for.
    """

    def __init__(self, message: str, *, address: str = "") -> None:
        super().__init__(message)
        self.address = address


class ConnectionLost(RpcError, ConnectionError):
    """The connection ended before the call did.

    Args:
        message: the peer and the cause.
        peer: address of the peer, as far as known.
        maybe_executed: True if any byte of the call may have reached the peer, so it may have run; False if it
            surely did not and can be sent again.
    """

    def __init__(self, message: str, *, peer: str = "", maybe_executed: bool = False) -> None:
        super().__init__(message)
        self.peer = peer
        self.maybe_executed = maybe_executed


class ConnectionClosed(ConnectionLost):
    """The connection was closed by this side: ``close()`` was called, or its context manager was left."""


class CallFailed(RpcError):
    """One call failed; the connection and all other calls live on.

    Args:
        message: what happened.
        method: name of the method called, as far as known.
        peer: address of the peer, as far as known.
    """

    def __init__(self, message: str, *, method: str = "", peer: str = "") -> None:
        super().__init__(message)
        self.method = method
        self.peer = peer


class Refused(CallFailed):
    """The call was never started. It is safe to send it again, here or elsewhere."""


class Overloaded(Refused):
    """A limit was reached: calls running at the peer, bytes they hold, or messages queued on this side."""


class GoingAway(Refused):
    """The peer is shutting down and starts no more calls."""


class NoSuchMethod(Refused):
    """The peer has no method of this name, or has it as another kind of call."""


class CallCancelled(CallFailed):
    """The peer gave the call up. Whether its work was done is not known."""


class DeadlineExceeded(CallFailed, TimeoutError):
    """The time allowed for the call is over. The handler may have run, and may still be running."""


class NotPermitted(CallFailed):
    """The peer does not let this caller do that. Asking again does not help; proving who one is may, and the text says
    how.

    Built-in methods raise it for peers that are not authenticated. Handlers may raise it too: their callers get this
    error with the same text, and no RemoteError.
    """


class RemoteError(CallFailed):
    """The handler at the peer raised, or its result could not be sent.

    The remote class is told by name only and never imported: a peer must not choose what code runs here.

    Args:
        message: ``type_name: text`` of the remote exception.
        type_name: qualified name of the remote exception class.
        text: its text, at most 4 KiB.
        traceback: its traceback as text, where the server is set to tell it, else empty.
        code: the error code of the wire.
        method: name of the method called, as far as known.
        peer: address of the peer, as far as known.
    """

    def __init__(
        self,
        message: str,
        *,
        type_name: str = "",
        text: str = "",
        traceback: str = "",
        code: int = 0x0301,
        method: str = "",
        peer: str = "",
    ) -> None:
        super().__init__(message, method=method, peer=peer)
        self.type_name = type_name
        self.text = text
        self.traceback = traceback
        self.code = code


class SerializationError(RpcError, ValueError):
    """A value could not be encoded or decoded. The text names the path to it inside the payload."""


class MessageTooLarge(SerializationError):
    """A message exceeds a limit. The text names the size, the limit, whose it is and how to change it.

    Args:
        message: the text.
        size: size of the message in bytes.
        limit: the limit in bytes.
    """

    def __init__(self, message: str, *, size: int = 0, limit: int = 0) -> None:
        super().__init__(message)
        self.size = size
        self.limit = limit


class InternalError(RpcError):
    """This should never happen: a bug in rpcproto. Please report it with the text and the traceback."""
