"""Which users may be at the other end of a ``unix:`` address, and who is known without a secret."""

from __future__ import annotations

import asyncio
import os
import socket
import sys

import pytest

import rpcproto
from rpcproto.aio import identity
from rpcproto.aio.identity import Identity
from rpcproto.testing import pair
from rpcproto.transports import Credentials
from rpcproto.wire.spec import GREETING_SIZE, ErrorCode, FrameType, Role
from tests.aio._ends import Kit, poll
from tests.aio._identities import FakeConnection, RemoteTransport, logged, refused
from tests.wire import frames

SECRET = "correct horse battery staple"

LINUX = sys.platform.startswith("linux")
needs_root = pytest.mark.skipif(not LINUX or os.geteuid() != 0, reason="only root can be somebody else")
NOBODY = 65534

pytestmark = pytest.mark.smoke


@pytest.fixture(autouse=True)
def first_warning(monkeypatch):
    """Each test is told what a process is told once."""
    monkeypatch.setattr(identity, "_warned", [])


def test_who_is_authenticated_without_a_secret(run, address):
    async def main():
        async with pair(Kit(), address) as (server, client):
            (peer,) = server.peers
            known = not address.startswith("tcp:")
            assert (peer.authenticated, client.peer.authenticated) == (known, known)
            assert (peer.role, client.peer.role) == ("client", "server")
            if address.startswith("unix:") and LINUX:
                ours = Credentials(os.getpid(), os.geteuid(), os.getegid())
                assert peer.credentials == client.peer.credentials == ours
                assert isinstance(peer.credentials, rpcproto.Credentials)
            else:
                assert peer.credentials is None

    run(main())


def test_a_handler_can_ask(run):
    async def main():
        def who():
            peer = rpcproto.peer()
            return peer.authenticated, peer.credentials is None, peer.role

        async def watch(call, proceed):
            seen.append((call.peer.role, call.peer.authenticated))
            return await proceed(call)

        seen = []
        ends = {"server": {"middleware": [watch]}, "client": {"middleware": [watch]}}
        async with pair({"who": who}, **ends) as (_server, client):
            assert await client.request("who") == (True, True, "client")
        assert seen == [("server", True), ("client", True)]

    run(main())


@pytest.mark.parametrize(
    ("uid", "secret", "insecure", "accepted"),
    [
        (1000, None, False, True),
        (0, None, False, True),
        (1001, None, False, False),
        (1001, None, True, True),
        (1001, SECRET, False, True),
        (None, None, False, True),
    ],
)
@pytest.mark.parametrize("role", Role)
def test_which_users_are_accepted(monkeypatch, role, uid, secret, insecure, accepted):
    monkeypatch.setattr(identity.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(identity, "peer_credentials", lambda _: None if uid is None else Credentials(5, uid, 7))
    options = rpcproto.serve({"f": repr}, "inproc://x", secret=secret, insecure=insecure)._options
    found = Identity(role, options.secrets, options.insecure)
    found.meet(RemoteTransport(), FakeConnection(), options.limits, options.timeouts)
    assert (found.refusal() == "") == accepted
    if not accepted:
        assert "user 1001, the other of user 1000" in found.refusal()
    assert found.authenticated == (uid in (0, 1000))
    found.opened()
    assert found.authenticated == (uid in (0, 1000) or secret is not None)


@pytest.fixture
def stranger():
    """A connected socket as of another user: of root's processes only this one call is nobody's."""

    def connect(address):
        sock = socket.socket(socket.AF_UNIX)
        os.seteuid(NOBODY)
        try:
            sock.connect("\0" + address.removeprefix("unix:@"))
        finally:
            os.seteuid(0)
        sock.setblocking(False)
        return sock

    return connect


@needs_root
def test_another_user_is_turned_away(run, stranger, caplog):
    async def main():
        async with rpcproto.serve(Kit(), f"unix:@rpcproto-{os.getpid()}") as server:
            reader, writer = await asyncio.open_unix_connection(sock=stranger(server.address))
            (frame,) = frames.split((await reader.read())[GREETING_SIZE:])
            assert (frame.kind, frame.aux) == (FrameType.GOAWAY, ErrorCode.AUTHENTICATION)
            assert f"user {NOBODY}, the other of user 0" in frame.payload[8:].decode()
            assert server.peers == []
            writer.close()
            await poll(lambda: not server._links)
            async with rpcproto.connect(server.address) as client:
                assert await client.request("Kit.echo", 1) == 1

    run(main())
    assert len(logged(caplog)) == 1


@needs_root
@pytest.mark.parametrize("options", [{"insecure": True}, {"secret": SECRET}], ids=["insecure", "secret"])
def test_another_user_is_welcome_where_it_is_said(run, stranger, options):
    async def main():
        async with rpcproto.serve(Kit(), f"unix:@rpcproto-{os.getpid()}", **options) as server:
            reader, writer = await asyncio.open_unix_connection(sock=stranger(server.address))
            writer.write(frames.greeting(Role.INITIATOR, mechanism=int("secret" in options)))
            await reader.readexactly(GREETING_SIZE)
            if "secret" in options:
                await reader.readexactly(48)
                assert server.peers == []
            else:
                await poll(lambda: server.peers)
                (peer,) = server.peers
                assert peer.credentials.uid == NOBODY
                assert not peer.authenticated
            writer.close()
            await server.close(0)

    run(main())


@pytest.mark.skipif(not LINUX, reason="abstract names")
def test_a_client_asks_who_the_server_is(run, monkeypatch):
    """An abstract name belongs to whoever comes first."""
    served = []

    async def main():
        async with rpcproto.serve(Kit(), f"unix:@rpcproto-{os.getpid()}", insecure=True) as server:
            monkeypatch.setattr(identity.os, "geteuid", lambda: 4711)
            monkeypatch.setattr(identity, "_ROOT", -1)
            text = await refused(server.address)
            assert f"user {os.getuid()}, the other of user 4711" in text
            async with rpcproto.connect(server.address, insecure=True) as client:
                served.append(await client.request("Kit.echo", 1))
                assert not client.peer.authenticated

    run(main())
    assert served == [1]


@pytest.mark.skipif(not LINUX, reason="abstract names")
def test_a_client_that_is_turned_away_is_told_so(run, monkeypatch):
    """The refusal may come with the greeting, when the client has nothing to refuse by itself."""
    real = identity.Identity.refusal

    def refusal(self):
        return "go away" if self._role == Role.ACCEPTOR else real(self)

    monkeypatch.setattr(identity.Identity, "refusal", refusal)

    async def main():
        async with rpcproto.serve(Kit(), f"unix:@rpcproto-{os.getpid()}") as server:
            try:
                async with rpcproto.connect(server.address) as client:
                    await client.request("Kit.echo", 1)
            except (rpcproto.ConnectFailed, rpcproto.ConnectionLost) as error:
                assert "AUTHENTICATION: go away" in str(error)  # noqa: PT017 - which of the two depends on the loop
            else:
                raise AssertionError("it was served")

    run(main())
