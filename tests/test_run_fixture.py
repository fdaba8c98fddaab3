"""The ``run`` fixture notices what a test leaves behind. A leak test that cannot fail tests nothing."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

LEAKS = """
import asyncio, os, threading, pytest

kept = []

def test_clean(run):
    async def main():
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
        server.close()
        await server.wait_closed()
        return await asyncio.to_thread(lambda: 5)

    assert run(main()) == 5
    assert run(asyncio.sleep(0, 6)) == 6

def test_task(run):
    async def main():
        kept.append(asyncio.create_task(asyncio.sleep(60)))
    run(main())

def test_descriptor(run):
    kept.append(os.open("/dev/null", os.O_RDONLY))

def test_thread(run):
    threading.Thread(target=threading.Event().wait, daemon=True).start()

def test_callback(run):
    async def main():
        run.loop.call_soon(lambda: 1 / 0)
        await asyncio.sleep(0)
    run(main())

def test_unretrieved(run):
    async def main():
        run.loop.create_future().set_exception(ValueError("nobody looked"))
    run(main())

def test_never_awaited(run):
    async def main():
        asyncio.sleep(0)
    run(main())

def test_expected(run):
    async def main():
        run.loop.call_soon(lambda: 1 / 0)
        await asyncio.sleep(0)
    run(main())
    (context,) = run.errors
    run.errors.clear()

def test_hangs(run):
    async def inner():
        await asyncio.sleep(60)
    run(inner(), timeout=0.01)

def test_heeds_no_cancellation(run):
    async def deaf():
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                pass
    run(deaf(), timeout=0.01)
"""


def test_what_is_left_behind_fails_the_test(tmp_path: Path) -> None:
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_leaks.py").write_text(LEAKS)
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "-rA", "--tb=short", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    outcomes = dict(re.findall(r"^(?:(?:ERROR|FAILED|PASSED) .*::test_(\w+)(?: - (.*))?)$", done.stdout, re.MULTILINE))
    failed = set(re.findall(r"^(?:ERROR|FAILED) .*::test_(\w+)", done.stdout, re.MULTILINE))
    assert outcomes.keys() - failed == {"clean", "expected"}, done.stdout
    assert failed == {
        *("task", "descriptor", "thread", "callback", "unretrieved", "never_awaited", "hangs", "heeds_no_cancellation")
    }, done.stdout
    for text in ("task <Task pending", "/dev/null", "thread Thread-", "ZeroDivisionError", "nobody looked", "in inner"):
        assert text in done.stdout, text


@pytest.mark.smoke
def test_runs_a_coroutine(run) -> None:  # type: ignore[no-untyped-def]
    async def main() -> int:
        return 5

    assert run(main()) == 5
