"""Certificates for tests: an authority of our own, and what it issued."""

from __future__ import annotations

import datetime
import functools
import tempfile
from pathlib import Path

import trustme

from rpcproto import TLS

NAMES = ("127.0.0.1", "::1", "localhost")


class Authority:
    """An authority, and files in PEM form of it and of what it issues.

    Attributes:
        ca: its own certificate.
    """

    def __init__(self) -> None:
        self._authority = trustme.CA()
        self._keep = tempfile.TemporaryDirectory(prefix="rp-certificates-")
        self.folder = Path(self._keep.name)
        self.ca = self.folder / "ca.pem"
        self._authority.cert_pem.write_to_path(str(self.ca))
        self._count = 0

    def issue(self, *names: str, expired: bool = False, common_name: str | None = None) -> TLS:
        """A certificate with its key, by default for this machine. The ``ca`` of what is returned is this one."""
        self._count += 1
        path = self.folder / f"{self._count}.pem"
        self.write(path, *names, expired=expired, common_name=common_name)
        return TLS(certificate=path, ca=self.ca)

    def write(self, path: Path, *names: str, expired: bool = False, common_name: str | None = None) -> None:
        """Issue a certificate into this file."""
        now = datetime.datetime.now(datetime.timezone.utc)
        day = datetime.timedelta(days=1)
        issued = self._authority.issue_cert(
            *(names or NAMES),
            common_name=common_name,
            not_before=now - 2 * day,
            not_after=now - day if expired else now + day,
        )
        issued.private_key_and_cert_chain_pem.write_to_path(str(path))


@functools.cache
def authority() -> Authority:
    """The authority that the tests trust."""
    return Authority()


@functools.cache
def mutual() -> TLS:
    """For servers and clients alike, each verifying the other."""
    return authority().issue(common_name="somebody")
