"""Which build runs: compiled modules, or the same package in Python only.

The rule for what is compiled is read off the tree, here and in ``setup.py`` alike (:func:`find_modules`):

1. ``x.pyx`` is compiled. A ``x.py`` beside it is its Python form.
2. ``x.py`` with a ``x.pxd`` beside it is compiled from the ``.py``; the ``.pxd`` holds the C types.
3. ... unless the first line of the ``.pxd`` contains ``# never compiled``, or it is an ``__init__.pxd``: these only
   serve other modules.

What the C of a module depends on is told by :func:`find_inputs`. What Cython's C has in common, such as its type of
functions, would take a fifth of each module; it is one for all, :data:`SHARED`, which has no source in the tree.

A compiled module shadows the ``.py`` of its name. ``RPCPROTO_PURE=1`` in the environment turns that round: the
finder of this module, installed before anything else of the package is imported, loads the ``.py``. At build time
the same variable compiles nothing.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import sys
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

__all__ = ["NEVER_COMPILED", "PURE", "SHARED", "describe", "find_inputs", "find_modules", "install_pure_finder"]

PURE = os.environ.get("RPCPROTO_PURE", "") not in ("", "0")
"""Whether this process was asked to run without compiled modules."""

NEVER_COMPILED = "# never compiled"
"""Marks a ``.pxd``, in its first line, whose ``.py`` stays Python."""

PACKAGE = "rpcproto"

SHARED = f"{PACKAGE}._cython"
"""The module of what the compiled ones share."""

_CIMPORT = re.compile(r"^[^#\n]*\bcimport\b(?:[^(\n]*\([^)]*\)|[^\n]*)", re.MULTILINE)


def find_modules(package: Path) -> dict[str, Path]:
    """The modules below a package directory that are meant to be compiled.

    Args:
        package: the directory of the top package; its name is the first part of the module names.

    Returns:
        Full module names and the source each is compiled from, in alphabetical order.
    """
    found: dict[str, Path] = {}
    for source in package.rglob("*.pyx"):
        found[_module_name(package, source)] = source
    for types in package.rglob("*.pxd"):
        source = types.with_suffix(".py")
        if source.exists() and types.stem != "__init__" and not _is_marked(types):
            found.setdefault(_module_name(package, source), source)
    return dict(sorted(found.items()))


def _module_name(package: Path, source: Path) -> str:
    return ".".join((package.name, *source.relative_to(package).with_suffix("").parts))


def _is_marked(types: Path) -> bool:
    with types.open(encoding="utf-8") as file:
        return NEVER_COMPILED in file.readline()


def find_inputs(package: Path, source: Path) -> set[Path]:
    """The files that decide what the C of a module looks like: its source, and the ``.pxd`` files that it builds on.

    A ``.pxd`` counts if its own name occurs in a ``cimport``; that two may share it costs a compilation too many.
    (Cython's own look at what is newer misses ``from package cimport module``.)

    Args:
        package: the directory of the top package.
        source: what the module is compiled from.
    """
    types = {path for path in package.rglob("*.pxd") if path.stem != "__init__"}
    found: set[Path] = set()
    todo = {source, source.with_suffix(".pxd")} & (types | {source})
    while todo:
        path = todo.pop()
        found.add(path)
        if path.suffix != ".py":
            words = set(re.findall(r"\b\w+\b(?!\.)", " ".join(_CIMPORT.findall(path.read_text(encoding="utf-8")))))
            todo |= {each for each in types if each.stem in words} - found
    return found


class _PureFinder:
    """Meta path finder that loads the ``.py`` of this package's modules although a compiled one lies beside it."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not name.startswith(PACKAGE + "."):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.origin is None or not isinstance(spec.loader, ExtensionFileLoader):
            return spec
        source = Path(spec.origin).with_name(name.rpartition(".")[2] + ".py")
        if not source.exists():
            # Loading a lone compiled module would mix the builds: its classes expect compiled base classes.
            raise ModuleNotFoundError(f"{name} exists in compiled form only, and RPCPROTO_PURE is set", name=name)
        return importlib.util.spec_from_file_location(name, source)


def install_pure_finder() -> None:
    """Load only Python files for this package from now on. Does nothing the second time."""
    if _PureFinder not in sys.meta_path:
        sys.meta_path.insert(0, _PureFinder)


def _form_of(module: str) -> str:
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        spec = None
    if spec is None or spec.origin is None:
        return "missing"
    return "compiled" if spec.origin.endswith(tuple(EXTENSION_SUFFIXES)) else "python"


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def describe() -> dict[str, object]:
    """What runs here, for bug reports and for the head of test and benchmark output.

    Returns:
        ``build``: ``"compiled"``, ``"pure"``, or ``"mixed"`` when only some modules are compiled (a build gone wrong);
        ``modules``: for each module meant to be compiled ``"compiled"``, ``"python"`` or ``"missing"``;
        ``python``, ``platform``; ``uvloop``, ``msgpack``, ``cython``: versions, ``None`` where not installed.
    """
    modules = {name: _form_of(name) for name in find_modules(Path(__file__).parent)}
    forms = set(modules.values())
    if "compiled" not in forms:
        build = "pure"
    else:
        build = "compiled" if forms == {"compiled"} else "mixed"
    return {
        "build": build,
        "modules": modules,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": platform.platform(),
        "uvloop": _version("uvloop"),
        "msgpack": _version("msgpack"),
        "cython": _version("Cython"),
    }


if PURE:
    install_pure_finder()
