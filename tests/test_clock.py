from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from pathlib import Path

import pytest

import rpcproto
from rpcproto import _build, _clock


def test_it_is_the_clock_of_the_loops():
    assert _clock.monotonic is time.monotonic


@pytest.mark.tree
@pytest.mark.slow
@pytest.mark.skipif(_build.PURE, reason="the C body is for compiled modules")
def test_the_c_body_reads_the_same_clock(tmp_path):
    source = tmp_path / "reads_the_clock.pyx"
    source.write_text("from rpcproto cimport _clock\ndef now():\n    return _clock.monotonic()\n")
    root = Path(rpcproto.__file__).parents[1]
    command = [sys.executable, "-m", "Cython.Build.Cythonize", "-i", "-3", "-q", str(source)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    [binary] = tmp_path.glob("*.so")
    spec = importlib.util.spec_from_file_location("reads_the_clock", binary)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    before = time.monotonic()
    now = module.now()
    # Both round nanoseconds to a double, each in its own way.
    assert before - 1e-6 <= now <= time.monotonic() + 1e-6
