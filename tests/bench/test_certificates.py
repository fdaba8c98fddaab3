"""Certificates of a run, and what uses them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rpcproto.bench import SubjectMissing, Workload, certificates, run
from rpcproto.errors import ConfigurationError


def test_they_can_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = certificates.make(tmp_path)
    monkeypatch.setenv(certificates.VARIABLE, str(tmp_path))
    assert certificates.of_this_run() == files
    files.server().context(server=True)
    files.client().context(server=False)


def test_what_to_install_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trustme", None)
    with pytest.raises(ConfigurationError, match=r"made with trustme: pip install rpcproto\[bench\]"):
        run(Workload(transport="tls", seconds=0.1))


@pytest.mark.slow
@pytest.mark.tree
@pytest.mark.parametrize("subject", ["rpcproto", "streams", "ceiling"])
def test_every_subject_with_tls(subject: str) -> None:
    try:
        result = run(Workload(transport="tls", seconds=0.2, warmup=0.05, concurrency=8), subject=subject)
    except SubjectMissing as error:
        pytest.skip(str(error))
    assert result.calls > 0
