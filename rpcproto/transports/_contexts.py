"""What ``ssl=`` may be, and the contexts that come of it.

A context is asked for at each handshake, so that certificates can be replaced while a server runs: a function is
called each time, and files named by :class:`TLS` are read again when they have changed.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .._logs import log
from ..errors import ConfigurationError

__all__ = ["ALPN", "TLS", "Contexts", "TLSSource"]

ALPN = "rpcproto/1"
"""The name of the protocol in the handshake, so that neither end takes another service for its peer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TLS:
    """Certificates for ``ssl=`` of :func:`~rpcproto.serve` and :func:`~rpcproto.connect`, as files in PEM form.

    What comes of it: TLS 1.3 and nothing older, the protocol agreed on by ALPN, no session tickets, and always
    verified: a client verifies the server and its host name, a server with ``ca`` verifies its clients. The files are
    read again when they have changed, for the next connection; as long as what they hold cannot be used, the last
    good ones stay.

    Raises:
        ConfigurationError: a value makes no sense.
    """

    certificate: str | os.PathLike[str] | None = None
    """This side's certificate, with those between it and the authority behind it. A server must have one."""

    key: str | os.PathLike[str] | None = None
    """Its private key; None if that is in the file of the certificate."""

    password: str | None = field(default=None, repr=False)
    """Of the key, if it is encrypted."""

    ca: str | os.PathLike[str] | None = None
    """The authorities whose certificates are accepted, a file. None: in clients those that the system trusts, in
    servers nobody is asked for a certificate."""

    def __post_init__(self) -> None:
        for name in ("certificate", "key", "ca"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, (str, os.PathLike)):
                raise ConfigurationError(f"TLS: {name} must be the path of a file, not {value!r}")
        if self.password is not None and not isinstance(self.password, str):
            raise ConfigurationError("TLS: password must be a text")
        if self.certificate is None and (self.key is not None or self.password is not None):
            raise ConfigurationError("TLS: a key without its certificate: pass certificate= as well")

    def context(self, *, server: bool) -> ssl.SSLContext:
        """Read the files and make a context of them.

        Raises:
            ConfigurationError: a file cannot be read, or does not hold what it should; the text names it.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.set_alpn_protocols([ALPN])
        if server:
            context.num_tickets = 0  # a resumed session would outlive its certificate
        if self.certificate is not None:
            self._load_certificate(context)
        elif server:
            raise ConfigurationError("TLS: a server needs a certificate: pass certificate= and key=")
        if self.ca is not None:
            try:
                context.load_verify_locations(cafile=self.ca)
            except OSError as exc:
                raise ConfigurationError(f"TLS: ca: {_problem(self.ca, exc, 'certificates')}") from exc
            context.verify_mode = ssl.CERT_REQUIRED
        elif not server:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        return context

    def _load_certificate(self, context: ssl.SSLContext) -> None:
        assert self.certificate is not None
        key = self.certificate if self.key is None else self.key
        for name, path in (("certificate", self.certificate), ("key", key)):
            try:
                with open(path, "rb"):
                    pass
            except OSError as exc:
                raise ConfigurationError(f"TLS: {name}: {_problem(path, exc, '')}") from exc
        try:
            # Without a function in place of a missing password OpenSSL would ask for it at the terminal.
            context.load_cert_chain(self.certificate, key, self.password if self.password is not None else _no_password)
        except _PasswordNeeded:
            raise ConfigurationError(f"TLS: key: {os.fspath(key)} is encrypted: pass password=") from None
        except OSError as exc:
            where = os.fspath(self.certificate) + (f" and {os.fspath(key)}" if self.key is not None else "")
            if isinstance(exc, ssl.SSLError) and exc.reason == "KEY_VALUES_MISMATCH":
                what = "the key is not the certificate's"
            elif self.password is not None:
                what = "no certificate or no key in PEM form, or the password is wrong"
            else:
                what = "no certificate or no key in PEM form"
            raise ConfigurationError(f"TLS: {where}: {what}") from exc

    def signature(self) -> object:
        """What changes when one of the files does."""
        return [_signature(path) for path in (self.certificate, self.key, self.ca)]


TLSSource = ssl.SSLContext | Callable[[], ssl.SSLContext] | TLS
"""What ``ssl=`` may be."""


class Contexts:
    """Gives the context for each handshake of one client or server.

    Args:
        source: the value of ``ssl=``.
        server: whether it is for a server.

    Attributes:
        own: whether the contexts are made here, so that the peer must agree on the protocol by ALPN. A context that
            the application brings need not offer any.
        demands_certificate: whether the peer has to show a certificate. Once so, a context that does not demand it is
            refused: listening where others can reach it may have been allowed for it.

    Raises:
        ConfigurationError: ``source`` is none of what it may be, or gives no context for this side.
    """

    def __init__(self, source: TLSSource | None, *, server: bool) -> None:
        self._source = source
        self._server = server
        self._signature: object = None
        self._context: ssl.SSLContext | None = None
        self.own = source is None or isinstance(source, TLS)
        if source is None and not server:
            self._source = TLS()
        elif not isinstance(source, (ssl.SSLContext, TLS)) and not callable(source):
            raise ConfigurationError(
                f"ssl= must be a rpcproto.TLS, an ssl.SSLContext, or a function that returns one, not {source!r}"
            )
        self.demands_certificate = False
        self.demands_certificate = self.get().verify_mode == ssl.CERT_REQUIRED

    def get(self) -> ssl.SSLContext:
        """The context for a handshake that begins now.

        Raises:
            ConfigurationError: there is none; the cause says why.
        """
        source = self._source
        if isinstance(source, TLS):
            return self._read(source)
        if isinstance(source, ssl.SSLContext):
            return self._check(source)
        assert source is not None
        try:
            context = source()
        except Exception as exc:
            raise ConfigurationError(f"the function given as ssl= raised {type(exc).__name__}: {exc}") from exc
        return self._check(context)

    def _read(self, settings: TLS) -> ssl.SSLContext:
        signature = settings.signature()
        if self._context is None or signature != self._signature:
            try:
                self._context = settings.context(server=self._server)
                self._signature = signature
            except ConfigurationError as exc:
                if self._context is None:
                    raise
                log.error("%s; going on with the certificates read before", exc)
        return self._context

    def _check(self, context: Any) -> ssl.SSLContext:
        if not isinstance(context, ssl.SSLContext):
            raise ConfigurationError(f"the function given as ssl= returned {context!r}, not an ssl.SSLContext")
        wrong, right = (
            (ssl.PROTOCOL_TLS_CLIENT, "ssl.PROTOCOL_TLS_SERVER")
            if self._server
            else (ssl.PROTOCOL_TLS_SERVER, "ssl.PROTOCOL_TLS_CLIENT")
        )
        if context.protocol == wrong:
            side = "server" if self._server else "client"
            raise ConfigurationError(f"the context given as ssl= is not for a {side}: make it with {right}")
        if self.demands_certificate and context.verify_mode != ssl.CERT_REQUIRED:
            raise ConfigurationError("the context given as ssl= no longer demands a certificate of the peer")
        return context


class _PasswordNeeded(Exception):
    """The key is encrypted and there is no password."""


def _no_password() -> str:
    raise _PasswordNeeded


def _problem(path: str | os.PathLike[str], error: OSError, what: str) -> str:
    if isinstance(error, ssl.SSLError):
        return f"{os.fspath(path)} has no {what} in PEM form"
    return f"{os.fspath(path)}: {error.strerror or error}"


def _signature(path: str | os.PathLike[str] | None) -> object:
    if path is None:
        return None
    try:
        found = os.stat(path)
    except OSError as exc:
        return exc.errno
    return found.st_mtime_ns, found.st_size, found.st_ino
