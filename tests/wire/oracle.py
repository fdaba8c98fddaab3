"""A decoder of the other build, in a process of its own: what it tells of the same bytes.

Run as a program it is the server: one JSON object a line comes in, one line with the events goes out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent


def events_of(chunks: Sequence[bytes], admit: bool | None, limits: dict[str, int]) -> list[str]:
    """What a decoder of this process tells, in a form that can be sent and compared."""
    from tests.wire.feeding import feed

    return [repr(event) for event in feed(chunks, admit, **limits)]


class Oracle:
    """The pure build. Use it as a context manager."""

    def __enter__(self) -> Oracle:
        environment = {**os.environ, "RPCPROTO_PURE": "1", "PYTHONPATH": str(ROOT)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.wire.oracle"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            cwd=ROOT,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=30)

    def ask(self, chunks: Sequence[bytes], admit: bool | None, limits: dict[str, int]) -> list[str]:
        """The events of the pure build."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        question = {"chunks": [chunk.hex() for chunk in chunks], "admit": admit, "limits": limits}
        self._process.stdin.write(json.dumps(question).encode() + b"\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the oracle has ended"
        found: list[str] = json.loads(answer)
        return found


def main() -> None:
    from rpcproto._build import PURE

    assert PURE
    for line in sys.stdin:
        question: dict[str, Any] = json.loads(line)
        chunks = [bytes.fromhex(chunk) for chunk in question["chunks"]]
        print(json.dumps(events_of(chunks, question["admit"], question["limits"])), flush=True)


if __name__ == "__main__":
    main()
