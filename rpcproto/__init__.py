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
from . import errors as _errors
from .aio.client import Client, connect
from .aio.context import peer
from .aio.peer import Peer
from .aio.reply import Reply
from .aio.server import Server, serve
from .aio.service import Service, notify, request
from .config import Limits, Timeouts
from .errors import *  # noqa: F403
from .serialization import Codec
from .serialization.registry import register as register_codec

__version__ = "0.1.0"

__all__ = [
    *_errors.__all__,
    "Client",
    "Codec",
    "Limits",
    "Peer",
    "Reply",
    "Server",
    "Service",
    "Timeouts",
    "connect",
    "notify",
    "peer",
    "register_codec",
    "request",
    "serve",
]
