"""What ``rpcproto inspect`` shows, as tables for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from ._exit import one_line
from ._output import table

__all__ = ["SECTIONS", "show"]

_LINE = 70
"""Characters of a signature or of documentation in a table."""


def show(facts: Mapping[str, Any]) -> None:
    """Print the sections that there are, in the order of :data:`SECTIONS`.

    Raises:
        KeyError, TypeError, ValueError: the facts are not what they should be.
    """
    for name, section in SECTIONS.items():
        if name in facts:
            section(facts[name])


def _server(told: Mapping[str, Any]) -> None:
    budget = told["budget"]
    rows = [
        ("listens on", ", ".join(map(one_line, told["addresses"]))),
        ("health", one_line(told["health"])),
        ("runs", f"rpcproto {told['version']} ({told['build']}), {told['python']}, process {told['pid']}"),
        ("for", _seconds(told["uptime"])),
        ("connections", f"{told['connections']:,}{_beside(told['greeting'], 'not open yet')}"),
        ("running handlers", f"{told['running']:,}"),
        ("reassembly budget", f"{_size(budget['reserved'])} of {_size(budget['size'])}{_waiting(budget['waiting'])}"),
    ]
    table(None, [(name, one_line(value)) for name, value in rows])
    services = [
        (one_line(one["name"] or "(none)"), f"{one['methods']:,}", one_line(one["health"]), one_line(one["defined"]))
        for one in told["services"]
    ]
    table(("service", "methods", "health", "class"), services, numbers=(1,))


def _methods(page: Mapping[str, Any]) -> None:
    rows = [
        (
            _short(one["name"] + one["signature"]),
            one_line(one["kind"]),
            one_line(one["runs"]),
            _short(one["doc"].partition("\n")[0]),
        )
        for one in page["methods"]
    ]
    _page(("method", "kind", "runs", ""), rows, page)


def _connections(page: Mapping[str, Any]) -> None:
    rows = [
        (
            f"{one['id']:,}",
            one_line(one["address"]),
            _who(one),
            _seconds(one["age"]),
            one_line(one["state"]) + (", paused" if one["paused"] else ""),
            f"{one['running']:,}",
            f"{one['pending']:,}",
            f"{one['flows']:,}",
            f"{one['stats']['calls_served']:,}",
            f"{one['stats']['calls_opened']:,}",
            _size(one["stats"]["bytes_received"]),
            _size(one["stats"]["bytes_sent"]),
            _size(one["queued"]),
            _size(one["credit_calls"]),
            _size(one["left_calls"]),
        )
        for one in page["connections"]
    ]
    head = ("id", "peer", "is", "age", "state", "running", "pending", "flows", "served", "called", "received", "sent")
    _page((*head, "queued", "credit", "its credit"), rows, page, numbers=(0, *range(5, 15)))


def _calls(page: Mapping[str, Any]) -> None:
    rows = [
        (
            f"{one['connection']:,}",
            f"{one['id']:,}",
            one_line(one["direction"]),
            one_line(one["kind"]),
            _short(one["method"]),
            one_line(one["state"]),
            "" if one["time_left"] is None else _seconds(max(0.0, one["time_left"])),
            _size(one["held"]),
            _size(one["queued"]),
            "" if one["credit"] is None else _size(one["credit"]),
            "" if one["window"] is None else _size(one["window"]),
        )
        for one in page["calls"]
    ]
    head = ("connection", "call", "", "kind", "method", "state", "time left", "held", "queued", "credit", "its credit")
    _page(head, rows, page, numbers=(0, 1, 6, 7, 8, 9, 10))


SECTIONS: dict[str, Callable[[Mapping[str, Any]], None]] = {
    "server": _server,
    "methods": _methods,
    "connections": _connections,
    "calls": _calls,
}
"""How each part of the answer is printed, by the built-in method that tells it."""


def _page(
    head: Sequence[str], rows: Sequence[Sequence[str]], page: Mapping[str, Any], numbers: tuple[int, ...] = ()
) -> None:
    if rows:
        table(head, rows, numbers=numbers)
    else:
        what = next(name for name in page if name != "left_out")
        click.echo(f"no {one_line(what)}\n")
    if page["left_out"]:
        click.echo(f"{page['left_out']:,} more are left out; --most shows more\n")


def _who(one: Mapping[str, Any]) -> str:
    """Who a peer is, as far as that is known."""
    if not one["authenticated"]:
        return "a stranger"
    if one["certificate"] is not None:
        return _short(one["certificate"])
    if one["user"] is not None:
        process = "" if one["process"] is None else f", process {one['process']}"
        return f"user {one['user']}{process}"
    return "authenticated"


def _short(text: str) -> str:
    text = one_line(text)
    return text if len(text) <= _LINE else text[: _LINE - 3] + "..."


def _beside(count: int, what: str) -> str:
    return f", {count:,} {what}" if count else ""


def _waiting(count: int) -> str:
    return _beside(count, "messages wait for more")


def _size(size: int) -> str:
    if abs(size) < 1024:
        return f"{size} B"
    value = float(size)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        value /= 1024
        if abs(value) < 1024 or unit == "TiB":
            break
    return f"{value:.1f} {unit}"


def _seconds(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 24 else f"{hours // 24} d {hours % 24} h"
