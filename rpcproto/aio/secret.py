"""Shared secrets as users give them: checked, and never shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from rpcproto.errors import ConfigurationError

__all__ = ["SECRET_MIN", "Secret", "SecretSource", "Secrets"]

SECRET_MIN = 16
"""Bytes that a secret has at least. Whoever gets a client to connect can try guesses against its proof at leisure, so a
secret must be beyond guessing: 16 random bytes are, and what is shorter is a password that somebody made up."""

Secret: TypeAlias = "str | bytes"

SecretSource: TypeAlias = "Secret | Sequence[Secret] | Callable[[], Secret | Sequence[Secret]]"

_ADVICE = "make one by secrets.token_urlsafe(32)"


class Secrets:
    """What was given as ``secret=``.

    Args:
        given: text, which stands for its UTF-8 bytes, or bytes; a sequence of these, all of which are accepted; or a
            function that returns one of these and is called for each connection.
        several: whether a sequence makes sense: it is accepted, and not proved.

    Raises:
        ConfigurationError: it is none of these, or a secret is too short. The text does not show it.
    """

    __slots__ = ("_fixed", "_function", "_several")

    def __init__(self, given: SecretSource, several: bool) -> None:
        self._several = several
        self._function = given if callable(given) else None
        self._fixed = () if callable(given) else self._checked(given, "secret=")

    def now(self) -> tuple[bytes, ...]:
        """The secrets of a connection that begins now.

        Raises:
            ConfigurationError: the function given failed, or returned no secret. What it raised is the cause.
        """
        if self._function is None:
            return self._fixed
        try:
            returned = self._function()
        except Exception as error:
            # Only the system's texts are known not to show what was read.
            text = f": {error}" if isinstance(error, OSError) else ""
            raise ConfigurationError(f"the function given as secret= raised {type(error).__name__}{text}") from error
        return self._checked(returned, "what the function given as secret= returned")

    def __repr__(self) -> str:
        return "<Secrets>"

    def _checked(self, given: object, what: str) -> tuple[bytes, ...]:
        if isinstance(given, (str, bytes)):
            return (_to_bytes(given, what),)
        if not isinstance(given, Sequence) or isinstance(given, (bytearray, memoryview)):
            raise ConfigurationError(f"{what} must be text or bytes, not {type(given).__name__}; {_ADVICE}")
        if not self._several:
            raise ConfigurationError(f"{what} must be one secret: a client proves one, only a server accepts several")
        if not given:
            raise ConfigurationError(f"{what} has no secret in it; {_ADVICE}")
        return tuple(_to_bytes(each, f"{what}, number {number},") for number, each in enumerate(given, 1))


def _to_bytes(secret: object, what: str) -> bytes:
    if isinstance(secret, str):
        try:
            secret = secret.encode()
        except UnicodeEncodeError:
            raise ConfigurationError(
                f"{what} is text that UTF-8 cannot encode; {_ADVICE}"
            ) from None  # it shows the text
    if not isinstance(secret, bytes):
        raise ConfigurationError(f"{what} must be text or bytes, not {type(secret).__name__}; {_ADVICE}")
    if len(secret) < SECRET_MIN:
        raise ConfigurationError(f"{what} has {len(secret)} bytes, and needs {SECRET_MIN} at least; {_ADVICE}")
    return secret
