"""``rpcproto bench``: how fast this machine is."""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

import click

from rpcproto import bench as engine

from ._exit import ExitCode
from ._figures import print_criteria, print_report, print_results
from ._json import dumps
from ._params import size
from ._progress import ProgressBar

__all__ = ["bench"]


def _default(option: str) -> str:
    """The default of a workload's field, as click writes defaults. What is not given is left to the workload itself."""
    return f"  [default: {getattr(engine.Workload(), option)}]"


FIXED_BY_SUITE = {"procs": "-p", "concurrency": "-c", "bytes": "-b", "codec": "--codec", "echo": "--echo"}
"""Options of the workload that make the suite's rows what they are."""

QUICK_SUBJECTS = ("rpcproto", "ceiling")
QUICK_SECONDS = 0.7
"""Measured span of each run when no option is given: all rows then take about 15 s."""

SUITE_SECONDS = 1.0
"""The same of those of ``--suite``."""


@click.command(
    short_help="Measure requests between processes on this machine.",
    epilog="""\b
Examples:
  rpcproto bench                          the standard rows, once each (15 s)
  rpcproto bench -b 10k -p 3 -c 16        3 clients x 16 calls in flight
  rpcproto bench -b 1e6 -p 3 -c 1 --unix
  rpcproto bench --handler async --no-uvloop --json | jq .rps
  rpcproto bench -c 64 --against ceiling --against streams
  rpcproto bench --suite --json > figures.json
  rpcproto bench --suite --ssl            the rows over TLS

\b
Exit codes: 0 measured, 1 a run failed, or with --suite a goal was missed,
2 wrong usage, 130 Ctrl-C.
""",
)
@click.option("-p", "--procs", type=int, metavar="N", help=f"Client processes, one connection each.{_default('procs')}")
@click.option(
    "-c", "--concurrency", type=int, metavar="N", help=f"Calls each client keeps in flight.{_default('concurrency')}"
)
@click.option(
    "-b",
    "--bytes",
    type=size,
    metavar="SIZE",
    help=f"Payload of a request: 1000, 1e6, 10k, 64KiB.{_default('bytes')}",
)
@click.option(
    "-s",
    "--seconds",
    type=float,
    metavar="SECONDS",
    help=f"How long to measure, after a short warm-up.{_default('seconds')}",
)
@click.option("--unix", "transport", flag_value="unix", help="Over a Unix socket instead of TCP on loopback.")
@click.option(
    "--ssl",
    "transport",
    flag_value="tls",
    help="Over TLS 1.3 instead of plain TCP. With --suite: the rows for TLS. It needs trustme.",
)
@click.option(
    "--uvloop/--no-uvloop",
    default=None,
    help="Loop of both sides: uvloop or asyncio's.  [default: uvloop, where installed]",
)
@click.option(
    "--handler",
    type=click.Choice(engine.HANDLERS),
    help=f"A plain function on the loop, a coroutine in a task, or a function in a thread.{_default('handler')}",
)
@click.option("--echo", is_flag=True, default=None, help="Send the payload back; else the reply is 10 bytes.")
@click.option(
    "--codec",
    type=click.Choice(engine.CODECS),
    help=f"Bytes as they are, or a small dict that holds them.{_default('codec')}",
)
@click.option(
    "--pin/--no-pin",
    default=None,
    help="Server on one CPU, clients on another. Other placements cannot be compared.  [default: pin]",
)
@click.option("--suite", is_flag=True, help="The standard rows, medians of five runs of 1 s, and their goals.")
@click.option("--repeats", type=click.IntRange(min=1), metavar="N", help="Runs of each row of --suite.  [default: 5]")
@click.option(
    "--against",
    multiple=True,
    metavar="NAME",
    help="Measure this too, on the same work: ceiling (C), prototype, rpcproto-pure, streams, pyzmq, distributed or "
    "grpc. May be repeated.",
)
@click.option(
    "--benchmarks",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The benchmarks folder of a checkout, if it is neither beside the package nor in the current folder.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def bench(
    suite: bool,
    repeats: int | None,
    against: tuple[str, ...],
    benchmarks: Path | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Measure requests per second, latency and CPU time between a server and client processes on this machine.

    Without options: the standard rows once each, beside the C ceiling, which is the same work done in C (it needs a
    C compiler and the benchmarks folder of a checkout). With options that describe a workload: that workload, once.
    With --suite: the figures to be quoted.

    rps is requests a second of all clients together; us per request is its inverse; MB/s counts what clients send.
    Latencies are measured in the clients, from the call to its reply. CPU time counts user and system time of both
    sides. Messages per send says how many messages went out with one system call.
    """
    changes = {name: value for name, value in options.items() if value is not None}
    if repeats is not None and not suite:
        raise click.UsageError("--repeats goes with --suite")
    if not suite and changes:
        return _one(engine.Workload(**changes), tuple(dict.fromkeys(("rpcproto", *against))), benchmarks, as_json)
    fixed = [option for name, option in FIXED_BY_SUITE.items() if name in changes]
    if fixed:
        raise click.UsageError(f"the rows of --suite set {', '.join(fixed)} themselves")
    if suite:
        subjects = (*engine.STANDARD_SUBJECTS, *against)
        changes.setdefault("seconds", SUITE_SECONDS)
        rows = engine.TLS_ROWS if changes.get("transport") == "tls" else engine.STANDARD_ROWS
        work = engine.Suite(rows, subjects=subjects, repeats=repeats or 5, benchmarks=benchmarks, **changes)
    else:
        rows = tuple(dataclasses.replace(row, subjects=()) for row in engine.STANDARD_ROWS)
        subjects = (*QUICK_SUBJECTS, *against)
        work = engine.Suite(rows, subjects=subjects, repeats=1, benchmarks=benchmarks, seconds=QUICK_SECONDS)
    return _suite(work, as_json, judge=suite)


def _one(workload: engine.Workload, subjects: tuple[str, ...], benchmarks: Path | None, as_json: bool) -> int:
    results = []
    with ProgressBar(len(subjects)) as bar:
        for done, subject in enumerate(subjects):
            tell = partial(_tell, bar, done, subject)
            try:
                results.append(engine.run(workload, subject=subject, benchmarks=benchmarks, notify=tell))
            except engine.BenchmarkFailed as error:
                if subject == subjects[0]:
                    raise
                raise engine.BenchmarkFailed(f"{subject}: {error}", details=error.details) from error
    if as_json:
        ours, *others = (result.to_json() for result in results)
        click.echo(dumps(ours | {"against": others}))
    else:
        print_results(results)
    return ExitCode.OK


def _tell(bar: ProgressBar, done: int, subject: str, stage: str) -> None:
    bar.show(done, f"{subject}: {stage}")


def _suite(work: engine.Suite, as_json: bool, *, judge: bool) -> int:
    interrupted = False
    with ProgressBar(len(work.plan())) as bar:
        try:
            for step in work.run():
                bar.show(step.done, f"{step.row}: {step.subject}" + (f", repeat {step.repeat}" if judge else ""))
        except KeyboardInterrupt:
            interrupted = True
    report = work.report()
    if interrupted and (as_json or not report.versions):
        raise KeyboardInterrupt
    if as_json:
        click.echo(dumps(report.to_json()))
    else:
        print_report(report)
        if judge:
            print_criteria(report)
            for caveat in report.caveats:
                click.echo(f"- {caveat}")
        else:
            click.echo("One run each. For figures to be quoted: rpcproto bench --suite.")
    if interrupted:
        raise KeyboardInterrupt
    return ExitCode.OK if report.met or not judge else ExitCode.FAILED
