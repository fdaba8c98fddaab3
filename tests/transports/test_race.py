from __future__ import annotations

import asyncio
import errno
import socket
from contextlib import ExitStack, contextmanager

import pytest

from rpcproto.transports import _race
from rpcproto.transports._race import Target, connect_first, interleave, pause_between

V4, V6 = socket.AF_INET, socket.AF_INET6


@contextmanager
def server():
    """A listening socket; yields it as a target."""
    with socket.socket(V4) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        yield Target(V4, sock.getsockname())


@contextmanager
def dead_server():
    """A target that never answers: its backlog is full, so the system drops whoever asks."""
    with ExitStack() as stack:
        sock = stack.enter_context(socket.socket(V4))
        sock.bind(("127.0.0.1", 0))
        sock.listen(0)
        for _ in range(3):
            client = stack.enter_context(socket.socket(V4))
            client.setblocking(False)
            client.connect_ex(sock.getsockname())
        yield Target(V4, sock.getsockname())


def nothing(sock):
    """No options."""


def refused():
    """A target with nobody behind it."""
    with server() as target:
        return target


def targets(*hosts):
    return [Target(V6 if ":" in host else V4, (host, 1)) for host in hosts]


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        ([], []),
        (["a"], ["a"]),
        (["a", "b"], ["a", "b"]),
        (["::a", "::b", "a"], ["::a", "a", "::b"]),
        (["a", "b", "c", "::a", "::b"], ["a", "::a", "b", "::b", "c"]),
        (["::a", "a", "b", "c"], ["::a", "a", "b", "c"]),
    ],
)
def test_families_take_turns(hosts, expected):
    assert interleave(targets(*hosts)) == targets(*expected)


def test_five_dead_addresses_before_a_live_one_cost_less_than_a_second():
    assert pause_between(2) == 0.25  # RFC 8305, section 5
    assert pause_between(6) * 5 < 1
    assert pause_between(0) == pause_between(1) == 0.25
    assert pause_between(1000) == 0.1


def test_the_first_that_answers_wins(run):
    async def main():
        with server() as target, server() as other:
            outcome = {}
            sock = await connect_first([target, other], nothing, outcome)
            assert sock.getpeername() == target.name
            assert outcome == {target.address: None}
            sock.close()

    run(main())


def test_a_refusal_goes_on_at_once(run, monkeypatch):
    monkeypatch.setattr(_race, "PAUSE", 1000)
    monkeypatch.setattr(_race, "MIN_PAUSE", 1000)

    async def main():
        with server() as target:
            no = refused()
            outcome = {}
            sock = await connect_first([no, target], nothing, outcome)
            assert sock.getpeername() == target.name
            assert outcome[no.address].errno == errno.ECONNREFUSED
            sock.close()

    run(main())


def test_dead_addresses_are_passed(run, monkeypatch):
    monkeypatch.setattr(_race, "PAUSE", 0.001)
    monkeypatch.setattr(_race, "MIN_PAUSE", 0.001)

    async def main():
        with ExitStack() as stack:
            dead = [stack.enter_context(dead_server()) for _ in range(5)]
            target = stack.enter_context(server())
            outcome = {}
            sock = await connect_first([*dead, target], nothing, outcome)
            assert sock.getpeername() == target.name
            assert list(outcome) == [one.address for one in [*dead, target]]
            sock.close()

    run(main())  # ... and the run fixture sees that the other attempts left no task and no descriptor


def test_two_that_answer_in_the_same_turn_leave_one_socket(run, monkeypatch):
    async def main():
        with server() as target, server() as other:
            pairs = []

            async def attempt(target, prepare):
                pairs.append(socket.create_connection(target.name))
                await asyncio.wait_for(both.wait(), None)
                return pairs[-1] if target is other else pairs[0]

            both = asyncio.Event()
            monkeypatch.setattr(_race, "_attempt", attempt)
            monkeypatch.setattr(_race, "PAUSE", 0.001)
            monkeypatch.setattr(_race, "MIN_PAUSE", 0.001)
            task = asyncio.ensure_future(connect_first([target, other], nothing, {}))
            while len(pairs) < 2:
                await asyncio.sleep(0)
            both.set()
            winner = await task
            await asyncio.sleep(0)
            assert winner is pairs[0]
            assert pairs[1].fileno() == -1
            winner.close()

    run(main())


def test_all_failures_are_told(run):
    async def main():
        first, second = refused(), refused()
        outcome = {}
        with pytest.raises(ConnectionRefusedError) as caught:
            await connect_first([first, second], nothing, outcome)
        assert list(outcome) == [first.address, second.address]
        assert caught.value is outcome[first.address]

    run(main())


def test_no_address_is_a_failure_too(run):
    with pytest.raises(OSError, match="no address"):
        run(connect_first([], nothing, {}))


def test_a_cancel_ends_all_attempts(run, monkeypatch):
    monkeypatch.setattr(_race, "PAUSE", 0.001)
    monkeypatch.setattr(_race, "MIN_PAUSE", 0.001)

    async def main():
        with dead_server() as one, dead_server() as other:
            outcome = {}
            task = asyncio.ensure_future(connect_first([one, other], nothing, outcome))
            while len(outcome) < 2:
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert outcome == {one.address: None, other.address: None}

    run(main())


def test_a_socket_is_never_connected_to_itself(run):
    def bind(sock):
        sock.bind(target.name)

    target = refused()
    with pytest.raises(ConnectionRefusedError):
        run(connect_first([target], bind, {}))


def test_other_errors_pass(run):
    def broken(sock):
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        run(connect_first([refused()], broken, {}))
