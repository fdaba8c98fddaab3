"""Zero-copy, multiplexed RPC for asyncio.

class Echo(rpcproto.Service):
    @rpcproto.request
    def echo(self, value):
        return value

async with rpcproto.serve(Echo(), "tcp://127.0.0.1:0") as server:
    async with rpcproto.connect(server.address) as client:
        print(await client.request("Echo.echo", "hello"))
"""

from __future__ import annotations

from . import _build  # noqa: F401  first of all: it decides whether compiled modules are loaded
from .aio.blocking import BlockingClient, connect_blocking
from .aio.blocking_peer import BlockingPeer
from .aio.blocking_stream import BlockingChannel, BlockingStream
from .aio.client import Client, connect
from .aio.conformance import check
from .aio.context import CallContext, current_call, peer
from .aio.health import Health
from .aio.introspection import Introspection
from .aio.middleware import Call, Covering, Middleware, Proceed, covering
from .aio.peer import Peer
from .aio.reply import Reply
from .aio.server import Server, serve
from .aio.service import Service, channel, notify, request, stream
from .aio.stream import Channel, Stream
from .config import Limits, Timeouts
from .errors import (
    CallCancelled,
    CallFailed,
    ConfigurationError,
    ConnectFailed,
    ConnectionClosed,
    ConnectionLost,
    DeadlineExceeded,
    GoingAway,
    InternalError,
    LocalProtocolError,
    MessageTooLarge,
    NoSuchMethod,
    NotPermitted,
    Overloaded,
    ProtocolError,
    Refused,
    RemoteError,
    RemoteProtocolError,
    RpcError,
    SerializationError,
)
from .serialization import Codec
from .serialization.registry import register as register_codec
from .transports import TLS, Credentials

__version__ = "0.1.0"

__all__ = [
    "TLS",
    "BlockingChannel",
    "BlockingClient",
    "BlockingPeer",
    "BlockingStream",
    "Call",
    "CallCancelled",
    "CallContext",
    "CallFailed",
    "Channel",
    "Client",
    "Codec",
    "ConfigurationError",
    "ConnectFailed",
    "ConnectionClosed",
    "ConnectionLost",
    "Covering",
    "Credentials",
    "DeadlineExceeded",
    "GoingAway",
    "Health",
    "InternalError",
    "Introspection",
    "Limits",
    "LocalProtocolError",
    "MessageTooLarge",
    "Middleware",
    "NoSuchMethod",
    "NotPermitted",
    "Overloaded",
    "Peer",
    "Proceed",
    "ProtocolError",
    "Refused",
    "RemoteError",
    "RemoteProtocolError",
    "Reply",
    "RpcError",
    "SerializationError",
    "Server",
    "Service",
    "Stream",
    "Timeouts",
    "channel",
    "check",
    "connect",
    "connect_blocking",
    "covering",
    "current_call",
    "notify",
    "peer",
    "register_codec",
    "request",
    "serve",
    "stream",
]

for _name in __all__:
    _public = globals()[_name]
    if getattr(_public, "__module__", "").startswith("rpcproto."):  # compiled classes do not let it be changed
        try:
            _public.__module__ = "rpcproto"
        except (AttributeError, TypeError):
            pass
del _name, _public
