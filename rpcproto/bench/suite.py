"""The standard rows, and what they must reach: our figures beside the ceiling's and the prototype's.

Runs are interleaved: within a repeat a row's subjects follow one another, in an order that is rotated from repeat to
repeat, and the rows go round before the next repeat. A drift of the machine then touches all of them alike. A figure is
the median of its repeats; a ratio is a ratio of medians.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import ConfigurationError
from .engine import run
from .errors import BenchmarkFailed, SubjectMissing, Unsupported
from .workload import Result, Workload

__all__ = [
    "CAVEATS",
    "STANDARD_ROWS",
    "STANDARD_SUBJECTS",
    "TLS_ROWS",
    "Cell",
    "Criterion",
    "Progress",
    "Row",
    "RowReport",
    "Suite",
    "SuiteReport",
    "Target",
]

STANDARD_SUBJECTS = ("rpcproto", "ceiling", "prototype")

CAVEATS = (
    "All processes share this machine: a busy one, few cores or frequency scaling move every figure. Trust the ratios.",
    "Server and clients are pinned to one CPU each; unpinned figures differ by up to 3x and cannot be compared.",
    "Handlers do nothing. In most services the handler costs more than the call.",
    "The ceiling is one single-threaded epoll server with blocking clients: the best of that form, not of C.",
    "With one call in flight the time to wake a process up is most of what is measured.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a row must reach: a ratio of two subjects' figures.

    Exactly one of ``at_least`` and ``at_most`` is given.
    """

    figure: str
    """The field of :class:`Result` that is compared."""

    of: str = "rpcproto"
    against: str
    at_least: float | None = None
    at_most: float | None = None

    def met_by(self, ratio: float) -> bool:
        """Whether ``ratio``, the figure ``of`` divided by the figure ``against``, is good enough."""
        if self.at_least is not None:
            return ratio >= self.at_least
        return self.at_most is not None and ratio <= self.at_most


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row: a workload, what it must reach, and subjects beyond those of the suite."""

    name: str
    workload: Workload
    targets: tuple[Target, ...]
    subjects: tuple[str, ...] = ()


def _rate(against: str, least: float) -> Target:
    return Target(figure="rps", against=against, at_least=least)


_CPU = Target(figure="cpu_us_per_call", against="prototype", at_most=1.25)
_ONE_PEER = tuple(_rate(peer, 4.0) for peer in ("streams", "pyzmq", "distributed", "grpc"))

STANDARD_ROWS = (
    Row(
        name="10 B x 64",
        workload=Workload(bytes=10, concurrency=64),
        targets=(
            _rate("ceiling", 0.35),
            _CPU,
            Target(figure="rps", of="rpcproto-pure", against="rpcproto", at_least=0.25),
            *(_rate(*pair) for pair in (("streams", 4.0), ("pyzmq", 10.0), ("distributed", 15.0), ("grpc", 40.0))),
        ),
        subjects=("rpcproto-pure",),
    ),
    Row(
        name="dict x 64",
        workload=Workload(bytes=10, concurrency=64, codec="msgpack", echo=True),
        targets=(_rate("ceiling", 0.22), _CPU),
    ),
    Row(
        name="10 KB 3 x 16",
        workload=Workload(bytes=10_000, procs=3, concurrency=16),
        targets=(_rate("ceiling", 0.55), _CPU, *_ONE_PEER),
    ),
    Row(
        name="1 MB 3 x 1",
        workload=Workload(bytes=1_000_000, procs=3, concurrency=1),
        targets=(_rate("ceiling", 0.90), _CPU),
    ),
    Row(
        name="10 B x 1",
        workload=Workload(bytes=10, concurrency=1),
        targets=(Target(figure="p50_us", against="ceiling", at_most=1.4), _CPU),
    ),
)
"""The rows of the design, with what they must reach."""

TLS_ROWS = tuple(
    Row(
        name=f"TLS {name}",
        workload=Workload(bytes=size, procs=procs, concurrency=window, transport="tls"),
        targets=(_rate("ceiling", least), _rate("streams", peers)),
    )
    for name, size, procs, window, least, peers in (
        ("10 B x 64", 10, 1, 64, 0.40, 3.0),
        ("10 KB 3 x 16", 10_000, 3, 16, 0.60, 3.0),
        ("1 MB 3 x 1", 1_000_000, 3, 1, 0.70, 1.3),
    )
)
"""The rows over TLS; the ceiling is C over OpenSSL."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Told before and after each run."""

    done: int
    total: int
    row: str
    repeat: int
    """From 1."""

    subject: str
    result: Result | None = None
    """None before the run, and when the subject is skipped."""

    skipped: str = ""
    """Why the subject is skipped."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One subject in one row: medians of its repeats. Fields are those of :class:`Result`; None where not counted."""

    subject: str
    repeats: int
    rps: float
    rps_low: float
    rps_high: float
    us_per_request: float
    mb_per_s: float
    p50_us: float
    p99_us: float
    p999_us: float
    cpu_us_per_call: float
    server_cpu_us_per_call: float
    client_cpu_us_per_call: float
    server_messages_per_send: float | None
    client_messages_per_send: float | None
    disturbance: float | None

    @classmethod
    def of(cls, results: Sequence[Result]) -> Cell:
        """The medians of at least one run of one subject."""
        fields = [f.name for f in dataclasses.fields(cls)]
        rates = [result.rps for result in results]
        values: dict[str, Any] = {
            "subject": results[0].subject,
            "repeats": len(results),
            "rps_low": min(rates),
            "rps_high": max(rates),
        }
        for name in fields:
            if name not in values:
                found = [getattr(result, name) for result in results]
                values[name] = None if None in found else statistics.median(found)
        return cls(**values)


