"""``rpcproto ping``: round-trip times to a peer."""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
from typing import Any

import click

import rpcproto
from rpcproto.errors import RpcError

from ._access import client_options, in_options
from ._exit import ExitCode, one_line
from ._json import dumps
from ._params import timeout_option
from ._run import run

__all__ = ["ping"]


@click.command(
    short_help="Measure the round-trip time to a peer.",
    epilog="""\b
Examples:
  rpcproto ping tcp://127.0.0.1:5555
  rpcproto ping unix:///tmp/echo.sock -n 0             until Ctrl-C
  rpcproto ping tls://host:5555 --ca ca.pem
  rpcproto ping tcp://host:5555 -n 100 -i 0 --json | jq .median_us

\b
Exit codes: 0 every ping was answered, 1 the address could not be reached or
stopped answering, 2 wrong usage, 130 Ctrl-C.
""",
)
@click.argument("address")
@click.option(
    "-n",
    "--count",
    type=click.IntRange(min=0),
    default=5,
    show_default=True,
    help="How many pings; 0 goes on until Ctrl-C.",
)
@click.option(
    "-i",
    "--interval",
    type=click.FloatRange(min=0),
    default=0.2,
    show_default=True,
    metavar="SECONDS",
    help="Pause between two pings.",
)
@timeout_option(5.0, "How long to wait for the connection, and for each answer.")
@client_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end instead; times are in us.")
def ping(address: str, count: int, interval: float, timeout: float, access: dict[str, Any], as_json: bool) -> int:
    """Connect to ADDRESS and measure how long a ping takes there and back.

    A ping is answered by the peer's event loop, ahead of all that is queued, and runs no handler: it shows the
    network and how busy the loop is, not how fast a service works.
    """
    session = Session(address, as_json)
    try:
        run(session.ping(count, interval, timeout, access))
    except KeyboardInterrupt:
        click.echo(err=True)  # ends the line in which a terminal shows ^C
        session.summary()
        return ExitCode.INTERRUPTED
    except RpcError as error:
        session.summary()
        click.echo(f"rpcproto: {one_line(in_options(error))}", err=True)
        return ExitCode.USAGE if isinstance(error, rpcproto.ConfigurationError) else ExitCode.FAILED
    session.summary()
    return ExitCode.OK


class Session:
    """One run: the times so far, and how they are printed.

    Args:
        address: whom to ping.
        as_json: print nothing but one JSON object at the end.
    """

    def __init__(self, address: str, as_json: bool) -> None:
        self.address = address
        self.as_json = as_json
        self.connect_time: float | None = None
        self.times: list[float] = []

    async def ping(self, count: int, interval: float, timeout: float, access: dict[str, Any]) -> None:
        """Connect, with the arguments ``access``, and send ``count`` pings, 0 for no end, ``interval`` seconds apart.

        Raises:
            RpcError: the connection could not be made or an answer did not come in ``timeout`` seconds, or it was lost.
        """
        started = time.perf_counter()
        timeouts = rpcproto.Timeouts(connect=timeout)
        async with rpcproto.connect(self.address, timeouts=timeouts, **access) as client:
            self.connect_time = time.perf_counter() - started
            self._say(f"connected to {client.address} in {self.connect_time * 1e3:.3f} ms")
            for number in itertools.count(1) if count == 0 else range(1, count + 1):
                if number > 1:
                    await asyncio.sleep(interval)
                self.times.append(await client.ping(timeout))
                self._say(f"seq={number} time={self.times[-1] * 1e3:.3f} ms")

    def summary(self) -> None:
        """Print the JSON object, or the last line if there was any answer."""
        if self.as_json:
            click.echo(dumps(self._figures()))
        elif self.times:
            low, middle, high = min(self.times), statistics.median(self.times), max(self.times)
            click.echo(
                f"{len(self.times)} answered: min/median/max = {low * 1e3:.3f}/{middle * 1e3:.3f}/{high * 1e3:.3f} ms"
            )

    def _figures(self) -> dict[str, object]:
        micros = [round(seconds * 1e6, 1) for seconds in self.times]
        return {
            "address": self.address,
            "connect_us": None if self.connect_time is None else round(self.connect_time * 1e6, 1),
            "answered": len(micros),
            "times_us": micros,
            "min_us": min(micros, default=None),
            "median_us": statistics.median(micros) if micros else None,
            "max_us": max(micros, default=None),
        }

    def _say(self, line: str) -> None:
        if not self.as_json:
            click.echo(line)
