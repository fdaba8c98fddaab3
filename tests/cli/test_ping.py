from __future__ import annotations

import json

import pytest

import rpcproto

ADDRESS = "tcp://127.0.0.1:5555"


def test_a_line_for_each_ping_and_a_summary(command, fake):
    fake(0.001, 0.003, 0.0015)
    result = command("ping", ADDRESS, "-n", "3", "-i", "0")
    assert result.exit_code == 0
    first, *lines = result.stdout.splitlines()
    assert first.startswith(f"connected to {ADDRESS} in ")
    assert lines == [
        "seq=1 time=1.000 ms",
        "seq=2 time=3.000 ms",
        "seq=3 time=1.500 ms",
        "3 answered: min/median/max = 1.000/1.500/3.000 ms",
    ]


def test_json(command, fake):
    fake(0.001, 0.003)
    result = command("ping", ADDRESS, "-n", "2", "-i", "0", "--json")
    figures = json.loads(result.stdout)
    assert figures.pop("connect_us") >= 0
    assert figures == {
        "address": ADDRESS,
        "answered": 2,
        "times_us": [1000.0, 3000.0],
        "min_us": 1000.0,
        "median_us": 2000.0,
        "max_us": 3000.0,
    }


@pytest.mark.parametrize(
    ("error", "code"),
    [(rpcproto.ConnectFailed("refused"), 1), (rpcproto.ConfigurationError("no such transport"), 2)],
)
def test_unreachable(command, fake, error, code):
    fake(refusal=error)
    result = command("ping", ADDRESS)
    assert (result.exit_code, result.stdout, result.stderr) == (code, "", f"rpcproto: {error}\n")


def test_a_connection_lost_on_the_way_keeps_the_figures(command, fake):
    fake(0.001, rpcproto.ConnectionLost("reset"))
    result = command("ping", ADDRESS, "-i", "0")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1].startswith("1 answered")
    assert result.stderr == "rpcproto: reset\n"


def test_no_answer_in_time(command, fake):
    client = fake(rpcproto.DeadlineExceeded("no answer within 2 s"))
    result = command("ping", ADDRESS, "-t", "2")
    assert result.exit_code == 1
    assert result.stderr == "rpcproto: no answer within 2 s\n"
    assert client.ping_timeout == 2


def test_unreachable_in_json(command, fake):
    fake(refusal=rpcproto.ConnectFailed("refused"))
    result = command("ping", ADDRESS, "--json")
    figures = json.loads(result.stdout)
    assert (figures["connect_us"], figures["answered"], figures["median_us"]) == (None, 0, None)
