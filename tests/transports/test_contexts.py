"""What ``ssl=`` may be, which contexts come of it, and how certificates are replaced."""

from __future__ import annotations

import logging
import os
import ssl

import pytest

from rpcproto import TLS
from rpcproto.errors import ConfigurationError
from rpcproto.transports._contexts import Contexts
from tests._certificates import authority, mutual

SERVER, CLIENT = {"server": True}, {"server": False}


def files():
    """The files of the authority: a certificate with its key, and its own certificate."""
    settings = mutual()
    return settings.certificate, settings.ca


def test_a_server_context_is_strict():
    certificate, ca = files()
    context = TLS(certificate=certificate).context(server=True)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_3
    assert context.num_tickets == 0
    assert context.verify_mode == ssl.CERT_NONE
    context = TLS(certificate=certificate, ca=ca).context(server=True)
    assert context.verify_mode == ssl.CERT_REQUIRED


def test_a_client_context_always_verifies():
    for settings in (TLS(), TLS(ca=files()[1]), mutual()):
        context = settings.context(server=False)
        assert context.minimum_version == ssl.TLSVersion.TLSv1_3
        assert context.verify_mode == ssl.CERT_REQUIRED
        assert context.check_hostname
    assert TLS(ca=files()[1]).context(server=False).cert_store_stats()["x509_ca"] == 1  # and not the system's


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"certificate": 1}, "certificate must be the path of a file, not 1"),
        ({"key": b"x", "certificate": "c"}, "key must be the path"),
        ({"ca": True}, "ca must be the path"),
        ({"key": "k"}, "a key without its certificate"),
        ({"password": "p"}, "a key without its certificate"),
        ({"certificate": "c", "password": 1}, "password must be a text"),
    ],
)
def test_settings_that_make_no_sense(arguments, complaint):
    with pytest.raises(ConfigurationError, match=complaint):
        TLS(**arguments)


def test_the_password_is_not_shown():
    assert "secret" not in repr(TLS(certificate="c", password="secret"))


def test_files_that_are_of_no_use(tmp_path):
    certificate, _ = files()
    text = tmp_path / "text"
    text.write_text("hello")
    other = tmp_path / "other.pem"
    authority().write(other)
    for settings, complaint in (
        (TLS(), "a server needs a certificate: pass certificate="),
        (TLS(certificate=tmp_path / "none"), r"TLS: certificate: .*none: No such file"),
        (TLS(certificate=certificate, key=tmp_path / "none"), r"TLS: key: .*none: No such file"),
        (TLS(certificate=tmp_path), r"TLS: certificate: .*: Is a directory"),
        (TLS(certificate=text), r"text: no certificate or no key in PEM form"),
        (TLS(certificate=certificate, key=text), r"pem and .*text: no certificate or no key in PEM form"),
        (TLS(certificate=certificate, key=other), r"pem and .*other.pem: the key is not the certificate's"),
        (TLS(certificate=certificate, ca=text), r"TLS: ca: .*text has no certificates in PEM form"),
        (TLS(certificate=certificate, ca=tmp_path / "none"), r"TLS: ca: .*none: No such file"),
    ):
        with pytest.raises(ConfigurationError, match=complaint):
            settings.context(server=True)


def encrypted_key(tmp_path):
    """A certificate whose key has the password ``right``."""
    from cryptography.hazmat.primitives import serialization

    plain = tmp_path / "plain.pem"
    authority().write(plain)
    key = serialization.load_pem_private_key(plain.read_bytes(), None)
    path = tmp_path / "key.pem"
    form = serialization.PrivateFormat.TraditionalOpenSSL
    encryption = serialization.BestAvailableEncryption(b"right")
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, encryption))
    return plain, path


