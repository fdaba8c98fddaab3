"""Kit for testing what is built on rpcproto: connected ends, and a proxy that breaks connections on purpose.

    async with pair(Echo()) as (server, client):
        assert await client.request("Echo.echo", 1) == 1

    async with proxied_pair(Echo()) as (server, client, proxy):
        proxy.down.stop()                       # the server's answers no longer arrive
        with pytest.raises(rpcproto.DeadlineExceeded):
            await client.request("Echo.echo", 1, timeout=0.1)

Everything here runs in the loop of the test and needs no test framework. Part of the public interface.
"""

from __future__ import annotations

from .pair import pair, proxied_pair
from .proxy import Direction, FaultProxy

__all__ = ["Direction", "FaultProxy", "pair", "proxied_pair"]
