"""A key-value service for numpy arrays, which travel without being copied by Python.

Run it: python examples/keyvalue.py (needs numpy)
"""

from __future__ import annotations

import asyncio

import numpy as np
from numpy.typing import NDArray

import rpcproto

Array = NDArray[np.float64]


class Store(rpcproto.Service):
    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}

    @rpcproto.request
    def put(self, key: str, array: Array) -> None:
        """Keep an array: it is a view of the memory it was received into, which is ours to keep."""
        self.arrays[key] = array

    @rpcproto.request
    def get(self, key: str) -> Array:
        """Sent from where it lies, so do not change a stored array in place: put a new one."""
        return self.arrays[key]

    @rpcproto.request
    def rows(self, key: str, start: int, stop: int) -> Array:
        """A slice is a view too: only its bytes are sent, and again they are not copied."""
        return self.arrays[key][start:stop]


async def main() -> None:
    async with rpcproto.serve(Store(), "tcp://127.0.0.1:0") as server, rpcproto.connect(server.address) as client:
        grid = np.arange(1_000_000, dtype="f8").reshape(1000, 1000)
        await client.request("Store.put", "grid", grid)  # until it returns, grid must not change

        same = await client.request("Store.get", "grid")
        print(f"got {same.nbytes / 1e6} MB, {same.dtype} {same.shape}, equal: {np.array_equal(same, grid)}")
        print(f"a view of received memory: {not same.flags.owndata}, writable: {same.flags.writeable}")

        print("rows 10 to 12:", (await client.request("Store.rows", "grid", 10, 12)).sum(axis=1))
        try:
            await client.request("Store.get", "gird")
        except rpcproto.RemoteError as error:
            print(error)


if __name__ == "__main__":
    asyncio.run(main())
