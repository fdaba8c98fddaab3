"""Reads off the sources who imports whom, without running anything. For the layering test.

``.py`` files are parsed with :mod:`ast`; every import counts, also inside functions and under ``TYPE_CHECKING``.
``.pxd`` and ``.pyx`` files are no Python, so their ``import`` and ``cimport`` lines are picked out by pattern.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SUFFIXES = (".py", ".pyx", ".pxd")

_FROM = re.compile(r"from\s+(?P<module>[.\w]+)\s+c?import\s+(?P<names>.+)")
_IMPORT = re.compile(r"c?import\s+(?P<names>.+)")


@dataclass(frozen=True)
class Import:
    """One imported name: ``target`` is absolute and may be a module or something in a module."""

    importer: str
    target: str
    place: str
    compiled: bool
    """Whether it stands in a ``.pxd`` or ``.pyx``."""


def module_name(package: Path, source: Path) -> str:
    """``rpcproto.wire.decoder`` for ``.../rpcproto/wire/decoder.pxd``; a package has the name of its directory."""
    parts = [package.name, *source.relative_to(package).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def sources(package: Path) -> list[Path]:
    return sorted(path for path in package.rglob("*") if path.suffix in SUFFIXES)


def imports_of(package: Path, source: Path) -> Iterator[Import]:
    """All imports of one source file below ``package``."""
    importer = module_name(package, source)
    base = importer if source.stem == "__init__" else importer.rpartition(".")[0]
    found = _python_imports(source) if source.suffix == ".py" else _cython_imports(source)
    for line, level, module, name in found:
        parent = ".".join(base.split(".")[: len(base.split(".")) - level + 1]) if level else ""
        target = ".".join(part for part in (parent, module, name) if part)
        yield Import(importer, target, f"{source.relative_to(package.parent)}:{line}", source.suffix != ".py")


def _python_imports(source: Path) -> Iterator[tuple[int, int, str, str]]:
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, 0, alias.name, ""
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield node.lineno, node.level, node.module or "", alias.name


def _cython_imports(source: Path) -> Iterator[tuple[int, int, str, str]]:
    for number, line in _logical_lines(source.read_text(encoding="utf-8")):
        if found := _FROM.fullmatch(line):
            module = found["module"].lstrip(".")
            level = len(found["module"]) - len(module)
            for name in found["names"].strip("() ").split(","):
                if name.strip():
                    yield number, level, module, name.split()[0]
        elif found := _IMPORT.fullmatch(line):
            for name in found["names"].split(","):
                yield number, 0, name.split()[0], ""


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments, those within parentheses or ending in a backslash joined; with their first number."""
    held, start = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        line = line.partition("#")[0].strip()
        start = start if held else number
        held = f"{held} {line}".strip()
        if held.endswith("\\"):
            held = held[:-1]
        elif held.count("(") <= held.count(")"):
            yield start, held
            held = ""
