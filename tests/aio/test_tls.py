"""Services over TLS: who is let in, settings, and certificates that are replaced.

That calls work the same over TLS as over everything else is told by the tests that run over every transport.
"""

from __future__ import annotations

import asyncio

import pytest

import rpcproto
from rpcproto import TLS, ConfigurationError, Limits
from rpcproto.testing import pair
from tests._certificates import authority, mutual
from tests.aio._blocking import served
from tests.aio._ends import Kit
from tests.aio._tls import TLS_ADDRESS, port_of, refused, server_only, trusting

# ---- who is let in ---------------------------------------------------------------------------------------------------


@pytest.mark.smoke
@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost"])
def test_server_only(run, host):
    async def main():
        seen = []
        service = {"who": lambda: seen.append(rpcproto.peer()) or rpcproto.peer().certificate}
        async with pair(service, f"tls://{host}:0", server={"ssl": server_only()}, client={"ssl": trusting()}) as (
            server,
            client,
        ):
            assert await client.request("who") is None
            assert seen[0].certificate_der is None
            assert seen[0].address.startswith("tls://")
            assert client.peer.address.startswith("tls://")
            assert server.address.startswith("tls://")
            assert client.peer.certificate["subjectAltName"]
            assert client.peer.certificate_der[:1] == b"\x30"

    run(main())


@pytest.mark.smoke
def test_mutual(run):
    async def main():
        def who():
            certificate = rpcproto.peer().certificate
            return dict(pair for group in certificate["subject"] for pair in group)["commonName"]

        peers = []
        service = {"who": who, "keep": lambda: peers.append(rpcproto.peer())}
        async with pair(service, TLS_ADDRESS, server={"ssl": mutual()}, client={"ssl": mutual()}) as (_, client):
            assert await client.request("who") == "somebody"
            await client.request("keep")
        assert peers[0].certificate["notAfter"]  # it can be asked when all is over
        assert peers[0].certificate_der

    run(main())


def test_blocking(blocking_loop):
    with served({"echo": lambda x: x}, TLS_ADDRESS, ssl=mutual()) as server:
        with rpcproto.connect_blocking(server.address, ssl=mutual(), server_hostname="localhost") as client:
            assert client.request("echo", bytes(3_000_000)) == bytes(3_000_000)
            assert client.certificate["notAfter"]
            assert client.certificate_der


def test_without_tls_there_is_no_certificate(run):
    async def main():
        async with pair(Kit()) as (_, client):
            assert client.peer.certificate is None
            assert client.peer.certificate_der is None

    run(main())


def test_large_messages_and_many_small_ones(run):
    async def main():
        async with pair(Kit(), TLS_ADDRESS, server={"ssl": mutual()}, client={"ssl": mutual()}) as (_, client):
            large = [bytes([n]) * 3_000_000 for n in range(4)]
            calls = [client.request("Kit.echo", {"n": n, "data": data}) for n, data in enumerate(large)]
            small = [client.request("Kit.echo", n) for n in range(500)]
            assert await asyncio.gather(*small) == list(range(500))
            for n, call in enumerate(calls):
                answer = await call
                assert answer["n"] == n and bytes(answer["data"]) == large[n]
            stats = client.stats()
            assert stats["sends"] < stats["messages_sent"]  # small ones are joined

    run(main())


def test_who_has_a_certificate_may_send_what_a_local_peer_may(run, monkeypatch):
    monkeypatch.setattr("rpcproto.aio.identity.is_local_peer", lambda transport: False)
    limits = {"limits": Limits(max_message=2_000_000, max_message_remote=1_000_000)}

    async def main():
        for client_tls, largest in ((mutual(), 1_500_000), (trusting(), 500_000)):
            server_tls = mutual() if client_tls is mutual() else server_only()
            async with pair(
                {"size": len}, TLS_ADDRESS, server={"ssl": server_tls, **limits}, client={"ssl": client_tls}
            ) as (_, client):
                assert await client.request("size", bytes(largest)) == largest
                with pytest.raises(rpcproto.MessageTooLarge):
                    await client.request("size", bytes(2 * largest))

    run(main())


