"""Where a run takes place: versions, machine, and which CPUs its processes may use."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from .. import _build

__all__ = ["Neighbours", "build", "choose_cpus", "cpus", "machine", "pin", "versions"]


def versions() -> dict[str, str | None]:
    """Versions of Python, rpcproto and what it runs on; None for what is not installed."""
    found: dict[str, str | None] = {"python": f"{platform.python_implementation()} {platform.python_version()}"}
    for distribution in ("rpcproto", "uvloop", "msgpack"):
        try:
            found[distribution] = importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            found[distribution] = None
    return found


def build() -> str:
    """Which build of rpcproto this process runs: ``"compiled"``, ``"pure"`` or ``"mixed"``."""
    return str(_build.describe()["build"])


def machine() -> Mapping[str, Any]:
    """The machine, and how busy it was just now: another load is the first thing to suspect in odd figures."""
    try:
        load = round(os.getloadavg()[0], 2)
    except OSError:
        load = None
    return {"system": platform.platform(), "cpu": _cpu_model(), "cpus": os.cpu_count(), "load_1m": load}


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def cpus() -> list[int] | None:
    """The CPUs that this process may use, or None where the system does not tell."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


def choose_cpus() -> tuple[int, int] | None:
    """The CPUs for the server and for the clients: the first two allowed. None if there are not two, or the system
    cannot pin."""
    allowed = cpus()
    return (allowed[0], allowed[1]) if allowed and len(allowed) > 1 else None


def pin(cpu: int) -> None:
    """Let this process, and the threads it will start, run on one CPU only."""
    os.sched_setaffinity(0, {cpu})


class Neighbours:
    """What other processes do on some CPUs, from when this is made.

    Args:
        on: the CPUs; None stands for all of them.
    """

    def __init__(self, on: Collection[int] | None) -> None:
        self._on = on
        self._begin = self._read()

    def _read(self) -> tuple[float, float | None]:
        try:
            lines = Path("/proc/stat").read_text().splitlines()
        except OSError:
            return time.monotonic(), None
        ticks = 0
        for line in lines:
            name, *fields = line.split()
            if name[:3] == "cpu" and name[3:].isdigit() and (self._on is None or int(name[3:]) in self._on):
                user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields[:8])
                ticks += user + nice + system + irq + softirq + steal
        return time.monotonic(), ticks / os.sysconf("SC_CLK_TCK")

    def cores(self, ours: float) -> float | None:
        """Cores in use since then, less ``ours``; None where the system does not tell."""
        (then, before), (now, after) = self._begin, self._read()
        if before is None or after is None or now == then:
            return None
        return max(0.0, (after - before) / (now - then) - ours)
