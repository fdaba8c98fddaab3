"""``rpcproto info``: what runs here, for bug reports and for those who wonder whether the fast build is in use."""

from __future__ import annotations

import dataclasses
from typing import Any

import click

import rpcproto
from rpcproto import _build

from ._json import dumps
from ._output import table
from ._run import loop_factory

__all__ = ["info"]


@click.command(
    short_help="Show version, build, Python and the default limits.",
    epilog="""\b
Examples:
  rpcproto info
  rpcproto info --json | jq .build
  RPCPROTO_PURE=1 rpcproto info            the build in Python only

\b
Exit codes: 0 always.
""",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")
def info(as_json: bool) -> None:
    """Show what runs here: version, build, Python, event loop, libraries, and the limits and time-outs in force when
    none are given.

    The build is "compiled" when every module of the hot path is, "pure" when none is (RPCPROTO_PURE=1, or there was
    no compiler), and "mixed" when something went wrong with it.
    """
    facts = collect()
    if as_json:
        click.echo(dumps(facts))
        return
    modules, limits, timeouts = facts.pop("modules"), facts.pop("limits"), facts.pop("timeouts")
    table(None, [(name, str(value)) for name, value in facts.items()])
    table(("module", "form"), list(modules.items()))
    table(("limit", "default"), [(name, f"{value:,}") for name, value in limits.items()], numbers=(1,))
    table(("time-out", "default"), [(name, f"{value:g} s") for name, value in timeouts.items()], numbers=(1,))


def collect() -> dict[str, Any]:
    """Everything that the command shows. Limits in bytes or counts, time-outs in seconds."""
    facts = {"rpcproto": rpcproto.__version__, **_build.describe()}
    facts["loop"] = "asyncio" if loop_factory() is None else "uvloop"
    facts["limits"] = dataclasses.asdict(rpcproto.Limits())
    facts["timeouts"] = dataclasses.asdict(rpcproto.Timeouts())
    return facts
