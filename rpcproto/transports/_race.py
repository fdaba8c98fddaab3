"""Happy eyeballs (RFC 8305): connect to the first of several addresses that answers.

Attempts start one after another, with a pause between, or at once when an earlier one failed; all go on until one is
through. So one dead address costs a quarter of a second and not the system's two minutes, and five cost less than one
second. Nothing here depends on the loop: uvloop has no happy eyeballs, and its ``sock_connect`` looks numbers up again
in a thread.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Sequence
from itertools import chain, zip_longest
from typing import Any, NamedTuple

from .address import Address
from .base import socket_address

__all__ = ["Target", "connect_first", "interleave", "pause_between"]

PAUSE = 0.25
"""Seconds between two attempts: the "Connection Attempt Delay" that RFC 8305 recommends in section 5 ..."""

MIN_PAUSE = 0.1
"""... and the least that it allows."""


class Target(NamedTuple):
    """One address of a name, as the system wants it."""

    family: int
    name: tuple[Any, ...]

    @property
    def address(self) -> Address:
        return socket_address(self.family, self.name)


def interleave(targets: Sequence[Target]) -> list[Target]:
    """Order targets so that the families take turns, beginning with that of the first (RFC 8305, section 4)."""
    if not targets:
        return []
    preferred = [target for target in targets if target.family == targets[0].family]
    others = [target for target in targets if target.family != targets[0].family]
    return [target for target in chain.from_iterable(zip_longest(preferred, others)) if target is not None]


def pause_between(count: int) -> float:
    """Seconds between the attempts on ``count`` addresses: short enough to have tried all in a second, if allowed."""
    return max(MIN_PAUSE, min(PAUSE, 1 / max(1, count)))


async def connect_first(
    targets: Sequence[Target], prepare: Callable[[socket.socket], None], outcome: dict[Address, OSError | None]
) -> socket.socket:
    """Connect to the target that answers first.

    Args:
        targets: what to try, in this order.
        prepare: sets the options of a new socket.
        outcome: filled in: each address tried, with its error, or None where no answer has come so far. It tells the
            story even if this is cancelled.

    Raises:
        OSError: the first error, if all attempts failed.
    """
    loop = asyncio.get_running_loop()
    pause = pause_between(len(targets))
    waiting = list(reversed(targets))
    attempts: dict[asyncio.Task[socket.socket], Address] = {}
    winner: socket.socket | None = None
    try:
        while winner is None and (waiting or attempts):
            if waiting:
                target = waiting.pop()
                outcome[target.address] = None
                attempts[loop.create_task(_attempt(target, prepare))] = target.address
            limit = pause if waiting else None
            await asyncio.wait(attempts, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            for attempt in [attempt for attempt in attempts if attempt.done()]:
                try:
                    sock = attempt.result()
                except OSError as exc:
                    outcome[attempts.pop(attempt)] = exc
                else:
                    if winner is None:
                        winner = sock
                        del attempts[attempt]
    finally:
        # Not awaited: a cancel that came in between would lose the winner.
        for attempt in attempts:
            attempt.add_done_callback(_dismiss)
            attempt.cancel()
    if winner is not None:
        return winner
    raise next((error for error in outcome.values() if error is not None), OSError("there is no address to try"))


def _dismiss(attempt: asyncio.Task[socket.socket]) -> None:
    """Close what an attempt brought that is no longer wanted."""
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().close()


async def _attempt(target: Target, prepare: Callable[[socket.socket], None]) -> socket.socket:
    sock = socket.socket(target.family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        prepare(sock)
        await _connect(sock, target.name)
        # A port of the ephemeral range with no listener: TCP may then connect a socket to itself.
        if sock.getsockname() == sock.getpeername():
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
    except BaseException:
        sock.close()
        raise
    return sock


async def _connect(sock: socket.socket, name: tuple[Any, ...]) -> None:
    error = sock.connect_ex(name)
    if error == errno.EINPROGRESS:
        loop = asyncio.get_running_loop()
        writable: asyncio.Future[None] = loop.create_future()
        loop.add_writer(sock, _wake, writable)
        try:
            await writable
        finally:
            loop.remove_writer(sock)
        error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if error:
        raise OSError(error, os.strerror(error))


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
