"""``rpcproto call``: one request from the command line."""

from __future__ import annotations

import time
from typing import Any

import click

import rpcproto
from rpcproto.errors import NoSuchMethod, RpcError

from ._access import client_options, in_options
from ._exit import ExitCode, exit_code, one_line, printable
from ._json import dumps, parse_argument, pretty
from ._methods import complete_method, find_method, hint, spelled
from ._params import timeout_option
from ._run import run

__all__ = ["call"]


@click.command(
    short_help="Call a method once and print its result.",
    context_settings={"ignore_unknown_options": True},
    epilog="""\b
Examples:
  rpcproto call tcp://127.0.0.1:5555 Echo.echo '"hello"'
  rpcproto call tcp://127.0.0.1:5555 Echo.echo '{"x": [1, 2.5, null]}'
  rpcproto call tcp://127.0.0.1:5555 Echo.sleep 10 --timeout 0.5
  rpcproto call tcp://127.0.0.1:5555 Echo.fail -v
  rpcproto call unix:///tmp/echo.sock Echo.echo '{"$bytes": "AAEC"}'
  rpcproto call unix:///tmp/echo.sock Echo.sleep --describe

\b
What JSON lacks:
  bytes        {"$bytes": "<base64>"}, in arguments and in the result
  NaN, +-inf   "NaN", "Infinity", "-Infinity"
  map keys     that are not text: their JSON as text
  other types  their text

\b
A server tells of its methods to those that it knows; rpcproto inspect --help
says who that is. They get suggestions for a wrong METHOD, and their shell can
complete it. For bash, in ~/.bashrc (for zsh and fish likewise):
  eval "$(_RPCPROTO_COMPLETE=bash_source rpcproto)"

\b
Exit codes:
  0  the call was answered
  1  it failed: the handler raised, the peer refused it, it could not be sent
  2  wrong usage: an argument that is not JSON, an address that makes no sense
  3  no connection could be made, or it was lost
  4  the time was over; the handler may have run
""",
)
@click.argument("address")
@click.argument("method", shell_complete=complete_method)
@click.argument("arguments", metavar="[JSON]...", nargs=-1, type=click.UNPROCESSED)
@timeout_option(30.0, "How long connecting may take, and then the call. The peer is told, and gives up too.")
@click.option(
    "--codec",
    default="msgpack",
    show_default=True,
    help="How values travel: msgpack, or raw for a method that takes one piece of bytes.",
)
@client_options
@click.option("--describe", is_flag=True, help="Do not call METHOD: show its signature and documentation.")
@click.option("-v", "--verbose", is_flag=True, help="After an error in the handler, print its traceback too.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help='Print one JSON line, {"ok": true, "result": ..., "us": ...} or {"ok": false, "error": {...}}.',
)
def call(
    address: str,
    method: str,
    arguments: tuple[str, ...],
    timeout: float,
    codec: str,
    access: dict[str, Any],
    describe: bool,
    verbose: bool,
    as_json: bool,
) -> int:
    """Call METHOD of the service at ADDRESS once and print what it returns, as JSON.

    Each argument is a JSON text: 5, true, '"text"' (with its quotes), '[1, 2]', '{"key": null}'.
    """
    values = [_parse(number, text) for number, text in enumerate(arguments, 1)]
    try:
        if describe:
            told = run(_describe_method(address, method, timeout, access))
            click.echo(dumps(told) if as_json else spelled(told))
            return ExitCode.OK
        result, seconds = run(_call(address, method, values, timeout, codec, access))
    except RpcError as error:
        if as_json:
            click.echo(dumps({"ok": False, "error": _describe(error)}))
        click.echo(f"rpcproto: {one_line(in_options(error))}", err=True)
        if verbose and isinstance(error, rpcproto.RemoteError):
            trace = error.traceback or "(the peer sends no tracebacks; rpcproto serve does with --tracebacks)"
            click.echo(printable(trace).rstrip("\n"), err=True)
        return exit_code(error)
    click.echo(dumps({"ok": True, "result": result, "us": round(seconds * 1e6, 1)}) if as_json else pretty(result))
    return ExitCode.OK


async def _call(
    address: str,
    method: str,
    values: list[object],
    timeout: float,
    codec: str,
    access: dict[str, Any],
) -> tuple[object, float]:
    timeouts = rpcproto.Timeouts(connect=timeout)
    async with rpcproto.connect(address, codec=codec, timeouts=timeouts, **access) as client:
        started = time.perf_counter()
        try:
            result = await client.request(method, *values, timeout=timeout)
        except NoSuchMethod as error:
            text = await hint(client, method)
            raise NoSuchMethod(f"{error}{text}", method=error.method, peer=error.peer) from error
        return result, time.perf_counter() - started


async def _describe_method(address: str, method: str, timeout: float, access: dict[str, Any]) -> dict[str, Any]:
    timeouts = rpcproto.Timeouts(connect=timeout)
    async with rpcproto.connect(address, timeouts=timeouts, **access) as client:
        return await find_method(client, method, timeout)


def _parse(number: int, text: str) -> object:
    try:
        return parse_argument(text)
    except ValueError as error:
        if text.startswith("-"):
            raise click.UsageError(f"no such option: {text}") from None
        hint = "" if set(text) & set("\"'[]{}:,\\") else f"; for text, put it in quotes: '\"{text}\"'"
        raise click.UsageError(f"argument {number} is not JSON: {text}: {error}{hint}") from None


def _describe(error: RpcError) -> dict[str, object]:
    """What a program wants to know of an error: its class, its message, and the fields that class has."""
    return {"class": type(error).__name__, "message": str(error), **vars(error)}
