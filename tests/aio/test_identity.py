"""Shared secrets end to end (rows 48 and 66), and the limits that follow from them."""

from __future__ import annotations

import asyncio
import logging

import pytest

import rpcproto
from rpcproto.aio import identity
from rpcproto.aio.identity import Identity
from rpcproto.testing import pair
from rpcproto.wire.spec import Role
from tests.aio._blocking import served
from tests.aio._ends import Kit, poll
from tests.aio._identities import FakeConnection, RemoteTransport, logged, refused

SECRET = "correct horse battery staple"
OTHER = b"incorrect horse battery staple"
SHORT = "has 5 bytes, and needs 16 at least; make one by secrets.token_urlsafe(32)"
WRONG_PROOF = "wrong proof of the shared secret: do both sides have the same one?"


pytestmark = pytest.mark.smoke


@pytest.fixture(autouse=True)
def first_warning(monkeypatch):
    """Each test is told what a process is told once."""
    monkeypatch.setattr(identity, "_warned", [])


# ---- secrets ---------------------------------------------------------------------------------------------------------


def test_row_48_the_same_secret(run, address, caplog):
    async def main():
        kit = Kit()
        options = {"secret": SECRET}
        async with pair(kit, address, server=options, client=options | {"service": {"back": lambda: 7}}) as (
            server,
            client,
        ):
            assert await client.request("Kit.echo", bytes(100_000)) == bytes(100_000)
            (peer,) = server.peers
            assert await peer.request("back") == 7
            assert peer.authenticated
            assert client.peer.authenticated

    run(main())
    assert logged(caplog) == []


@pytest.mark.parametrize(
    ("ours", "theirs", "says"),
    [
        (None, SECRET, "this side wants a shared secret, the peer has none: give secret=... there too"),
        (SECRET, None, "the peer wants a shared secret, this side has none: give secret=..."),
        (SECRET, OTHER, f"AUTHENTICATION: {WRONG_PROOF}"),
        (SECRET, SECRET + "\n", f"AUTHENTICATION: {WRONG_PROOF}"),
    ],
    ids=["server has none", "client has none", "different", "almost the same"],
)
def test_row_48_not_the_same_secret(run, address, caplog, ours, theirs, says):
    """Both sides are told, the server in its log; the server goes on; nothing was ever called."""

    async def main():
        called = []
        options = {} if ours is None else {"secret": ours}
        async with rpcproto.serve({"call": called.append}, address, **options) as server:
            for _ in range(3):
                assert (await refused(server.address, secret=theirs)).endswith(says)
            await poll(lambda: not server._links)
            assert server.peers == []
            async with rpcproto.connect(server.address, secret=ours) as client:
                await client.request("call", 1)
        assert called == [1]

    run(main())
    lines = logged(caplog)
    assert len(lines) == 3
    assert all(line.startswith("turned away ") for line in lines)
    assert all("secret" in line and "horse" not in line for line in lines)


def test_secrets_change_while_serving(run, address):
    """New ones are accepted beside the old, then alone; connections that are there already live on."""

    async def main():
        accepted = [SECRET]
        proved = [SECRET]
        async with rpcproto.serve(Kit(), address, secret=lambda: accepted) as server:
            client = await rpcproto.connect(server.address, secret=lambda: proved[0])
            accepted.append(OTHER)
            for secret in (SECRET, OTHER):
                proved[0] = secret
                async with rpcproto.connect(server.address, secret=lambda: proved[0]) as other:
                    assert await other.request("Kit.echo", 1) == 1
            del accepted[0]
            assert (await refused(server.address, secret=SECRET)).endswith(WRONG_PROOF)
            async with rpcproto.connect(server.address, secret=OTHER) as other:
                assert await other.request("Kit.echo", 2) == 2
            assert await client.request("Kit.echo", 3) == 3
            await client.close()

    run(main())


def test_a_servers_function_that_fails_turns_clients_away(run, address, caplog):
    given = [SECRET]

    def secret():
        return given[0]  # raises IndexError

    async def main():
        async with rpcproto.serve(Kit(), address, secret=secret) as server:
            given.clear()
            assert (await refused(server.address, secret=SECRET)).endswith(WRONG_PROOF)
            given.append("short")
            assert (await refused(server.address, secret="short" * 4)).endswith(WRONG_PROOF)
            given[0] = SECRET
            async with rpcproto.connect(server.address, secret=SECRET) as client:
                assert await client.request("Kit.echo", 1) == 1

    run(main())
    causes = [line for line in logged(caplog) if line.startswith("a client is turned away")]
    assert causes == [
        "a client is turned away: the function given as secret= raised IndexError",
        f"a client is turned away: what the function given as secret= returned {SHORT}",
    ]


