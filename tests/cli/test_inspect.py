"""``rpcproto inspect`` against a server of another thread, and against one that answers nonsense."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import rpcproto
from rpcproto.cli import _sections
from tests.aio._blocking import served

ADDRESS = "tcp://127.0.0.1:5555"


class Shop(rpcproto.Service):
    """Sells things."""

    @rpcproto.request
    def price(self, item: str, count: int = 1) -> int:
        """What it costs.

        In EUR.
        """
        return 3 * count

    @rpcproto.stream
    async def offers(self) -> AsyncIterator[str]:
        yield "tea"


@pytest.fixture
def server(run: Any, tmp_path: Any) -> Iterator[rpcproto.Server]:
    """A shop at a Unix socket, where the command is known."""
    with served(Shop(), f"unix://{tmp_path}/s") as server:
        yield server


def test_all_of_it(command, server):
    result = command("inspect", server.address)
    assert (result.exit_code, result.stderr) == (0, "")
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    assert lines[0] == f"listens on         {server.address}"
    assert lines[1] == "health             serving"
    assert any(re.fullmatch(r"Shop +2  serving  .*\.Shop", line) for line in lines)
    assert "Shop.price(item: str, count: int = 1) -> int  request  inline  What it costs." in lines
    assert any(
        re.fullmatch(rf" 1  {re.escape(server.address)}  user \d+, process \d+ .* open .*", line) for line in lines
    )
    assert "no calls" in lines


def test_sections_as_json(command, server):
    result = command("inspect", server.address, "--calls", "--methods", "--most", "1", "--json")
    told = json.loads(result.stdout)
    assert list(told) == ["methods", "calls"]
    assert [method["name"] for method in told["methods"]["methods"]] == ["Shop.offers"]
    assert told["methods"]["left_out"] == 1
    assert told["calls"] == {"calls": [], "left_out": 0}
    told = json.loads(command("inspect", server.address, "--json").stdout)
    assert list(told) == ["server", "methods", "connections", "calls"]


def test_what_is_left_out_is_said(command, server):
    result = command("inspect", server.address, "--methods", "--most", "1")
    assert result.stdout.endswith("1 more are left out; --most shows more\n\n")
    assert "Shop.price" not in result.stdout


def test_health_ends_with_an_exit_code(command, server):
    def health(*arguments: str) -> tuple[int, str]:
        result = command("inspect", server.address, "--health", *arguments)
        return result.exit_code, result.stdout

    assert health() == (0, "serving\n")
    assert health("--service", "Shop", "--json") == (0, '{"health": "serving"}\n')
    assert health("--service", "other") == (1, "unknown\n")
    server.health.set(False)
    assert health() == (1, "not serving\n")
    assert health("--service", "Shop", "--json") == (1, '{"health": "not serving"}\n')


def test_a_stranger_is_told_what_to_do(command, run):
    with served(Shop()) as server:
        result = command("inspect", server.address, "--json")
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith(f"rpcproto: rpcproto.server at {server.address}: it is for authenticated peers")
        assert "(--secret-file FILE)" in result.stderr
        assert "(--introspection all)" in result.stderr
        assert result.stderr.count("\n") == 1
        assert command("inspect", server.address, "--health").stdout == "serving\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--health", "--calls"], "--health goes without the other sections"),
        (["--service", "Shop"], "--service goes with --health"),
        (["--most", "1001"], "1001 is not in the range 0<=x<=1000"),
        (["--watch", "0"], "0.0 is not in the range x>0"),
    ],
)
def test_wrong_usage(command, fake, arguments, text):
    fake()
    result = command("inspect", ADDRESS, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert text in result.stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (rpcproto.ConnectFailed("x"), 3),
        (rpcproto.ConfigurationError("x"), 2),
    ],
)
def test_no_connection(command, fake, error, code):
    fake(refusal=error)
    result = command("inspect", ADDRESS)
    assert (result.exit_code, result.stderr) == (code, "rpcproto: x\n")


@pytest.mark.parametrize(
    ("error", "code"),
    [(rpcproto.DeadlineExceeded("x"), 4), (rpcproto.ConnectionLost("x"), 3), (rpcproto.NoSuchMethod("x"), 1)],
)
def test_no_answer(command, fake, error, code):
    fake(error)
    assert command("inspect", ADDRESS, "--timeout", "2").exit_code == code


def test_the_time_out_is_passed_on(command, fake):
    client = fake({"calls": [], "left_out": 0})
    assert command("inspect", ADDRESS, "--calls", "--timeout", "2", "--most", "7").exit_code == 0
    assert client.options["timeouts"].connect == 2
    assert client.requests == [("rpcproto.calls", 0, 7)]


def test_watching_goes_on_until_it_ends(command, fake):
    page = {"calls": [], "left_out": 0}
    client = fake(page, page, rpcproto.ConnectionLost("gone"))
    result = command("inspect", ADDRESS, "--calls", "--watch", "0.001")
    assert (result.exit_code, result.stdout, result.stderr) == (3, "no calls\n\nno calls\n\n", "rpcproto: gone\n")
    assert len(client.requests) == 3
    fake(page, page, KeyboardInterrupt())
    result = command("inspect", ADDRESS, "--calls", "--watch", "0.001", "--json")
    assert result.exit_code == 130
    assert [json.loads(line) for line in result.stdout.splitlines()] == [{"calls": page}] * 2


@pytest.mark.parametrize("answer", [None, 5, [], {}, {"calls": [{}], "left_out": 0}, {"calls": [], "left_out": "x"}])
def test_an_answer_that_is_not_understood(command, fake, answer):
    fake(answer)
    result = command("inspect", ADDRESS, "--calls")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"rpcproto: {ADDRESS} answers what this version, {rpcproto.__version__}, does not")
    assert result.stderr.count("\n") == 1
    fake(answer)
    assert json.loads(command("inspect", ADDRESS, "--calls", "--json").stdout) == {"calls": answer}


def test_a_server_cannot_touch_the_terminal(command, fake):
    method = {"name": "a\x1b[2J", "signature": "(\r)", "kind": "\x07", "runs": "\x9b", "doc": "\x1b]0;x\x07\nmore"}
    fake({"methods": [method], "left_out": 0})
    result = command("inspect", ADDRESS, "--methods")
    assert result.exit_code == 0
    assert not set(result.stdout) & set("\x1b\x07\x9b\r")
    assert "\\u001b[2J" in result.stdout
    fake("\x1b[2J")
    assert command("inspect", ADDRESS, "--health").stdout == "\\u001b[2J\n"


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (8 << 20, "8.0 MiB"),
        (-2048, "-2.0 KiB"),
        (1 << 52, "4096.0 TiB"),
    ],
)
def test_sizes(size, text):
    assert _sections._size(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.0 s"), (59.94, "59.9 s"), (61.9, "1 min 1 s"), (3600, "1 h 0 min"), (90_000, "1 d 1 h")],
)
def test_times(seconds, text):
    assert _sections._seconds(seconds) == text


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"authenticated": False, "user": 1}, "a stranger"),
        ({"certificate": "alice"}, "alice"),
        ({"user": 5, "process": 7}, "user 5, process 7"),
        ({"user": 5}, "user 5"),
        ({}, "authenticated"),
    ],
)
def test_who_a_peer_is(changes, text):
    known = {"authenticated": True, "certificate": None, "user": None, "process": None}
    assert _sections._who(known | changes) == text
