"""What users download is complete, and says the truth about itself.

The files are those in the folder that ``RPCPROTO_DIST`` names (``make test-wheel`` sets it to what ``make dist`` made);
else a source distribution and a pure wheel made from it are built here. That the package works when it is installed is
shown by the other tests, which ``.ci/wheel`` runs beside an installed wheel.
"""

from __future__ import annotations

import email
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

import rpcproto
from rpcproto import _build
from tests._tree import IN_TREE, ROOT

TOP_LEVEL = (".ci", "benchmarks", "examples", "rpcproto", "tests", "setup.py", "Makefile", "MANIFEST.in")
TOP_LEVEL += ("pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE")
"""What a checkout holds, apart from what is about git itself."""

MADE_HERE = re.compile(r"/__pycache__/|\.py[cod]$|\.so$|^rpcproto/.*\.(c|html)$")
"""What working on a checkout leaves in it."""

away = pytest.mark.skipif(IN_TREE, reason="a link to the tree has the metadata of the day when it was made")


@pytest.fixture(scope="session")
def project() -> dict[str, Any]:
    values: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return values


def checkout() -> set[str]:
    """The files of the tree, relative to it."""
    entries = [ROOT / name for name in TOP_LEVEL]
    paths = [path for entry in entries for path in ([entry] if entry.is_file() else entry.rglob("*")) if path.is_file()]
    names = {path.relative_to(ROOT).as_posix() for path in paths}
    return {name for name in names if not MADE_HERE.search(name)}


def call_backend(source: Path, target: Path, hook: str) -> None:
    """Build as ``build`` and pip do, but in this environment."""
    done = subprocess.run(
        [sys.executable, "-c", f"from setuptools import build_meta; build_meta.{hook}({str(target)!r})"],
        cwd=source,
        env=os.environ | {"RPCPROTO_PURE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a source distribution and wheels."""
    if given := os.environ.get("RPCPROTO_DIST"):
        return Path(given)
    folder = tmp_path_factory.mktemp("dist")
    source = tmp_path_factory.mktemp("checkout")  # a copy, since building leaves things behind
    for name in checkout():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name)
    call_backend(source, folder, "build_sdist")
    unpacked = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        archive.extractall(unpacked, filter="data")
    call_backend(next(unpacked.iterdir()), folder, "build_wheel")
    return folder


def metadata(wheel: zipfile.ZipFile, name: str) -> Message:
    (path,) = [path for path in wheel.namelist() if path.endswith(f".dist-info/{name}")]
    return email.message_from_bytes(wheel.read(path))


@pytest.mark.tree
@pytest.mark.slow
def test_the_source_distribution_is_the_checkout(dist: Path) -> None:
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        members = {member.name.partition("/")[2]: member for member in archive.getmembers() if member.isfile()}
    made = {name for name in members if name.startswith("rpcproto.egg-info/")} | {"PKG-INFO", "setup.cfg"}
    assert members.keys() - made == checkout()
    executable = {name for name in checkout() if os.access(ROOT / name, os.X_OK)}
    assert {name for name, member in members.items() if member.mode & 0o100} == executable


@pytest.mark.tree
@pytest.mark.slow
@pytest.mark.parametrize("form", ["pure", "compiled"])
def test_a_wheel_holds_the_package_and_nothing_else(dist: Path, form: str) -> None:
    """No C, no tests, no benchmarks; ``.pxd`` and ``.pyx`` tell ``rpcproto info`` what is meant to be compiled."""
    wheels = [path for path in dist.glob("*.whl") if path.name.endswith("-py3-none-any.whl") == (form == "pure")]
    if not wheels and "RPCPROTO_DIST" not in os.environ:
        pytest.skip("made by make test-wheel only, since compiling takes half a minute")
    (path,) = wheels
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    modules = _build.find_modules(ROOT / "rpcproto") if form == "compiled" else {}
    binaries = {source.with_name(source.stem + suffix).relative_to(ROOT).as_posix() for source in modules.values()}
    if modules:
        binaries.add(_build.SHARED.replace(".", "/") + suffix)
    with zipfile.ZipFile(path) as wheel:
        held = {name for name in wheel.namelist() if ".dist-info/" not in name}
        notes = {name.partition("/")[2] for name in wheel.namelist() if ".dist-info/" in name}
        tags = metadata(wheel, "WHEEL")
        debugged = [name for name in binaries & held if b".debug_info" in wheel.read(name)]
    assert held == {name for name in checkout() if name.startswith("rpcproto/")} | binaries
    assert notes == {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "top_level.txt", "licenses/LICENSE"}
    assert tags["Root-Is-Purelib"] == ("true" if form == "pure" else "false")
    assert path.name == f"rpcproto-{rpcproto.__version__}-{tags['Tag']}.whl"
    if form == "compiled":
        cpython = f"cp{sys.version_info[0]}{sys.version_info[1]}"
        assert tags["Tag"].startswith(f"{cpython}-{cpython}-")
        assert debugged == []


@pytest.mark.tree
@pytest.mark.slow
def test_the_metadata(dist: Path, project: dict[str, Any]) -> None:
    for path in dist.glob("*.whl"):
        with zipfile.ZipFile(path) as wheel:
            told = metadata(wheel, "METADATA")
        assert told["Name"] == "rpcproto"
        assert told["Version"] == rpcproto.__version__
        assert told["License-Expression"] == "BSD-3-Clause"
        assert told["Requires-Python"] == ">=3.11"
        assert told["Description-Content-Type"] == "text/markdown"
        assert set(told.get_all("Provides-Extra", [])) == project["project"]["optional-dependencies"].keys()
        needed = [each for each in told.get_all("Requires-Dist", []) if "extra ==" not in each]
        assert {re.match(r"\w+", each).group() for each in needed} == {"msgpack", "uvloop"}  # type: ignore[union-attr]


@pytest.mark.tree
def test_the_version_has_one_source(project: dict[str, Any]) -> None:
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "rpcproto.__version__"}
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|rc\d+)?", rpcproto.__version__)


@pytest.mark.tree
def test_every_extra_is_in_the_readme(project: dict[str, Any]) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `rpcproto\[(\w+)\]` \|", readme, re.MULTILINE)
    assert sorted(rows) == sorted(project["project"]["optional-dependencies"])


@pytest.mark.tree
def test_every_supported_python_gets_a_wheel(project: dict[str, Any]) -> None:
    stated = {re.sub(r".* :: 3\.(\d+)$", r"cp3\1-*", each) for each in project["project"]["classifiers"]}
    built = set(project["tool"]["cibuildwheel"]["build"])
    assert {each for each in stated if each.startswith("cp")} <= built


# ---- beside an installed package ------------------------------------------------------------------------------------


@away
@pytest.mark.smoke
def test_the_installed_version() -> None:
    assert importlib.metadata.version("rpcproto") == rpcproto.__version__


@away
@pytest.mark.smoke
def test_an_installed_wheel_runs_as_what_it_is() -> None:
    """A pure wheel needs no environment variable, and no part of a compiled one is left to Python."""
    told = email.message_from_string(importlib.metadata.distribution("rpcproto").read_text("WHEEL") or "")
    program = "from rpcproto import _build; print(_build.describe()['build'])"
    environment = {name: value for name, value in os.environ.items() if name != "RPCPROTO_PURE"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    build = "pure" if told["Root-Is-Purelib"] == "true" else "compiled"
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{build}\n", "")


@away
@pytest.mark.smoke
def test_the_installed_command() -> None:
    command = Path(sys.executable).with_name("rpcproto")
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"rpcproto {rpcproto.__version__}\n", "")