@dataclass(frozen=True, slots=True)
class Criterion:
    """A target and what was reached."""

    target: Target
    ratio: float | None
    """``of`` divided by ``against``; None if one of the two was not measured."""

    met: bool | None
    """None if not measured."""


@dataclass(frozen=True, slots=True)
class RowReport:
    """One row of the result."""

    name: str
    workload: Workload
    cells: Mapping[str, Cell]
    """By subject, in the order of the suite."""

    criteria: tuple[Criterion, ...]


@dataclass(frozen=True, slots=True)
class SuiteReport:
    """The whole result, or what there is of it so far."""

    rows: tuple[RowReport, ...]
    skipped: Mapping[str, str]
    """Subjects that could not be measured, and why."""

    versions: Mapping[str, str | None]
    machine: Mapping[str, Any]
    build: str
    placement: Mapping[str, Any]
    caveats: tuple[str, ...] = field(default=CAVEATS)

    @property
    def met(self) -> bool:
        """Whether every criterion that was measured is met."""
        return all(criterion.met is not False for row in self.rows for criterion in row.criteria)

    def to_json(self) -> dict[str, Any]:
        """All fields and ``met``, for JSON."""
        return dataclasses.asdict(self) | {"met": self.met}


class Suite:
    """A run of the suite. Iterate over :meth:`run`; :meth:`report` may be asked at any time, after Ctrl-C too.

    Args:
        rows: what to measure.
        subjects: whom to measure in every row. Those that cannot do a row are left out of it, those that are missing
            here are left out of all, with the reason in the report.
        repeats: runs of each; 5 for figures to be quoted.
        benchmarks: the benchmarks folder, as in :func:`rpcproto.bench.run`.
        seconds: measured span of each run.
        changes: other fields of :class:`Workload` to set in every row, such as ``transport="unix"``.

    Raises:
        ConfigurationError: no rows, no subjects, no repeats, or a wrong field.
    """

    def __init__(
        self,
        rows: Sequence[Row] = STANDARD_ROWS,
        *,
        subjects: Sequence[str] = STANDARD_SUBJECTS,
        repeats: int = 5,
        benchmarks: Path | None = None,
        seconds: float = 1.0,
        **changes: Any,
    ) -> None:
        if not rows or not subjects or repeats < 1:
            raise ConfigurationError("a suite needs at least one row, one subject and one repeat")
        self.rows = tuple(
            dataclasses.replace(row, workload=dataclasses.replace(row.workload, seconds=seconds, **changes))
            for row in rows
        )
        self.subjects = tuple(subjects)
        self.repeats = repeats
        self.benchmarks = benchmarks
        self.skipped: dict[str, str] = {}
        self._results: dict[tuple[str, str], list[Result]] = {}

    def _subjects_of(self, row: Row) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.subjects + row.subjects))

    def plan(self) -> list[tuple[int, Row, str]]:
        """Repeat (from 1), row and subject of every run, in order."""
        runs = []
        for repeat in range(self.repeats):
            for row in self.rows:
                subjects = self._subjects_of(row)
                shift = repeat % len(subjects)
                runs += [(repeat + 1, row, subject) for subject in subjects[shift:] + subjects[:shift]]
        return runs

    def run(self) -> Iterator[Progress]:
        """Do all runs, telling before and after each.

        Raises:
            ConfigurationError: the benchmarks folder is not one.
            BenchmarkFailed: a run of rpcproto itself failed; another subject that fails is skipped.
        """
        plan = self.plan()
        cannot: dict[tuple[str, str], str] = {}
        for number, (repeat, row, subject) in enumerate(plan):
            if subject in self.skipped or (row.name, subject) in cannot:
                continue
            yield Progress(number, len(plan), row.name, repeat, subject)
            why, result = "", None
            try:
                result = run(row.workload, subject=subject, benchmarks=self.benchmarks)
                self._results.setdefault((row.name, subject), []).append(result)
            except SubjectMissing as error:
                why = self.skipped[subject] = str(error)
            except Unsupported as error:
                why = cannot[row.name, subject] = str(error)
            except BenchmarkFailed as error:
                if subject.startswith("rpcproto"):
                    raise
                why = self.skipped[subject] = str(error)
            yield Progress(number + 1, len(plan), row.name, repeat, subject, result, why)

    def report(self) -> SuiteReport:
        """What was measured so far."""
        head = next((results[0] for results in self._results.values() if results[0].subject == self.subjects[0]), None)
        return SuiteReport(
            rows=tuple(self._report_row(row) for row in self.rows),
            skipped=dict(self.skipped),
            versions=head.versions if head else {},
            machine=head.machine if head else {},
            build=head.build if head else "",
            placement=head.placement if head else {},
        )

    def _report_row(self, row: Row) -> RowReport:
        subjects = self._subjects_of(row)
        cells = {name: Cell.of(self._results[row.name, name]) for name in subjects if (row.name, name) in self._results}
        criteria = [judge(target, cells) for target in row.targets if {target.of, target.against} <= {*subjects}]
        return RowReport(row.name, row.workload, cells, tuple(criteria))


def judge(target: Target, cells: Mapping[str, Cell]) -> Criterion:
    """Compare the medians of the target's two subjects."""
    ours, theirs = cells.get(target.of), cells.get(target.against)
    if ours is None or theirs is None:
        return Criterion(target, None, None)
    ratio = getattr(ours, target.figure) / getattr(theirs, target.figure)
    return Criterion(target, ratio, target.met_by(ratio))
