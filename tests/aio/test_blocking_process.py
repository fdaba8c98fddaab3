"""Blocking clients in the life of a process: forks, children, the end of the interpreter."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import rpcproto
from tests.aio._blocking import in_child
from tests.aio.test_process import finish, start

pytestmark = [
    pytest.mark.smoke,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="processes as on POSIX"),
]


def test_fault_87_row_79_in_a_forked_child(desk):
    """The child is told at once; it can connect anew; the parent's connection is unharmed."""

    def child():
        for call in (
            lambda: client.request("Desk.echo", 1),
            lambda: client.notify("Desk.note", "of the child"),
            lambda: client.submit("Desk.echo", 1),
            client.ping,
            lambda: next(stream),
        ):
            with pytest.raises(rpcproto.ConnectionLost, match="this process was forked") as caught:
                call()
            assert not caught.value.maybe_executed
        assert client.closed
        stream.close()
        client.close()
        with rpcproto.connect_blocking(desk.address) as own:
            assert own.request("Desk.echo", 2) == 2

    with rpcproto.connect_blocking(desk.address) as client:
        stream = client.stream("Desk.count", 3)
        assert client.request("Desk.echo", 1) == 1
        waiting = client.submit("Desk.wait")
        assert in_child(child) == 0
        assert client.request("Desk.echo", 3) == 3
        assert list(stream) == [0, 1, 2]
        assert desk.notes == []
        assert not waiting.done()
        waiting.cancel()


def test_fork_while_threads_are_at_work(desk):
    """Whatever a thread held when the process was forked, the child does not wait for it."""

    def child():
        with rpcproto.connect_blocking(desk.address) as own:
            assert own.request("Desk.echo", 2) == 2

    with rpcproto.connect_blocking(desk.address) as client:
        futures = [client.submit("Desk.echo", n) for n in range(200)]
        assert in_child(child) == 0
        assert [future.result() for future in futures] == list(range(200))


LIST = """
import os
for number in os.listdir("/proc/self/fd"):
    try:
        print(os.readlink(f"/proc/self/fd/{number}"))
    except FileNotFoundError:  # the folder itself
        pass
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="Linux")
def test_fault_87_a_child_process_inherits_no_descriptor(desk):
    def inherited():
        done = subprocess.run(
            [sys.executable, "-c", LIST], close_fds=False, stdout=subprocess.PIPE, text=True, check=True
        )
        return sum(line.startswith(("socket:", "anon_inode:")) for line in done.stdout.splitlines())

    before = inherited()
    with rpcproto.connect_blocking(desk.address) as client:
        client.request("Desk.echo", 1)
        assert inherited() == before
        for number in os.listdir("/proc/self/fd"):
            try:
                kind = os.readlink(f"/proc/self/fd/{number}")
            except FileNotFoundError:
                continue
            if kind.startswith(("socket:", "anon_inode:")) and int(number) > 2:
                assert not os.get_inheritable(int(number)), kind


CONNECT = """
client = rpcproto.connect_blocking({address!r})
assert client.request("Desk.echo", 1) == 1
"""

ENDS = {
    "the end of the script": ("", 0),
    "sys.exit": ("sys.exit(3)", 3),
    "an exception": ("raise SystemExit(4)", 4),
    "a call under way": ("client.submit('Desk.wait'); client.ping()", 0),
    "a cycle": ("class C: pass\nc = C(); c.c = c; c.client = client; del client", 0),
    "a daemon thread that waits": (
        (
            "import threading\n"
            "began = threading.Event()\n"
            "def work():\n"
            "    began.set()\n"
            "    client.request('Desk.wait')\n"
            "threading.excepthook = lambda args: None\n"
            "threading.Thread(target=work, daemon=True).start(); began.wait()"
        ),
        0,
    ),
    "a thread that still works": (
        (
            "import threading\n"
            "def work():\n"
            "    threading.main_thread().join()\n"
            "    assert client.request('Desk.echo', 2) == 2\n"
            "threading.Thread(target=work).start()"
        ),
        0,
    ),
}


@pytest.mark.parametrize("end", ENDS)
def test_fault_57_a_program_ends_with_an_unclosed_client(desk, end):
    source, code = ENDS[end]
    assert finish(start(CONNECT.format(address=desk.address) + source), code) == ""


def test_fault_57_at_exit_calls_fail_and_nothing_hangs(desk):
    script = """
    import atexit
    def late():
        for call in (lambda: client.request("Desk.echo", 1), lambda: rpcproto.connect_blocking({address!r})):
            try:
                call()
            except rpcproto.RpcError as error:
                print(type(error).__name__, error)
        client.close()
    def early():
        print(client.request("Desk.echo", "still there"))
    atexit.unregister(rpcproto.aio.loop_thread._at_exit)
    atexit.register(late)
    atexit.register(rpcproto.aio.loop_thread._at_exit)
    atexit.register(early)
    client = rpcproto.connect_blocking({address!r})
    """
    assert finish(start(script.format(address=desk.address))).splitlines() == [
        "still there",
        "ConnectionClosed the event loop of the blocking client has ended",
        "ConnectionClosed the interpreter is exiting",
    ]
