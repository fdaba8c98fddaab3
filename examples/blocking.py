"""A program without asyncio: calls that wait, calls that overlap, a stream, and calls back.

Run it: python examples/blocking.py (it starts the server as a process).
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import as_completed

import rpcproto


class Library(rpcproto.Service):
    books = ("Emma", "Dracula", "Ulysses", "Walden")

    @rpcproto.request
    def find(self, number: int) -> str:
        return self.books[number]

    @rpcproto.stream
    def titles(self) -> Iterator[str]:
        yield from self.books

    @rpcproto.request(thread=True)
    def order(self, title: str) -> str:
        """In a thread, so it may wait: here for the answer of the program that calls."""
        return f"{title}, paid with " + rpcproto.peer().blocking.request("pay", 12)


async def serve() -> None:
    async with rpcproto.serve(Library(), "tcp://127.0.0.1:0") as server:
        print(server.address, flush=True)
        await asyncio.to_thread(sys.stdin.read)  # until the other program closes it


def main() -> None:
    command = [sys.executable, __file__, "serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        with rpcproto.connect_blocking(address, service={"pay": lambda euros: f"{euros} EUR"}) as library:
            print("one:", library.request("Library.find", 0))
            futures = [library.submit("Library.find", number) for number in (1, 2, 3)]
            print("three:", *sorted(future.result() for future in as_completed(futures)))
            print("all:", *library.stream("Library.titles"))
            print("ordered:", library.request("Library.order", "Emma"))
            try:
                library.request("Library.find", 7, timeout=5)
            except rpcproto.RemoteError as error:
                print("failed:", error)
        assert process.stdin is not None
        process.stdin.close()


if __name__ == "__main__":
    asyncio.run(serve()) if len(sys.argv) > 1 else main()
