"""A TCP proxy, in the process of the test, that can be told to break things.

Bytes of each direction go through a queue: a reader fills it from one socket, a writer empties it into the other one.
All faults are those of the writer, so what it holds back fills the queue, then the system's buffers, and then the
sender notices, as it would with a peer that does not read.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections import deque
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Literal

from rpcproto import ConfigurationError
from rpcproto.transports import parse

__all__ = ["Direction", "FaultProxy"]

_PIECE = 64 * 1024
_RESET = struct.pack("ii", 1, 0)


class Direction:
    """What happens to the bytes of one direction. Set the attributes at any time; they hold for every connection.

    Attributes:
        delay: seconds by which each byte is late.
        rate: bytes a second, None for as fast as it goes.
        slice: most bytes of one write, None for what comes. The other end mostly reads them one by one.
        buffer: bytes that the proxy itself holds back before it reads no more.
        forwarded: bytes that have gone through, of all connections.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.delay = 0.0
        self.rate: float | None = None
        self.slice: int | None = None
        self.buffer = 256 * 1024
        self.forwarded = 0
        self._open = True
        self._limit: int | None = None
        self._then: str = "reset"
        self._changed = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Direction {self.name} forwarded={self.forwarded}>"

    def stop(self) -> None:
        """Forward nothing from now on."""
        self._open = False

    def resume(self) -> None:
        """Forward again, beginning with what was held back."""
        self._open = True
        self._limit = None
        self._changed.set()

    def limit(self, size: int, then: Literal["reset", "end", "stop"] = "reset") -> None:
        """Do something after exactly ``size`` further bytes.

        Args:
            size: number of bytes from now on.
            then: ``reset`` both ends, ``end`` this direction as :meth:`FaultProxy.end` does, or ``stop`` it.
        """
        self._limit = self.forwarded + size
        self._then = then
        self._changed.set()

    async def reached(self, size: int) -> None:
        """Wait until ``size`` bytes in all have gone through."""
        while self.forwarded < size:
            self._changed.clear()
            await self._changed.wait()

    def _room(self) -> int:
        """How many bytes may go now."""
        if not self._open:
            return 0
        most = self.slice or _PIECE
        return most if self._limit is None else min(most, self._limit - self.forwarded)

    def _count(self, size: int) -> None:
        self.forwarded += size
        self._changed.set()


class FaultProxy:
    """Forwards TCP connections: ``async with FaultProxy(server.address) as proxy``, then use ``proxy.address``.

    Args:
        target: where to: the address of a server, ``tcp://``, ``tls://`` or ``unix://``. TLS goes through as it is.

    Attributes:
        up: the :class:`Direction` from those who connect to the target.
        down: the one back.
        connections: how many were made so far.
    """

    def __init__(self, target: str) -> None:
        self._target = parse(target)
        if self._target.scheme not in ("tcp", "tls", "unix"):
            raise ConfigurationError(f"a FaultProxy forwards to tcp://, tls:// and unix:// addresses, not to {target}")
        self.up = Direction("up")
        self.down = Direction("down")
        self.connections = 0
        self._listener: socket.socket | None = None
        self._pipes: set[_Pipe] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        """The address to connect to."""
        assert self._listener is not None
        host, port = self._listener.getsockname()
        return f"{'tls' if self._target.scheme == 'tls' else 'tcp'}://{host}:{port}"

    def reset(self) -> None:
        """Cut all connections: both ends get a reset, and what the proxy holds is lost."""
        for pipe in list(self._pipes):
            pipe.reset()

    def end(self, direction: Direction) -> None:
        """Half-close all connections: ``direction`` brings the end of input and no more. The other one goes on."""
        for pipe in list(self._pipes):
            pipe.end(direction)

    async def __aenter__(self) -> FaultProxy:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self._start(self._accept(self._listener))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._listener is not None
        self.reset()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._listener.close()

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            near, _ = await loop.sock_accept(listener)
            self.connections += 1
            self._start(self._forward(near))

    async def _forward(self, near: socket.socket) -> None:
        """One connection, from its beginning to its end."""
        with near:
            near.setblocking(False)
            try:
                far = self._connect()
            except OSError:
                _set_reset(near)
                return
            with far:
                pipe = _Pipe(near, far, self.up, self.down)
                self._pipes.add(pipe)
                try:
                    await pipe.run()
                finally:
                    self._pipes.discard(pipe)

    def _connect(self) -> socket.socket:
        # Blocking: the target listens on this machine, and its backlog takes the connection at once.
        target = self._target
        if target.scheme == "unix":
            far = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            with contextlib.ExitStack() as undo:
                undo.enter_context(far)
                far.connect(f"\0{target.path[1:]}" if target.path.startswith("@") else target.path)
                undo.pop_all()
        else:
            far = socket.create_connection((target.host, target.port))
            far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        far.setblocking(False)
        return far


