"""rpcproto in the life of a process: signals, exits, forks, threads with loops of their own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

import rpcproto
from rpcproto.testing import pair
from tests.aio._ends import Kit, poll
from tests.conftest import loop_factory

pytestmark = pytest.mark.smoke

ROOT = Path(rpcproto.__file__).parent.parent

HEAD = """
import asyncio, os, signal, sys
import rpcproto
from tests.conftest import loop_factory

class Kit(rpcproto.Service):
    @rpcproto.request
    def echo(self, value):
        return value
    @rpcproto.request
    async def wait(self):
        await asyncio.sleep(60)
    @rpcproto.request(thread=True)
    def thread(self, value):
        return value

def run(coroutine):
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(coroutine)
"""


def start(script):
    """A Python process that runs ``HEAD`` and ``script``, with warnings shown."""
    return subprocess.Popen(
        [sys.executable, "-W", "always", "-X", "faulthandler", "-c", HEAD + textwrap.dedent(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def finish(process, code=0, allow=()):
    """Wait for the end of the process; it must have the exit code and have said nothing but what is allowed."""
    out, err = process.communicate(timeout=20)
    assert process.returncode == code, err
    noise = [line for line in err.splitlines() if not any(text in line for text in allow)]
    assert noise == []
    return out


SERVER = """
async def main():
    async with rpcproto.serve(Kit(), "tcp://127.0.0.1:0") as server:
        {handler}
        print(server.address, flush=True)
        await server.serve_forever()
try:
    run(main())
