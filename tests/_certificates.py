"""Certificates for tests: an authority of our own, and what it issued."""

from __future__ import annotations

import atexit
import datetime as dt
import functools
import shutil
import tempfile
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from rpcproto import TLS

NAMES = ("127.0.0.1", "::1", "localhost")


class Authority:
    """An authority, and files in PEM form of it and of what it issues.

    Attributes:
        ca: its own certificate.
    """

    def __init__(self) -> None:
        self._authority = trustme.CA()
        self.folder = Path(tempfile.mkdtemp(prefix="rp-certificates-"))
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        self.ca = self.folder / "ca.pem"
        self._authority.cert_pem.write_to_path(str(self.ca))
        self._count = 0

    def issue(self, *names: str, expired: bool = False, common_name: str | None = None) -> TLS:
        """A certificate with its key, by default for this machine. The ``ca`` of what is returned is this one."""
        self._count += 1
        path = self.folder / f"{self._count}.pem"
        self.write(path, *names, expired=expired, common_name=common_name)
        return TLS(certificate=path, ca=self.ca)

    def issue_for(self, purpose: x509.ObjectIdentifier) -> TLS:
        """A certificate for this machine, to be used for one purpose only."""
        now = dt.datetime.now(dt.UTC)
        day = dt.timedelta(days=1)
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = x509.load_pem_x509_certificate(self._authority.cert_pem.bytes())
        issuer_key = serialization.load_pem_private_key(self._authority.private_key_pem.bytes(), None)
        assert isinstance(issuer_key, ec.EllipticCurvePrivateKey)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "one purpose")]))
            .issuer_name(issuer.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - day)
            .not_valid_after(now + day)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .sign(issuer_key, hashes.SHA256())
        )
        self._count += 1
        path = self.folder / f"{self._count}.pem"
        pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL
        path.write_bytes(key.private_bytes(pem, form, serialization.NoEncryption()) + certificate.public_bytes(pem))
        return TLS(certificate=path, ca=self.ca)

    def write(self, path: Path, *names: str, expired: bool = False, common_name: str | None = None) -> None:
        """Issue a certificate into this file."""
        now = dt.datetime.now(dt.UTC)
        day = dt.timedelta(days=1)
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
def stranger() -> Authority:
    """One that nobody trusts."""
    return Authority()


@functools.cache
def mutual() -> TLS:
    """For servers and clients alike, each verifying the other."""
    return authority().issue(common_name="somebody")
