"""What may be given as ``secret=``, and that it is never shown."""

from __future__ import annotations

import pickle
import traceback

import pytest

import rpcproto
from rpcproto.aio.secret import Secrets
from rpcproto.errors import ConfigurationError

SECRET = "correct horse battery staple"
OTHER = b"sixteen bytes --"


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (SECRET, [SECRET.encode()]),
        (OTHER, [OTHER]),
        ("ä" * 8, ["ä".encode() * 8]),
        ([SECRET, OTHER], [SECRET.encode(), OTHER]),
        ((OTHER,), [OTHER]),
        (lambda: SECRET, [SECRET.encode()]),
        (lambda: [SECRET, OTHER], [SECRET.encode(), OTHER]),
    ],
)
def test_what_is_a_secret(given, meant):
    assert Secrets(given, True).now() == tuple(meant)


def test_a_function_is_asked_each_time():
    given = iter([SECRET, OTHER])
    secrets = Secrets(lambda: next(given), False)
    assert [secrets.now(), secrets.now()] == [(SECRET.encode(),), (OTHER,)]


WRONG = [
    ("", "secret= has 0 bytes, and needs 16 at least"),
    ("fifteen letters", "secret= has 15 bytes, and needs 16 at least"),
    (b"123456789012345", "secret= has 15 bytes, and needs 16 at least"),
    (12345678901234567890, "secret= must be text or bytes, not int"),
    (bytearray(32), "secret= must be text or bytes, not bytearray"),
    (memoryview(bytes(32)), "secret= must be text or bytes, not memoryview"),
    ({SECRET}, "secret= must be text or bytes, not set"),
    (True, "secret= must be text or bytes, not bool"),
    ("\udc80" * 16, "secret= is text that UTF-8 cannot encode"),
]


@pytest.mark.parametrize(("given", "says"), WRONG)
@pytest.mark.parametrize("several", [True, False])
def test_what_is_none(given, says, several):
    with pytest.raises(ConfigurationError) as caught:
        Secrets(given, several)
    assert str(caught.value) == f"{says}; make one by secrets.token_urlsafe(32)"
    with pytest.raises(ConfigurationError) as caught:
        Secrets(lambda: given, several).now()
    assert str(caught.value).startswith(says.replace("secret=", "what the function given as secret= returned"))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([], "secret= has no secret in it"),
        ([SECRET, "short"], "secret=, number 2, has 5 bytes"),
        ([SECRET, None], "secret=, number 2, must be text or bytes, not NoneType"),
        ([[SECRET]], "secret=, number 1, must be text or bytes, not list"),
    ],
)
def test_a_sequence_has_secrets_in_it(given, says):
    with pytest.raises(ConfigurationError, match=says):
        Secrets(given, True)


def test_a_client_proves_one():
    with pytest.raises(ConfigurationError, match="secret= must be one secret: a client proves one, only a server"):
        rpcproto.connect("tcp://127.0.0.1:1", secret=[SECRET, OTHER])
    with pytest.raises(ConfigurationError, match="returned must be one secret"):
        Secrets(lambda: [SECRET], False).now()


@pytest.mark.parametrize(
    "make",
    [
        lambda: rpcproto.serve({"echo": repr}, "inproc://x", secret="short"),
        lambda: rpcproto.connect("inproc://x", secret="short"),
    ],
)
def test_a_wrong_one_is_refused_at_once(make):
    with pytest.raises(ConfigurationError, match="has 5 bytes"):
        make()


def test_a_function_that_fails():
    def missing() -> str:
        raise FileNotFoundError(2, "No such file or directory", "/run/secret")

    with pytest.raises(ConfigurationError) as caught:
        Secrets(missing, False).now()
    assert str(caught.value) == (
        "the function given as secret= raised FileNotFoundError: [Errno 2] No such file or directory: '/run/secret'"
    )
    assert isinstance(caught.value.__cause__, FileNotFoundError)


def test_row_66_no_text_shows_a_secret():
    def fails() -> str:
        raise ValueError(f"cannot parse {SECRET}")

    shown = [repr(Secrets(SECRET, True)), str(Secrets([SECRET], True)), repr(Secrets(fails, True))]
    with pytest.raises(ConfigurationError) as caught:
        Secrets(fails, True).now()
    shown.append(str(caught.value))
    for given in ("horse", [SECRET, "horse"], "horse" * 4 + "\udc80"):
        with pytest.raises(ConfigurationError) as caught:
            Secrets(given, True)
        # The line of this test is in the traceback, and shows no value.
        shown += [str(caught.value), repr(caught.value), "".join(traceback.format_exception(caught.value))]
        assert caught.value.__cause__ is None
        assert "horse" not in str(pickle.dumps(caught.value))
    assert not any("horse" in text for text in shown)
