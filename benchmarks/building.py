"""Compiles the benchmarks' C and Cython sources on the spot, and keeps the results by content.

A built file lives in the user's cache folder under a name made of the source's text, the compiler's version and the
flags, so a change of any of them builds anew, and the tree is never written to. Two processes that build the same thing
at once do no harm: each compiles to a name of its own and moves the result into place.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path


class CannotBuild(Exception):
    """Something needed for the build is missing, or the compiler refused; the text is one line."""


def compiler() -> list[str]:
    """The C compiler's command: ``$CC``, or the first of cc, gcc and clang that is there."""
    asked = os.environ.get("CC")
    if asked:
        return shlex.split(asked)
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return [name]
    raise CannotBuild("no C compiler found (cc, gcc or clang; or set CC)")


def cache_folder() -> Path:
    """Where built files are kept: ``$XDG_CACHE_HOME/rpcproto-bench`` or ``~/.cache/rpcproto-bench``."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "rpcproto-bench"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="rpcproto-bench-"))


def program(sources: Sequence[Path], name: str, flags: Sequence[str] = (), libraries: Sequence[str] = ()) -> Path:
    """Compiles a C program unless that was done before.

    Args:
        sources: the file to compile first, then the headers it includes.
        name: of the program.
        flags: for the compiler, before the source.
        libraries: for the linker, after it.

    Raises:
        CannotBuild: no compiler, or it failed.
    """
    command = [*compiler(), "-O2", *flags]
    target = cache_folder() / f"{name}-{_digest(sources, [*command, *libraries])}"
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            built = Path(folder) / name
            _run([*command, "-o", str(built), str(sources[0]), *libraries])
            built.replace(target)
    return target


def extension(source: Path, name: str, flags: Sequence[str] = ()) -> Path:
    """Compiles a Cython source into an extension module for the running Python unless that was done before.

    Args:
        source: the ``.pyx``.
        name: of the module, as the source has it.
        flags: for the C compiler.

    Raises:
        CannotBuild: no Cython, no compiler, or one of them failed.
    """
    try:
        from Cython import __version__ as cython_version
    except ImportError:
        raise CannotBuild(f"{source.name} needs Cython (pip install cython)") from None
    suffix = sysconfig.get_config_var("EXT_SUFFIX") or ".so"
    command = [*compiler(), "-O3", "-shared", "-fPIC", f"-I{sysconfig.get_path('include')}", *flags]
    if sys.platform == "darwin":
        command += ["-undefined", "dynamic_lookup"]
    target = cache_folder() / f"{name}-{_digest([source], [*command, cython_version, suffix])}" / f"{name}{suffix}"
    if not target.exists():
        target.parent.mkdir(exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            c_file, built = Path(folder) / f"{name}.c", Path(folder) / target.name
            _run([sys.executable, "-m", "cython", "-3", str(source), "-o", str(c_file)])
            _run([*command, "-o", str(built), str(c_file)])
            built.replace(target)
    return target


def _digest(files: Sequence[Path], words: Sequence[str]) -> str:
    digest = hashlib.sha256("\0".join([_run([*compiler(), "--version"]), *words]).encode())
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:20]


def _run(command: list[str]) -> str:
    """Runs a command and returns its output, or raises CannotBuild with the first line that tells of an error."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise CannotBuild(f"{command[0]}: {error.strerror}") from None
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or [f"exit code {done.returncode}"]
        told = next((line for line in lines if "error" in line.lower()), lines[-1])
        raise CannotBuild(f"{command[0]} failed: {told.strip()}")
    return done.stdout
