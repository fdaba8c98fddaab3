"""mypy and pyright see typed clients as ``clients.py`` says, line by line."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests._tree import ROOT

pytestmark = [pytest.mark.tree, pytest.mark.slow]

EXAMPLES = Path(__file__).parent / "clients.py"
EXPECTED = re.compile(r"# error: mypy\[([\w,-]+)\] pyright\[(\w+)\]$")

Reports = dict[int, set[str]]
"""The rules that each line was reported for."""


def expected(group: int) -> Reports:
    lines = enumerate(EXAMPLES.read_text(encoding="utf-8").splitlines(), 1)
    return {number: set(found[group].split(",")) for number, line in lines if (found := EXPECTED.search(line))}


def output_of(*command: str) -> str:
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr  # which says that something was reported
    return done.stdout


def test_the_examples_have_both_kinds() -> None:
    assert len(expected(1)) > 10
    assert EXAMPLES.read_text(encoding="utf-8").count("assert_type(") > 10


def test_mypy(tmp_path: Path) -> None:
    output = output_of("mypy", "--strict", "--output=json", f"--cache-dir={tmp_path}", str(EXAMPLES))
    reports: Reports = {}
    for line in output.splitlines():
        report = json.loads(line)
        assert (Path(report["file"]).name, report["severity"]) == (EXAMPLES.name, "error"), line
        reports.setdefault(report["line"], set()).add(report["code"])
    assert reports == expected(1)


@pytest.mark.skipif(importlib.util.find_spec("pyright") is None, reason="needs pyright: pip install pyright[nodejs]")
def test_pyright() -> None:
    output = output_of("pyright", "--outputjson", "--pythonpath", sys.executable, str(EXAMPLES))
    reports: Reports = {}
    for report in json.loads(output)["generalDiagnostics"]:
        assert (Path(report["file"]).name, report["severity"]) == (EXAMPLES.name, "error"), report
        reports.setdefault(report["range"]["start"]["line"] + 1, set()).add(report.get("rule"))
    assert reports == expected(2)
