"""Certificates for runs over TLS: made by trustme for each run, told to its processes by an environment variable."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import rpcproto

from ..errors import ConfigurationError

__all__ = ["VARIABLE", "Certificates", "make", "of_this_run"]

VARIABLE = "RPCPROTO_BENCH_CERTIFICATES"
"""Names the folder, in the environment of the processes of a run."""


@dataclass(frozen=True, slots=True)
class Certificates:
    """The files of a run, in PEM form."""

    folder: Path

    @property
    def ca(self) -> Path:
        """The authority."""
        return self.folder / "ca.pem"

    @property
    def certificate(self) -> Path:
        """The server's certificate, for 127.0.0.1."""
        return self.folder / "server.pem"

    @property
    def key(self) -> Path:
        """Its key."""
        return self.folder / "server.key"

    def server(self) -> rpcproto.TLS:
        """What a server needs."""
        return rpcproto.TLS(certificate=self.certificate, key=self.key)

    def client(self) -> rpcproto.TLS:
        """What a client needs: it verifies the server."""
        return rpcproto.TLS(ca=self.ca)


def make(folder: Path) -> Certificates:
    """Make the certificates of a run.

    Args:
        folder: an empty folder to keep them in.

    Raises:
        ConfigurationError: trustme is not installed.
    """
    try:
        import trustme
    except ImportError:
        raise ConfigurationError("TLS needs certificates, made with trustme: pip install rpcproto[bench]") from None
    files = Certificates(folder)
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(str(files.ca))
    issued.private_key_pem.write_to_path(str(files.key))
    for number, part in enumerate(issued.cert_chain_pems):
        part.write_to_path(str(files.certificate), append=number > 0)
    return files


def of_this_run() -> Certificates:
    """Those of the run that this process belongs to."""
    return Certificates(Path(os.environ[VARIABLE]))