def test_an_encrypted_key(tmp_path):
    certificate, key = encrypted_key(tmp_path)
    TLS(certificate=certificate, key=key, password="right").context(server=True)
    with pytest.raises(ConfigurationError, match=r"key.pem is encrypted: pass password="):
        TLS(certificate=certificate, key=key).context(server=True)
    with pytest.raises(ConfigurationError, match=r"key\.pem: .* or the password is wrong"):
        TLS(certificate=certificate, key=key, password="wrong").context(server=True)


# ---- what ssl= may be ------------------------------------------------------------------------------------------------


def test_a_context_is_taken_as_it_is():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    contexts = Contexts(context, **SERVER)
    assert contexts.get() is context
    assert not contexts.own
    assert not contexts.demands_certificate
    assert context.minimum_version != ssl.TLSVersion.TLSv1_3  # nothing was changed in it


def test_a_function_is_called_for_each_handshake():
    made = []

    def source():
        made.append(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
        return made[-1]

    contexts = Contexts(source, **CLIENT)
    assert contexts.demands_certificate
    assert contexts.get() is made[1]
    assert contexts.get() is made[2]


def test_a_client_may_leave_it_out():
    contexts = Contexts(None, **CLIENT)
    assert contexts.own
    assert contexts.get().verify_mode == ssl.CERT_REQUIRED


@pytest.mark.parametrize("wrong", [True, "server.pem", ("cert", "key"), 1])
def test_anything_else_is_refused(wrong):
    with pytest.raises(ConfigurationError, match=r"ssl= must be a rpcproto\.TLS, an ssl\.SSLContext, or a function"):
        Contexts(wrong, **SERVER)


def test_a_context_for_the_other_side_is_refused():
    for protocol, side in ((ssl.PROTOCOL_TLS_CLIENT, SERVER), (ssl.PROTOCOL_TLS_SERVER, CLIENT)):
        with pytest.raises(ConfigurationError, match=r"is not for a (server|client): make it with ssl\.PROTOCOL_TLS"):
            Contexts(ssl.SSLContext(protocol), **side)


def test_a_function_that_fails():
    def broken():
        raise FileNotFoundError("server.pem")

    with pytest.raises(ConfigurationError, match=r"raised FileNotFoundError: server\.pem") as caught:
        Contexts(broken, **SERVER)
    assert isinstance(caught.value.__cause__, FileNotFoundError)
    with pytest.raises(ConfigurationError, match=r"returned None, not an ssl\.SSLContext"):
        Contexts(lambda: None, **SERVER)


def test_a_server_does_not_stop_demanding_certificates():
    contexts = [mutual().context(server=True), TLS(certificate=mutual().certificate).context(server=True)]
    source = Contexts(lambda: contexts.pop(0), **SERVER)
    assert source.demands_certificate
    with pytest.raises(ConfigurationError, match="no longer demands a certificate"):
        source.get()


# ---- certificates that change ----------------------------------------------------------------------------------------


def replace(path, write):
    """Replace a file as whoever renews certificates does, with a time of its own."""
    before = path.stat().st_mtime_ns
    new = path.with_suffix(".new")
    write(new)
    os.utime(new, ns=(before + 10**9, before + 10**9))
    new.rename(path)


def test_row_49_files_are_read_again_when_they_have_changed(tmp_path):
    path = tmp_path / "server.pem"
    authority().write(path)
    contexts = Contexts(TLS(certificate=path), **SERVER)
    first = contexts.get()
    assert contexts.get() is first
    replace(path, authority().write)
    second = contexts.get()
    assert second is not first
    assert contexts.get() is second


def test_files_that_cannot_be_used_leave_the_last_ones(tmp_path, caplog):
    caplog.set_level(logging.ERROR, "rpcproto")
    path = tmp_path / "server.pem"
    authority().write(path)
    contexts = Contexts(TLS(certificate=path), **SERVER)
    first = contexts.get()
    replace(path, lambda new: new.write_text("half a"))
    assert contexts.get() is first
    assert "no certificate or no key in PEM form; going on with the certificates read before" in caplog.text
    path.unlink()
    assert contexts.get() is first
    authority().write(path)
    assert contexts.get() is not first