class _Pipe:
    """One connection: two flows, and who ends them."""

    def __init__(self, near: socket.socket, far: socket.socket, up: Direction, down: Direction) -> None:
        if near.family != socket.AF_UNIX:
            near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.near = near
        self.far = far
        self.flows = [_Flow(self, near, far, up), _Flow(self, far, near, down)]
        self.tasks: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        self.tasks = [loop.create_task(step) for flow in self.flows for step in (flow.read(), flow.write())]
        try:
            await asyncio.gather(*self.tasks, return_exceptions=True)
        finally:
            for task in self.tasks:
                task.cancel()
            await asyncio.gather(*self.tasks, return_exceptions=True)

    def reset(self) -> None:
        _set_reset(self.near)
        _set_reset(self.far)
        for task in self.tasks:
            task.cancel()

    def end(self, direction: Direction) -> None:
        for flow in self.flows:
            if flow.direction is direction:
                flow.end()


class _Flow:
    """The bytes of one direction of one connection."""

    def __init__(self, pipe: _Pipe, source: socket.socket, sink: socket.socket, direction: Direction) -> None:
        self.pipe = pipe
        self.source = source
        self.sink = sink
        self.direction = direction
        self.queue: deque[tuple[float, bytes]] = deque()
        self.held = 0
        self.ended = False
        self.moved = asyncio.Event()

    def end(self) -> None:
        """The sink gets the end of input; bytes that come later are thrown away."""
        if not self.ended:
            self.ended = True
            self.queue.clear()
            self.held = 0
            self.moved.set()
            self.direction._changed.set()
            with contextlib.suppress(OSError):
                self.sink.shutdown(socket.SHUT_WR)

    async def read(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                data = await loop.sock_recv(self.source, _PIECE)
            except OSError:
                self.pipe.reset()
                return
            if self.ended:
                if not data:
                    return
                continue
            self.queue.append((loop.time() + self.direction.delay, data))
            self.held += len(data)
            self.moved.set()
            if not data:
                return
            while self.held > self.direction.buffer and not self.ended:
                self.moved.clear()
                await self.moved.wait()

    async def write(self) -> None:
        loop = asyncio.get_running_loop()
        direction = self.direction
        while not self.ended:
            if not self.queue:
                self.moved.clear()
                await self.moved.wait()
                continue
            when, data = self.queue[0]
            if when > loop.time():
                await asyncio.sleep(when - loop.time())
                continue
            if not data:
                if direction._open:
                    self.end()
                    return
                size = 0
            else:
                size = direction._room()
            if size <= 0:
                if direction._open:
                    self._limit_reached()
                direction._changed.clear()
                await direction._changed.wait()
                continue
            piece = data[:size]
            self.queue.popleft()
            if len(data) > size:
                self.queue.appendleft((when, data[size:]))
            try:
                await loop.sock_sendall(self.sink, piece)
            except OSError:
                self.pipe.reset()
                return
            self.held -= len(piece)
            self.moved.set()
            direction._count(len(piece))
            if direction._limit == direction.forwarded:
                self._limit_reached()
            await asyncio.sleep(len(piece) / direction.rate if direction.rate else 0)

    def _limit_reached(self) -> None:
        then = self.direction._then
        if then == "reset":
            self.pipe.reset()
        elif then == "end":
            self.end()


def _set_reset(sock: socket.socket) -> None:
    """Closing the socket will send a reset instead of an end."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
