"""Where a run takes place."""

from __future__ import annotations

import os
import sys

import pytest

from rpcproto.bench import environment


def test_versions_of_what_is_not_installed_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise environment.importlib.metadata.PackageNotFoundError(name)

    assert environment.versions()["msgpack"]
    monkeypatch.setattr(environment.importlib.metadata, "version", missing)
    assert environment.versions() | {"python": ""} == {"python": "", "rpcproto": None, "uvloop": None, "msgpack": None}


def test_the_build_is_told() -> None:
    assert environment.build() in ("compiled", "pure", "mixed")


def test_the_machine_is_told() -> None:
    machine = environment.machine()
    assert machine["cpus"] == os.cpu_count()
    assert machine["cpu"]
    assert machine["system"]


@pytest.mark.parametrize(
    ("allowed", "chosen"), [([0, 1, 2], (0, 1)), ([4, 7], (4, 7)), ([3], None), (None, None)], ids=str
)
def test_the_first_two_cpus_allowed(
    monkeypatch: pytest.MonkeyPatch, allowed: list[int] | None, chosen: tuple[int, int] | None
) -> None:
    monkeypatch.setattr(environment, "cpus", lambda: allowed)
    assert environment.choose_cpus() == chosen


@pytest.mark.skipif(sys.platform != "linux", reason="macOS does not tell")
def test_the_cpus_of_this_process() -> None:
    assert environment.cpus() == sorted(os.sched_getaffinity(0))


def test_what_others_use(monkeypatch: pytest.MonkeyPatch) -> None:
    tick = 1 / os.sysconf("SC_CLK_TCK")
    readings = ["cpu  9 9 9\ncpu0 100 0 0 50 7 0 0 0 0\ncpu1 5 5 5 5 5 5 5 5\n"]
    readings += ["cpu  9 9 9\ncpu0 110 2 3 999 9 4 5 6 77\ncpu1 99 5 5 5 5 5 5 5\nintr 1\n"]
    times = iter([10.0, 10.0 + 60 * tick])
    monkeypatch.setattr(environment.time, "monotonic", lambda: next(times))
    monkeypatch.setattr(environment.Path, "read_text", lambda self: readings.pop(0))
    assert environment.Neighbours([0]).cores(0.25) == pytest.approx(30 / 60 - 0.25)


def test_nobody_tells_what_others_use(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(path: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(environment.Path, "read_text", missing)
    assert environment.Neighbours(None).cores(0.0) is None
