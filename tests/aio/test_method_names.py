"""Which wire names can be given, and that no other way leads from a name to a method."""

from __future__ import annotations

import pytest

from rpcproto.aio.service import Service, build_registry, notify, request
from rpcproto.errors import ConfigurationError
from tests.aio._services import Echo, refusal

GOOD_NAMES = ["x", "a b", "__class__", "a/b", "é" * 127, "x" * 255, "\N{SNOWMAN}"]
BAD_NAMES = [
    ("", "1 to 255 bytes in UTF-8, not 0"),
    ("x" * 256, "1 to 255 bytes in UTF-8, not 256"),
    ("é" * 128, "1 to 255 bytes in UTF-8, not 256"),
    ("a\0", "printable"),
    ("a\n", "printable"),
    ("a\x7f", "printable"),
    ("a\N{ZERO WIDTH SPACE}b", "printable"),
    ("a\N{RIGHT-TO-LEFT OVERRIDE}b", "printable"),
    ("\ud800", "not valid Unicode"),
]


@pytest.mark.parametrize("name", GOOD_NAMES, ids=ascii)
def test_good_names(name: str) -> None:
    assert list(build_registry({name: len})) == [name]
    assert callable(request(name=name))


@pytest.mark.parametrize(("name", "text"), BAD_NAMES, ids=ascii)
def test_bad_names(name: str, text: str) -> None:
    assert text in refusal({name: len})
    with pytest.raises(ConfigurationError, match="name= of @notify") as caught:
        notify(name=name)
    assert text in str(caught.value)

    class Named(Echo):
        service_name = name

    assert "service_name of" in refusal(Named())
    assert text in refusal(Named())


def test_a_default_name_that_is_too_long() -> None:
    class Long(Service):
        service_name = "x" * 255

        @request
        def echo(self) -> None:
            pass

    assert "wire name of" in refusal(Long())
    assert "Long.echo must have 1 to 255 bytes in UTF-8, not 260" in refusal(Long())


def test_a_name_of_the_wrong_type() -> None:
    with pytest.raises(ConfigurationError, match="must be a string, not b'x'"):
        request(name=b"x")


NOT_SERVED = [
    "",
    "Echo",
    "echo",
    "Echo.",
    ".echo",
    "Echo.helper",
    "Echo.wait",  # it has another name
    "Echo.__class__",
    "Echo.__init__",
    "Echo.service_name",
    "__class__",
    "_x",
    "Echo._x",
    "Echo.echo.__call__",
    "Echo.echo.__globals__",
    "Echo.echo\0",
    "Echo.echo ",
    "echo.echo",
    "Echo.\N{CYRILLIC SMALL LETTER IE}cho",
    "\N{FULLWIDTH LATIN CAPITAL LETTER E}cho.echo",
    "E" * 256,
]


@pytest.mark.parametrize("name", NOT_SERVED, ids=ascii)
def test_everything_else_is_absent(name: str) -> None:
    assert build_registry(Echo()).get(name) is None