def test_a_function_that_fails_at_the_start_fails_the_start(run, address):
    def secret():
        raise KeyError("SECRET")

    async def main():
        with pytest.raises(rpcproto.ConfigurationError, match="raised KeyError"):
            await rpcproto.serve(Kit(), address, secret=secret)
        async with rpcproto.serve(Kit(), address, secret=SECRET) as server:
            client = rpcproto.connect(server.address, secret=secret)
            with pytest.raises(rpcproto.ConfigurationError, match="raised KeyError"):
                await client
            await client.close()

    run(main())


def test_calls_before_the_proofs_fail_as_before_connecting(run):
    async def main():
        async with rpcproto.serve(Kit(), "inproc://vault", secret=SECRET) as server:
            client = rpcproto.connect(server.address, secret=SECRET)
            connecting = asyncio.ensure_future(client.__aenter__())
            while not server._links or not connecting.done():
                with pytest.raises(rpcproto.LocalProtocolError, match="not connected"):
                    client.request("Kit.echo", 1)
                await asyncio.sleep(0)
            assert await client.request("Kit.echo", 1) == 1
            await client.close()

    run(main())


@pytest.mark.usefixtures("blocking_loop")
def test_blocking_clients_have_a_secret_too(address):
    if address.startswith("inproc:"):
        pytest.skip("a blocking client has a loop of its own")
    with served(Kit(), address, secret=SECRET) as server:
        with rpcproto.connect_blocking(server.address, secret=lambda: SECRET) as client:
            assert client.request("Kit.echo", 1) == 1
            assert client.authenticated
            assert client.role == "server"
            assert client.credentials == client._peer.credentials
        with pytest.raises(rpcproto.ConnectFailed, match="wrong proof"):
            rpcproto.connect_blocking(server.address, secret=OTHER)


def test_row_66_a_secret_is_nowhere_to_be_read(run, address, caplog):
    caplog.set_level(logging.DEBUG)
    shown = []

    async def main():
        options = {"secret": SECRET}
        async with pair(Kit(), address, server=options, client=options) as (server, client):
            shown.extend(map(repr, [server, client, *server.peers, client.peer, client.peer.stats()]))
            shown.append(repr(server._options.secrets))
            for link in server._links:
                assert link.identity._secrets == ()
                assert link.connection.authentication is None
            shown.append(await refused(server.address, secret=OTHER))

    run(main())
    shown += logged(caplog) + [record.getMessage() for record in caplog.records]
    assert not [text for text in shown if "horse" in text]


# ---- what is announced, and where may be listened -------------------------------------------------------------------


def announced(**options):
    """``max_message`` of the greeting of a server with these options to a peer on another machine."""
    transport = RemoteTransport()
    with_secret = rpcproto.serve({"f": repr}, "tcp://127.0.0.1:0", **options)._options
    connection = FakeConnection()
    greeting = Identity(Role.ACCEPTOR, with_secret.secrets, False).meet(
        transport, connection, with_secret.limits, with_secret.timeouts
    )
    assert connection.max_message == int.from_bytes(greeting[24:32], "little")
    return connection.max_message


def test_a_peer_that_must_prove_the_secret_may_send_large_messages():
    """What strangers can make us reserve is bounded by the proofs instead: nothing large is received before them."""
    assert announced() == 16 << 20
    assert announced(secret=SECRET) == 1 << 30
    assert announced(secret=SECRET, limits=rpcproto.Limits(max_message=1000)) == 1000


@pytest.mark.parametrize("role", Role)
def test_a_secret_without_encryption_is_warned_of_once(caplog, role):
    options = rpcproto.serve({"f": repr}, "tcp://127.0.0.1:0", secret=SECRET)._options

    def meet(transport, secrets=options.secrets):
        Identity(role, secrets, False).meet(transport, FakeConnection(), options.limits, options.timeouts)

    meet(RemoteTransport(), None)
    meet(RemoteTransport(sslcontext=object()))
    meet(RemoteTransport(peername=("127.0.0.1", 1)))
    assert logged(caplog) == []
    meet(RemoteTransport())
    meet(RemoteTransport())
    (line,) = logged(caplog)
    assert "tcp://192.0.2.7:1234 has a shared secret and no encryption" in line
    assert "can be read and altered" in line


def test_a_secret_allows_addresses_that_others_can_reach(run):
    async def main():
        with pytest.raises(rpcproto.ConfigurationError, match="secret="):
            await rpcproto.serve(Kit(), "tcp://0.0.0.0:0")
        async with rpcproto.serve(Kit(), "tcp://0.0.0.0:0", secret=SECRET) as server:
            port = server.address.rpartition(":")[2]
            async with rpcproto.connect(f"tcp://127.0.0.1:{port}", secret=SECRET) as client:
                assert await client.request("Kit.echo", 1) == 1

    run(main())
