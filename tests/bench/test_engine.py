"""Runs of every subject, and what happens when a process of a run fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rpcproto
from rpcproto.bench import BenchmarkFailed, SubjectMissing, Unsupported, Workload, run
from rpcproto.errors import ConfigurationError
from tests.bench.plugins import is_alive, make_benchmarks, noted_pids

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")


def quick(**changes: Any) -> Workload:
    return Workload(**{"seconds": 0.2, "warmup": 0.05, "concurrency": 8} | changes)


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


# ---- every subject ----


@pytest.mark.slow
@pytest.mark.parametrize("subject", ["rpcproto", "rpcproto-pure", "prototype", "streams", "ceiling"])
def test_every_subject(subject: str) -> None:
    try:
        result = run(quick(), subject=subject)
    except SubjectMissing as error:
        pytest.skip(str(error))
    assert result.subject == subject
    assert result.calls > 0
    assert result.rps == pytest.approx(result.calls / result.seconds, rel=0.01)
    assert 0 < result.p50_us <= result.p99_us <= result.p999_us
    both = result.server_cpu_us_per_call + result.client_cpu_us_per_call
    assert result.cpu_us_per_call == pytest.approx(both, rel=0.001)
    assert result.versions["python"]
    assert result.machine["cpus"] == os.cpu_count()
    json.dumps(result.to_json())


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        {"handler": "async"},
        {"handler": "thread"},
        {"codec": "msgpack", "echo": True},
        {"codec": "msgpack"},
        {"procs": 2, "bytes": 100_000, "echo": True},
        {"transport": "unix"},
        {"transport": "tls", "bytes": 100_000, "echo": True},
        {"uvloop": False, "concurrency": 1},
    ],
    ids=str,
)
def test_every_kind_of_workload(change: dict[str, Any]) -> None:
    assert run(quick(**change)).calls > 0


@pytest.mark.slow
def test_messages_per_send_are_told() -> None:
    result = run(quick(concurrency=32))
    assert result.client_messages_per_send is not None
    assert result.server_messages_per_send is not None
    assert result.client_messages_per_send >= 1
    assert result.server_messages_per_send >= 1


# ---- with a subject made for the purpose ----


def test_phases_and_versions(tmp_path: Path) -> None:
    told: list[str] = []
    result = run(quick(), subject="odd", benchmarks=make_benchmarks(tmp_path), notify=told.append)
    assert told == ["preparing", "starting", "warming up", "measuring", "done"]
    assert result.versions["subject"] == "1.0"
    assert result.client_messages_per_send is None
    assert not any(map(is_alive, noted_pids(tmp_path)))


@linux
def test_placement(tmp_path: Path) -> None:
    allowed = sorted(os.sched_getaffinity(0))
    folder = make_benchmarks(tmp_path)
    free = run(quick(pin=False), subject="odd", benchmarks=folder).placement
    assert free == {"pinned": False, "server": allowed, "clients": allowed}
    if len(allowed) > 1:
        pinned = run(quick(), subject="odd", benchmarks=folder).placement
        assert pinned == {"pinned": True, "server": [allowed[0]], "clients": [allowed[1]]}


@linux
@pytest.mark.parametrize(
    ("faults", "text"),
    [
        ({"serve": "os._exit(7)"}, r"the server failed \(exit code 7\)"),
        ({"serve": "raise OSError('no room')"}, r"the server failed \(exit code 1\): OSError: no room"),
        ({"serve": "os.kill(os.getpid(), 9)"}, r"the server failed \(ended by signal 9\)"),
        ({"request": "if self.calls > 20: os._exit(8)"}, r"the client 1 failed \(exit code 8\)"),
        ({"request": "if self.calls > 20: raise KeyError('x')"}, r"the client 1 failed \(exit code 1\): KeyError: 'x'"),
        ({"request": "return b'wrong'"}, r"Echo.echo answered b'wrong', not b'0123456789'"),
        ({"serve": "asyncio.get_running_loop().call_later(0.2, os._exit, 9)"}, r"the server failed \(exit code 9\)"),
    ],
    ids=str,
)
def test_a_failing_process_ends_all_and_is_told_in_one_line(tmp_path: Path, faults: dict[str, str], text: str) -> None:
    folder = make_benchmarks(tmp_path, **faults)
    with pytest.raises(BenchmarkFailed, match=text) as caught:
        run(quick(procs=2, seconds=20), subject="odd", benchmarks=folder)
    assert "\n" not in str(caught.value)
    assert noted_pids(folder)
    assert not any(map(is_alive, noted_pids(folder)))


@linux
def test_a_process_that_hangs_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rpcproto.bench.engine.START_TIMEOUT", 1.0)
    folder = make_benchmarks(tmp_path, serve="import time; time.sleep(100)")
    with pytest.raises(BenchmarkFailed, match="no answer from the server within 1 s"):
        run(quick(), subject="odd", benchmarks=folder)
    assert not any(map(is_alive, noted_pids(folder)))


@linux
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_orphans_however_the_parent_ends(tmp_path: Path, number: signal.Signals) -> None:
    folder = make_benchmarks(tmp_path)
    program = (
        "import sys; from pathlib import Path; from rpcproto.bench import Workload, run\n"
        "run(Workload(procs=2, seconds=100), subject='odd', benchmarks=Path(sys.argv[1]))"
    )
    root = Path(rpcproto.__file__).parent.parent
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(folder)], cwd=root, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        wait_for(lambda: len(noted_pids(folder)) == 3, "three processes to start")
        parent.send_signal(number)
        _, errors = parent.communicate(timeout=30)
    finally:
        parent.kill()
    wait_for(lambda: not any(map(is_alive, noted_pids(folder))), "the processes to end")
    assert b"KeyboardInterrupt" in errors or number != signal.SIGINT


# ---- what cannot be run ----


def test_an_unknown_subject(tmp_path: Path) -> None:
    with pytest.raises(SubjectMissing, match="no subject 'carrier-pigeon'; there are rpcproto, odd"):
        run(quick(), subject="carrier-pigeon", benchmarks=make_benchmarks(tmp_path))


def test_a_missing_subject(tmp_path: Path) -> None:
    prepare = "from rpcproto.bench import SubjectMissing; raise SubjectMissing('not installed (pip install odd)')"
    with pytest.raises(SubjectMissing, match="not installed"):
        run(quick(), subject="odd", benchmarks=make_benchmarks(tmp_path, prepare=prepare))


def test_an_unsupported_workload(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match=r"odd has no 'thread' among its handlers \(sync\)"):
        run(quick(handler="thread"), subject="odd", benchmarks=make_benchmarks(tmp_path))


def test_not_a_benchmarks_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is not the benchmarks folder"):
        run(quick(), subject="odd", benchmarks=tmp_path)


def test_no_benchmarks_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rpcproto.bench.engine.find_benchmarks", lambda _: None)
    for subject in ("streams", "ceiling"):
        with pytest.raises(SubjectMissing, match="needs the benchmarks folder"):
            run(quick(), subject=subject)
