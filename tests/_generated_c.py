"""Counts the operations on Python objects in the generated C of a function.

The C of a well-typed hot function works on C values: what it does to objects is what the code asks for, such as
making a ``bytes`` or calling a handler. A lost type shows as further calls of Python's C interface (attribute look-ups,
generic calls, arithmetic, comparisons, item access, conversions), so their number is held down by
``hot_functions.toml``. This module makes the C, finds the functions and counts; it is also a command, see there.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib.util
import re
import tempfile
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from rpcproto import _build

ROOT = Path(__file__).parent.parent
MANIFEST = Path(__file__).with_name("hot_functions.toml")

_FUNCTION = re.compile(
    r"^[\w *]*?\b(?P<name>__pyx_(?:f|pf)_\w+)\([^;]*?\) \{\n(?P<body>.*?)^\}", re.DOTALL | re.MULTILINE
)
_LINE = re.compile(r'/\* "(?P<file>[^"\n]+)":(?P<line>\d+)\n(?P<quote>.*?)\*/', re.DOTALL)
_CALL = re.compile(r"\b(?P<name>__Pyx_\w+|Py[A-Za-z]*_\w+)\s*\(")

_NO_OPERATION = re.compile(
    # reference counts and Cython's book-keeping
    r"__Pyx_(X?(INCREF|DECREF|GOTREF|GIVEREF|CLEAR|NewRef)(_SET)?|RefNanny\w*|AddTraceback|WriteUnraisable)"
    r"|__Pyx_(PyThreadState|PyGILState|FastGIL)_\w+|Py_\w+"
    # exceptions under way
    r"|(__Pyx_)?(PyErr_|Raise|Reraise|ErrFetch|ErrRestore|Exception(Save|Swap|Reset)|GetException)\w*"
    # looks at a type or reads a field, on an object whose type is known
    r"|\w+_(Check|CheckExact|HasFeature|GET_\w+|AS_STRING)|__Pyx_Py(Bytes|ByteArray)_As\w+"
    # plain C
    r"|__Pyx_(div|mod|pow|abs|fits)_\w+|PyMem_\w+|PyEval_(Save|Restore)Thread"
)

_KINDS = {
    "attribute": r"(Get|Set|Del)Attr|GlobalName|BuiltinName|GetMethod",
    "call": r"Call|Vectorcall",
    "comparison": r"Compare|Equals|_Eq|_Ne|IsTrue|Contains",
    "conversion": r"_From|_As|FromSsize_t|FromLong|PyObject_to_",
    "arithmetic": r"PyNumber_|Py(Long|Int|Float)_\w+",
    "item": r"Item|Slice|PySequence_|Unpack",
    "iteration": r"Iter",
}


@dataclass(frozen=True)
class Operation:
    """One call of Python's C interface, and the line of source it comes from."""

    line: int
    source: str
    function: str

    @property
    def kind(self) -> str:
        return next((kind for kind, pattern in _KINDS.items() if re.search(pattern, self.function)), "other")


# ---- making the C --------------------------------------------------------------------------------------------------


def load_setup(root: Path) -> ModuleType:
    """``setup.py``, for the rules by which the package is built."""
    spec = importlib.util.spec_from_file_location("rpcproto_setup", root / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def generate(modules: dict[str, Path], root: Path, directory: Path) -> dict[str, str]:
    """Have Cython write the C of modules, as the build does.

    Args:
        modules: names and sources, as :func:`rpcproto._build.find_modules` gives them.
        root: the directory that holds their top package.
        directory: where to write to.

    Returns:
        The C text by module name.
    """
    from setuptools import Extension

    if not modules:
        return {}
    setup = load_setup(ROOT)
    with contextlib.chdir(root):
        wanted = [Extension(name, [path.relative_to(root).as_posix()]) for name, path in modules.items()]
        made = setup.generate_c(wanted, build_dir=str(directory), quiet=True)
        return {each.name: Path(each.sources[0]).read_text(encoding="utf-8") for each in made}


# ---- counting ------------------------------------------------------------------------------------------------------


def functions(c_text: str) -> dict[str, str]:
    """C names and bodies of the functions in a generated file that came from source functions."""
    return {found["name"]: found["body"] for found in _FUNCTION.finditer(c_text)}


def mangle(scope: Iterable[str]) -> str:
    """How Cython writes names of modules and classes in front of a C name."""
    return "".join(f"{len(part)}{part}_" for part in scope)


def demangle(c_name: str, module: str) -> str | None:
    """``Class.method`` or ``function`` in a module for its C name; ``None`` for what Cython added or is elsewhere."""
    found = re.fullmatch(rf"__pyx_p?f_{mangle(module.split('.'))}(\d*)(\w+)", c_name)
    if found is None or "cython__" in c_name or "_unpickle_" in c_name or re.search(r"_\d*__(get|set|del)__$", c_name):
        return None
    digits, name = found.groups()
    if digits and name[int(digits) : int(digits) + 1] == "_":
        return f"{name[: int(digits)]}.{name[int(digits) + 1 :].lstrip('0123456789')}"
    return name


def find_function(bodies: dict[str, str], name: str) -> str | None:
    """The body of the function with this full Python name.

    Where a function has a C form beside its Python form, the C form is the one with the code.
    """
    *scope, last = name.split(".")
    for pattern in (f"__pyx_f_{mangle(scope)}{last}", rf"__pyx_pf_{mangle(scope)}\d*{last}"):
        for c_name, body in bodies.items():
            if re.fullmatch(pattern, c_name):
                return body
    return None


def raise_lines(source: Path) -> set[int]:
    """The lines of ``raise`` statements, where objects are made that the hot path never sees."""
    text = source.read_text(encoding="utf-8")
    if source.suffix != ".py":
        return {number for number, line in enumerate(text.splitlines(), 1) if line.lstrip().startswith("raise ")}
    found: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Raise):
            found.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return found


