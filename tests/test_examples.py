"""The examples, and the programs of the README, print what they say they print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests._tree import IN_TREE, ROOT

pytestmark = pytest.mark.tree

EXAMPLES = sorted(
    set((ROOT / "examples").glob("*.py")) - set((ROOT / "examples").glob("from_*.py"))
)  # test_coming_from.py
MAX_LINES = 60

PROGRAM = re.compile(r"^```python\n(?P<source>.*?)^```\n\n^```text\n(?P<output>.*?)^```", re.MULTILINE | re.DOTALL)
README = list(PROGRAM.finditer((ROOT / "README.md").read_text(encoding="utf-8"))) if IN_TREE else []

PRINTED = {
    "blocking.py": """\
one: Emma
three: Dracula Ulysses Walden
all: Emma Dracula Ulysses Walden
ordered: Emma, paid with 12 EUR
failed: IndexError: tuple index out of range
""",
    "echo.py": """\
{'answer': 42, 'list': [1.5, None, 'text']}
sum of 1000 answers: 499500
waited 0.1 s
not within 0.05 s
remote error: TypeError
""",
    "keyvalue.py": """\
got 8.0 MB, float64 (1000, 1000), equal: True
a view of received memory: True, writable: True
rows 10 to 12: [10499500. 11499500.]
KeyError: 'gird'
""",
    "middleware.py": """\
request sell('tea',) took less than 10 s
request sell('cake',) took less than 10 s
['tea sold', 'cake sold']
RemoteError('PermissionError: sell needs a token')
""",
    "worker.py": """\
registered: alice bob
primes below 40000: 4203
exit codes: 0 0
""",
}


def printed(*command: str) -> str:
    """What a Python program prints. Anything on its error output fails the test, as a non-zero exit code does."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, *command], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    # A busy machine can hold up any handler, which is then logged; that is no fault of the program.
    errors = [line for line in done.stderr.splitlines() if " held the loop for " not in line]
    assert (done.returncode, errors) == (0, [])
    return done.stdout


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_example(file: Path) -> None:
    assert printed(str(file)) == PRINTED[file.name]


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_an_example_is_read_in_a_minute(file: Path) -> None:
    assert len(file.read_text(encoding="utf-8").splitlines()) <= MAX_LINES


@pytest.mark.parametrize("program", README, ids=lambda program: f"position {program.start()}")
def test_program_of_the_readme(program: re.Match[str]) -> None:
    assert printed("-c", program["source"]) == program["output"]
