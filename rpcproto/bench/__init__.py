"""Measures requests between processes on this machine: the engine of ``rpcproto bench``, without any printing.

:func:`run` measures one :class:`Workload` once and returns a :class:`Result`. :class:`Suite` runs the standard rows,
interleaved with the C ceiling, the featureless prototype and the peers of a checkout's ``benchmarks`` folder, which is
not part of the installed package.

Rules: this package uses the public names of rpcproto and the base row only. What is measured runs in fresh processes of
its own, and the same client loop drives every subject. No module here prints.
"""

from __future__ import annotations

from .engine import run
from .errors import BenchmarkFailed, SubjectMissing, Unsupported
from .subjects import find_benchmarks
from .suite import (
    STANDARD_ROWS,
    STANDARD_SUBJECTS,
    TLS_ROWS,
    Cell,
    Criterion,
    Progress,
    Row,
    RowReport,
    Suite,
    SuiteReport,
    Target,
)
from .workload import CODECS, HANDLERS, TRANSPORTS, Result, Workload

__all__ = [
    "CODECS",
    "HANDLERS",
    "STANDARD_ROWS",
    "STANDARD_SUBJECTS",
    "TLS_ROWS",
    "TRANSPORTS",
    "BenchmarkFailed",
    "Cell",
    "Criterion",
    "Progress",
    "Result",
    "Row",
    "RowReport",
    "SubjectMissing",
    "Suite",
    "SuiteReport",
    "Target",
    "Unsupported",
    "Workload",
    "find_benchmarks",
    "run",
]
