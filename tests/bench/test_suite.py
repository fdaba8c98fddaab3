"""Order of the runs, medians, ratios, and what is left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rpcproto.bench import (
    STANDARD_ROWS,
    TLS_ROWS,
    BenchmarkFailed,
    Result,
    Row,
    SubjectMissing,
    Suite,
    Target,
    Unsupported,
    Workload,
)
from rpcproto.bench.suite import Cell, judge
from rpcproto.errors import ConfigurationError
from tests.bench.test_workload import make_result

RATE = Target(figure="rps", against="ceiling", at_least=0.5)
CPU = Target(figure="cpu_us_per_call", against="prototype", at_most=1.25)


def row(name: str = "row", **changes: Any) -> Row:
    return Row(name=name, workload=Workload(uvloop=False, **changes), targets=(RATE, CPU))


@pytest.fixture
def rates(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[float]]:
    """Rates that the next runs of each subject will give; the suite's ``run`` is replaced."""
    rates: dict[str, list[float]] = {}

    def fake(workload: Workload, *, subject: str, benchmarks: Path | None) -> Result:
        return make_result(subject=subject, workload=workload, rps=rates[subject].pop(0))

    monkeypatch.setattr("rpcproto.bench.suite.run", fake)
    return rates


def test_order_is_rotated_and_rows_are_interleaved() -> None:
    suite = Suite([row("a"), row("b")], subjects=["x", "y", "z"], repeats=3)
    assert [(repeat, each.name, subject) for repeat, each, subject in suite.plan()] == [
        *[(1, "a", "x"), (1, "a", "y"), (1, "a", "z"), (1, "b", "x"), (1, "b", "y"), (1, "b", "z")],
        *[(2, "a", "y"), (2, "a", "z"), (2, "a", "x"), (2, "b", "y"), (2, "b", "z"), (2, "b", "x")],
        *[(3, "a", "z"), (3, "a", "x"), (3, "a", "y"), (3, "b", "z"), (3, "b", "x"), (3, "b", "y")],
    ]


def test_subjects_of_one_row_only() -> None:
    special = Row(name="a", workload=Workload(uvloop=False), targets=(), subjects=("x", "extra"))
    assert [subject for _, _, subject in Suite([special], subjects=["x"], repeats=1).plan()] == ["x", "extra"]


def test_changes_apply_to_every_row() -> None:
    suite = Suite([row("a"), row("b", procs=2)], seconds=0.5, transport="unix")
    assert [each.workload.transport for each in suite.rows] == ["unix", "unix"]
    assert [each.workload.seconds for each in suite.rows] == [0.5, 0.5]
    assert suite.rows[1].workload.procs == 2


def test_medians_and_ratios(rates: dict[str, list[float]]) -> None:
    rates |= {"rpcproto": [100.0, 300.0, 200.0], "ceiling": [1000.0, 500.0, 390.0]}
    suite = Suite([row()], subjects=["rpcproto", "ceiling"], repeats=3)
    events = list(suite.run())
    assert [(e.done, e.subject) for e in events if e.result is None] == [
        *[(0, "rpcproto"), (1, "ceiling"), (2, "ceiling"), (3, "rpcproto"), (4, "rpcproto"), (5, "ceiling")]
    ]
    assert events[-1].done == events[-1].total == 6
    report = suite.report()
    [reported] = report.rows
    ours = reported.cells["rpcproto"]
    assert (ours.rps, ours.rps_low, ours.rps_high, ours.repeats) == (200.0, 100.0, 300.0, 3)
    [criterion] = reported.criteria  # no prototype was asked for, so its criterion is left out
    assert criterion.ratio == 0.4
    assert criterion.met is False
    assert report.met is False
    assert json.loads(json.dumps(report.to_json()))["rows"][0]["cells"]["ceiling"]["rps"] == 500.0


def test_a_figure_that_is_not_counted_has_no_median() -> None:
    cell = Cell.of([make_result(server_messages_per_send=2.0), make_result()])
    assert cell.server_messages_per_send is None
    assert cell.client_messages_per_send is None
    assert Cell.of([make_result(server_messages_per_send=n) for n in (1.0, 4.0)]).server_messages_per_send == 2.5


@pytest.mark.parametrize(
    ("target", "ours", "theirs", "ratio", "met"),
    [
        (RATE, 50.0, 100.0, 0.5, True),
        (RATE, 49.0, 100.0, 0.49, False),
        (Target(figure="rps", against="ceiling", at_most=1.0), 100.0, 100.0, 1.0, True),
        (Target(figure="rps", against="ceiling", at_most=1.0), 101.0, 100.0, 1.01, False),
    ],
)
def test_judge(target: Target, ours: float, theirs: float, ratio: float, met: bool) -> None:
    cells = {
        name: Cell.of([make_result(subject=name, rps=rps)]) for name, rps in (("rpcproto", ours), ("ceiling", theirs))
    }
    criterion = judge(target, cells)
    assert criterion.ratio == ratio
    assert criterion.met is met


def test_what_is_missing_is_skipped_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def fake(workload: Workload, *, subject: str, benchmarks: Path | None) -> Result:
        asked.append(subject)
        if subject == "ceiling":
            raise SubjectMissing("no C compiler")
        if subject == "odd":
            raise Unsupported("no such codec")
        if subject == "frail":
            raise BenchmarkFailed("the server failed")
        return make_result(subject=subject)

    monkeypatch.setattr("rpcproto.bench.suite.run", fake)
    suite = Suite([row()], subjects=["rpcproto", "ceiling", "odd", "frail"], repeats=2)
    reasons = [event.skipped for event in suite.run() if event.skipped]
    assert reasons == ["no C compiler", "no such codec", "the server failed"]
    assert asked == ["rpcproto", "ceiling", "odd", "frail", "rpcproto"]
    report = suite.report()
    assert report.skipped == {"ceiling": "no C compiler", "frail": "the server failed"}
    assert list(report.rows[0].cells) == ["rpcproto"]
    assert report.rows[0].criteria[0].met is None
    assert report.met


def test_our_own_failure_ends_the_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    def fake(workload: Workload, *, subject: str, benchmarks: Path | None) -> Result:
        raise BenchmarkFailed("the server failed")

    monkeypatch.setattr("rpcproto.bench.suite.run", fake)
    suite = Suite([row()], repeats=1)
    with pytest.raises(BenchmarkFailed):
        list(suite.run())
    assert suite.report().rows[0].cells == {}


def test_a_suite_of_nothing() -> None:
    for wrong in ({"rows": []}, {"subjects": []}, {"repeats": 0}):
        with pytest.raises(ConfigurationError, match="at least one"):
            Suite(**wrong)  # type: ignore[arg-type]


def test_the_standard_rows() -> None:
    bounds = {each.name: each.targets[0].at_least or each.targets[0].at_most for each in STANDARD_ROWS}
    assert bounds == {"10 B x 64": 0.35, "dict x 64": 0.22, "10 KB 3 x 16": 0.55, "1 MB 3 x 1": 0.9, "10 B x 1": 1.4}
    for each in STANDARD_ROWS:
        assert Target(figure="cpu_us_per_call", against="prototype", at_most=1.25) in each.targets
        assert all(hasattr(make_result(), target.figure) for target in each.targets)


def test_the_rows_over_tls() -> None:
    assert {each.name: each.targets[0].at_least for each in TLS_ROWS} == {
        "TLS 10 B x 64": 0.4,
        "TLS 10 KB 3 x 16": 0.6,
        "TLS 1 MB 3 x 1": 0.7,
    }
    assert all(each.workload.transport == "tls" for each in TLS_ROWS)
