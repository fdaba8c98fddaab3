"""Memory of many TLS connections, one after the other (row 50, fault 52).

At the size that the plan asks for, over both loops, this is ``benchmarks/tls_memory.py``.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import pytest

import rpcproto
from rpcproto.testing import pair
from tests._certificates import mutual
from tests.aio._ends import RAW
from tests.aio._tls import TLS_ADDRESS

MIB = 1 << 20


def rss():
    gc.collect()
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc")
def test_row_50_fault_52_memory_stays_flat(run):
    """A leak of one TLS object a connection would be some 20 KiB each: 10 MiB here."""

    async def main():
        ssl = {"ssl": mutual()}
        async with pair({"echo": bytes}, TLS_ADDRESS, server=RAW | ssl, client=RAW | ssl) as (server, client):

            async def some(connections, megabytes):
                for _ in range(connections):
                    async with rpcproto.connect(server.address, **RAW, **ssl) as other:
                        assert await other.request("echo", b"x") == b"x"
                for _ in range(megabytes):
                    assert len(await client.request("echo", bytes(MIB))) == MIB

            await some(100, 20)
            before = rss()
            await some(250, 40)
            assert rss() - before < 2 * MIB
            assert len(server.peers) == 1

    run(main())
