"""The scripts of benchmarks/ run, in their smallest form."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rpcproto
from rpcproto.bench import SubjectMissing, Workload, find_benchmarks
from rpcproto.bench.subjects import load_file

pytestmark = pytest.mark.tree

ROOT = Path(rpcproto.__file__).parent.parent


def script(name: str, *arguments: str) -> dict[str, Any]:
    """Runs a script with ``--json`` and returns what it printed."""
    folder = find_benchmarks()
    assert folder is not None
    command = [sys.executable, str(folder / name), "--json", *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert done.returncode in (0, 1), done.stderr
    assert done.stderr == ""
    values: dict[str, Any] = json.loads(done.stdout)
    return values


@pytest.mark.slow
def test_features() -> None:
    values = script("features.py", "--rounds=1", "--calls=64", "deadline", "dict, msgpack", "notify")
    rows = values["rows"]
    assert {"prototype", "rpcproto, no deadline", "deadline", "echo", "dict, msgpack", "notify"} <= rows.keys()
    assert rows["deadline"]["base"] == "rpcproto, no deadline"
    assert rows["deadline"]["ns"] > 0
    assert (rows["prototype"]["ns"] is None) == bool(values["missing"])


@pytest.mark.slow
def test_every_row_of_features() -> None:
    rows = script("features.py", "--rounds=1", "--calls=64")["rows"]
    assert all(row["ns"] is not None for name, row in rows.items() if not name.startswith(("prototype", "+")))


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_items(loop: str) -> None:
    values = script("items.py", "--items=2000", "--rounds=2", f"--loop={loop}")
    assert {name: len(rates) for name, rates in values["items_per_s"].items()} == {
        "iterator": 2,
        "on_items": 2,
        "streams": 2,
    }
    assert values["ratios"].keys() == {"iterator", "on_items"}


@pytest.mark.slow
def test_blocking() -> None:
    values = script("blocking.py", "--rounds=1", "--calls=20", "--threads=4")
    assert values["ratio"] == round(values["blocking_p50_us"] / values["async_p50_us"], 2)
    assert values["calls_per_second_of_4_threads"] > 0


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_idle() -> None:
    values = script("idle.py", "--count=400", "--watch=0")
    assert values["count"] == 400
    assert values["rpcproto"]["server_bytes"] > 0
    assert values["met"] == (values["ours_bytes"] <= values["target_bytes"])


@pytest.mark.slow
@pytest.mark.parametrize("features", [(), ("METHODS", "CODECS", "CREDIT", "DEADLINE", "LIMITS", "COUNTERS")])
def test_the_prototype_answers(run: Any, tmp_path: Path, features: tuple[str, ...]) -> None:
    folder = find_benchmarks()
    assert folder is not None
    subject = load_file(folder / "prototype" / "subject.py", folder).Prototype(features)
    try:
        subject.prepare()
    except SubjectMissing as error:
        pytest.skip(str(error))

    async def calls() -> None:
        workload = Workload(echo=True, uvloop=False)
        server = await subject.serve(workload, f"unix://{tmp_path}/socket")
        client = await subject.connect(workload, server.address)
        for size in (0, 10, 1024, 1025, 65_536, 1_000_000, 9_000_000 if not features else 3_000_000):
            payload = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
            assert await client.request("Echo.echo", payload) == payload
        replies = [client.request("Echo.echo", b"%d" % number) for number in range(1000)]
        assert [await reply for reply in replies] == [b"%d" % number for number in range(1000)]
        await client.close()
        await server.close()

    run(calls())
