"""What the tests of TLS share: settings for both ends, and a client that must not get through."""

from __future__ import annotations

import asyncio

import pytest

import rpcproto
from rpcproto import TLS, ConnectFailed
from tests._certificates import mutual

TLS_ADDRESS = "tls://127.0.0.1:0"


def server_only() -> TLS:
    return TLS(certificate=mutual().certificate)


def trusting() -> TLS:
    return TLS(ca=mutual().ca)


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


async def refused(address: str, **options: object) -> str:
    """What a client is told that must not get through."""
    with pytest.raises(ConnectFailed) as caught:
        async with asyncio.timeout(5):
            await rpcproto.connect(address, **options)
    assert caught.value.address == address
    return str(caught.value)
