from __future__ import annotations

import pytest

from rpcproto import errors
from rpcproto.cli._exit import ExitCode, exit_code, one_line, printable


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ConfigurationError("x"), ExitCode.USAGE),
        (errors.ConnectFailed("x"), ExitCode.NO_CONNECTION),
        (errors.ConnectionLost("x"), ExitCode.NO_CONNECTION),
        (errors.ConnectionClosed("x"), ExitCode.NO_CONNECTION),
        (errors.RemoteProtocolError("x"), ExitCode.NO_CONNECTION),
        (errors.DeadlineExceeded("x"), ExitCode.DEADLINE),
        (errors.RemoteError("x"), ExitCode.FAILED),
        (errors.NoSuchMethod("x"), ExitCode.FAILED),
        (errors.CallCancelled("x"), ExitCode.FAILED),
        (errors.MessageTooLarge("x"), ExitCode.FAILED),
        (errors.InternalError("x"), ExitCode.FAILED),
    ],
)
def test_each_error_has_its_exit_code(error, code):
    assert exit_code(error) == code


def test_lines_become_one():
    assert one_line("cannot connect:\n  ::1 refused\n\n  127.0.0.1 refused\n") == (
        "cannot connect: ::1 refused; 127.0.0.1 refused"
    )


def test_a_peer_cannot_write_to_the_terminal():
    assert one_line("\x1b[2Jgone\x07 \x9b0m") == "\\u001b[2Jgone\\u0007 \\u009b0m"
    assert printable("first\nsecond\r") == "first\nsecond\\r"


def test_text_of_any_language_stays():
    assert one_line("größe 大きさ") == "größe 大きさ"