except (KeyboardInterrupt, asyncio.CancelledError):
    print("stopped", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("busy", [False, True])
def test_fault_55_a_server_ends_cleanly_on_a_signal(run, number, busy):
    handler = "asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asyncio.current_task().cancel)"
    process = start(SERVER.format(handler=handler))
    assert process.stdout is not None
    address = process.stdout.readline().strip()

    async def main():
        async with rpcproto.connect(address) as client:
            assert await client.request("Kit.echo", 1) == 1
            waiting = client.request("Kit.wait") if busy else None
            await client.ping()
            process.send_signal(number)
            if waiting is not None:
                # The first signal lets calls end; the second one does not.
                await poll(lambda: client.peer.closed or _refused(client))
                if number == signal.SIGTERM:
                    process.send_signal(signal.SIGTERM)
                else:
                    process.send_signal(signal.SIGINT)
                with pytest.raises((rpcproto.ConnectionLost, rpcproto.CallCancelled)):
                    await waiting
            await asyncio.wait_for(client.wait_closed(), 10)

    def _refused(client):
        try:
            client.request("Kit.echo", 1).cancel()
        except rpcproto.GoingAway:
            return True
        return False

    try:
        run(main())
        assert finish(process) == "stopped\n"
    finally:
        process.kill()
        process.communicate()


DESTROYED = ("Task was destroyed but it is pending!", "task: <Task pending name='rpcproto call'")
"""What asyncio says of a handler whose call came in while the loop was shutting down. Nobody had closed the server."""

ENDS = {
    "return": ("", 0),
    "sys.exit": ("sys.exit(3)", 3),
    "error": ("raise ValueError('uncaught')", 1),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("where", ["globals", "cycle", "task"])
def test_fault_57_the_interpreter_exits_quietly_with_unclosed_ends(end, where):
    statement, code = ENDS[end]
    script = f"""
    kept = []
    async def main():
        server = await rpcproto.serve(Kit(), "tcp://127.0.0.1:0", "inproc://x")
        for address in server.addresses:
            client = await rpcproto.connect(address, service=Kit())
            await client.request("Kit.echo", 1)
            await client.request("Kit.thread", 1)
            kept.append((server, client, client.request("Kit.wait"), client.notify("Kit.echo", bytes(100_000))))
        if {where!r} == "cycle":
            kept.append(kept)
        if {where!r} == "task":
            kept[:] = [asyncio.ensure_future(client.request("Kit.wait"))]
        print("ready", flush=True)
        {statement}
    run(main())
    """
    allow = ("ResourceWarning", "Traceback", "  ", "ValueError: uncaught", "Enable tracemalloc", *DESTROYED)
    assert finish(start(script), code, allow) == "ready\n"


def test_fault_57_exit_without_closing_the_loop():
    script = """
    loop = loop_factory()()
    server = loop.run_until_complete(rpcproto.serve(Kit(), "tcp://127.0.0.1:0").__aenter__())
    client = loop.run_until_complete(rpcproto.connect(server.address).__aenter__())
    async def call():
        return await client.request("Kit.echo", 1)
    assert loop.run_until_complete(call()) == 1
    """
    finish(start(script), 0, ("ResourceWarning", "Enable tracemalloc", "    ", "  "))


@pytest.mark.parametrize("kind", ["SystemExit(3)", "KeyboardInterrupt()"])
def test_a_task_that_ends_the_program_ends_it(kind):
    """A task woken by a reply runs within the read that brought it, where a loop swallows such exceptions."""
    script = f"""
    async def leave(client):
        await client.request("Kit.echo", 1)
        raise {kind}
    async def main():
        async with rpcproto.serve(Kit(), "tcp://127.0.0.1:0") as server:
            async with rpcproto.connect(server.address) as client:
                task = asyncio.ensure_future(leave(client))
                await asyncio.wait([task])
                await asyncio.sleep(1)
                print("still here")
    try:
        run(main())
    except KeyboardInterrupt:
        sys.exit(3)
    """
    process = start(script)
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 3
    assert out == ""


def test_fault_87_row_79_a_forked_child_does_not_write_to_its_parents_connection(run, tmp_path):
    async def main():
        kit = Kit()
        async with pair(kit, f"unix://{tmp_path}/s") as (server, client):
            assert await client.request("Kit.echo", 1) == 1
            client.notify("Kit.note", "queued before the fork")
            child = os.fork()
            if child == 0:
                try:
                    for peer in (client.peer, server.peers[0]):
                        try:
                            peer.notify("Kit.note", "from the child")
                            peer._session.writer.flush()
                        except rpcproto.RpcError:
                            pass
                finally:
                    os._exit(0)
            os.waitpid(child, 0)
            await client.ping()
            assert await client.request("Kit.echo", 2) == 2
            assert kit.notes == ["queued before the fork"]

    run(main())


def test_fault_87_a_child_process_inherits_nothing(run):
    """A long-lived child started by a handler must not keep connections open that the server closes."""

    def spawn():
        return subprocess.Popen(["sleep", "30"], close_fds=False)

    children = []

    async def main():
        def handler():
            children.append(spawn())

        async with pair({"spawn": handler}, "tcp://127.0.0.1:0") as (server, client):
            await client.request("spawn")
            await server.close(0)
            await asyncio.wait_for(client.wait_closed(), 5)

    try:
        run(main())
    finally:
        for child in children:
            child.kill()
            child.wait()


def test_fault_88_several_loops_in_several_threads():
    failures = []
    results = []

    async def main(number):
        kit = Kit()
        async with pair(kit, "tcp://127.0.0.1:0") as (_server, client):
            for method in ("Kit.echo", "Kit.echo_task", "Kit.echo_thread"):
                numbers = [number * 1000 + n for n in range(100)]
                assert await asyncio.gather(*(client.request(method, n) for n in numbers)) == numbers
            assert await client.request("Kit.echo", bytes([number]) * 2_000_000) == bytes([number]) * 2_000_000
            results.append(number)

    def work(number):
        try:
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(main(number))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failures == []
    assert sorted(results) == [0, 1, 2, 3]


@pytest.mark.parametrize("other", ["a thread handler", "another loop"])
def test_fault_88_the_calling_peer_is_that_of_the_thread(run, other):
    """While an inline handler of one thread runs, another thread asks who its own caller is."""
    inside = threading.Event()
    go_on = threading.Event()

    def inline():
        """Holds its loop until the other one has asked."""
        inside.set()
        go_on.wait(5)
        return rpcproto.peer().address

    def ask():
        inside.wait(5)
        try:
            return id(rpcproto.peer())
        finally:
            go_on.set()

    async def in_thread():
        service = {"inline": inline, "ask": rpcproto.request(thread=True)(ask)}
        async with pair(service, server={"timeouts": rpcproto.Timeouts(slow_handler=60)}) as (server, client):
            async with rpcproto.connect(server.address) as second:
                asked = second.request("ask")
                await asyncio.sleep(0)
                await client.request("inline")
                assert await asked == id(server.peers[1])

    async def in_loop():
        found = []

        def serve_other():
            async def main():
                async with pair({"ask": ask}) as (server, client):
                    found.append(await client.request("ask") == id(server.peers[0]))

            asyncio.run(main())

        thread = threading.Thread(target=serve_other)
        async with pair({"inline": inline}, server={"timeouts": rpcproto.Timeouts(slow_handler=60)}) as (_, client):
            thread.start()
            await client.request("inline")
        thread.join(5)
        assert found == [True]

    run(in_thread() if other == "a thread handler" else in_loop())


def test_fault_88_a_client_belongs_to_the_loop_that_connects_it():
    with pytest.raises(RuntimeError, match="no running event loop"):
        rpcproto.connect("tcp://127.0.0.1:1").__await__().send(None)
    made_outside = rpcproto.connect("inproc://made-outside")

    async def main():
        async with rpcproto.serve(Kit(), "inproc://made-outside"):
            async with made_outside as client:
                return await client.request("Kit.echo", 1)

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        assert runner.run(main()) == 1
