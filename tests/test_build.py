"""Which build runs: the rule for what is compiled, the pure finder, and the gate against stale modules."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import rpcproto
from rpcproto import _build
from tests._stale import stale_modules

PACKAGE = Path(rpcproto.__file__).parent
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package ``rpcproto`` with one module of each form."""
    package = tmp_path / "rpcproto"
    package.mkdir()
    shutil.copy(PACKAGE / "_build.py", package)
    (package / "__init__.py").write_text("from . import _build\n")
    (package / "__init__.pxd").touch()
    (package / "plain.py").touch()
    (package / "numbers.py").touch()
    (package / "numbers.pxd").write_text("# never compiled\n")
    (package / "typed.py").touch()
    (package / "typed.pxd").write_text("from rpcproto cimport numbers\n")
    (package / "leaf.py").touch()
    (package / "leaf.pyx").touch()
    (package / "leaf.pxd").touch()
    return package


def load_in_pure_python(package: Path, module: str) -> str:
    code = f"import rpcproto.{module} as m; print(m.__file__)"
    environment = os.environ | {"RPCPROTO_PURE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=package.parent, env=environment, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or done.stderr.splitlines()[-1]


def test_what_is_compiled(package: Path) -> None:
    assert _build.find_modules(package) == {
        "rpcproto.leaf": package / "leaf.pyx",
        "rpcproto.typed": package / "typed.py",
    }


def test_what_a_module_depends_on(package: Path) -> None:
    assert _build.find_inputs(package, package / "typed.py") == {
        package / name for name in ("typed.py", "typed.pxd", "numbers.pxd")
    }
    (package / "leaf.pyx").write_text("# cimport numbers\nfrom rpcproto cimport (\n    typed as other,\n)\n")
    assert _build.find_inputs(package, package / "leaf.pyx") == {
        package / name for name in ("leaf.pyx", "leaf.pxd", "typed.pxd", "numbers.pxd")
    }


def test_pure_python_passes_over_compiled_modules(package: Path) -> None:
    (package / f"typed{SUFFIX}").touch()
    assert load_in_pure_python(package, "typed") == str(package / "typed.py")


def test_pure_python_does_not_load_a_lone_compiled_module(package: Path) -> None:
    (package / f"alone{SUFFIX}").touch()
    text = load_in_pure_python(package, "alone")
    assert text == "ModuleNotFoundError: rpcproto.alone exists in compiled form only, and RPCPROTO_PURE is set"


@pytest.mark.smoke
def test_describe() -> None:
    info = _build.describe()
    forms = set(info["modules"].values())  # type: ignore[attr-defined]
    assert (info["build"], forms) == (("pure", {"python"}) if _build.PURE else ("compiled", {"compiled"}))
    assert info["python"].endswith(".".join(map(str, sys.version_info[:3])))  # type: ignore[attr-defined]


@pytest.mark.smoke
def test_only_the_build_under_test_is_loaded() -> None:
    compiled = {
        name for name, module in sys.modules.items() if (getattr(module, "__file__", "") or "").endswith(SUFFIX)
    }
    ours = {name for name in compiled if name.startswith("rpcproto.")}
    assert ours <= (set() if _build.PURE else {*_build.find_modules(PACKAGE), _build.SHARED})


def test_the_gate_against_stale_modules(package: Path) -> None:
    missing = ["rpcproto.leaf is not compiled", "rpcproto.typed is not compiled", "rpcproto._cython is not compiled"]
    assert stale_modules(package) == missing
    for name in ("leaf", "typed", "_cython"):
        (package / f"{name}{SUFFIX}").touch()
    assert stale_modules(package) == []

    later = (package / f"typed{SUFFIX}").stat().st_mtime + 1
    os.utime(package / "numbers.pxd", (later, later))
    assert stale_modules(package) == ["rpcproto.typed is older than numbers.pxd"]
    os.utime(package / "typed.py", (later, later))
    assert stale_modules(package) == ["rpcproto.typed is older than numbers.pxd and typed.py"]
    os.utime(package / f"typed{SUFFIX}", (later, later))
    (package / f"gone{SUFFIX}").touch()
    assert stale_modules(package) == [f"{package / 'gone'}{SUFFIX} belongs to no module (delete it)"]
