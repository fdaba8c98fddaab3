"""Whether the compiled modules are those of the sources: a stale one passes tests that the source would fail."""

from __future__ import annotations

import sysconfig
from pathlib import Path

from rpcproto import _build


def stale_modules(package: Path) -> list[str]:
    """What is wrong with the modules that this Python compiled below ``package``, one text each; else empty."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    modules = _build.find_modules(package)
    binaries = {name: source.with_name(source.stem + suffix) for name, source in modules.items()}
    problems = []
    for name, source in modules.items():
        if not binaries[name].exists():
            problems.append(f"{name} is not compiled")
            continue
        made = binaries[name].stat().st_mtime
        inputs = sorted(_build.find_inputs(package, source))
        if newer := [path.name for path in inputs if path.stat().st_mtime > made]:
            problems.append(f"{name} is older than {' and '.join(newer)}")
    shared = package / (_build.SHARED.rpartition(".")[2] + suffix)
    if binaries and not shared.exists():
        problems.append(f"{_build.SHARED} is not compiled")
    left_over = sorted(set(package.rglob(f"*{suffix}")) - {*binaries.values(), shared})
    return problems + [f"{path} belongs to no module (delete it)" for path in left_over]
