"""Results of benchmarks as tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

import rpcproto
from rpcproto.bench import Cell, Criterion, Result, RowReport, SuiteReport, Target, Workload

from ._output import table

__all__ = ["print_criteria", "print_report", "print_results"]

FIGURES = {
    "rps": "requests/s",
    "p50_us": "p50",
    "cpu_us_per_call": "CPU per call",
}
"""What targets may compare, in words."""

MOST_DISTURBANCE = 0.1
"""Cores that others may use before the figures come with a warning."""


def print_head(figures: Result | SuiteReport) -> None:
    """Versions, machine and placement: without them the figures mean nothing."""
    versions, machine = figures.versions, figures.machine
    libraries = [f"{name} {versions[name]}" for name in ("uvloop", "msgpack") if versions.get(name)]
    click.echo(", ".join([f"rpcproto {rpcproto.__version__} ({figures.build})", str(versions["python"]), *libraries]))
    click.echo(f"{machine['cpu']}, {machine['cpus']} CPUs, load {machine['load_1m']}; {placement(figures.placement)}")
    click.echo()


def print_disturbance(figures: Iterable[Result | Cell]) -> None:
    """A warning, if other processes were at work on the CPUs that were measured on."""
    most = max((each.disturbance for each in figures if each.disturbance is not None), default=0.0)
    if most > MOST_DISTURBANCE:
        click.echo(f"Other processes kept up to {most:.1f} of these CPUs busy meanwhile. Do not trust these figures.\n")


def placement(where: Mapping[str, Any]) -> str:
    """Where the processes ran, in words."""
    if not where["pinned"]:
        return "not pinned: such figures vary by up to 3x"
    server, clients = (", ".join(map(str, where[side])) for side in ("server", "clients"))
    return f"server on CPU {server}, clients on CPU {clients}"


def describe(workload: Workload) -> str:
    """The workload in a line."""
    clients = f"{workload.procs} client{'s' * (workload.procs > 1)}"
    kind = {"raw": "bytes", "msgpack": "bytes in a dict (msgpack)"}[workload.codec]
    answer = "echoed" if workload.echo else "10 bytes back"
    loop = "uvloop" if workload.uvloop else "asyncio"
    return (
        f"{workload.bytes:,} {kind}, {answer}; {clients} x {workload.concurrency} calls in flight; "
        f"{workload.handler} handler, {workload.transport}, {loop}, {workload.seconds:g} s"
    )


def print_results(results: Sequence[Result]) -> None:
    """One workload: a column for each subject."""
    print_head(results[0])
    click.echo(describe(results[0].workload))
    click.echo()
    rows = {
        "requests/s": [f"{r.rps:,.0f}" for r in results],
        "us per request": [number(r.us_per_request) for r in results],
        "MB/s": [number(r.mb_per_s) for r in results],
        "p50 us": [number(r.p50_us) for r in results],
        "p99 us": [number(r.p99_us) for r in results],
        "p99.9 us": [number(r.p999_us) for r in results],
        "CPU us per call": [number(r.cpu_us_per_call) for r in results],
        "  server": [number(r.server_cpu_us_per_call) for r in results],
        "  clients": [number(r.client_cpu_us_per_call) for r in results],
        "messages per send, server": [number(r.server_messages_per_send) for r in results],
        "messages per send, clients": [number(r.client_messages_per_send) for r in results],
    }
    head = ("", *(result.subject for result in results))
    table(head, [(name, *cells) for name, cells in rows.items()], numbers=range(1, len(head)))
    print_disturbance(results)


def print_report(report: SuiteReport) -> None:
    """The rows of a suite: a line for each subject, and why any are missing."""
    print_head(report)
    rows = [line for row in report.rows for line in _lines(row)]
    head = ("work", "", "requests/s", "of C", "MB/s", "p50 us", "p99 us", "p99.9 us", "CPU us/call", "messages/send")
    table(head, rows, numbers=range(2, len(head)))
    for subject, reason in report.skipped.items():
        click.echo(f"{subject} was not measured: {reason}")
    click.echo("of C: share of the ceiling's requests/s. CPU: server + clients. Messages/send: server / clients.\n")
    print_disturbance(cell for row in report.rows for cell in row.cells.values())


def _lines(row: RowReport) -> list[tuple[str, ...]]:
    ceiling = row.cells.get("ceiling")
    return [
        (
            "" if index else row.name,
            cell.subject,
            f"{cell.rps:,.0f}",
            "" if ceiling is None or cell is ceiling else f"{cell.rps / ceiling.rps:.2f}",
            number(cell.mb_per_s),
            number(cell.p50_us),
            number(cell.p99_us),
            number(cell.p999_us),
            f"{number(cell.server_cpu_us_per_call)} + {number(cell.client_cpu_us_per_call)}",
            _per_send(cell),
        )
        for index, cell in enumerate(row.cells.values())
    ]


def _per_send(cell: Cell) -> str:
    if cell.server_messages_per_send is None:
        return ""
    return f"{number(cell.server_messages_per_send)} / {number(cell.client_messages_per_send)}"


def print_criteria(report: SuiteReport) -> None:
    """What each row must reach and what it did."""
    rows = []
    for row in report.rows:
        for index, criterion in enumerate(row.criteria):
            rows.append(("" if index else row.name, *_judged(criterion)))
    table(("work", "criterion", "goal", "reached", ""), rows, numbers=(2, 3))


def _judged(criterion: Criterion) -> tuple[str, str, str, str]:
    if criterion.ratio is None:
        return _words(criterion.target), _goal(criterion.target), "", "not measured"
    return (
        _words(criterion.target),
        _goal(criterion.target),
        number(criterion.ratio),
        "met" if criterion.met else "MISSED",
    )


def _words(target: Target) -> str:
    ours = "" if target.of == "rpcproto" else f"{target.of}: "
    return f"{ours}{FIGURES.get(target.figure, target.figure)} / {target.against}'s"


def _goal(target: Target) -> str:
    return f">= {target.at_least:g}" if target.at_least is not None else f"<= {target.at_most:g}"


def number(value: float | None) -> str:
    """Three significant digits without an exponent; nothing for None."""
    if value is None:
        return ""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
