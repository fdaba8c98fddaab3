from __future__ import annotations

import dataclasses
import json

import rpcproto
from rpcproto import _build


def test_json_holds_everything(command):
    facts = json.loads(command("info", "--json").stdout)
    assert facts["rpcproto"] == rpcproto.__version__
    assert facts["build"] == _build.describe()["build"]
    assert facts["modules"] == _build.describe()["modules"]
    assert facts["limits"] == dataclasses.asdict(rpcproto.Limits())
    assert facts["timeouts"]["request"] == 30.0
    assert facts["loop"] in ("asyncio", "uvloop")


def test_the_table_for_people(command):
    result = command("info")
    assert result.exit_code == 0
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["build", _build.describe()["build"]] in lines
    assert ["max_frame", "1,048,576"] in lines
    assert ["heartbeat", "20", "s"] in lines
