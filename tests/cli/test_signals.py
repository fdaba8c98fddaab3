"""Signals, on the real command in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import rpcproto

ROOT = Path(__file__).parent.parent.parent

INTERRUPTED = (130, "", "\n")
"""Nothing but the end of the line in which a terminal shows ^C."""


@asynccontextmanager
async def started(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """The command with ``arguments``, its output in pipes; ended by force if it does not end by itself."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "rpcproto", *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def line_of(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await process.stdout.readline()).decode().rstrip("\n")


async def end_of(process: asyncio.subprocess.Process) -> tuple[int | None, str, str]:
    """Exit code, and what it printed from here on."""
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serve_ends_cleanly_at_a_signal(run, tmp_path, number):
    async def scenario() -> None:
        socket = f"unix://{tmp_path}/socket"
        async with started("serve", "tcp://127.0.0.1:0", socket, "--grace", "7") as process:
            tcp, unix = await line_of(process), await line_of(process)
            assert unix == socket
            for address in (tcp, unix):
                async with rpcproto.connect(address) as client:
                    assert await client.request("Echo.echo", {"x": [1, b"2"]}) == {"x": [1, b"2"]}
            process.send_signal(number)
            log = f"rpcproto: {number.name}: stopping, calls under way have 7 s to end\n"
            assert await end_of(process) == (0, "", log)
            assert not (tmp_path / "socket").exists()

    run(scenario())


def test_serve_lets_calls_end_and_refuses_new_ones(run):
    async def scenario() -> None:
        async with started("serve", "--json") as process:
            (address,) = json.loads(await line_of(process))["addresses"]
            async with rpcproto.connect(address) as client:
                under_way = client.request("Echo.sleep", 0.2, "done")
                await client.request("Echo.echo", None)  # calls start in their order: the one above has
                process.send_signal(signal.SIGTERM)
                assert await under_way == "done"
            assert (await end_of(process))[0] == 0

    run(scenario())


def test_a_second_signal_ends_serve_at_once(run):
    async def scenario() -> None:
        async with started("serve") as process:
            async with rpcproto.connect(await line_of(process)) as client:
                under_way = client.request("Echo.sleep", 1000, timeout=None)
                await client.request("Echo.echo", None)
                process.send_signal(signal.SIGINT)
                assert process.stderr is not None
                assert b"SIGINT: stopping" in await process.stderr.readline()
                process.send_signal(signal.SIGINT)
                with pytest.raises((rpcproto.CallFailed, rpcproto.ConnectionLost)):
                    await under_way
            assert await end_of(process) == (0, "", "")

    run(scenario())


def test_ctrl_c_during_a_call_cancels_it(run):
    async def scenario() -> None:
        begun, cancelled = asyncio.Event(), asyncio.Event()

        async def hang() -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

        async with rpcproto.serve({"hang": hang}, "tcp://127.0.0.1:0") as server:
            async with started("call", server.address, "hang") as process:
                await begun.wait()
                process.send_signal(signal.SIGINT)
                assert await end_of(process) == INTERRUPTED
            await cancelled.wait()

    run(scenario())


def test_ctrl_c_ends_ping_with_its_summary(run):
    async def scenario() -> None:
        async with rpcproto.serve({"x": print}, "tcp://127.0.0.1:0") as server:
            async with started("ping", server.address, "-n", "0", "-i", "1000") as process:
                assert (await line_of(process)).startswith("connected to ")
                assert (await line_of(process)).startswith("seq=1 ")
                process.send_signal(signal.SIGINT)
                code, out, err = await end_of(process)
                assert (code, out[:10], err) == (130, "1 answered", "\n")

    run(scenario())


@pytest.mark.parametrize("command", ["ping", "call"])
def test_ctrl_c_while_connecting(run, command):
    async def scenario() -> None:
        accepted: asyncio.Future[asyncio.StreamWriter] = asyncio.get_running_loop().create_future()
        silent = await asyncio.start_server(lambda _, writer: accepted.set_result(writer), "127.0.0.1", 0)
        port = silent.sockets[0].getsockname()[1]
        async with silent, started(command, f"tcp://127.0.0.1:{port}", *["m"] * (command == "call")) as process:
            writer = await accepted
            try:
                process.send_signal(signal.SIGINT)
                assert await end_of(process) == INTERRUPTED
            finally:
                writer.close()
                await asyncio.wait([asyncio.ensure_future(writer.wait_closed())])

    run(scenario())


def test_ctrl_c_during_a_benchmark():
    """With a terminal for stderr, so that its progress tells when there is something to interrupt."""
    master, terminal = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "rpcproto", "bench", "-s", "1000", "-c", "1"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=terminal,
        env=os.environ | {"PYTHONPATH": str(ROOT), "TERM": "xterm"},
    )
    try:
        os.close(terminal)
        shown = b""
        while b"rpcproto: measuring" not in shown:
            shown += os.read(master, 65536)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
        assert (process.returncode, out) == (130, b"")
        assert b"Traceback" not in os.read(master, 65536)
    finally:
        process.kill()
        process.communicate()
        os.close(master)
