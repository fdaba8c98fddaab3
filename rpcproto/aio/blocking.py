"""A connection for programs without an event loop."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import Any

from rpcproto.aio.blocking_peer import BlockingPeer
from rpcproto.aio.client import Client, connect
from rpcproto.aio.loop_thread import LoopThread
from rpcproto.aio.options import MAX_THREADS, Allocate, Middlewares
from rpcproto.aio.portal import refuse_in_loop
from rpcproto.aio.secret import Secret
from rpcproto.config import Limits, Timeouts
from rpcproto.connection.budget import ReassemblyBudget
from rpcproto.errors import ConnectionLost
from rpcproto.serialization.codec import Codec
from rpcproto.transports import TLSSource

__all__ = ["BlockingClient", "connect_blocking"]


class BlockingClient(BlockingPeer):
    """One connection to a server, to be used from any thread in which no event loop runs. Made by
    :func:`connect_blocking`; a context manager.

    Behind it is an event loop in a thread of its own, which all blocking clients of a process share. It ends when the
    last of them is closed, and at exit.
    """

    __slots__ = ("_client", "_closed", "_thread")

    def __init__(self, client: Client, thread: LoopThread) -> None:
        super().__init__(client.peer, thread.portal)
        self._client = client
        self._thread = thread
        self._closed = threading.Lock()  # held once somebody has closed it
        thread.keep(client)

    @property
    def address(self) -> str:
        """The address connected to."""
        return self._client.address

    def close(self, grace: float = 5.0) -> None:
        """Close the connection. Can be called again, and by several threads; a shorter grace counts.

        Args:
            grace: seconds that calls under way, in both directions, get to end. In a handler of this connection use 0:
                the handler is one of those calls.
        """
        refuse_in_loop()
        try:
            self._portal.run(self._client.close, grace)
        except ConnectionLost:  # the loop has ended before: at exit, or it belongs to the parent process
            pass
        finally:
            if self._closed.acquire(blocking=False):
                self._thread.forget(self._client)
                self._thread.leave()

    def wait_closed(self) -> None:
        """Wait until the connection has ended, for whatever reason."""
        self._portal.run(self._client.wait_closed)

    def __enter__(self) -> BlockingClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close(5.0 if error is None else 0.0)

    def __del__(self) -> None:
        if not hasattr(self, "_closed") or self._closed.locked() or self._portal.ended is not None:
            return
        warnings.warn(f"unclosed {self!r}: use `with`, or close() it", ResourceWarning, source=self, stacklevel=2)


def connect_blocking(
    address: str,
    *,
    ssl: TLSSource | None = None,
    server_hostname: str | None = None,
    service: Any = None,
    codec: str | Codec = "msgpack",
    limits: Limits | None = None,
    timeouts: Timeouts | None = None,
    tracebacks: bool = False,
    allocate: Allocate | None = None,
    max_threads: int = MAX_THREADS,
    budget: ReassemblyBudget | None = None,
    secret: Secret | Callable[[], Secret] | None = None,
    insecure: bool = False,
    middleware: Middlewares = (),
) -> BlockingClient:
    """Connect to a server and wait until it is done: ``with connect_blocking(address) as client``.

    Args:
        address: such as ``tcp://127.0.0.1:1234`` or ``unix:///run/x.sock``.
        service: what the server may call back over this connection. Its handlers run on the event loop that all
            blocking clients share; those that wait or compute are to be declared with ``thread=True``.
        ssl, server_hostname, codec, limits, timeouts, tracebacks, allocate, max_threads, budget, insecure: as for
            :func:`~rpcproto.connect`.
        secret: the same; a function runs on that event loop, so it must not wait.
        middleware: the same; it runs on that event loop, too.

    Raises:
        ConfigurationError: an argument makes no sense.
        ConnectFailed: nobody was reached, it does not speak this protocol, or one side did not accept the other.
        LocalProtocolError: an event loop runs in this thread.
        ConnectionClosed: the interpreter is exiting.
    """
    client = connect(
        address,
        ssl=ssl,
        server_hostname=server_hostname,
        service=service,
        codec=codec,
        limits=limits,
        timeouts=timeouts,
        tracebacks=tracebacks,
        allocate=allocate,
        max_threads=max_threads,
        budget=budget,
        secret=secret,
        insecure=insecure,
        middleware=middleware,
    )
    refuse_in_loop()
    thread = LoopThread.enter()
    try:
        thread.portal.run(client.__aenter__)
        return BlockingClient(client, thread)
    except BaseException:
        with contextlib.suppress(ConnectionLost):
            thread.portal.run(client.close, 0.0)  # an interrupt may have come just when it was connected
        thread.leave()
        raise
