from __future__ import annotations

import asyncio
import os
import socket
import struct
import sys

import pytest

from rpcproto.transports import credentials
from rpcproto.transports.credentials import Credentials, peer_credentials

LINUX = sys.platform.startswith("linux")


class FakeTransport:
    """Has a socket, or says it has."""

    def __init__(self, sock):
        self.sock = sock

    def get_extra_info(self, name, default=None):
        return self.sock if name == "socket" else default


class FakeSocket:
    """A socket of the ``unix:`` family whose options are given: what ``getsockopt`` returns, by level and option."""

    family = socket.AF_UNIX

    def __init__(self, options):
        self.options = options

    def getsockopt(self, level, option, size=None):
        value = self.options[level, option]
        if isinstance(value, Exception):
            raise value
        assert size is None or len(value) == size
        return value


@pytest.mark.skipif(not LINUX, reason="Linux")
def test_the_process_at_the_other_end(run):
    async def main():
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.setblocking(False)
            transport, _ = await asyncio.get_running_loop().connect_accepted_socket(asyncio.Protocol, theirs)
            assert peer_credentials(transport) == Credentials(os.getpid(), os.geteuid(), os.getegid())
            transport.close()
            await asyncio.sleep(0)

    run(main())


def test_there_are_none_without_a_socket_file():
    assert peer_credentials(FakeTransport(None)) is None
    with socket.socket() as sock:
        assert peer_credentials(FakeTransport(sock)) is None


def test_macos(monkeypatch):
    monkeypatch.setattr(credentials, "_SO_PEERCRED", None)
    monkeypatch.setattr(credentials, "_LOCAL_PEERCRED", 1)
    xucred = struct.pack("IIh2x16I", 0, 501, 2, 20, 12, *[0] * 14)
    assert len(xucred) == 76
    sock = FakeSocket({(0, 1): xucred, (0, 2): 4711})
    assert peer_credentials(FakeTransport(sock)) == Credentials(4711, 501, 20)


def test_other_systems(monkeypatch):
    monkeypatch.setattr(credentials, "_SO_PEERCRED", None)
    monkeypatch.setattr(credentials, "_LOCAL_PEERCRED", None)
    assert peer_credentials(FakeTransport(FakeSocket({}))) is None


@pytest.mark.skipif(not LINUX, reason="Linux")
def test_a_connection_that_is_gone_has_none():
    sock = FakeSocket({(socket.SOL_SOCKET, socket.SO_PEERCRED): OSError(9, "Bad file descriptor")})
    assert peer_credentials(FakeTransport(sock)) is None
