"""The service that ``rpcproto serve`` offers: enough to try calls, time-outs and errors against."""

from __future__ import annotations

import asyncio

import rpcproto

__all__ = ["Echo"]


class Echo(rpcproto.Service):
    """Gives back what it gets, at once or later, or fails."""

    @rpcproto.request
    def echo(self, value: object) -> object:
        """Give ``value`` back."""
        return value

    @rpcproto.request
    async def sleep(self, seconds: float, value: object = None) -> object:
        """Give ``value`` back after ``seconds``. Other calls go on meanwhile."""
        await asyncio.sleep(seconds)
        return value

    @rpcproto.request
    def fail(self, text: str = "you asked for it") -> None:
        """Raise a ValueError, to see what a caller gets."""
        raise ValueError(text)