def operations(body: str, ignored_lines: Iterable[int] = ()) -> list[Operation]:
    """The operations in a function's body.

    What stands before the first line of source is left out: the check whether a subclass overrides the function.
    """
    ignored = set(ignored_lines)
    found = []
    marks = list(_LINE.finditer(body))
    for mark, following in zip(marks, [*marks, None][1:], strict=True):
        line = int(mark["line"])
        if line in ignored:
            continue
        source = next((text for text in mark["quote"].splitlines() if "<<<<<<" in text), "").lstrip(" *")
        code = body[mark.end() : following.start() if following else len(body)]
        found += [
            Operation(line, source.partition("# <<<<<<")[0].rstrip(), call["name"])
            for call in _CALL.finditer(re.sub(r"/\*.*?\*/", "", code, flags=re.DOTALL))
            if not _NO_OPERATION.fullmatch(call["name"])
        ]
    return found


class Counter:
    """Operations of functions by their Python names, over modules whose C is made once.

    Args:
        package: the package directory.
        directory: where to write the C.
        names: full names of functions or modules; the C of the modules that hold them is made.

    Raises:
        LookupError: no compiled module holds one of the names.
    """

    def __init__(self, package: Path, directory: Path, names: Iterable[str]) -> None:
        modules = _build.find_modules(package)
        self._module_of = {name: self._holder(name, modules) for name in names}
        self._sources = {module: modules[module] for module in sorted(set(self._module_of.values()))}
        c_texts = generate(self._sources, package.parent, directory)
        self._bodies = {module: functions(text) for module, text in c_texts.items()}
        self._raises = {module: raise_lines(path) for module, path in self._sources.items()}

    @staticmethod
    def _holder(name: str, modules: dict[str, Path]) -> str:
        parts = name.split(".")
        for end in range(len(parts), 0, -1):
            if (module := ".".join(parts[:end])) in modules:
                return module
        raise LookupError(f"no compiled module holds {name}")

    def operations(self, name: str) -> list[Operation]:
        """The operations of one function.

        Raises:
            LookupError: its module has no such function.
        """
        module = self._module_of[name]
        body = find_function(self._bodies[module], name)
        if body is None:
            raise LookupError(f"the C of {module} has no function {name}")
        return operations(body, self._raises[module])

    def expand(self, name: str) -> list[str]:
        """The name itself, or for a module the names of all functions in it."""
        module = self._module_of[name]
        if name != module:
            return [name]
        full = [f"{module}.{each}" for c_name in self._bodies[module] if (each := demangle(c_name, module))]
        self._module_of.update(dict.fromkeys(full, module))
        return list(dict.fromkeys(full))


def read_manifest(path: Path = MANIFEST) -> dict[str, int]:
    """The allowed number of operations by function."""
    allowed: dict[str, int] = tomllib.loads(path.read_text(encoding="utf-8"))["functions"]
    return allowed


def describe(found: Iterable[Operation]) -> str:
    """The operations, one a line, in the order of the source."""
    return "\n".join(
        f"    {each.line:5}: {each.kind:<10} {each.function:<40} {each.source}"
        for each in sorted(found, key=lambda each: each.line)
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests._generated_c", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="functions or modules by their full names (default: the manifest)")
    parser.add_argument("--lines", action="store_true", help="show each operation")
    options = parser.parse_args()
    allowed = read_manifest()
    names = options.names or list(allowed)
    with tempfile.TemporaryDirectory() as directory:
        counter = Counter(ROOT / "rpcproto", Path(directory), names)
        for name in [each for given in names for each in counter.expand(given)]:
            found = counter.operations(name)
            change = f"  # was {allowed[name]}" if allowed.get(name, len(found)) != len(found) else ""
            print(f'"{name}" = {len(found)}{change}')
            if options.lines and found:
                print(describe(found))


if __name__ == "__main__":
    main()
