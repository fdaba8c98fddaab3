"""Who may import whom. Anything that the table does not allow is an error, be it an ``import`` or a ``cimport``.

The table is the architecture: a new arrow is a decision, made here, and a new package needs a row.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import rpcproto
from tests._imports import imports_of, module_name, sources

PACKAGE = Path(rpcproto.__file__).parent

BASE_ROW = {"_build", "_clock", "_logs", "_observer", "_types", "config", "errors"}
"""Modules directly in the package that everything may import."""

MAY_IMPORT = {
    "base": set[str](),
    "wire": {"base"},
    "serialization": {"base"},
    "transports": {"base"},
    "observability": {"base"},
    "connection": {"base", "wire"},
    "aio": {"base", "wire", "connection", "serialization", "transports"},
    "rpcproto": {"base", "wire", "connection", "serialization", "transports", "aio"},
    "testing": {"base", "wire", "connection", "serialization", "transports", "aio", "observability", "rpcproto"},
    "bench": {"base", "rpcproto"},
    "cli": {"base", "bench", "rpcproto"},
    "__main__": {"cli"},
}
"""For each row of the package the other rows it may import. ``rpcproto`` stands for the public names."""

THIRD_PARTY = {
    "serialization": {"msgpack", "numpy"},
    "aio": {"uvloop"},
    "bench": {"trustme", "uvloop"},
    "cli": {"click", "msgpack", "rich", "uvloop"},
}
"""For each row what it may import besides the standard library."""

STANDARD = sys.stdlib_module_names | {"annotationlib"}
"""The standard library, with what later Pythons have."""

CYTHON = {"cpython", "cython", "libc", "posix"}

SANS_IO = {"wire", "connection"}
"""Rows that know no socket, loop, thread or clock."""

IO = {
    "_thread",
    "asyncio",
    "concurrent",
    "multiprocessing",
    "random",
    "select",
    "selectors",
    "signal",
    "socket",
    "ssl",
    "subprocess",
    "threading",
    "time",
}


def row_of(module: str) -> str:
    """The row of the table that a module of this package belongs to."""
    parts = module.split(".")
    if len(parts) == 1:
        return "rpcproto"
    return "base" if parts[1] in BASE_ROW else parts[1]


def wrong_arrows(package: Path) -> list[str]:
    """Every import below ``package`` that the table does not allow, one text each."""
    files = sources(package)
    modules = {module_name(package, path) for path in files}
    wrong = []
    for path in files:
        row = row_of(module_name(package, path))
        if row not in MAY_IMPORT:
            wrong.append(f"{path.relative_to(package.parent)}: {row!r} has no row in the table of test_layering.py")
            continue
        for each in imports_of(package, path):
            parts = each.target.split(".")
            if parts[0] == package.name:
                target = each.target
                while target not in modules and "." in target:
                    target = target.rpartition(".")[0]
                if row_of(target) not in MAY_IMPORT[row] | {row} or (row in SANS_IO and parts[1:2] == ["_clock"]):
                    wrong.append(f"{each.place}: {row} imports {target}")
            elif each.compiled and parts[0] in CYTHON:
                if row in SANS_IO and IO & set(parts):
                    wrong.append(f"{each.place}: {row} is sans-IO and cimports {each.target}")
            elif parts[0] not in STANDARD:
                if parts[0] not in THIRD_PARTY.get(row, ()):
                    wrong.append(f"{each.place}: {row} imports {parts[0]}, which is not in the standard library")
            elif row in SANS_IO and parts[0] in IO:
                wrong.append(f"{each.place}: {row} is sans-IO and imports {parts[0]}")
    return wrong


def test_only_allowed_arrows() -> None:
    assert wrong_arrows(PACKAGE) == []


def test_the_base_row_has_no_cycles() -> None:
    graph = {
        name: {
            each.target.split(".")[1]
            for each in imports_of(PACKAGE, PACKAGE / f"{name}.py")
            if each.target.startswith("rpcproto.")
        }
        for name in BASE_ROW
        if (PACKAGE / f"{name}.py").exists()
    }
    while free := [name for name, targets in graph.items() if not targets & graph.keys()]:
        for name in free:
            del graph[name]
    assert not graph, f"these import one another: {graph}"


@pytest.mark.parametrize(
    ("file", "line", "report"),
    [
        ("wire/decoder.py", "from rpcproto.connection.credit import Credit", "wire imports rpcproto.connection.credit"),
        ("wire/decoder.py", "from ..connection import credit", "wire imports rpcproto.connection.credit"),
        ("wire/decoder.py", "def f(): import rpcproto.connection", "wire imports rpcproto.connection"),
        (
            "wire/decoder.pxd",
            "from rpcproto.connection.credit cimport Credit",
            "wire imports rpcproto.connection.credit",
        ),
        (
            "wire/decoder.pxd",
            "from rpcproto.connection cimport (\n  credit,\n)",
            "wire imports rpcproto.connection.credit",
        ),
        ("wire/decoder.pyx", "cimport rpcproto.connection.credit as c", "wire imports rpcproto.connection.credit"),
        (
            "wire/decoder.pxd",
            "from posix.time cimport clock_gettime",
            "wire is sans-IO and cimports posix.time.clock_gettime",
        ),
        ("connection/credit.pxd", "from rpcproto cimport _clock", "connection imports rpcproto._clock"),
        ("wire/decoder.py", "import rpcproto", "wire imports rpcproto"),
        ("wire/decoder.py", "import msgpack", "wire imports msgpack, which is not in the standard library"),
        ("connection/credit.py", "from time import monotonic", "connection is sans-IO and imports time"),
        ("connection/credit.py", "import asyncio.events", "connection is sans-IO and imports asyncio"),
        ("transports/tcp.py", "from ..serialization import raw", "transports imports rpcproto.serialization"),
        ("errors.py", "from .wire import spec", "base imports rpcproto.wire"),
        ("cli/ping.py", "from rpcproto.aio import client", "cli imports rpcproto.aio"),
        ("gossip/flood.py", "", "'gossip' has no row in the table of test_layering.py"),
    ],
)
def test_a_wrong_arrow_is_found(tmp_path: Path, file: str, line: str, report: str) -> None:
    package = tmp_path / "rpcproto"
    (package / "_clock.py").parent.mkdir()
    (package / "_clock.py").write_text("from time import monotonic\n")
    for name in ("wire", "connection", "serialization", "transports", "aio"):
        (package / name).mkdir()
        (package / name / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "connection" / "credit.py").write_text("from rpcproto import wire\nfrom struct import pack\n")
    assert wrong_arrows(package) == []
    (package / file).parent.mkdir(exist_ok=True)
    (package / file).write_text(line + "\n")
    (found,) = wrong_arrows(package)
    assert found.endswith(": " + report)
