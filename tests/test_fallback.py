"""The hot functions stay in C: see ``hot_functions.toml``, and ``_generated_c.py`` for how it is counted."""

from __future__ import annotations

from pathlib import Path

import pytest

import rpcproto
from tests._generated_c import Counter, describe, read_manifest

pytestmark = pytest.mark.tree  # setup.py has the rules by which the C is made

PACKAGE = Path(rpcproto.__file__).parent
ALLOWED = read_manifest()

SOURCE = """
class Scanner:
    __slots__ = ("total",)

    def scan(self, data, stop):
        at = 0
        while at < stop:
            length = data[at]
            if length > 100:
                raise ValueError(
                    f"{length} is too long"
                )
            self.total += length
            at += length + 1
        return self.total
"""

TYPES = """
import cython

cdef class Scanner:
    cdef long total
    @cython.locals(at=Py_ssize_t, length=int)
    cpdef long scan(self, const unsigned char *data, Py_ssize_t stop) except -1
"""


@pytest.fixture(scope="session")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Counter:
    return Counter(PACKAGE, tmp_path_factory.mktemp("generated"), ALLOWED)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALLOWED)
def test_hot_function_has_no_more_operations_on_objects(counter: Counter, name: str) -> None:
    found = counter.operations(name)
    assert len(found) <= ALLOWED[name], (
        f"{name} has {len(found)} operations on Python objects, {ALLOWED[name]} are allowed:\n{describe(found)}"
    )


def scan_count(directory: Path, types: str) -> int:
    package = directory / "toy"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "scanner.py").write_text(SOURCE)
    (package / "scanner.pxd").write_text(types)
    name = "toy.scanner.Scanner.scan"
    return len(Counter(package, directory / "generated", [name]).operations(name))


@pytest.mark.parametrize(
    ("typed", "untyped"),
    [
        ("cdef long total", "cdef object total"),
        ("length=int", "length=object"),
        ("Py_ssize_t stop", "object stop"),
    ],
)
def test_an_untyped_variable_is_found(tmp_path: Path, typed: str, untyped: str) -> None:
    assert scan_count(tmp_path / "typed", TYPES) == 0
    assert typed in TYPES
    assert scan_count(tmp_path / "untyped", TYPES.replace(typed, untyped)) > 0


def test_a_function_that_is_gone_is_found(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match=r"no compiled module holds toy\.other\.f"):
        Counter(tmp_path, tmp_path, ["toy.other.f"])
