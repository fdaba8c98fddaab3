"""The C program compiles and answers right: its clients check every reply's id and size, and the first ones' bytes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from rpcproto.bench import BenchmarkFailed, Workload, find_benchmarks, run
from rpcproto.bench.subjects import load_file

pytestmark = [
    pytest.mark.tree,
    pytest.mark.skipif(sys.platform != "linux", reason="the ceiling needs epoll"),
]


@pytest.fixture
def ceiling() -> ModuleType:
    folder = find_benchmarks()
    assert folder is not None
    module = load_file(folder / "ceiling.py", folder)
    try:
        module.build()
    except module.CannotBuild as error:
        pytest.skip(str(error))
    return module


SHORT = ["--seconds=0.1", "--warmup=0.02"]


@pytest.mark.parametrize(
    "options",
    [
        ["--window=64"],
        ["--window=1", "--bytes=0", "--reply-bytes=0"],
        ["--procs=3", "--window=4", "--bytes=1e5", "--echo"],
        ["--procs=2", "--window=2", "--bytes=2e6", "--echo"],
        ["--window=5000", "--bytes=1024", "--reply-bytes=1025"],
    ],
    ids=" ".join,
)
def test_it_answers(ceiling: ModuleType, options: list[str]) -> None:
    figures = ceiling.run([*SHORT, *options])
    assert figures["calls"] > 0
    assert figures["rps"] == pytest.approx(figures["calls"] / figures["seconds"], rel=0.05)
    assert 0 < figures["p50_us"] <= figures["p99_us"] <= figures["p999_us"]


def test_unix_socket_is_removed(ceiling: ModuleType, tmp_path: Path) -> None:
    assert ceiling.run([*SHORT, f"--unix={tmp_path}/socket"])["calls"] > 0
    assert list(tmp_path.iterdir()) == []


def test_tls(ceiling: ModuleType, tmp_path: Path) -> None:
    try:
        ceiling.build(tls=True)
    except ceiling.CannotBuild as error:
        pytest.skip(str(error))
    if shutil.which("openssl") is None:
        pytest.skip("no openssl command to make a certificate with")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost -days 2"
    subprocess.run([*make.split(), "-keyout", key, "-out", cert], check=True, capture_output=True)
    tls = [*SHORT, f"--cert={cert}", f"--key={key}"]
    for options in (["--window=64"], ["--procs=3", "--window=4", "--bytes=1e5", "--echo"]):
        assert ceiling.run([*tls, *options])["calls"] > 0


def test_wrong_options(ceiling: ModuleType) -> None:
    with pytest.raises(RuntimeError, match="usage: ceiling"):
        ceiling.run(["--frobnicate"])
    with pytest.raises(RuntimeError, match="procs must be 1 to 256"):
        ceiling.run(["--procs=0"])


def test_a_failure_is_one_line_and_leaves_nothing(
    ceiling: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = str(tmp_path / "marks-this-run")
    with pytest.raises(RuntimeError, match=r"^ceiling: pinning: Invalid argument$"):
        ceiling.run([*SHORT, "--pin=0,1023", f"--unix={path}"])
    assert processes_with(path) == []
    monkeypatch.setattr("rpcproto.bench.ceiling.environment.choose_cpus", lambda: (0, 1023))
    with pytest.raises(BenchmarkFailed, match="ceiling: pinning: Invalid argument"):
        run(Workload(seconds=0.1), subject="ceiling")


def test_a_time_out_leaves_nothing(ceiling: ModuleType, tmp_path: Path) -> None:
    path = str(tmp_path / "marks-this-run")
    with pytest.raises(RuntimeError, match=r"did not end within 0\.2 s"):
        ceiling.run(["--seconds=100", f"--unix={path}"], timeout=0.2)
    assert processes_with(path) == []


def processes_with(argument: str) -> list[str]:
    """The processes that have this in one of their arguments. Zombies have none."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_bytes()
        except OSError:  # it ended meanwhile
            continue
        if argument.encode() in words:
            found.append(f"{file.parent.name}: {words!r}")
    return found


def test_a_compiler_that_fails_is_told(ceiling: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CC", "/nonexistent/cc")
    with pytest.raises(ceiling.CannotBuild, match="/nonexistent/cc"):
        ceiling.build()
