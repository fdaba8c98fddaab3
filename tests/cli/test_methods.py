"""What ``rpcproto call`` knows of a server's methods: descriptions, suggestions, completion."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.shell_completion import ShellComplete

import rpcproto
from rpcproto.cli._methods import Bash
from rpcproto.cli.app import app
from tests.aio._blocking import served
from tests.cli.test_inspect import ADDRESS, Shop

SECRET = "correct horse battery staple"


@pytest.fixture
def address(run: Any, tmp_path: Any) -> Iterator[str]:
    """Of a shop that tells."""
    with served(Shop(), f"unix://{tmp_path}/s") as server:
        yield server.address


@pytest.fixture
def stranger(run: Any) -> Iterator[str]:
    """Where a shop is that does not tell."""
    with served(Shop()) as server:
        yield server.address


def completed(*arguments: str) -> list[tuple[str, str | None]]:
    """The words, and what is said of them, that the last argument can be completed to."""
    *before, incomplete = arguments
    found = ShellComplete(app, {}, "rpcproto", "_RPCPROTO_COMPLETE").get_completions(before, incomplete)
    return [(item.value, item.help) for item in found]


# ---- --describe ------------------------------------------------------------------------------------------------------


def test_a_method_is_described(command, address):
    result = command("call", address, "Shop.price", "--describe")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        "Shop.price(item: str, count: int = 1) -> int\n"
        f"request, runs on the event loop; defined as {Shop.__module__}.Shop.price\n"
        "\n"
        "What it costs.\n\nIn EUR.\n"
    )
    told = json.loads(command("call", address, "Shop.offers", "--describe", "--json").stdout)
    assert (told["kind"], told["doc"]) == ("stream", "")


def test_a_method_that_is_not_there(command, address):
    result = command("call", address, "Shop.prize", "--describe")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"rpcproto: {address} has no method Shop.prize; did you mean Shop.price?\n"


def test_a_server_that_does_not_tell(command, stranger):
    result = command("call", stranger, "Shop.price", "--describe")
    assert result.exit_code == 1
    assert "it is for authenticated peers" in result.stderr


def test_a_description_cannot_touch_the_terminal(command, fake):
    method = {
        "name": "m",
        "signature": "\x1b[2J",
        "kind": "\x07",
        "runs": "\x9b",
        "doc": "\x1b]0;x\nmore",
        "defined": 5,
    }
    fake({"methods": [method]})
    result = command("call", ADDRESS, "m", "--describe")
    assert result.exit_code == 0
    assert not set(result.stdout) & set("\x1b\x07\x9b\r")


@pytest.mark.parametrize("answer", [None, {}, {"methods": [5]}, {"methods": [{"name": "other"}]}])
def test_a_description_that_makes_no_sense(command, fake, answer):
    fake(answer)
    result = command("call", ADDRESS, "m", "--describe")
    assert (result.exit_code, result.stderr) == (1, f"rpcproto: {ADDRESS} has no method m\n")


# ---- suggestions -----------------------------------------------------------------------------------------------------


def test_a_wrong_name_gets_a_suggestion(command, address):
    result = command("call", address, "Shop.prize", '"tea"')
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"rpcproto: Shop.prize at {address}: no such method; did you mean Shop.price?\n"
    told = json.loads(command("call", address, "Shop.prize", '"tea"', "--json").stdout)
    assert told["error"]["class"] == "NoSuchMethod"
    assert told["error"]["method"] == "Shop.prize"
    assert command("call", address, "xyz").stderr == f"rpcproto: xyz at {address}: no such method\n"


def test_another_kind_of_call_is_named(command, address):
    assert command("call", address, "Shop.offers").stderr.endswith(
        "Shop.offers is another kind of call; it is a stream, and rpcproto call makes requests\n"
    )


def test_no_suggestions_by_a_server_that_does_not_tell(command, stranger):
    assert command("call", stranger, "Shop.prize").stderr == f"rpcproto: Shop.prize at {stranger}: no such method\n"


@pytest.mark.parametrize(
    "answer",
    [None, {"methods": 5}, {"methods": [{}]}, {"methods": [{"name": 5, "kind": 5}]}, rpcproto.ConnectionLost("x")],
)
def test_a_suggestion_that_makes_no_sense(command, fake, answer):
    fake(rpcproto.NoSuchMethod("no such method"), answer)
    assert command("call", ADDRESS, "m").stderr == "rpcproto: no such method\n"


# ---- completion ------------------------------------------------------------------------------------------------------


def test_methods_are_completed(address):
    told = [("Shop.price", "(item: str, count: int = 1) -> int")]
    assert completed("call", address, "") == told, "streams cannot be called from the command line"
    assert completed("call", address, "Sh") == told
    assert completed("call", address, "x") == []
    assert completed("call", address, "rpcproto.h") == [("rpcproto.health", "(service: str = '') -> str")]
    assert completed("call", address, "Shop.price", "") == []


def test_the_secret_is_used_for_completion(run, tmp_path, monkeypatch):
    file = tmp_path / "secret"
    file.write_text(SECRET)
    with served(Shop(), secret=SECRET) as server:
        assert completed("call", "--secret-file", str(file), server.address, "Sh")
        monkeypatch.setenv("RPCPROTO_SECRET_FILE", str(file))
        assert completed("call", server.address, "Sh")


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "x://y", "", "unix:///does/not/exist"])
def test_completion_is_silent_where_nobody_answers(address, capfd):
    assert completed("call", address, "Sh") == []
    assert capfd.readouterr() == ("", "")


def test_completion_is_silent_where_nobody_tells(stranger, capfd):
    assert completed("call", stranger, "Sh") == []
    assert completed("call", stranger, "--secret-file", "/does/not/exist", "Sh") == []
    assert capfd.readouterr() == ("", "")


def test_what_would_be_typed_into_the_shell_is_looked_at(fake):
    def method(name: str) -> dict[str, str]:
        return {"name": name, "signature": "()", "kind": "request"}

    fake({"methods": [method("m.a"), method("m.b\nrm x"), method("m.\x1b"), method("other")]})
    assert completed("call", ADDRESS, "m.") == [("m.a", "()")]


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("rpcproto call tcp : //127.0.0.1 : 5555", ["call", "tcp://127.0.0.1:5555"]),
        ("rpcproto call unix : ///tmp/x --ca = f -v", ["call", "unix:///tmp/x", "--ca=f", "-v"]),
        ("rpcproto call tcp : //[ :: 1] : 5", ["call", "tcp://[::1]:5"]),
        ("rpcproto call tcp : //[ : : 1] : 5", ["call", "tcp://[::1]:5"]),
        ("rpcproto call tcp://h:1", ["call", "tcp://h:1"]),
        ("rpcproto", []),
    ],
)
def test_bash_takes_an_address_apart(monkeypatch, typed, words):
    monkeypatch.setenv("COMP_WORDS", typed + " Sh")
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split())))
    assert Bash(app, {}, "rpcproto", "_RPCPROTO_COMPLETE").get_completion_args() == (words, "Sh")


def test_completion_as_bash_asks_for_it(command, address, monkeypatch):
    apart = address.replace(":", " : ")
    monkeypatch.setenv("_RPCPROTO_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", f"rpcproto call {apart} Sh")
    monkeypatch.setenv("COMP_CWORD", str(2 + len(apart.split())))
    result = command()
    assert (result.exit_code, result.stdout, result.stderr) == (0, "plain,Shop.price\n", "")
