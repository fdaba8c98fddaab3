"""Who is not let in over TLS, and what both ends are told (reliability rows 45 to 47, faults 45 and 46)."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

import rpcproto
from rpcproto import TLS, Limits, Timeouts
from tests._certificates import authority, mutual, stranger
from tests.aio._ends import Kit, failure, poll, turns
from tests.aio._tls import TLS_ADDRESS, port_of, refused, server_only, trusting

HOUR = 3600.0


def server_contexts():
    one = authority()
    return {
        "another authority": (stranger().issue(), "unable to get local issuer certificate|self-signed certificate"),
        "expired": (one.issue(expired=True), "certificate has expired"),
        "another name": (one.issue("elsewhere.example"), "certificate is not valid for '127.0.0.1'"),
        "another purpose": (one.issue_for(ExtendedKeyUsageOID.CLIENT_AUTH), r"(?i)(unsuitable|unsupported) .*purpose"),
    }


@pytest.mark.parametrize("what", ["another authority", "expired", "another name", "another purpose"])
def test_row_45_a_server_with_a_certificate_of(run, lines, what):
    settings, complaint = server_contexts()[what]

    async def main():
        async with rpcproto.serve(Kit(), TLS_ADDRESS, ssl=TLS(certificate=settings.certificate)) as server:
            text = await refused(server.address, ssl=trusting())
            prefix = f"cannot connect to {server.address}: the certificate shown for 127.0.0.1 does not verify: "
            assert text.startswith(prefix)
            assert re.search(complaint, text)
            await poll(lines)
            assert len(lines()) == 1
            assert server.peers == []

    run(main())


def client_contexts():
    one = authority()
    return {
        "nobody": (trusting(), "the client showed no certificate"),
        "another authority": (
            TLS(certificate=stranger().issue().certificate, ca=mutual().ca),
            "unable to get local issuer certificate|self-signed certificate",
        ),
        "expired": (one.issue(expired=True), "the client's certificate does not verify: certificate has expired"),
        "another purpose": (one.issue_for(ExtendedKeyUsageOID.SERVER_AUTH), r"(?i)(unsuitable|unsupported) .*purpose"),
    }


@pytest.mark.parametrize("what", ["nobody", "another authority", "expired", "another purpose"])
def test_row_45_a_client_with_a_certificate_of(run, lines, what):
    """Under TLS 1.3 the client learns of it after its own handshake (fault 46)."""
    settings, complaint = client_contexts()[what]

    async def main():
        kit = Kit()
        async with rpcproto.serve(kit, TLS_ADDRESS, ssl=mutual()) as server:
            text = await refused(server.address, ssl=settings)
            assert "a server that demands certificates does so if it does not accept the client's" in text
            await poll(lines)
            assert len(lines()) == 1
            assert re.search(complaint, lines()[0])
            assert server.peers == []

    run(main())


def test_the_name_may_be_another_than_that_of_the_address(run):
    elsewhere = authority().issue("elsewhere.example")

    async def main():
        async with rpcproto.serve(Kit(), TLS_ADDRESS, ssl=TLS(certificate=elsewhere.certificate)) as server:
            options = {"ssl": trusting(), "server_hostname": "elsewhere.example"}
            async with rpcproto.connect(server.address, **options) as client:
                assert await client.request("Kit.echo", 1) == 1

    run(main())


def test_the_system_is_trusted_without_ssl(run, monkeypatch):
    async def main():
        async with rpcproto.serve(Kit(), TLS_ADDRESS, ssl=server_only()) as server:
            text = await refused(server.address)
            assert "does not verify" in text
            monkeypatch.setenv("SSL_CERT_FILE", str(mutual().ca))  # the system's store, as OpenSSL takes it
            async with rpcproto.connect(server.address) as client:
                assert await client.request("Kit.echo", 1) == 1

    run(main())


def old(settings: TLS, *, server: bool) -> ssl.SSLContext:
    """A context that knows TLS 1.2 at most."""
    context = settings.context(server=server)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context


def with_alpn(settings: TLS, *protocols: str, server: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    if protocols:
        context.set_alpn_protocols(list(protocols))
    if settings.certificate is not None:
        context.load_cert_chain(settings.certificate)
    context.load_verify_locations(settings.ca or mutual().ca)
    return context


def test_row_46_old_versions_are_refused(run, lines):
    async def main():
        async with rpcproto.serve(Kit(), TLS_ADDRESS, ssl=server_only()) as server:
            assert "during the TLS handshake" in await refused(server.address, ssl=old(trusting(), server=False))
            await poll(lines)
            assert lines() == ["no common version of TLS (unsupported protocol)"]
        async with rpcproto.serve(Kit(), TLS_ADDRESS, ssl=old(server_only(), server=True)) as server:
            assert "TLS" in await refused(server.address, ssl=trusting())
            # Whoever wants it may have it.
            async with rpcproto.connect(server.address, ssl=old(trusting(), server=False)) as client:
                assert await client.request("Kit.echo", 1) == 1

    run(main())


@pytest.mark.parametrize("offered", [[], ["h2"]])
def test_row_46_a_server_that_does_not_speak_the_protocol(run, offered):
    async def main():
        server = await asyncio.start_server(
            lambda reader, writer: None, "127.0.0.1", 0, ssl=with_alpn(server_only(), *offered, server=True)
        )
        address = f"tls://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        text = await refused(address, ssl=trusting())
        assert "the peer does not offer the protocol rpcproto/1 by ALPN" in text
        server.close()
        await turns(20)

    run(main())


@pytest.mark.parametrize("offered", [[], ["h2"]])
def test_row_46_a_client_that_does_not_speak_the_protocol(run, lines, offered):
    async def main():
        async with rpcproto.serve(Kit(), TLS_ADDRESS, ssl=server_only()) as server:
            context = with_alpn(trusting(), *offered, server=False)
            reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server.address), ssl=context)
            with pytest.raises(ConnectionError):  # no byte of the protocol
                if await reader.read() == b"":
                    raise ConnectionResetError
            writer.close()
            await poll(lines)
            assert "the peer does not offer the protocol rpcproto/1 by ALPN" in lines()[0]
            assert server.peers == []

    run(main())


def test_contexts_of_the_application_need_no_alpn_but_no_other_either(run):
    async def main():
        async with rpcproto.serve(Kit(), TLS_ADDRESS, ssl=with_alpn(server_only(), server=True)) as server:
            async with rpcproto.connect(server.address, ssl=with_alpn(trusting(), server=False)) as client:
                assert await client.request("Kit.echo", 1) == 1
        async with rpcproto.serve(Kit(), TLS_ADDRESS, ssl=with_alpn(server_only(), "h2", server=True)) as server:
            text = await refused(server.address, ssl=with_alpn(trusting(), "h2", server=False))
            assert "the peer speaks another protocol (by ALPN) than rpcproto/1" in text

    run(main())


@pytest.mark.smoke
def test_row_47_plain_and_tls_do_not_meet(run, lines):
    async def main():
        async with rpcproto.serve(Kit(), TLS_ADDRESS, ssl=server_only()) as server:
            text = await refused(server.address.replace("tls", "tcp"))
            assert "a server with TLS does so: is its address tls://?" in text
            await poll(lines)
            assert lines() == ["the peer does not speak TLS"]
        async with rpcproto.serve(Kit(), "tcp://127.0.0.1:0") as server:
            text = await refused(server.address.replace("tcp", "tls"), ssl=trusting())
            assert text.endswith(": the peer does not speak TLS; is its address tcp://?")

    run(main())


@pytest.mark.parametrize("first", [b"", b"\x16\x03\x01\x00", b"GET / HTTP/1.0\r\n\r\n", bytes(100)])
def test_fault_46_a_server_that_closes_in_the_handshake(run, first):
    async def accept(reader, writer):
        await reader.readexactly(4)
        writer.write(first)
        writer.close()

    async def main():
        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        address = f"tls://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        assert "TLS" in await refused(address, ssl=trusting())
        server.close()
        await turns(20)

    run(main())


def test_a_server_that_does_not_answer_the_handshake(run):
    async def main():
        with socket.create_server(("127.0.0.1", 0)) as silent:
            address = f"tls://127.0.0.1:{silent.getsockname()[1]}"
            text = await refused(address, ssl=trusting(), timeouts=Timeouts(handshake=0.02))
            assert text == f"cannot connect to {address}: no TLS handshake within 0.02 s"
            text = await refused(address, ssl=trusting(), timeouts=Timeouts(connect=0.02))
            assert text == f"cannot connect to {address}: it accepted, and was not ready in 0.02 s"

    run(main())


def test_row_47_a_client_that_stops_in_the_handshake(run, lines):
    async def main():
        async with rpcproto.serve(Kit(), TLS_ADDRESS, ssl=mutual(), timeouts=Timeouts(handshake=0.02)) as server:
            for first in (b"", b"\x16\x03\x01\x02\x00\x01"):
                reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server.address))
                writer.write(first)
                assert await failure(reader.read()) == b""  # the server closes
                writer.close()
            assert lines() == ["no TLS handshake within 0.02 s"] * 2
            assert server.peers == []

    run(main())


def test_row_47_fault_45_a_crowd_that_stops_in_the_handshake_keeps_nobody_out(run, lines):
    """No time-out helps here: the newcomer gets in because it is the newest, and somebody has had his time."""
    limits, timeouts = Limits(max_handshakes=4), Timeouts(handshake=HOUR)

    async def main():
        async with rpcproto.serve(Kit(), TLS_ADDRESS, ssl=mutual(), limits=limits, timeouts=timeouts) as server:
            async with rpcproto.connect(server.address, ssl=mutual()) as early:
                crowd = [socket.create_connection(("127.0.0.1", port_of(server.address))) for _ in range(30)]
                for number, sock in enumerate(crowd):
                    sock.send(b"\x16\x03\x01\x02\x00"[: number % 6])
                async with rpcproto.connect(server.address, ssl=mutual()) as client:
                    assert await client.request("Kit.echo", 1) == 1
                assert await early.request("Kit.echo", 2) == 2
                assert all("max_handshakes 4" in line for line in lines())
                for sock in crowd:
                    sock.close()

    run(main())
