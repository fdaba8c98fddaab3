"""Addresses: where a peer listens, as text and as parts.

========================  =====================================================================================
``tcp://host:port``       a number, a number in brackets (``tcp://[::1]:80``) or a name. Listening only: port 0
                          lets the system choose, an empty host (``tcp://:80``) is every interface.
``tls://host:port``       the same, encrypted.
``unix:///path``          a socket file, by its absolute path. A relative one means another file in another
                          process, so it is refused.
``unix:@name``            a name in Linux's abstract namespace: no file, nothing to clean up.
``inproc://name``         within this process and event loop.
========================  =====================================================================================

Nothing is decoded or expanded: a ``%`` in a path is a ``%``. :func:`str` of an :class:`Address` is its canonical text,
which parses to an equal address; a scheme in capitals, a number written in a longer way and capitals in a host name
are brought to one form.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Callable
from dataclasses import dataclass

from ..errors import ConfigurationError

__all__ = ["Address", "parse", "register_scheme"]

_PORT = re.compile(r"[0-9]{1,5}")
_LABEL = "[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?")
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
_ZONE = re.compile(r"[A-Za-z0-9_.-]+")
_LATER = {"shm": "shared memory"}


@dataclass(frozen=True, slots=True)
class Address:
    """One place to listen at or to connect to. Made by :func:`parse`; the parts are not checked again here."""

    scheme: str
    host: str = ""
    """Name or number without brackets, for schemes of the form ``scheme://host:port``."""
    port: int = 0
    path: str = ""
    """What names the place in all other schemes: the path of a socket file, ``@name``, or a bare name."""

    def __str__(self) -> str:
        if self.path:
            return f"{self.scheme}:{self.path}" if self.path.startswith("@") else f"{self.scheme}://{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


Parser = Callable[[str, str], Address]
"""Takes the whole text and what follows ``scheme:``; returns the address or raises ConfigurationError."""


def parse(text: str) -> Address:
    """Take the text of an address apart.

    Raises:
        ConfigurationError: it is not an address, or its scheme is not known; the text says what it should look like.
    """
    if not isinstance(text, str):
        raise ConfigurationError(f"an address is a text such as 'tcp://127.0.0.1:8000', not {text!r}")
    scheme, colon, rest = text.partition(":")
    scheme = scheme.lower()
    if scheme in _LATER and scheme not in _parsers:
        raise ConfigurationError(f"{text!r}: {_LATER[scheme]} ({scheme}://) comes with a later release of rpcproto")
    if not colon or scheme not in _parsers:
        known = ", ".join(f"{name}:" for name in sorted(_parsers))
        raise ConfigurationError(f"{text!r} is not an address: it must start with one of {known}")
    return _parsers[scheme](text, rest)


def register_scheme(scheme: str, parser: Parser) -> None:
    """Let :func:`parse` know a scheme, in lower case, or another parser for one that it knows."""
    _parsers[scheme] = parser


def _parse_tcp(text: str, rest: str) -> Address:
    return _host_and_port("tcp", text, rest)


def _parse_tls(text: str, rest: str) -> Address:
    return _host_and_port("tls", text, rest)


def _host_and_port(scheme: str, text: str, rest: str) -> Address:
    form = f"it must look like {scheme}://127.0.0.1:8000, {scheme}://[::1]:8000 or {scheme}://name:8000"
    if not rest.startswith("//"):
        raise ConfigurationError(f"{text!r}: {form}")
    host, colon, port = rest[2:].rpartition(":")
    if not colon or not port or "]" in port:
        raise ConfigurationError(f"{text!r} has no port; {form} (port 0, when listening, lets the system choose)")
    if not _PORT.fullmatch(port) or int(port) > 65535:
        raise ConfigurationError(f"{text!r}: the port must be a number from 0 to 65535, not {port!r}; {form}")
    if host.startswith("[") and host.endswith("]"):
        return Address(scheme, _ipv6(text, host[1:-1]), int(port))
    if ":" in host:
        raise ConfigurationError(f"{text!r}: an IPv6 address must be in brackets, as in {scheme}://[::1]:8000")
    return Address(scheme, _ipv4_or_name(text, host), int(port))


def _ipv6(text: str, host: str) -> str:
    digits, percent, zone = host.partition("%")
    try:
        number = ipaddress.IPv6Address(digits)
    except ValueError as exc:
        raise ConfigurationError(f"{text!r}: what is in brackets is not an IPv6 address: {exc}") from exc
    if percent and not _ZONE.fullmatch(zone):
        raise ConfigurationError(f"{text!r}: {zone!r} is not the name of an interface")
    if number.ipv4_mapped is not None:
        return str(number.ipv4_mapped)  # [::ffff:127.0.0.1] is 127.0.0.1 in disguise
    return f"{number}{percent}{zone}"


def _ipv4_or_name(text: str, host: str) -> str:
    if not host:
        return ""
    if not host.isascii():
        raise ConfigurationError(f"{text!r}: write an international host name in its ASCII form, xn--...")
    if not _HOST_NAME.fullmatch(host) or len(host) > 253:
        raise ConfigurationError(f"{text!r}: {host!r} is neither a host name nor an IP address")
    if not _NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]):
        return host.lower()
    # Old C functions read 127.1, 0x7f.1 or 017700000001 as 127.0.0.1. What ends in a number is an address in full here.
    try:
        return str(ipaddress.IPv4Address(host))
    except ValueError as exc:
        raise ConfigurationError(f"{text!r}: {host!r} is not an IPv4 address: {exc}") from exc


def _parse_unix(text: str, rest: str) -> Address:
    if "\0" in rest:
        raise ConfigurationError(f"{text!r}: a path must not contain a zero byte")
    try:
        os.fsencode(rest)
    except UnicodeEncodeError as exc:
        raise ConfigurationError(f"{text!r}: the path cannot be told to the system: {exc}") from exc
    if rest.startswith("@") and len(rest) > 1:
        return Address("unix", path=rest)
    if rest.startswith("///") and len(rest) > len("///") and not rest.endswith("/"):
        return Address("unix", path=rest[2:])
    relative = rest.removeprefix("//")
    if relative and not relative.startswith(("/", "@")):
        raise ConfigurationError(f"{text!r}: the path must be absolute, as in unix:///path/to/{relative}")
    raise ConfigurationError(f"{text!r} must look like unix:///path/of/a/socket or unix:@name")


def _parse_inproc(text: str, rest: str) -> Address:
    name = rest.removeprefix("//")
    if name == rest or not name or name.startswith("@") or not name.isprintable() or " " in name:
        raise ConfigurationError(f"{text!r} must look like inproc://name; a name is printable and has no spaces")
    return Address("inproc", path=name)


_parsers: dict[str, Parser] = {"tcp": _parse_tcp, "tls": _parse_tls, "unix": _parse_unix, "inproc": _parse_inproc}
