"""``--secret-file`` and the options of TLS: the commands against a real server, in one process or two."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

import rpcproto
from tests._certificates import authority, mutual
from tests.cli.test_signals import end_of, line_of, started

SECRET = "correct horse battery staple"
ADDRESS = "tcp://127.0.0.1:5555"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "secret"
    path.write_text(SECRET + "\r\n")
    return path


@pytest.mark.parametrize("arguments", [["ping", ADDRESS, "-n", "1"], ["call", ADDRESS, "m"]])
def test_the_secret_is_read_from_the_file(command, fake, file, monkeypatch, arguments):
    client = fake(0.001)
    assert command(*arguments, "--secret-file", str(file)).exit_code == 0
    assert client.options["secret"]() == SECRET.encode()
    client = fake(0.001)
    monkeypatch.setenv("RPCPROTO_SECRET_FILE", str(file))
    assert command(*arguments).exit_code == 0
    assert client.options["secret"]() == SECRET.encode()
    monkeypatch.delenv("RPCPROTO_SECRET_FILE")
    client = fake(0.001)
    assert command(*arguments).exit_code == 0
    assert client.options["secret"] is None


@pytest.mark.parametrize("arguments", [["ping", ADDRESS], ["call", ADDRESS, "m"], ["serve"]])
def test_a_file_that_cannot_be_read(command, tmp_path, arguments):
    result = command(*arguments, "--secret-file", str(tmp_path / "missing"))
    assert result.exit_code == 2
    assert result.stderr.startswith("rpcproto: Invalid value for --secret-file: ")
    assert "missing: No such file or directory" in result.stderr
    (tmp_path / "large").write_bytes(bytes(5000))
    result = command(*arguments, "--secret-file", str(tmp_path / "large"))
    assert result.exit_code == 2
    assert "large: more than 4096 bytes" in result.stderr


@pytest.mark.parametrize("arguments", [["ping", ADDRESS], ["call", ADDRESS, "m"], ["serve"]])
def test_a_secret_that_is_too_short(command, file, arguments):
    file.write_text("short\n")
    result = command(*arguments, "--secret-file", str(file))
    assert result.exit_code == 2
    assert result.stderr.startswith("rpcproto: what is in --secret-file has 5 bytes, and needs 16 at least")


def test_what_to_give_is_said_in_options(command, fake):
    fake(refusal=rpcproto.ConnectFailed("the peer wants a shared secret, this side has none: give secret=..."))
    for arguments in (["ping", ADDRESS], ["call", ADDRESS, "m"]):
        result = command(*arguments)
        assert result.stderr.endswith("this side has none: give --secret-file FILE\n")
    result = command("serve", "tcp://0.0.0.0:0")
    assert "pass --secret-file FILE, which clients then have to prove" in result.stderr
    assert "at tls:// with --certificate, --key and --ca; or pass --insecure" in result.stderr


def test_what_is_wrong_with_certificates_is_said_in_options(command):
    file = str(mutual().certificate)
    for arguments, says in (
        (["serve", "tls://127.0.0.1:0"], "needs a certificate: pass --certificate and --key, with --ca to"),
        (["serve", "tls://127.0.0.1:0", "--ca", file], "a server needs a certificate: pass --certificate and --key"),
        (["serve", "tcp://127.0.0.1:0", "--certificate", file], "--certificate, --key and --ca are for addresses with"),
        (["serve", "tls://127.0.0.1:0", "--certificate", "no"], "--certificate: no: No such file or directory"),
        (["ping", "tls://127.0.0.1:1", "--key", file], "a key without its certificate: pass --certificate as well"),
        (["call", "tls://127.0.0.1:1", "m", "--ca", "no"], "--ca: no: No such file or directory"),
        (["ping", ADDRESS, "--server-hostname", "x"], "--server-hostname is for addresses with TLS"),
    ):
        result = command(*arguments)
        assert result.exit_code == 2
        assert says in result.stderr


def test_serve_asks_for_the_secret_and_reads_it_again(run, file):
    async def scenario() -> None:
        async with started("serve", "--secret-file", str(file)) as process:
            address = await line_of(process)
            async with rpcproto.connect(address, secret=SECRET) as client:
                assert await client.request("Echo.echo", 1) == 1
            file.write_text("incorrect horse battery staple")
            with pytest.raises(rpcproto.ConnectFailed, match="AUTHENTICATION"):
                await rpcproto.connect(address, secret=SECRET)
            async with rpcproto.connect(address, secret="incorrect horse battery staple") as client:
                assert await client.request("Echo.echo", 2) == 2
            async with started("ping", address, "-n", "1", "--secret-file", str(file)) as ping:
                code, out, err = await end_of(ping)
                assert (code, err) == (0, "")
                assert "1 answered" in out
            process.terminate()
            code, _, err = await end_of(process)
            assert code == 0
            assert "rpcproto: turned away tcp://127.0.0.1:" in err
            assert "horse" not in err

    run(scenario())


def test_commands_over_tls(run):
    own, ca = str(mutual().certificate), str(authority().ca)
    named = str(authority().issue("server.example").certificate)

    async def answer(*arguments: str) -> tuple[int | None, str]:
        async with started(*arguments) as process:
            code, out, err = await end_of(process)
            return code, out + err

    async def scenario() -> None:
        async with started("serve", "tls://127.0.0.1:0", "--certificate", own, "--ca", ca) as server:
            address = await line_of(server)
            both = ("--certificate", own, "--ca", ca)
            assert await answer("call", address, "Echo.echo", "5", *both) == (0, "5\n")
            code, text = await answer("ping", address, "-n", "1", *both)
            assert code == 0
            assert "1 answered" in text
            code, text = await answer("call", address, "Echo.echo", "5", "--ca", ca)
            assert code == 3
            assert "demands certificates" in text
        async with started("serve", "tls://127.0.0.1:0", "--certificate", named) as server:
            address = await line_of(server)
            code, text = await answer("call", address, "Echo.echo", "5", "--ca", ca)
            assert code == 3
            assert "127.0.0.1" in text
            arguments = ("--ca", ca, "--server-hostname", "server.example")
            assert await answer("call", address, "Echo.echo", "5", *arguments) == (0, "5\n")

    run(scenario())


def listening(pid: int) -> set[str]:
    """The addresses, in hexadecimal, at which a process listens over TCP."""
    inodes = {os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text(encoding="ascii").splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == "0A" and f"socket:[{inode}]" in inodes:
                found.add(local.partition(":")[0])
    return found


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc")
def test_fault_79_nobody_else_is_let_in_by_default(run, tmp_path):
    """What the commands listen at when nothing is said; a socket file is its owner's."""
    loopback = "0100007F"

    async def scenario() -> None:
        async with started("serve") as server:
            await line_of(server)
            assert listening(server.pid) == {loopback}
        async with started("serve", "tcp://127.0.0.1:0", f"unix://{tmp_path}/socket") as server:
            await line_of(server)
            await line_of(server)
            assert listening(server.pid) == {loopback}
            assert (tmp_path / "socket").stat().st_mode & 0o777 == 0o600
        for address in ("tcp://0.0.0.0:0", "tcp://[::]:0", "tls://0.0.0.0:0"):
            own = ("--certificate", str(mutual().certificate)) if address.startswith("tls") else ()
            async with started("serve", address, *own) as server:
                code, out, err = await end_of(server)
                assert (code, out) == (2, "")
                assert re.search("can be reached from other machines", err)

    run(scenario())
