"""Runs one workload: a server process, client processes, a warm-up, a measured span; nothing is left behind.

All processes are fresh interpreters. Clients connect, check one reply and report; when all are ready they begin
together. Every process takes its own readings at the start and the end of the span and divides by its own time between
the two, so it does no harm that a busy process takes them a little late.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from . import certificates, environment
from ._process import Children
from .ceiling import run_ceiling
from .histogram import Histogram
from .subjects import check_supported, find_benchmarks, find_subject
from .workload import Result, Workload

__all__ = ["run"]

START_TIMEOUT = 60.0
"""Seconds for a process to start, import, and serve or connect."""

END_TIMEOUT = 20.0
"""Seconds after the measured span for the last calls and the report."""

PURE_SUFFIX = "-pure"
"""``rpcproto-pure`` is rpcproto without its compiled modules."""


def run(
    workload: Workload,
    *,
    subject: str = "rpcproto",
    benchmarks: Path | None = None,
    notify: Callable[[str], None] | None = None,
) -> Result:
    """Measure one workload once. Blocks for about a second longer than the workload's warm-up and span.

    Ctrl-C (KeyboardInterrupt) ends all processes, like any other exception.

    Args:
        workload: what to do.
        subject: ``"rpcproto"``, ``"rpcproto-pure"``, ``"ceiling"``, or one of the benchmarks folder: ``"prototype"``,
            ``"streams"``, ...
        benchmarks: the benchmarks folder, if it is neither beside the package nor in the current folder.
        notify: called with ``"preparing"``, ``"starting"``, ``"warming up"``, ``"measuring"`` and ``"done"``.

    Raises:
        ConfigurationError: ``benchmarks`` is not such a folder, or trustme, which TLS needs, is not installed.
        SubjectMissing: the subject is not installed or cannot be built here.
        Unsupported: the subject cannot do the workload.
        BenchmarkFailed: a process failed or did not answer; the text says which and why in one line.
    """
    tell = notify or _quiet
    folder = find_benchmarks(benchmarks)
    if subject == "ceiling":
        return run_ceiling(workload, folder, tell)
    base = subject.removesuffix(PURE_SUFFIX)
    tell("preparing")
    measured = find_subject(base, folder)
    check_supported(base, measured, workload)
    measured.prepare()

    chosen = environment.choose_cpus() if workload.pin else None
    variables = {"RPCPROTO_PURE": "1"} if subject.endswith(PURE_SUFFIX) else {}
    job: dict[str, Any] = {
        "workload": workload.to_json(),
        "subject": base,
        "benchmarks": str(folder) if folder else None,
    }
    with ExitStack() as stack:
        tell("starting")
        address = f"{workload.transport}://127.0.0.1:0"
        if workload.transport != "tcp":
            files = stack.enter_context(tempfile.TemporaryDirectory(prefix="rpcproto-bench-"))
            if workload.transport == "unix":
                address = f"unix://{files}/socket"
            else:
                certificates.make(Path(files))
                variables[certificates.VARIABLE] = files
        children = stack.enter_context(Children())
        server_job = job | {"address": address, "cpu": chosen[0] if chosen else None}
        server = children.start("server", "rpcproto.bench._server", server_job, variables)
        [serving] = children.reports([server], START_TIMEOUT)
        client_job = job | {"address": serving["address"], "cpu": chosen[1] if chosen else None}
        clients = [
            children.start(f"client {number}", "rpcproto.bench._client", client_job, variables)
            for number in range(1, workload.procs + 1)
        ]
        children.reports(clients, START_TIMEOUT)

        tell("warming up")
        start = time.monotonic() + workload.warmup
        for child in (server, *clients):
            child.send({"start": start, "end": start + workload.seconds})
        time.sleep(max(0.0, start - time.monotonic()))
        tell("measuring")
        neighbours = environment.Neighbours(chosen)
        timeout = workload.seconds + END_TIMEOUT
        server_figures, *client_figures = children.reports([server, *clients], timeout)
        others = neighbours.cores(sum(each["cpu_s"] / each["seconds"] for each in (server_figures, *client_figures)))
        server.send({"stop": True})
        for child in (*clients, server):
            child.ended(END_TIMEOUT)
    tell("done")
    return _result(subject, workload, serving, server_figures, client_figures, chosen, others)


def _quiet(_: str) -> None:
    pass


def _result(
    subject: str,
    workload: Workload,
    serving: Mapping[str, Any],
    server: Mapping[str, Any],
    clients: Sequence[Mapping[str, Any]],
    chosen: tuple[int, int] | None,
    others: float | None,
) -> Result:
    latencies = Histogram()
    for figures in clients:
        latencies.add(Histogram(figures["latencies"]))
    # Each process has its own span: rates add up, totals would not.
    rps = max(sum(figures["calls"] / figures["seconds"] for figures in clients), 1e-9)
    server_cores = server["cpu_s"] / server["seconds"]
    client_cores = sum(figures["cpu_s"] / figures["seconds"] for figures in clients)
    return Result(
        subject=subject,
        workload=workload,
        calls=sum(figures["calls"] for figures in clients),
        seconds=sum(figures["seconds"] for figures in clients) / len(clients),
        rps=rps,
        mb_per_s=rps * workload.bytes / 1e6,
        p50_us=latencies.quantile(0.5) / 1e3,
        p99_us=latencies.quantile(0.99) / 1e3,
        p999_us=latencies.quantile(0.999) / 1e3,
        cpu_us_per_call=1e6 * (server_cores + client_cores) / rps,
        server_cpu_us_per_call=1e6 * server_cores / rps,
        client_cpu_us_per_call=1e6 * client_cores / rps,
        server_messages_per_send=_messages_per_send([server]),
        client_messages_per_send=_messages_per_send(clients),
        disturbance=others,
        versions=serving["versions"],
        machine=environment.machine(),
        build=serving["build"] if subject.startswith("rpcproto") else subject,
        placement={
            "pinned": chosen is not None,
            "server": serving["cpus"],
            "clients": [chosen[1]] if chosen else serving["cpus"],
        },
    )


def _messages_per_send(figures: Sequence[Mapping[str, Any]]) -> float | None:
    sent = [each["sent"] for each in figures]
    if not sent or None in sent or not sum(calls for _, calls in sent):
        return None
    return float(sum(messages for messages, _ in sent) / sum(calls for _, calls in sent))
