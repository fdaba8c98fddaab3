"""Options on who may call and who is called, shared by the commands that connect and serve: secret and certificates.

A secret is never an argument or an environment variable itself: both can be read by others (``ps``, ``/proc``), and end
up in histories and logs. The variable holds the path alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

import rpcproto

__all__ = ["access_of", "client_options", "in_options", "server_options"]

Command = Callable[..., Any]

_MAX = 4096
"""Bytes that a secret file may have: more is another file, given by mistake."""

_FILE = click.Path(path_type=Path)

_SHARED = (
    click.option(
        "--secret-file",
        type=_FILE,
        envvar="RPCPROTO_SECRET_FILE",
        show_envvar=True,
        metavar="FILE",
        help="Both ends must prove that they know the secret in FILE, at least 16 bytes and perhaps a line end.",
    ),
    click.option(
        "--certificate", type=_FILE, metavar="FILE", help="For tls://: this side's certificate (PEM), with its chain."
    ),
    click.option(
        "--key", type=_FILE, metavar="FILE", help="For tls://: its private key, unless that is in the same file."
    ),
)
_SERVER_CA = click.option(
    "--ca", type=_FILE, metavar="FILE", help="For tls://: demand certificates of clients, issued by those in FILE."
)
_CLIENT_CA = click.option(
    "--ca", type=_FILE, metavar="FILE", help="For tls://: trust the authorities in FILE, not those of the system."
)
_SERVER_HOSTNAME = click.option(
    "--server-hostname",
    metavar="NAME",
    help="For tls://: the name in the server's certificate, if not that of ADDRESS.",
)

_NAMES = ("secret_file", "certificate", "key", "ca", "server_hostname")
"""The parameters of these options."""

_WORDS = (
    ("secret=...", "--secret-file FILE"),
    ("the function given as secret= returned", "is in --secret-file"),
    ("ssl=rpcproto.TLS(certificate=..., key=..., ca=...)", "--certificate, --key and --ca"),
    ("ssl=rpcproto.TLS(certificate=..., key=...), with ca=...", "--certificate and --key, with --ca"),
    (", or an ssl.SSLContext", ""),
    ("pass certificate= and key=", "pass --certificate and --key"),
    ("pass certificate= as well", "pass --certificate as well"),
    ("ssl= is for", "--certificate, --key and --ca are for"),
    ("server_hostname= is for", "--server-hostname is for"),
    ("TLS: certificate: ", "--certificate: "),
    ("TLS: key: ", "--key: "),
    ("TLS: ca: ", "--ca: "),
    ("insecure=True", "--insecure"),
    ("introspection='all'", "--introspection all"),
)
"""What errors of the library tell to give, and what that is here."""


def server_options(command: Command) -> Command:
    """Give a command the options of a server. Its argument ``access`` is what to pass on to :func:`rpcproto.serve`."""
    return _with_options(command, (*_SHARED, _SERVER_CA))


def client_options(command: Command) -> Command:
    """The same for a client, and :func:`rpcproto.connect`."""
    return _with_options(command, (*_SHARED, _CLIENT_CA, _SERVER_HOSTNAME))


def access_of(
    *,
    secret_file: Path | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
    ca: Path | None = None,
    server_hostname: str | None = None,
    **_: Any,
) -> dict[str, Any]:
    """The arguments of :func:`rpcproto.connect` or :func:`rpcproto.serve` by these options; others are ignored.

    Raises:
        click.UsageError: they make no sense together, or the secret cannot be read.
    """
    access: dict[str, Any] = {"secret": _secret_from(secret_file)}
    if certificate is not None or key is not None or ca is not None:
        try:
            access["ssl"] = rpcproto.TLS(certificate=certificate, key=key, ca=ca)
        except rpcproto.ConfigurationError as error:
            raise click.UsageError(in_options(error)) from error
    if server_hostname is not None:
        access["server_hostname"] = server_hostname
    return access


def in_options(error: Exception) -> str:
    """The text of an error, in which what is to be given as an argument of a function is an option of the command."""
    text = str(error)
    for argument, option in _WORDS:
        text = text.replace(argument, option)
    return text


def _with_options(command: Command, options: tuple[Callable[[Command], Command], ...]) -> Command:
    @functools.wraps(command)
    def call(*args: Any, **rest: Any) -> Any:
        ours = {name: rest.pop(name) for name in _NAMES if name in rest}
        return command(*args, access=access_of(**ours), **rest)

    result: Command = call
    for option in reversed(options):
        result = option(result)
    return result


def _secret_from(path: Path | None) -> Callable[[], bytes] | None:
    """What to give as ``secret=``: a function that reads the file, so that it can be changed while serving.

    Raises:
        click.BadParameter: it cannot be read now.
    """
    if path is None:
        return None

    def read() -> bytes:
        with path.open("rb") as file:
            data = file.read(_MAX + 1)
        if len(data) > _MAX:
            raise OSError(f"more than {_MAX} bytes; is it a secret?")
        return data.rstrip(b"\r\n")

    try:
        read()
    except OSError as error:
        raise click.BadParameter(f"{path}: {error.strerror or error}", param_hint="--secret-file") from error
    return read
