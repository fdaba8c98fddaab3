"""Finding the benchmarks folder and what is in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rpcproto.bench import SubjectMissing, Workload, find_benchmarks, subjects
from rpcproto.bench.subjects import find_subject, load_file
from rpcproto.errors import ConfigurationError
from tests.bench.plugins import make_benchmarks


def test_the_folder_that_was_given(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"is not the benchmarks folder: it has no ceiling\.c"):
        find_benchmarks(tmp_path)
    assert find_benchmarks(make_benchmarks(tmp_path)) == tmp_path.resolve()


@pytest.mark.tree
def test_the_folder_beside_the_package_or_in_the_current_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = find_benchmarks()
    assert found is not None
    assert (found / "prototype" / "monolith.pyx").is_file()
    monkeypatch.setattr(subjects, "__file__", str(tmp_path / "site-packages" / "rpcproto" / "bench" / "subjects.py"))
    monkeypatch.chdir(tmp_path)
    assert find_benchmarks() is None
    (tmp_path / "benchmarks").mkdir()
    make_benchmarks(tmp_path / "benchmarks")
    assert find_benchmarks() == tmp_path / "benchmarks"


def test_subjects_of_different_folders_do_not_mix(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        make_benchmarks(tmp_path / name)
    assert type(find_subject("odd", tmp_path / "a")) is not type(find_subject("odd", tmp_path / "b"))
    assert type(find_subject("odd", tmp_path / "a")) is type(find_subject("odd", tmp_path / "a"))


def test_a_file_that_fails_is_not_kept(tmp_path: Path) -> None:
    file = tmp_path / "peers.py"
    file.write_text("raise ValueError('broken')")
    for _ in range(2):
        with pytest.raises(ValueError, match="broken"):
            load_file(file, tmp_path)


@pytest.mark.tree
@pytest.mark.parametrize("name", ["prototype", "streams", "pyzmq", "grpc", "distributed"])
def test_every_subject_of_the_checkout_can_be_found(name: str) -> None:
    subject = find_subject(name, find_benchmarks())
    assert subject.method(Workload()) == "Echo.echo"
    assert "sync" in subject.handlers


@pytest.mark.tree
def test_a_peer_that_is_not_installed_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = find_benchmarks()
    assert folder is not None
    peer = load_file(folder / "peers.py", folder).Pyzmq()
    monkeypatch.setattr(type(peer), "module", "no_such_module")
    with pytest.raises(SubjectMissing, match=r"not installed \(pip install pyzmq\)"):
        peer.prepare()
