"""Child processes of a run: started as fresh interpreters, talked to over pipes, never left behind."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .errors import BenchmarkFailed

__all__ = ["Child", "Children"]

PACKAGE_FOLDER = Path(__file__).resolve().parents[2]


class Child:
    """One child process.

    Args:
        name: for error texts.
        module: to be run with ``-m``.
        job: sent to it as its first line.
        environment: added to this process's environment.
    """

    def __init__(self, name: str, module: str, job: Mapping[str, Any], environment: dict[str, str]) -> None:
        self.name = name
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        path = os.pathsep.join(filter(None, [str(PACKAGE_FOLDER), os.environ.get("PYTHONPATH")]))
        # A session of its own, so that Ctrl-C reaches this process only; -P, so that no file in the current folder
        # is taken for a module.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=os.environ | {"PYTHONPATH": path} | environment,
            start_new_session=True,
        )
        self._buffer = b""
        self.send(job)

    def fileno(self) -> int:
        """The descriptor that becomes readable when a report or the end of the process comes."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, command: Mapping[str, Any]) -> None:
        """Send a command. A child that has ended is noticed when its answer is waited for."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(command).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass

    def read(self) -> list[dict[str, Any]]:
        """The reports that are there, when the descriptor is readable.

        Raises:
            BenchmarkFailed: the process has ended.
        """
        data = os.read(self.fileno(), 65536)
        if not data:
            raise self.failure()
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def ended(self, timeout: float) -> bool:
        """Whether the process ends by itself within ``timeout`` seconds."""
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        return True

    def failure(self) -> BenchmarkFailed:
        """The error for a process that ended although it should not have."""
        code = self._process.wait() if self.ended(1.0) else None
        self._errors.seek(0)
        details = self._errors.read().strip()
        how = "closed its output" if code is None else f"ended by signal {-code}" if code < 0 else f"exit code {code}"
        last = details.splitlines()[-1].strip() if details else ""
        return BenchmarkFailed(f"the {self.name} failed ({how})" + (f": {last}" if last else ""), details=details)

    def kill(self) -> None:
        """End it and what it started, by force, and wait until it is gone."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)  # its session's group: what it left behind, too
        except ProcessLookupError:
            pass
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            assert stream is not None
            try:
                stream.close()
            except BrokenPipeError:
                pass


class Children:
    """The processes of one run; a context manager that leaves none behind."""

    def __init__(self) -> None:
        self._children: list[Child] = []

    def __enter__(self) -> Children:
        return self

    def __exit__(self, *_: object) -> None:
        for child in self._children:
            child.kill()

    def start(self, name: str, module: str, job: Mapping[str, Any], environment: dict[str, str]) -> Child:
        """Start a process; see :class:`Child`."""
        child = Child(name, module, job, environment)
        self._children.append(child)
        return child

    def reports(self, of: Iterable[Child], timeout: float) -> list[dict[str, Any]]:
        """One report of each of these processes, while all processes are watched.

        Raises:
            BenchmarkFailed: a process ended (the server first, as its clients fail with it), or ``timeout`` seconds
                have passed.
        """
        wanted = list(of)
        found: dict[Child, dict[str, Any]] = {}
        deadline = time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            for child in self._children:
                selector.register(child, selectors.EVENT_READ, child)
            while len(found) < len(wanted):
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                if not ready:
                    late = ", ".join(child.name for child in wanted if child not in found)
                    raise BenchmarkFailed(f"no answer from the {late} within {timeout:g} s")
                for key, _ in ready:
                    child = key.data
                    try:
                        reports = child.read()
                    except BenchmarkFailed:
                        culprit = next((c for c in self._children if c is not child and c.ended(0.2)), child)
                        first = min(culprit, child, key=self._children.index)
                        raise first.failure() from None
                    if reports:
                        found[child] = reports[0]
                        selector.unregister(child)  # a client ends after its last report
        return [found[child] for child in wanted]
