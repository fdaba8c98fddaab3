"""Workloads are checked when made; results go to JSON."""

from __future__ import annotations

import importlib.util
import json
from typing import Any

import pytest

from rpcproto.bench import Result, Workload, workload
from rpcproto.errors import ConfigurationError


def make_result(**changes: Any) -> Result:
    fields: dict[str, Any] = {
        "subject": "rpcproto",
        "workload": Workload(uvloop=False),
        "calls": 1000,
        "seconds": 0.5,
        "rps": 2000.0,
        "mb_per_s": 0.02,
        "p50_us": 10.0,
        "p99_us": 20.0,
        "p999_us": 30.0,
        "cpu_us_per_call": 5.0,
        "server_cpu_us_per_call": 2.0,
        "client_cpu_us_per_call": 3.0,
    }
    return Result(**fields | changes)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"procs": 0}, "procs must be a whole number from 1 to 256, not 0"),
        ({"procs": True}, "procs must be"),
        ({"concurrency": 0}, "concurrency must be a whole number from 1 to 100000, not 0"),
        ({"bytes": -1}, "bytes must be"),
        ({"bytes": 10.0}, "bytes must be a whole number"),
        ({"seconds": 0}, "seconds must be above 0"),
        ({"seconds": float("nan")}, "seconds must be a number of seconds from 0 to 3600, not nan"),
        ({"warmup": -1}, "warmup must be a number of seconds"),
        ({"handler": "process"}, "handler must be one of sync, async, thread, not 'process'"),
        ({"codec": "pickle"}, "codec must be one of raw, msgpack, not 'pickle'"),
        ({"transport": "udp"}, "transport must be one of tcp, tls, unix, not 'udp'"),
    ],
)
def test_wrong_fields(change: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        Workload(**change)


def test_uvloop_is_used_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Workload().uvloop == (importlib.util.find_spec("uvloop") is not None)
    monkeypatch.setattr(workload, "_has_uvloop", lambda: False)
    with pytest.raises(ConfigurationError, match="uvloop is not installed"):
        Workload(uvloop=True)


def test_values() -> None:
    assert Workload(bytes=12).value() == b"012345678901"
    assert Workload(bytes=0).value() == b""
    assert Workload(bytes=10, codec="msgpack").value() == {"op": "echo", "id": 1234567, "data": b"0123456789"}
    assert Workload(bytes=12).reply() == b"0123456789"
    assert Workload(bytes=12, echo=True).reply() == b"012345678901"


def test_a_workload_survives_json() -> None:
    made = Workload(procs=3, bytes=10_000, codec="msgpack", uvloop=False)
    assert Workload(**json.loads(json.dumps(made.to_json()))) == made


def test_a_result_in_json() -> None:
    values = json.loads(json.dumps(make_result().to_json()))
    assert values["us_per_request"] == 500.0
    assert values["workload"]["concurrency"] == 64
    assert {"rps", "mb_per_s", "p50_us", "p99_us", "cpu_us_per_call", "versions", "placement"} <= values.keys()
