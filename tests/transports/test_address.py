from __future__ import annotations

import pickle

import pytest

from rpcproto.errors import ConfigurationError
from rpcproto.transports.address import Address, parse, register_scheme


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tcp://127.0.0.1:0", Address("tcp", "127.0.0.1", 0)),
        ("tcp://127.0.0.1:65535", Address("tcp", "127.0.0.1", 65535)),
        ("tcp://[::1]:80", Address("tcp", "::1", 80)),
        ("tcp://[fe80::1%eth0]:80", Address("tcp", "fe80::1%eth0", 80)),
        ("tcp://localhost:1234", Address("tcp", "localhost", 1234)),
        ("tcp://a-b.c_d.example.:1", Address("tcp", "a-b.c_d.example.", 1)),
        ("tcp://:80", Address("tcp", "", 80)),
        ("tls://127.0.0.1:8000", Address("tls", "127.0.0.1", 8000)),
        ("tls://[::1]:80", Address("tls", "::1", 80)),
        ("tls://name:80", Address("tls", "name", 80)),
        ("unix:///run/x.sock", Address("unix", path="/run/x.sock")),
        ("unix:///run/a b%20ä:@.sock", Address("unix", path="/run/a b%20ä:@.sock")),
        ("unix:@name", Address("unix", path="@name")),
        ("unix:@a/b c", Address("unix", path="@a/b c")),
        ("inproc://name", Address("inproc", path="name")),
        ("inproc://a/b:c", Address("inproc", path="a/b:c")),
    ],
)
def test_addresses_keep_their_form(text, expected):
    assert parse(text) == expected
    assert str(expected) == text


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("TCP://LocalHost:080", "tcp://localhost:80"),
        ("tcp://[0:0:0:0:0:0:0:1]:1", "tcp://[::1]:1"),
        ("tcp://[2001:DB8::0001]:1", "tcp://[2001:db8::1]:1"),
        ("tcp://[::ffff:127.0.0.1]:1", "tcp://127.0.0.1:1"),
        ("Unix:@Name", "unix:@Name"),
        ("INPROC://Name", "inproc://Name"),
    ],
)
def test_other_forms_become_the_canonical_one(text, canonical):
    assert str(parse(text)) == canonical
    assert parse(canonical) == parse(text)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "must start with one of inproc:, tcp:, tls:, unix:"),
        ("127.0.0.1:80", "must start with one of"),
        ("localhost", "must start with one of"),
        ("http://localhost:80", "must start with one of"),
        ("tcp", "must start with one of"),
        ("tls:localhost:80", "must look like tls://127.0.0.1:8000"),
        ("tls://localhost", "has no port; it must look like tls://"),
        ("tls://::1:80", r"must be in brackets, as in tls://\[::1\]:8000"),
        ("shm://name", "shared memory .* comes with a later release"),
        ("tcp:localhost:80", "must look like tcp://127.0.0.1:8000"),
        ("tcp:/localhost:80", "must look like"),
        ("tcp://", "has no port"),
        ("tcp://localhost", "has no port"),
        ("tcp://localhost:", "has no port"),
        ("tcp://[::1]", "has no port"),
        ("tcp://localhost:http", "port must be a number from 0 to 65535, not 'http'"),
        ("tcp://localhost:65536", "port must be a number"),
        ("tcp://localhost:-1", "port must be a number"),
        ("tcp://localhost:8_0", "port must be a number"),
        ("tcp://localhost: 80", "port must be a number"),
        ("tcp://localhost:80\n", "port must be a number"),
        ("tcp://localhost:٣", "port must be a number"),
        ("tcp://localhost:80/path", "port must be a number"),
        ("tcp://::1:80", "must be in brackets"),
        ("tcp://[::1:80", "must be in brackets"),
        ("tcp://[localhost]:80", "not an IPv6 address"),
        ("tcp://[127.0.0.1]:80", "not an IPv6 address"),
        ("tcp://[]:80", "not an IPv6 address"),
        ("tcp://[::1%]:80", "not the name of an interface"),
        ("tcp://127.1:80", "'127.1' is not an IPv4 address"),
        ("tcp://2130706433:80", "not an IPv4 address"),
        ("tcp://0x7f000001:80", "not an IPv4 address"),
        ("tcp://127.0.0.01:80", "not an IPv4 address"),
        ("tcp://1.2.3.4.5:80", "not an IPv4 address"),
        ("tcp://256.0.0.1:80", "not an IPv4 address"),
        ("tcp://*:80", "neither a host name nor an IP address"),
        ("tcp://user@host:80", "neither a host name nor an IP address"),
        ("tcp://a b:80", "neither a host name nor an IP address"),
        ("tcp://-a:80", "neither a host name nor an IP address"),
        ("tcp://a..b:80", "neither a host name nor an IP address"),
        (f"tcp://{'a' * 64}:80", "neither a host name nor an IP address"),
        (f"tcp://{'a.' * 127}a:80", "neither a host name nor an IP address"),
        ("tcp://müller.example:80", "ASCII form"),
        ("unix:", "must look like unix:///path"),
        ("unix://", "must look like unix:///path"),
        ("unix:///", "must look like unix:///path"),
        ("unix:///run/", "must look like unix:///path"),
        ("unix:/run/x.sock", "must look like unix:///path"),
        ("unix:@", "must look like unix:///path"),
        ("unix://@name", "must look like unix:///path"),
        ("unix://x.sock", "must be absolute, as in unix:///path/to/x.sock"),
        ("unix:x.sock", "must be absolute"),
        ("unix:///run/\0", "zero byte"),
        ("unix:///run/\ud800", "cannot be told to the system"),
        ("inproc:name", "must look like inproc://name"),
        ("inproc://", "must look like inproc://name"),
        ("inproc://a b", "has no spaces|no spaces"),
        ("inproc://a\n", "must look like inproc://name"),
        ("inproc://@a", "must look like inproc://name"),
        (None, "an address is a text"),
        (b"tcp://127.0.0.1:80", "an address is a text"),
    ],
)
def test_wrong_addresses_are_refused_with_the_right_form(text, complaint):
    with pytest.raises(ConfigurationError, match=complaint):
        parse(text)


def test_a_wrong_address_is_quoted():
    with pytest.raises(ConfigurationError, match="'tcp://nowhere'"):
        parse("tcp://nowhere")


def test_addresses_are_values():
    one = parse("tcp://localhost:80")
    assert one == parse("TCP://LOCALHOST:80")
    assert hash(one) == hash(parse("tcp://localhost:80"))
    assert pickle.loads(pickle.dumps(one)) == one
    with pytest.raises(AttributeError):
        one.port = 81


def test_a_scheme_can_be_added(monkeypatch):
    from rpcproto.transports import address

    monkeypatch.setattr(address, "_parsers", dict(address._parsers))
    register_scheme("ssh", lambda text, rest: Address("ssh", rest.removeprefix("//"), 1))
    assert str(parse("ssh://there")) == "ssh://there:1"
