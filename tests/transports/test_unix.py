from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import stat
import sys
from contextlib import ExitStack, contextmanager

import pytest

from rpcproto.errors import ConfigurationError, ConnectFailed
from rpcproto.transports import connect, listen, unix
from tests.transports.peers import Accepting, PlainPeer

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has abstract names")


@pytest.fixture
def path(folder):
    return str(folder / "s")


@contextmanager
def umask(mask):
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def leave_behind(path):
    """A socket file as a killed process leaves it."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(path)


async def close(listener, *protocols):
    listener.close()
    await listener.wait_closed()
    for protocol in protocols:
        protocol.transport.close()
        await protocol.lost()


async def serves(address):
    """Whether somebody accepts at an address."""
    transport, protocol = await connect(address, PlainPeer, timeout=10)
    transport.close()
    await protocol.lost()
    return True


# The file


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_the_file_is_for_its_owner_alone(run, path, mask):
    async def main():
        with umask(mask):
            listener = await listen(f"unix://{path}", Accepting())
            assert os.umask(mask) == mask  # not changed
        found = os.lstat(path)
        assert stat.S_ISSOCK(found.st_mode)
        assert stat.S_IMODE(found.st_mode) == 0o600
        await close(listener)

    run(main())


@linux
def test_the_file_is_never_anything_else(run, path, monkeypatch):
    """The mode is looked at between bind and listen, when nothing of ours has run since the file appeared."""
    modes = []
    original = socket.socket.listen

    def listen_later(sock, backlog):
        modes.append(stat.S_IMODE(os.lstat(path).st_mode))
        original(sock, backlog)

    async def main():
        monkeypatch.setattr(socket.socket, "listen", listen_later)
        with umask(0):
            listener = await listen(f"unix://{path}", Accepting())
        await close(listener)

    run(main())
    assert modes == [0o600]


def test_systems_without_a_mode_for_sockets_narrow_the_umask(run, path, monkeypatch):
    monkeypatch.setattr(unix, "_LINUX", False)

    async def main():
        with umask(0):
            listener = await listen(f"unix://{path}", Accepting())
            assert stat.S_IMODE(os.lstat(path).st_mode) == 0o600
            assert os.umask(0) == 0
        await close(listener)

    run(main())


def test_close_removes_the_file_while_it_listens(run, path, monkeypatch):
    alive = []
    unlink = os.unlink

    def unlink_later(name):
        with socket.socket(socket.AF_UNIX) as probe:
            alive.append(probe.connect_ex(name))
        unlink(name)

    monkeypatch.setattr(os, "unlink", unlink_later)

    async def main():
        listener = await listen(f"unix://{path}", Accepting())
        await close(listener)
        assert not os.path.lexists(path)
        await close(listener)

    run(main())
    assert alive == [0]


@pytest.mark.parametrize("what", ["file", "socket", "nothing"])
def test_close_leaves_what_is_not_ours(run, path, what):
    async def main():
        listener = await listen(f"unix://{path}", Accepting())
        os.unlink(path)
        if what == "file":
            open(path, "w").close()
        elif what == "socket":
            leave_behind(path)
        await close(listener)
        assert os.path.lexists(path) == (what != "nothing")

    run(main())


# What is in the way


def test_a_file_left_behind_is_replaced(run, path):
    leave_behind(path)

    async def main():
        accepting = Accepting()
        listener = await listen(f"unix://{path}", accepting)
        assert await serves(listener.address)
        await close(listener)
        await accepting.peers[0].lost()

    run(main())


@pytest.mark.parametrize("backlog", [5, 0])
def test_somebody_who_listens_is_left_alone(run, path, backlog):
    async def main():
        with ExitStack() as stack:
            server = stack.enter_context(socket.socket(socket.AF_UNIX))
            server.bind(path)
            server.listen(backlog)
            if not backlog:  # too busy to answer, and alive
                client = stack.enter_context(socket.socket(socket.AF_UNIX))
                client.connect(path)
            before = os.lstat(path)
            with pytest.raises(ConnectFailed, match=f"cannot listen on unix://{path}: another server") as caught:
                await listen(f"unix://{path}", Accepting())
            assert caught.value.address == f"unix://{path}"
            assert isinstance(caught.value.__cause__, OSError)
            assert os.lstat(path) == before

    run(main())


def test_a_socket_of_another_kind_is_left_alone(run, path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(path)
        with pytest.raises(ConnectFailed, match="it cannot be tried: Protocol wrong type for socket"):
            run(listen(f"unix://{path}", Accepting()))
        assert os.path.lexists(path)


@pytest.mark.parametrize("kind", ["file", "folder", "link", "dangling", "pipe"])
def test_what_is_not_a_socket_is_never_touched(run, folder, path, kind):
    target = str(folder / "target")
    if kind == "file":
        with open(path, "w") as file:
            file.write("precious")
    elif kind == "folder":
        os.mkdir(path)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        os.symlink(target, path)
        if kind == "link":
            leave_behind(target)
    before = os.lstat(path)
    with pytest.raises(ConnectFailed, match="a file that is not a socket has this path; it was not touched"):
        run(listen(f"unix://{path}", Accepting()))
    assert os.lstat(path) == before
    assert os.path.lexists(target) == (kind == "link")


def test_of_two_that_start_at_once_one_listens(run, path):
    leave_behind(path)

    async def main():
        results = await asyncio.gather(
            *(listen(f"unix://{path}", Accepting()) for _ in range(3)), return_exceptions=True
        )
        listeners = [result for result in results if not isinstance(result, BaseException)]
        assert len(listeners) == 1
        assert all(isinstance(result, ConnectFailed) for result in results if result not in listeners)
        assert await serves(f"unix://{path}")
        await close(listeners[0])
        assert not os.path.lexists(path)

    run(main())


def test_the_folder_is_locked_meanwhile(run, folder, path, monkeypatch):
    monkeypatch.setattr(unix, "_RETRY", 0)

    async def main():
        holder = os.open(folder, os.O_RDONLY)
        fcntl.flock(holder, fcntl.LOCK_EX)
        with pytest.raises(ConnectFailed, match=f"another process keeps the folder {folder} locked"):
            await listen(f"unix://{path}", Accepting())
        monkeypatch.setattr(unix, "_LOCK_ATTEMPTS", 10**9)
        task = asyncio.ensure_future(listen(f"unix://{path}", Accepting()))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not os.path.lexists(path)
        os.close(holder)
        await close(await task)

    run(main())


@pytest.mark.parametrize("obstacle", ["unreadable folder", "file system without locks"])
def test_without_a_lock_it_works_as_well(run, path, monkeypatch, obstacle):
    def refuse(*arguments):
        raise PermissionError(13, "Permission denied") if "folder" in obstacle else OSError(37, "No locks available")

    if "folder" in obstacle:
        monkeypatch.setattr(os, "open", refuse)
    else:
        monkeypatch.setattr(fcntl, "flock", refuse)

    async def main():
        listener = await listen(f"unix://{path}", Accepting())
        await close(listener)

    run(main())


# Wrong places


def test_a_missing_folder_is_told(run, folder):
    with pytest.raises(ConnectFailed, match=f"there is no folder {folder}/a/b; make it first"):
        run(listen(f"unix://{folder}/a/b/s", Accepting()))


def test_a_file_in_place_of_the_folder_is_told(run, path):
    open(path, "w").close()
    with pytest.raises(ConnectFailed, match=f"there is no folder {path}; make it first"):
        run(listen(f"unix://{path}/s", Accepting()))


@linux
@pytest.mark.parametrize("form", ["unix:///tmp/{}", "unix:@12345{}"])
def test_the_longest_name_works_and_a_longer_one_is_told(run, form):
    name = "x" * (107 - len("/tmp/"))

    async def main():
        listener = await listen(form.format(name), Accepting())
        assert str(listener.address) == form.format(name)
        assert await serves(listener.address)
        await close(listener)
        for action in (
            listen(form.format(name + "y"), Accepting()),
            connect(form.format(name + "y"), PlainPeer, timeout=10),
        ):
            with pytest.raises(ConfigurationError, match=r"has 108 bytes, and the system allows 107"):
                await action

    run(main())


def test_the_length_counts_in_bytes(run):
    with pytest.raises(ConfigurationError, match="has 165 bytes"):
        run(connect("unix:///tmp/" + "ä" * 80, PlainPeer, timeout=10))


def test_abstract_names_need_linux(run, monkeypatch):
    monkeypatch.setattr(unix, "_LINUX", False)
    with pytest.raises(ConfigurationError, match="only Linux has abstract names; use unix:///path"):
        run(listen("unix:@name", Accepting()))


# Connecting


def test_why_nobody_answers_is_told(run, path):
    async def main():
        with pytest.raises(ConnectFailed, match="there is no such socket file; is the server running"):
            await connect(f"unix://{path}", PlainPeer, timeout=10)
        leave_behind(path)
        with pytest.raises(ConnectFailed, match="nobody listens there"):
            await connect(f"unix://{path}", PlainPeer, timeout=10)
        assert os.path.lexists(path)  # to connect removes nothing

    run(main())


def test_a_full_backlog_is_waited_for(run, path, monkeypatch):
    monkeypatch.setattr(unix, "_RETRY", 0)

    async def main():
        with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as first:
            server.bind(path)
            server.listen(0)
            first.connect(path)
            with pytest.raises(ConnectFailed, match=r"no answer in 0\.02 s"):
                await connect(f"unix://{path}", PlainPeer, timeout=0.02)
            task = asyncio.ensure_future(connect(f"unix://{path}", PlainPeer, timeout=10))
            for _ in range(5):
                await asyncio.sleep(0)
            assert not task.done()
            server.accept()[0].close()
            transport, protocol = await task
            transport.close()
            await protocol.lost()

    run(main())


# A socket that is given


@linux
def test_a_given_socket_keeps_its_file(run, path):
    async def main():
        sock = socket.socket(socket.AF_UNIX)
        os.fchmod(sock.fileno(), 0o600)
        sock.bind(path)
        listener = await listen("unix:@ignored", Accepting(), sock=sock)
        assert str(listener.address) == f"unix://{path}"
        assert await serves(listener.address)
        await close(listener)
        assert os.path.lexists(path)

    run(main())


def test_a_given_socket_that_others_can_reach_is_refused(run, path):
    async def main():
        with socket.socket(socket.AF_UNIX) as sock:
            with umask(0o007):
                sock.bind(path)
            with pytest.raises(ConfigurationError, match=rf"other users can reach .* {path} \(mode 0770\)"):
                await listen(f"unix://{path}", Accepting(), sock=sock)
            listener = await listen(f"unix://{path}", Accepting(), sock=sock, insecure=True)
            await close(listener)

    run(main())


@linux
def test_a_given_socket_with_an_abstract_name(run):
    async def main():
        sock = socket.socket(socket.AF_UNIX)
        sock.bind(f"\0rpcproto-{os.getpid()}")
        listener = await listen("unix:@ignored", Accepting(), sock=sock)
        assert str(listener.address) == f"unix:@rpcproto-{os.getpid()}"
        await close(listener)

    run(main())


def test_a_wrong_socket_is_refused(run, path):
    with socket.socket() as sock, pytest.raises(ConfigurationError, match="unix:// cannot listen on"):
        run(listen(f"unix://{path}", Accepting(), sock=sock))
