from __future__ import annotations

import sys
import threading

import pytest

from rpcproto.cli._progress import ProgressBar


def pretend_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)


def test_on_a_terminal_the_step_is_shown(capsys, monkeypatch):
    pretend_terminal(monkeypatch)
    threads = threading.active_count()
    with ProgressBar(10) as bar:
        bar.show(3, "10 B x 64: [rpcproto]")
        assert threading.active_count() == threads, "a thread would be part of what is measured"
    shown = capsys.readouterr()
    assert shown.out == ""
    assert " 3/10 " in shown.err
    assert "10 B x 64: [rpcproto]" in shown.err


def test_elsewhere_nothing_is(capsys):
    with ProgressBar(10) as bar:
        bar.show(3, "text")
    assert capsys.readouterr() == ("", "")


def test_an_error_ends_it(capsys, monkeypatch):
    pretend_terminal(monkeypatch)
    with pytest.raises(ZeroDivisionError), ProgressBar(1):
        raise ZeroDivisionError
    assert capsys.readouterr().err.endswith("\x1b[?25h\r\x1b[1A\x1b[2K"), "cursor back, line gone"
