"""Compiles and runs ``copying.c``: how much the distance between source and destination changes the speed of a copy.

``python benchmarks/copying.py``
"""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

from building import CannotBuild, program


def main() -> int:
    if platform.machine() not in ("x86_64", "AMD64"):
        print("copying measures an instruction of x86-64; this is " + platform.machine(), file=sys.stderr)
        return 1
    try:
        built = program([Path(__file__).with_suffix(".c")], "copying")
    except CannotBuild as error:
        print(error, file=sys.stderr)
        return 1
    return subprocess.run([built], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
