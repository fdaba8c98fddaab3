from __future__ import annotations

import json

import pytest

import rpcproto

ADDRESS = "tcp://127.0.0.1:5555"


def test_the_result_is_printed_as_json(command, fake):
    client = fake({"answer": [42, b"\x00"]})
    result = command("call", ADDRESS, "Echo.echo", "1", '"text"', '{"a": null}')
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {"answer": [42, {"$bytes": "AA=="}]}
    assert result.stderr == ""
    assert client.address == ADDRESS
    assert client.requests == [("Echo.echo", 1, "text", {"a": None})]


def test_negative_numbers_need_no_escape(command, fake):
    client = fake(None)
    assert command("call", ADDRESS, "m", "-1", "-2.5e3", "--timeout", "3").exit_code == 0
    assert client.requests == [("m", -1, -2500.0)]
    assert client.options["timeouts"].connect == 3


def test_the_codec_is_passed_on(command, fake):
    client = fake(None)
    command("call", ADDRESS, "m", "--codec", "raw")
    assert client.options["codec"] == "raw"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["1", "hello"],
            "argument 2 is not JSON: hello: Expecting value: line 1 column 1 (char 0); for text, put it in quotes: ",
        ),
        (["[1,"], "argument 1 is not JSON: [1,: Expecting value"),
        (['{"$bytes": "?"}'], 'argument 1 is not JSON: {"$bytes": "?"}: $bytes must hold base64 text'),
        (["--tiemout"], "no such option: --tiemout (see: rpcproto call --help)"),
    ],
)
def test_an_argument_that_is_not_json_is_named(command, fake, arguments, told):
    client = fake()
    result = command("call", ADDRESS, "m", *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"rpcproto: {told}")
    assert result.stderr.count("\n") == 1
    assert client.address == "", "nothing may be sent"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (rpcproto.NoSuchMethod("no method m"), 1),
        (rpcproto.ConnectionLost("lost"), 3),
        (rpcproto.DeadlineExceeded("over"), 4),
    ],
)
def test_a_failed_call_is_one_line_and_a_code(command, fake, error, code):
    fake(error)
    result = command("call", ADDRESS, "m")
    assert result.exit_code == code
    assert result.stdout == ""
    assert result.stderr == f"rpcproto: {error}\n"


def test_no_connection(command, fake):
    fake(refusal=rpcproto.ConnectFailed("cannot connect", address=ADDRESS))
    result = command("call", ADDRESS, "m")
    assert (result.exit_code, result.stderr) == (3, "rpcproto: cannot connect\n")


def test_an_address_that_makes_no_sense(command, fake):
    fake(refusal=rpcproto.ConfigurationError("no such transport"))
    assert command("call", "x://y", "m").exit_code == 2


REMOTE = rpcproto.RemoteError(
    "ValueError: \x1b[2Jtoo\nlong",
    type_name="ValueError",
    text="\x1b[2Jtoo\nlong",
    traceback="Traceback ...\n  line\x1b\n",
)


def test_a_remote_error_cannot_touch_the_terminal(command, fake):
    fake(REMOTE)
    result = command("call", ADDRESS, "m")
    assert result.exit_code == 1
    assert result.stderr == "rpcproto: ValueError: \\u001b[2Jtoo; long\n"


def test_verbose_prints_the_remote_traceback(command, fake):
    fake(REMOTE)
    result = command("call", ADDRESS, "m", "-v")
    assert result.stderr.endswith("long\nTraceback ...\n  line\\u001b\n")


def test_verbose_says_when_there_is_no_traceback(command, fake):
    fake(rpcproto.RemoteError("ValueError: x"))
    assert "--tracebacks" in command("call", ADDRESS, "m", "-v").stderr


def test_json_on_success(command, fake):
    fake([1, b""])
    answer = json.loads(command("call", ADDRESS, "m", "--json").stdout)
    assert answer.pop("us") >= 0
    assert answer == {"ok": True, "result": [1, {"$bytes": ""}]}


def test_json_on_failure(command, fake):
    fake(REMOTE)
    result = command("call", ADDRESS, "m", "--json")
    assert result.exit_code == 1
    answer = json.loads(result.stdout)
    assert answer["ok"] is False
    assert answer["error"]["class"] == "RemoteError"
    assert answer["error"]["type_name"] == "ValueError"


def test_help_has_the_table_of_exit_codes(command):
    text = command("call", "--help").stdout
    for line in ("0  the call was answered", "4  the time was over", "Examples:", '{"$bytes": "<base64>"}'):
        assert line in text
