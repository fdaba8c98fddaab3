"""Exit codes, and which error ends in which."""

from __future__ import annotations

import json
from enum import IntEnum

from rpcproto.errors import (
    ConfigurationError,
    ConnectFailed,
    ConnectionLost,
    DeadlineExceeded,
    ProtocolError,
    RpcError,
)

__all__ = ["ExitCode", "exit_code", "one_line", "printable"]


class ExitCode(IntEnum):
    """What the command's exit code says."""

    OK = 0
    FAILED = 1
    """The call failed or was refused; for ``ping``, the address could not be reached."""
    USAGE = 2
    """The command line, an address or a setting is wrong. Nothing was done."""
    NO_CONNECTION = 3
    """No connection could be made, or it was lost."""
    DEADLINE = 4
    """The time allowed is over. The handler may have run, and may still be running."""
    INTERRUPTED = 130
    """Ctrl-C, as shells count it: 128 + SIGINT."""


def exit_code(error: RpcError) -> ExitCode:
    """The exit code for an error of rpcproto."""
    if isinstance(error, ConfigurationError):
        return ExitCode.USAGE
    if isinstance(error, (ConnectFailed, ConnectionLost, ProtocolError)):
        return ExitCode.NO_CONNECTION
    if isinstance(error, DeadlineExceeded):
        return ExitCode.DEADLINE
    return ExitCode.FAILED


def printable(text: str) -> str:
    """``text`` with every character that is not printable, the newline aside, as a ``\\uXXXX`` escape of JSON."""
    if text.isprintable():
        return text
    return "".join(c if c == "\n" or c.isprintable() else json.dumps(c)[1:-1] for c in text)


def one_line(text: str) -> str:
    """``text`` made fit for one line of a terminal: its lines joined by ``; ``, the rest as :func:`printable` does."""
    lines = (line.strip() for line in text.splitlines())
    return printable("; ".join(line for line in lines if line).replace(":; ", ": "))
