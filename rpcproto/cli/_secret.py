"""The option ``--secret-file``, which the commands that connect and serve share.

A secret is never an argument or an environment variable itself: both can be read by others (``ps``, ``/proc``), and end
up in histories and logs. The variable holds the path alone.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

__all__ = ["in_options", "secret_from", "secret_option"]

F = TypeVar("F", bound=Callable[..., Any])

_MAX = 4096
"""Bytes that a secret file may have: more is another file, given by mistake."""


def secret_option(command: F) -> F:
    """Give a command the option ``--secret-file``, its parameter ``secret_file``."""
    return click.option(
        "--secret-file",
        type=click.Path(path_type=Path),
        envvar="RPCPROTO_SECRET_FILE",
        show_envvar=True,
        metavar="FILE",
        help="Both ends must prove that they know the secret in FILE, at least 16 bytes and perhaps a line end.",
    )(command)


def secret_from(path: Path | None) -> Callable[[], bytes] | None:
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


def in_options(error: Exception) -> str:
    """The text of an error, in which what is to be given as an argument of a function is an option of the command."""
    text = str(error).replace("insecure=True", "--insecure").replace("secret=...", "--secret-file FILE")
    return text.replace("what the function given as secret= returned", "what is in --secret-file")
