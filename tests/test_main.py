from __future__ import annotations

import sys

import pytest

from rpcproto.__main__ import main


@pytest.mark.parametrize("missing", ["click", "rich"])
def test_what_is_missing_is_said_in_one_line(monkeypatch, capsys, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    assert main() == 2
    assert capsys.readouterr() == ("", "rpcproto: the command needs click and rich: pip install rpcproto[cli]\n")


def test_another_missing_module_is_not_hidden(monkeypatch):
    monkeypatch.setitem(sys.modules, "rpcproto.cli", None)
    with pytest.raises(ModuleNotFoundError, match=r"rpcproto\.cli"):
        main()


def test_arguments_and_code(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["rpcproto", "nonsense"])
    assert main() == 2
    assert capsys.readouterr().err == "rpcproto: No such command 'nonsense'. (see: rpcproto --help)\n"


def test_ctrl_c_is_quiet(monkeypatch, capsys):
    from rpcproto.cli import app

    def interrupted() -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(app, "run", interrupted)
    assert main() == 130
    assert capsys.readouterr() == ("", "")
