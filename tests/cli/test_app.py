from __future__ import annotations

import click
import pytest

import rpcproto
from rpcproto.cli import app as app_module

COMMANDS = ("bench", "call", "info", "inspect", "ping", "serve")


def test_version(command):
    assert command("--version").stdout == f"rpcproto {rpcproto.__version__}\n"


def test_without_a_command_the_help_is_shown(command):
    result = command()
    assert (result.exit_code, result.stdout) == (2, "")
    assert all(f"\n  {name} " in result.stderr for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_teaches(command, name):
    result = command(name, "--help")
    assert result.exit_code == 0
    assert "Examples:" in result.stdout
    assert "Exit codes:" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80, "must fit a terminal"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["nonsense"], "rpcproto: No such command 'nonsense'. (see: rpcproto --help)\n"),
        (["ping"], "rpcproto: Missing argument 'ADDRESS'. (see: rpcproto ping --help)\n"),
        (
            ["ping", "x", "-n", "-1"],
            "rpcproto: Invalid value for '-n' / '--count': -1 is not in the range x>=0. (see: rpcproto ping --help)\n",
        ),
    ],
)
def test_wrong_usage_is_one_line(command, arguments, line):
    result = command(*arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", line)


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (rpcproto.InternalError("x\ny"), 1, "rpcproto: x; y\n"),
        (OSError(98, "Address already in use"), 1, "rpcproto: [Errno 98] Address already in use\n"),
        (click.FileError("f", "gone"), 1, "rpcproto: Could not open file 'f': gone\n"),
        (KeyboardInterrupt(), 130, "\n"),
    ],
)
def test_errors_of_a_command(command, monkeypatch, error, code, line):
    def failing(ctx: click.Context) -> None:
        raise error

    monkeypatch.setattr(app_module.ping, "invoke", failing)
    result = command("ping", "x")
    assert (result.exit_code, result.stderr) == (code, line)


def test_a_bug_shows_its_traceback(command, monkeypatch):
    def failing(ctx: click.Context) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(app_module.ping, "invoke", failing)
    assert isinstance(command("ping", "x").exception, ZeroDivisionError)
