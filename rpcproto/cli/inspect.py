"""``rpcproto inspect``: what a server is, offers and does."""

from __future__ import annotations

import asyncio
from typing import Any

import click

import rpcproto
from rpcproto.errors import RpcError

from ._access import client_options, in_options
from ._exit import ExitCode, exit_code, one_line
from ._json import dumps
from ._params import timeout_option
from ._run import run
from ._sections import SECTIONS, show

__all__ = ["inspect"]


@click.command(
    short_help="Show what a server offers and does.",
    epilog="""\b
Examples:
  rpcproto inspect unix:///tmp/echo.sock
  rpcproto inspect unix:///tmp/echo.sock --methods
  rpcproto inspect unix:///tmp/echo.sock --calls --watch 1
  rpcproto inspect tls://host:5555 --ca ca.pem --json | jq .server.uptime
  rpcproto inspect tcp://host:5555 --health --service Shop

\b
Who is told: peers that the server knows. Those are processes of its own user
at a unix: address, those with its secret, those with a certificate that it
verifies; or everybody, by serve(introspection="all"). --health is for all.

\b
Columns, as the server sees it:
  running     handlers at work for the peer
  pending     requests to the peer without an answer
  served      calls of the peer that were answered
  called      calls made to the peer
  queued      bytes that wait to be sent to it
  held        bytes that arrived from it and are not taken
  credit      bytes that may be sent to it before it takes any
  its credit  bytes that it may send

\b
States of calls:
  running     its handler is at work            sent      no answer yet
  cancelled   over, but its handler is not      queued    nothing sent yet
  credit      waits until the other side takes what it has
  admission   a large message waits until the other side has room
  open, sending, receiving, ending: which sides of a stream or channel still
  send, as the server sees it

\b
Exit codes:
  0    done; with --health: it is serving
  1    the server does not tell; with --health: it is not serving
  2    wrong usage: an address that makes no sense
  3    no connection could be made, or it was lost
  4    no answer in time: its event loop hangs, or is busy
  130  Ctrl-C
""",
)
@click.argument("address")
@click.option("--server", is_flag=True, help="Version, uptime, services.")
@click.option("--methods", is_flag=True, help="Methods with their signatures.")
@click.option("--connections", is_flag=True, help="Connections with their counters and credit.")
@click.option("--calls", is_flag=True, help="Calls that are open. Without any of these four: all of them.")
@click.option("--health", is_flag=True, help="Only whether calls are welcome: serving, not serving or unknown.")
@click.option("--service", default="", metavar="NAME", help="With --health: of this service.")
@click.option(
    "--most",
    type=click.IntRange(min=0, max=1000),
    default=100,
    show_default=True,
    help="How many methods, connections and calls at the most.",
)
@click.option(
    "--watch",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Show it again and again, every SECONDS, until Ctrl-C.",
)
@timeout_option(5.0, "How long to wait for the connection, and for each answer.")
@client_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line: what the built-in methods answer.")
def inspect(
    address: str,
    health: bool,
    service: str,
    most: int,
    watch: float | None,
    timeout: float,
    access: dict[str, Any],
    as_json: bool,
    **chosen: bool,
) -> int:
    """Show what the server at ADDRESS is, which methods it offers, who is connected, and which calls are open.

    It tells no arguments or results. The answers come from its event loop, in turn with all else it does.
    """
    sections = tuple(name for name in SECTIONS if chosen[name])
    if health and sections:
        raise click.UsageError("--health goes without the other sections")
    if service and not health:
        raise click.UsageError("--service goes with --health")
    look = Look(address, timeout, service if health else None, sections or tuple(SECTIONS), most)
    try:
        return run(look.go(access, watch, as_json))
    except RpcError as error:
        click.echo(f"rpcproto: {one_line(in_options(error))}", err=True)
        return exit_code(error)


class Look:
    """One run.

    Args:
        address: of the server.
        timeout: seconds for the connection, and for each answer.
        service: whose health to ask for, and nothing else; None for the sections.
        sections: what to ask for.
        most: how many of each.
    """

    def __init__(self, address: str, timeout: float, service: str | None, sections: tuple[str, ...], most: int) -> None:
        self.address = address
        self.timeout = timeout
        self.service = service
        self.sections = sections
        self.most = most

    async def go(self, access: dict[str, Any], watch: float | None, as_json: bool) -> int:
        """Connect, with the arguments ``access``, ask and print, once or every ``watch`` seconds.

        Returns:
            The exit code.

        Raises:
            RpcError: the connection could not be made or was lost, or the server does not tell.
        """
        timeouts = rpcproto.Timeouts(connect=self.timeout)
        async with rpcproto.connect(self.address, timeouts=timeouts, **access) as client:
            while True:
                facts = await self._ask(client)
                if watch is not None and not as_json:
                    click.clear()  # does nothing where the output is no terminal
                code = self._print(facts, as_json)
                if watch is None:
                    return code
                await asyncio.sleep(watch)

    async def _ask(self, client: rpcproto.Client) -> dict[str, Any]:
        if self.service is not None:
            return {"health": await client.request("rpcproto.health", self.service, timeout=self.timeout)}
        arguments = {"methods": ("", self.most), "connections": (0, self.most), "calls": (0, self.most)}
        return {
            section: await client.request(f"rpcproto.{section}", *arguments.get(section, ()), timeout=self.timeout)
            for section in self.sections
        }

    def _print(self, facts: dict[str, Any], as_json: bool) -> int:
        health = facts.get("health", "serving")
        if as_json:
            click.echo(dumps(facts))
        elif self.service is not None:
            click.echo(one_line(str(health)))
        else:
            try:
                show(facts)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise click.ClickException(
                    f"{self.address} answers what this version, {rpcproto.__version__}, does not understand"
                    f" ({type(error).__name__}: {error}); --json prints it"
                ) from error
        return ExitCode.OK if health == "serving" else ExitCode.FAILED
