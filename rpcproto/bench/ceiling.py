"""Runs ``benchmarks/ceiling.c`` on a workload: what C does on the same sockets."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from . import certificates, environment
from .errors import BenchmarkFailed, SubjectMissing
from .subjects import load_file
from .workload import SMALL_REPLY, Result, Workload

__all__ = ["run_ceiling"]

END_TIMEOUT = 20.0
"""Seconds beyond warm-up and span for the program to start and to end."""


def run_ceiling(workload: Workload, benchmarks: Path | None, notify: Callable[[str], None]) -> Result:
    """Measure the ceiling once. Handler, codec and loop mean nothing to it; a dict is taken for as many plain bytes.

    Args:
        workload: sizes, processes, window, time, transport and placement are taken from it.
        benchmarks: the folder with the program's source, as ``find_benchmarks`` found it.
        notify: told what goes on, as in :func:`rpcproto.bench.run`.

    Raises:
        SubjectMissing: no folder, or it cannot be built here.
        BenchmarkFailed: the program failed.
    """
    if benchmarks is None:
        raise SubjectMissing("needs the benchmarks folder of a checkout (--benchmarks DIR)")
    notify("preparing")
    module = load_file(benchmarks / "ceiling.py", benchmarks)
    chosen = environment.choose_cpus() if workload.pin else None
    options = [f"--procs={workload.procs}", f"--window={workload.concurrency}", f"--bytes={workload.bytes}"]
    options += [f"--seconds={workload.seconds}", f"--warmup={workload.warmup}", f"--reply-bytes={len(SMALL_REPLY)}"]
    options += ["--echo"] if workload.echo else []
    options += [f"--pin={chosen[0]},{chosen[1]}"] if chosen else []
    try:
        module.build(tls=workload.transport == "tls")
        notify("measuring")
        with ExitStack() as stack:
            if workload.transport != "tcp":
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="rpcproto-bench-"))
                if workload.transport == "unix":
                    options.append(f"--unix={folder}/socket")
                else:
                    files = certificates.make(Path(folder))
                    options += [f"--cert={files.certificate}", f"--key={files.key}"]
            neighbours = environment.Neighbours(chosen)
            figures = module.run(options, timeout=workload.warmup + workload.seconds + END_TIMEOUT)
    except module.CannotBuild as error:
        raise SubjectMissing(f"cannot be built: {error}") from None
    except RuntimeError as error:
        raise BenchmarkFailed(str(error)) from None
    notify("done")
    # The program tells its use of the span; warm-up and span are alike enough to take it for both.
    used = (figures["server_cpu_s"] + figures["client_cpu_s"]) / figures["seconds"]
    return _result(workload, figures, chosen, neighbours.cores(used))


def _result(
    workload: Workload, figures: dict[str, Any], chosen: tuple[int, int] | None, others: float | None
) -> Result:
    names = ["calls", "seconds", "rps", "mb_per_s", "p50_us", "p99_us", "p999_us"]
    names += ["cpu_us_per_call", "server_cpu_us_per_call", "client_cpu_us_per_call"]
    return Result(
        subject="ceiling",
        workload=workload,
        disturbance=others,
        versions=environment.versions(),
        machine=environment.machine(),
        build="C",
        placement={
            "pinned": chosen is not None,
            "server": [chosen[0]] if chosen else environment.cpus(),
            "clients": [chosen[1]] if chosen else environment.cpus(),
        },
        **{name: figures[name] for name in names},
    )
