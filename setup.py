"""Builds the compiled modules. Everything else about the package is in ``pyproject.toml``.

A ``setup.py`` because the build is conditional: which modules are compiled is read off the tree (see
``rpcproto/_build.py`` for the rule), ``RPCPROTO_PURE=1`` compiles none, and neither do Windows and PyPy. Where
modules are to be compiled and cannot be, the build fails: a package that is silently slow is worse than none.

``RPCPROTO_CHECKS=1`` makes C arithmetic that overflows raise OverflowError: for tests only (``make test-checked``).

The generated C goes to ``build/cython`` (with checks: ``build/checked``).
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import sys
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError

ROOT = Path(__file__).resolve().parent

DIRECTIVES = {
    "language_level": 3,
    "annotation_typing": False,  # C types come from the .pxd alone
    "infer_types": True,
    "embedsignature": True,
    "binding": True,
    "auto_pickle": False,  # a tenth of the C, and none of these objects is pickled
    "freethreading_compatible": True,
}

CHECKS = os.environ.get("RPCPROTO_CHECKS", "0") not in ("", "0")
if CHECKS:
    DIRECTIVES["overflowcheck"] = True
BUILD_DIR = "build/checked" if CHECKS else "build/cython"

# Most Pythons would say -O3 -g. -O2 takes 1.7 times as long to compile as -O1, and gains 1 % of the time of a small
# call; nobody debugs the C of a release.
COMPILE_ARGS = ["-O1", "-g0", "-Wno-unused-function", "-Wno-sign-compare"]

ADVICE = "Set RPCPROTO_PURE=1 to install rpcproto without compiled modules (several times slower)."


def load_build_module() -> ModuleType:
    """``rpcproto/_build.py`` by its path: importing the package itself would need its dependencies."""
    spec = importlib.util.spec_from_file_location("rpcproto_build_rule", ROOT / "rpcproto" / "_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def workers() -> int:
    try:
        return max(1, len(os.sched_getaffinity(0)))
    except AttributeError:
        return os.cpu_count() or 1


def extensions(root: Path = ROOT) -> list[Extension]:
    """One extension for each module to compile, with its source as Cython reads it, and all that its C depends on."""
    rule = load_build_module()
    package = root / "rpcproto"
    return [
        Extension(
            name,
            [source.relative_to(root).as_posix()],
            depends=sorted(path.relative_to(root).as_posix() for path in rule.find_inputs(package, source)),
            extra_compile_args=COMPILE_ARGS,
        )
        for name, source in rule.find_modules(package).items()
    ]


def shared_extension() -> Extension:
    """The extension of what all others share; Cython alone knows its source."""
    name = load_build_module().SHARED
    return Extension(name, [f"{BUILD_DIR}/{name.replace('.', '/')}.c"], extra_compile_args=COMPILE_ARGS)


def generate_shared(shared: Extension) -> None:
    """Have Cython write its C, unless it is there."""
    from Cython.Build.SharedModule import generate_shared_module
    from Cython.Compiler.Options import CompilationOptions, default_options

    (path,) = shared.sources
    if not Path(path).exists():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        generate_shared_module(
            CompilationOptions(
                default_options,
                shared_c_file_path=path,
                module_name=shared.name,
                shared_utility_features_disabled=["MemoryView"],  # we have none, and it is the largest by far
            )
        )


def generate_c(modules: list[Extension], build_dir: str = BUILD_DIR, quiet: bool = False) -> list[Extension]:
    """Have Cython write the C of the modules that changed. Paths are relative to the working directory."""
    from Cython.Build import cythonize

    for module in modules:
        old = Path(build_dir, module.sources[0]).with_suffix(".c")
        if old.exists() and any(Path(path).stat().st_mtime > old.stat().st_mtime for path in module.depends):
            old.unlink()
    result: list[Extension] = cythonize(
        modules,
        build_dir=build_dir,
        compiler_directives=DIRECTIVES,
        shared_utility_qualified_name=load_build_module().SHARED,
        nthreads=workers() if len(modules) > 1 else 0,  # these are processes, not worth it for one module
        quiet=quiet,
    )
    return result


def missing_tools() -> str:
    """What the machine lacks for compiling, as a sentence; empty if nothing is missing."""
    command = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    compiler = shlex.split(command)[0]
    if shutil.which(compiler) is None:
        return f"no C compiler ({compiler!r} was not found; the CC environment variable names another)"
    header = Path(sysconfig.get_path("include"), "Python.h")
    if not header.exists():
        return f"the header files of Python {sys.version_info[0]}.{sys.version_info[1]} are missing ({header})"
    return ""


class BuildExt(build_ext):
    """Generates and compiles the C of all modules side by side; any failure ends the build with one sentence."""

    def finalize_options(self) -> None:
        super().finalize_options()
        if self.parallel is None:
            self.parallel = workers()

    def run(self) -> None:
        problem = missing_tools()
        if problem:
            raise SystemExit(f"\nrpcproto cannot be compiled: {problem}. {ADVICE}")
        from Cython.Compiler.Errors import CompileError

        try:
            *modules, shared = self.extensions  # as main() has them
            generated = {module.name: module.sources for module in generate_c(modules, quiet=not self.verbose)}
            for module in modules:  # the objects stay: setuptools has noted things on them
                module.sources = generated[module.name]
            generate_shared(shared)
            super().run()
            self.remove_left_overs()
        except (CCompilerError, BaseError, CompileError) as error:
            raise SystemExit(f"\nrpcproto cannot be compiled: {error} (details above). {ADVICE}") from error

    def get_source_files(self) -> list[str]:
        """What a source distribution has to hold: nothing that is generated."""
        return [path for path in super().get_source_files() if not path.startswith("build/")]

    def remove_left_overs(self) -> None:
        """Delete what earlier builds made of modules that are no longer compiled: it would shadow their ``.py``."""
        made = {os.path.basename(self.get_ext_filename(module.name)) for module in self.extensions}
        for folder in [ROOT / "rpcproto", Path(self.build_lib)] if self.inplace else [Path(self.build_lib)]:
            for path in folder.rglob("*" + sysconfig.get_config_var("EXT_SUFFIX")):
                if path.name not in made:
                    path.unlink()


def main() -> None:
    pure = load_build_module().PURE or sys.platform == "win32" or sys.implementation.name != "cpython"
    options: dict[str, Any] = (
        {} if pure else {"ext_modules": [*extensions(), shared_extension()], "cmdclass": {"build_ext": BuildExt}}
    )
    setup(**options)


if __name__ == "__main__":
    main()
