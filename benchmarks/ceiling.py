"""The ceiling: compiles ``ceiling.c`` on the spot and runs it.

Run as a program it prints the JSON of one run: ``python benchmarks/ceiling.py -c 64 -b 10 -s 2 --pin 0,1``.
Options are those of the C program. With ``--cert`` and ``--key`` the TLS form is built, which needs OpenSSL's headers.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [] if str(HERE) in sys.path else [str(HERE)]

from building import CannotBuild, program  # noqa: E402


def build(*, tls: bool = False) -> Path:
    """The program, compiled if need be.

    Raises:
        CannotBuild: not on Linux (it needs epoll), no compiler, or no OpenSSL headers.
    """
    if sys.platform != "linux":
        raise CannotBuild("the ceiling needs Linux (epoll)")
    sources = [HERE / "ceiling.c", HERE / "ceiling_io.h"]
    flags = ["-Wall", "-Wextra"]
    if not tls:
        return program(sources, "ceiling", flags)
    return program(sources, "ceiling-tls", [*flags, "-DWITH_SSL"], ["-lssl", "-lcrypto"])


def run(options: Sequence[str], *, timeout: float = 120.0) -> dict[str, Any]:
    """One run of the program with ``options``; returns its figures.

    Raises:
        CannotBuild: see :func:`build`.
        RuntimeError: the program failed or took longer than ``timeout`` seconds; the text is one line.
    """
    tls = any(option.startswith("--cert") for option in options)
    command = [str(build(tls=tls)), *options]
    # A session of its own: Ctrl-C reaches this process only, which then ends all of the program's.
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True)
        try:
            out, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"the ceiling did not end within {timeout:g} s") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        errors.seek(0)
        told = errors.read().strip().splitlines()
    if process.returncode:
        raise RuntimeError(told[0] if told else f"the ceiling ended with exit code {process.returncode}")
    figures: dict[str, Any] = json.loads(out)
    return figures


def main() -> int:
    try:
        print(json.dumps(run(sys.argv[1:])))
    except (CannotBuild, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