# ---- configuration ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (
            lambda: rpcproto.connect("tcp://h:1", ssl=trusting()),
            "ssl= is for .* TLS, not for tcp://h:1: write tls://h:1",
        ),
        (lambda: rpcproto.connect("unix:@x", ssl=trusting()), "ssl= is for .* not for unix:@x: write tls://host:port"),
        (lambda: rpcproto.connect("tcp://h:1", server_hostname="h"), "server_hostname= is for addresses with TLS"),
        (lambda: rpcproto.connect("tls://h:1", server_hostname=""), "server_hostname must be a name or an IP address"),
        (lambda: rpcproto.connect("tls://h:1", ssl=True), r"ssl= must be a rpcproto\.TLS"),
        (lambda: rpcproto.connect("tls://h:1", ssl=TLS(ca="/none")), "TLS: ca: /none: No such file"),
        (lambda: rpcproto.serve(Kit(), "tcp://h:1", ssl=server_only()), "write tls://h:1"),
        (
            lambda: rpcproto.serve(Kit(), "tcp://h:1", "tls://h:1"),
            r"tls://h:1 needs a certificate: pass ssl=rpcproto\.TLS\(",
        ),
        (lambda: rpcproto.serve(Kit(), "tls://h:1", ssl=trusting()), "TLS: a server needs a certificate"),
    ],
)
def test_wrong_settings_are_told_at_once(call, complaint):
    with pytest.raises(ConfigurationError, match=complaint):
        call()


def test_one_server_may_have_addresses_with_and_without(run):
    async def main():
        addresses = ("tcp://127.0.0.1:0", TLS_ADDRESS)
        async with rpcproto.serve(Kit(), *addresses, ssl=server_only()) as server:
            plain, encrypted = server.addresses
            async with rpcproto.connect(plain) as one, rpcproto.connect(encrypted, ssl=trusting()) as other:
                assert await one.request("Kit.echo", 1) == 1
                assert await other.request("Kit.echo", 2) == 2

    run(main())


@pytest.mark.smoke
def test_row_51_only_mutual_tls_may_be_reached_by_others(run):
    async def main():
        wide = "tls://0.0.0.0:0"
        with pytest.raises(ConfigurationError, match=r"nobody would be asked who they are.*demand certificates"):
            await rpcproto.serve(Kit(), wide, ssl=server_only())
        for options in ({"ssl": mutual()}, {"ssl": server_only(), "insecure": True}):
            async with rpcproto.serve(Kit(), wide, **options) as server:
                address = f"tls://127.0.0.1:{port_of(server.address)}"
                async with rpcproto.connect(address, ssl=mutual()) as client:
                    assert await client.request("Kit.echo", 1) == 1

    run(main())


# ---- rotation --------------------------------------------------------------------------------------------------------


def serial(client: rpcproto.Client) -> str:
    certificate = client.peer.certificate
    assert certificate is not None
    return certificate["serialNumber"]


def test_row_49_a_function_replaces_certificates(run):
    async def main():
        contexts = [authority().issue().context(server=True) for _ in range(3)]
        source = iter([contexts[0], *contexts])
        async with rpcproto.serve(Kit(), TLS_ADDRESS, ssl=lambda: next(source)) as server:
            async with rpcproto.connect(server.address, ssl=mutual()) as first:
                async with rpcproto.connect(server.address, ssl=mutual()) as second:
                    assert serial(first) != serial(second)
                    assert await first.request("Kit.echo", 1) == 1  # what is connected goes on

    run(main())


def test_row_49_files_that_change_replace_certificates(run, tmp_path):
    path = tmp_path / "server.pem"

    async def main():
        authority().write(path)
        async with rpcproto.serve(Kit(), TLS_ADDRESS, ssl=TLS(certificate=path)) as server:
            async with rpcproto.connect(server.address, ssl=trusting()) as client:
                before = serial(client)
            new = tmp_path / "new.pem"
            authority().write(new)
            new.rename(path)
            async with rpcproto.connect(server.address, ssl=trusting()) as client:
                assert serial(client) != before

    run(main())


def test_a_function_that_fails_later_turns_clients_away(run, caplog):
    async def main():
        contexts = [server_only().context(server=True)]
        async with rpcproto.serve(Kit(), TLS_ADDRESS, ssl=lambda: contexts.pop()) as server:
            await refused(server.address, ssl=trusting())
            assert "the function given as ssl= raised IndexError" in caplog.text

    run(main())


def test_no_session_is_resumed(run):
    async def main():
        async with rpcproto.serve(Kit(), TLS_ADDRESS, ssl=server_only()) as server:
            async with rpcproto.connect(server.address, ssl=trusting()) as client:
                await client.request("Kit.echo", 1)
                session = client._link.transport.get_extra_info("ssl_object").session
                assert session is None or not session.has_ticket

    run(main())
