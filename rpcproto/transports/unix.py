"""Socket files and Linux's abstract names: ``unix:///path`` and ``unix:@name``.

A socket file is made for its owner alone, mode 0600, and has that mode from the moment it appears: on Linux a file
made by ``bind`` gets the mode that the unbound socket was given, less the umask. Elsewhere the umask is narrowed for
the length of ``bind``, which is process-wide but can only make a file made meanwhile more private. An abstract name
has no mode: whoever is on this machine can connect to it, as to loopback TCP, so like that it needs no ``insecure``.
Other users than this one and root are turned away once connected, by the credentials that the system tells of them.

What is in the way of a new socket file:

- a socket file that nobody listens on, left by a process that was killed: removed;
- one that somebody listens on, or that we may not connect to: ConnectFailed;
- anything that is not a socket: ConnectFailed. It is never touched.

A file that is bound and not listening yet looks like one left behind. So looking, removing, binding and listening
happen under a lock on the folder, and of two servers that start at once one fails and says so. ``close`` removes the
file while it is still listening, when nobody can take it for left behind, and only if it is the one that was made.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import socket
import stat
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from ..errors import ConfigurationError, ConnectFailed
from ._sockets import SocketListener, adopt, check_given, reason
from .address import Address
from .base import BACKLOG, Listener, P, ProtocolFactory, socket_address

__all__ = ["UnixTransport"]

_LINUX = sys.platform.startswith("linux")
_NAME_MAX = 107 if _LINUX else 103
"""Bytes of a path, or of an abstract name, that fit into the system's socket address."""

_RETRY = 0.01
"""Seconds between two attempts where the system cannot tell us when to try again."""

_LOCK_ATTEMPTS = 100
_FORBIDDEN = stat.S_IRWXG | stat.S_IRWXO


class UnixTransport:
    """The transport of ``unix:``. See :class:`~rpcproto.transports.base.Transport`."""

    async def connect(
        self, address: Address, protocol_factory: Callable[[], P], *, timeout: float
    ) -> tuple[asyncio.Transport, P]:
        """Connect to a socket file or an abstract name."""
        name = _socket_name(address)
        try:
            async with asyncio.timeout(timeout) as limit:
                return await adopt(await _connect(name), protocol_factory)
        except OSError as exc:
            what = f"no answer in {timeout:g} s" if limit.expired() else _explain(exc)
            raise ConnectFailed(f"cannot connect to {address}: {what}", address=str(address)) from exc

    async def listen(
        self,
        address: Address,
        protocol_factory: ProtocolFactory,
        *,
        backlog: int = BACKLOG,
        insecure: bool = False,
        sock: socket.socket | None = None,
    ) -> Listener:
        """Listen on a socket file or an abstract name. The file of a given ``sock`` is left alone on close."""
        release = None
        try:
            if sock is not None:
                check_given(sock, "unix", (socket.AF_UNIX,))
                _check_mode(sock, insecure)
                sock.setblocking(False)
                sock.listen(backlog)
            elif address.path.startswith("@"):
                sock = _bind(_socket_name(address), backlog)
            else:
                name = _socket_name(address)
                async with _locked(os.path.dirname(address.path)):
                    _clear_the_way(address.path)
                    sock = _bind(name, backlog)
                    release = _remover(address.path)
        except OSError as exc:
            raise ConnectFailed(f"cannot listen on {address}: {reason(exc)}", address=str(address)) from exc
        actual = socket_address(sock.family, sock.getsockname())
        return SocketListener([sock], [actual], protocol_factory, release)


async def _connect(name: bytes) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        # EAGAIN: the backlog is full. Nothing tells when there is room: an unconnected socket counts as writable.
        while (error := sock.connect_ex(name)) == errno.EAGAIN:  # noqa: ASYNC110
            await asyncio.sleep(_RETRY)
        if error:
            raise OSError(error, os.strerror(error))
    except BaseException:
        sock.close()
        raise
    return sock


def _explain(error: OSError) -> str:
    """What the system said to an attempt to connect, and what it means."""
    if error.errno == errno.ENOENT:
        return "there is no such socket file; is the server running?"
    if error.errno == errno.ECONNREFUSED:
        return "nobody listens there (connection refused)"
    return reason(error)


def _socket_name(address: Address) -> bytes:
    """The name in the form that the system wants; checks its length."""
    name = os.fsencode(address.path)
    abstract = name.startswith(b"@")
    if abstract and not _LINUX:
        raise ConfigurationError(f"{address}: only Linux has abstract names; use unix:///path")
    size = len(name) - abstract
    if size > _NAME_MAX:
        raise ConfigurationError(
            f"{address} has {size} bytes, and the system allows {_NAME_MAX} for the name of a socket;"
            " choose a shorter one, for example in /tmp or $XDG_RUNTIME_DIR"
        )
    return b"\0" + name[1:] if abstract else name


def _bind(name: bytes, backlog: int) -> socket.socket:
    """A listening socket of that name; its file, if it has one, is for the owner alone from the start."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        if _LINUX:
            os.fchmod(sock.fileno(), 0o600)
            sock.bind(name)
        else:
            before = os.umask(0o177)
            try:
                sock.bind(name)
            finally:
                os.umask(before)
        sock.listen(backlog)
    except BaseException:
        sock.close()
        raise
    return sock


@asynccontextmanager
async def _locked(folder: str) -> AsyncIterator[None]:
    """Hold the lock on a folder, which all servers take before they make a socket file in it.

    A folder that may not be read, or on a file system without locks, cannot be locked; then there is no lock.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError) as exc:
        raise OSError(exc.errno, f"there is no folder {folder}; make it first") from exc
    except PermissionError:
        yield
        return
    try:
        for attempt in range(_LOCK_ATTEMPTS):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if attempt == _LOCK_ATTEMPTS - 1:
                    raise OSError(errno.EAGAIN, f"another process keeps the folder {folder} locked") from None
                await asyncio.sleep(_RETRY)
            except OSError:
                break
            else:
                break
        yield
    finally:
        os.close(descriptor)


def _clear_the_way(path: str) -> None:
    """Remove a socket file that nobody listens on.

    Raises:
        OSError: something else is there, or somebody listens.
    """
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise FileExistsError(errno.EEXIST, "a file that is not a socket has this path; it was not touched")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        error = probe.connect_ex(path)
    if error == errno.ECONNREFUSED:
        with suppress(FileNotFoundError):
            os.unlink(path)
    elif error in (0, errno.EAGAIN):
        raise OSError(errno.EADDRINUSE, "another server listens on it")
    elif error != errno.ENOENT:
        raise OSError(error, f"a socket file has this path, and it cannot be tried: {os.strerror(error)}")


def _remover(path: str) -> Callable[[], None]:
    """A function that removes the socket file at ``path`` if it is still the one that is there now."""
    made = _identity(path)

    def remove() -> None:
        if made is not None and _identity(path) == made:
            with suppress(OSError):
                os.unlink(path)

    return remove


def _identity(path: str) -> tuple[int, int] | None:
    """Which file it is. No other file gets the same numbers while the socket bound to this one is open."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _check_mode(sock: socket.socket, insecure: bool) -> None:
    """Check that no other user can reach the socket file of a socket that was given."""
    name = sock.getsockname()
    if insecure or isinstance(name, bytes):
        return
    mode = stat.S_IMODE(os.stat(name).st_mode)
    if mode & _FORBIDDEN:
        raise ConfigurationError(
            f"other users can reach the socket file {name} (mode {mode:04o}), and nobody would be asked who they are."
            " Make it 0600, or pass secret=..., or insecure=True if everyone who can reach it may use it."
        )
