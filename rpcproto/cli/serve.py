"""``rpcproto serve``: the echo service."""

from __future__ import annotations

import asyncio
import logging
import signal
from typing import Any

import click

import rpcproto
from rpcproto.errors import ConfigurationError

from ._access import in_options, server_options
from ._json import dumps
from ._run import run

__all__ = ["serve"]


@click.command(
    short_help="Run the echo service, to try things against.",
    epilog="""\b
Methods:
  Echo.echo VALUE            gives VALUE back
  Echo.sleep SECONDS [VALUE] gives VALUE back after a while
  Echo.fail [TEXT]           raises ValueError(TEXT)

\b
Examples:
  rpcproto serve                                  a free port of this machine
  rpcproto serve tcp://127.0.0.1:5555 unix:///tmp/echo.sock
  rpcproto serve tcp://0.0.0.0:5555 --secret-file FILE
  rpcproto serve tls://0.0.0.0:5555 --certificate server.pem --ca ca.pem
  rpcproto serve tcp://0.0.0.0:5555 --insecure    everyone may call

\b
Exit codes: 0 stopped by a signal, 2 wrong usage, 3 an address cannot be
listened on.
""",
)
@click.argument("addresses", metavar="[ADDRESS]...", nargs=-1)
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long calls under way may take to end after SIGINT or SIGTERM. A second signal ends them at once.",
)
@server_options
@click.option("--insecure", is_flag=True, help="Allow addresses that other machines can reach. Anyone may call then.")
@click.option(
    "--introspection",
    type=click.Choice(["authenticated", "all", "none"]),
    default="authenticated",
    show_default=True,
    help="Whom to tell what inspect shows: peers that are known, everybody, or nobody.",
)
@click.option("--tracebacks", is_flag=True, help="Send the traceback of an error in a handler to the caller.")
@click.option("--json", "as_json", is_flag=True, help='Print the addresses as one JSON line: {"addresses": [...]}.')
def serve(
    addresses: tuple[str, ...],
    grace: float,
    access: dict[str, Any],
    insecure: bool,
    introspection: str,
    tracebacks: bool,
    as_json: bool,
) -> None:
    """Run the echo service until SIGINT or SIGTERM.

    Prints the addresses it listens on, one a line, as soon as it does; that is what to give to ping and call.
    The default is tcp://127.0.0.1:0: a free port, reached from this machine only.
    """
    logging.basicConfig(format="rpcproto: %(message)s")
    options = access | {"insecure": insecure, "introspection": introspection, "tracebacks": tracebacks}
    run(_serve(addresses or ("tcp://127.0.0.1:0",), grace, options, as_json))


async def _serve(addresses: tuple[str, ...], grace: float, options: dict[str, Any], as_json: bool) -> None:
    from ._echo import Echo

    signals: asyncio.Queue[int] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, signals.put_nowait, number)

    try:
        server = await rpcproto.serve(Echo(), *addresses, **options)
    except ConfigurationError as error:
        raise ConfigurationError(in_options(error)) from error
    click.echo(dumps({"addresses": list(server.addresses)}) if as_json else "\n".join(server.addresses))

    first = signal.Signals(await signals.get())
    click.echo(f"rpcproto: {first.name}: stopping, calls under way have {grace:g} s to end", err=True)
    closing = asyncio.ensure_future(server.close(grace=grace))
    second = asyncio.ensure_future(signals.get())
    await asyncio.wait((closing, second), return_when=asyncio.FIRST_COMPLETED)
    second.cancel()
    if not closing.done():
        await server.close(grace=0)
    await closing
