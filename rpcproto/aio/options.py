"""What clients and servers are given alike, checked once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any

from rpcproto.aio.identity import Identity
from rpcproto.aio.link import Link
from rpcproto.aio.middleware import Covering, Middleware, Side
from rpcproto.aio.middleware_calls import link_for
from rpcproto.aio.middleware_handlers import cover
from rpcproto.aio.middleware_layers import read_middleware
from rpcproto.aio.runtime import Runtime, default_budget, runtime
from rpcproto.aio.secret import Secrets, SecretSource
from rpcproto.aio.service import build_registry
from rpcproto.aio.serving import Entry
from rpcproto.aio.session import Session
from rpcproto.aio.threads import HandlerThreads
from rpcproto.config import Limits, Timeouts
from rpcproto.connection.budget import ReassemblyBudget
from rpcproto.errors import ConfigurationError
from rpcproto.serialization import registry
from rpcproto.serialization.codec import Codec

Allocate = Callable[[list[int]], Sequence[memoryview]]
Middlewares = Sequence[Middleware | Covering]

MAX_THREADS = 32


class Options:
    """The settings of one client or server, and the executor that its handlers share.

    Args:
        service: a Service, a mapping of functions, a sequence of these, or None.
        codec: name of the codec, or the codec, of calls that name none.
        limits, timeouts: of this side; the defaults if None.
        tracebacks: tell peers the tracebacks of handlers that raise.
        allocate: hook that gives the memory for large received messages.
        max_threads: threads for handlers declared with ``thread=True``.
        budget: reassembly budget; by default the one that all connections of the process share.
        secret: what both sides have to prove, or None.
        several: whether a sequence of secrets makes sense.
        insecure: whether processes of other users are welcome at a ``unix:`` address without a secret.
        middleware: a list of middleware.
        side: what of it is covered unless it says otherwise: calls served, or calls made.

    Raises:
        ConfigurationError: one of them makes no sense.
    """

    def __init__(
        self,
        *,
        service: Any,
        codec: str | Codec,
        limits: Limits | None,
        timeouts: Timeouts | None,
        tracebacks: bool,
        allocate: Allocate | None,
        max_threads: int,
        budget: ReassemblyBudget | None,
        secret: SecretSource | None,
        several: bool,
        insecure: bool,
        middleware: Middlewares,
        side: Side,
    ) -> None:
        layers = read_middleware(middleware, side)
        handlers = {} if service is None else cover(build_registry(service), layers)
        self.entries = {name: Entry(handler) for name, handler in handlers.items()}
        self._new_link = link_for(layers)
        self.codec = registry.get(codec)
        self.limits = limits if limits is not None else Limits()
        self.timeouts = timeouts if timeouts is not None else Timeouts()
        if not isinstance(self.limits, Limits):
            raise ConfigurationError(f"limits must be a rpcproto.Limits, not {limits!r}")
        if not isinstance(self.timeouts, Timeouts):
            raise ConfigurationError(f"timeouts must be a rpcproto.Timeouts, not {timeouts!r}")
        if not isinstance(max_threads, int) or max_threads < 1:
            raise ConfigurationError(f"max_threads must be a whole number from 1 on, not {max_threads!r}")
        self.tracebacks = bool(tracebacks)
        self.allocate = allocate
        self.max_threads = max_threads
        self.budget = budget if budget is not None else default_budget()
        self.secrets = None if secret is None else Secrets(secret, several)
        self.insecure = bool(insecure)
        self._executor: HandlerThreads | None = None
        self._runtime: Runtime | None = None  # kept between two connections

    def link(self, role: int, on_open: Callable[[Link], None], on_close: Callable[[Link], None]) -> Link:
        """The protocol of a new connection, on the running loop.

        Raises:
            ConfigurationError: this side connects, and the function given as ``secret=`` does not give one.
        """
        self._runtime = runtime()
        session = Session(
            self._runtime, self.entries, self.codec, self.limits, self.timeouts, self.tracebacks, self.allocate
        )
        identity = Identity(role, self.secrets, self.insecure)
        return self._new_link(session, role, identity, self.budget, on_open, on_close, self.executor)

    def executor(self) -> Executor:
        """The threads for handlers; made when the first one needs them."""
        if self._executor is None:
            self._executor = HandlerThreads(self.max_threads)
        return self._executor

    def close(self) -> None:
        """Let the threads go. Those that are at work end by themselves; a thread cannot be stopped."""
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._executor = None
