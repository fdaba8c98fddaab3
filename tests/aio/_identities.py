"""What the tests of identity share: clients that are refused, what was logged, and peers that say they are far away."""

from __future__ import annotations

import socket

import pytest

import rpcproto


def logged(caplog):
    return [record.getMessage() for record in caplog.records if record.name == "rpcproto"]


async def refused(address, **options):
    """Connect in vain; the text of the error, without the address it begins with."""
    with pytest.raises(rpcproto.ConnectFailed) as caught:
        await rpcproto.connect(address, **options)
    assert caught.value.address == address
    return str(caught.value).removeprefix(f"{address}: ")


class FakeConnection:
    peer = "tcp://192.0.2.7:1234"
    max_message = rpcproto.Limits().max_message_remote
    authentication = None


class RemoteTransport:
    """Says that its peer is on another machine."""

    def __init__(self, **info):
        self.info = {"peername": ("192.0.2.7", 1234), "socket": RemoteSocket()} | info

    def get_extra_info(self, name, default=None):
        return self.info.get(name, default)


class RemoteSocket:
    family = socket.AF_INET
