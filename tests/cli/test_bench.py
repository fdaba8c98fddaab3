from __future__ import annotations

import json
from dataclasses import replace

import pytest

import rpcproto
from rpcproto import bench as engine
from rpcproto.bench import suite as suite_module

WORKLOADS: list[tuple[str, engine.Workload]] = []


def measured(workload: engine.Workload, *, subject: str = "rpcproto", benchmarks=None, notify=None) -> engine.Result:
    """Stands for ``rpcproto.bench.run``: figures without a run."""
    WORKLOADS.append((subject, workload))
    if subject == "gone":
        raise engine.SubjectMissing("not installed (pip install gone)")
    if notify is not None:
        notify("measuring")
    counted = {"server_messages_per_send": 16.0, "client_messages_per_send": 32.0} if subject == "rpcproto" else {}
    return engine.Result(
        subject=subject,
        workload=workload,
        calls=1000,
        seconds=workload.seconds,
        rps=1_000_000.0 if subject == "ceiling" else 400_000.0,
        mb_per_s=4.0,
        p50_us=150.0,
        p99_us=250.5,
        p999_us=1234.5,
        cpu_us_per_call=3.0,
        server_cpu_us_per_call=1.25,
        client_cpu_us_per_call=1.75,
        versions={"python": "CPython 3.11", "rpcproto": "1.2.3", "uvloop": "0.23", "msgpack": None},
        machine={"system": "Linux", "cpu": "Abacus", "cpus": 2, "load_1m": 0.25},
        build="compiled",
        placement={"pinned": workload.pin, "server": [0], "clients": [1]},
        **counted,
    )


@pytest.fixture(autouse=True)
def no_runs(monkeypatch):
    WORKLOADS.clear()
    monkeypatch.setattr(engine, "run", measured)
    monkeypatch.setattr(suite_module, "run", measured)


def test_the_flags_describe_the_workload(command):
    flags = "-p 3 -c 16 -b 1e6 -s 0.5 --unix --no-uvloop --handler thread --echo --codec msgpack --no-pin --json"
    result = command("bench", *flags.split())
    assert result.exit_code == 0, result.stderr
    expected = engine.Workload(
        procs=3,
        concurrency=16,
        bytes=1_000_000,
        seconds=0.5,
        transport="unix",
        uvloop=False,
        handler="thread",
        echo=True,
        codec="msgpack",
        pin=False,
    )
    assert [("rpcproto", expected)] == WORKLOADS


@pytest.mark.parametrize(
    ("flag", "change"),
    [("-c 1", {"concurrency": 1}), ("--unix", {"transport": "unix"}), ("--ssl", {"transport": "tls"})],
)
def test_what_is_not_given_has_its_default(command, flag, change):
    assert command("bench", *flag.split()).exit_code == 0
    assert [("rpcproto", replace(engine.Workload(), **change))] == WORKLOADS


def test_json_of_one_workload(command):
    figures = json.loads(command("bench", "-b", "10k", "--json").stdout)
    assert figures["rps"] == 400_000
    assert figures["workload"]["bytes"] == 10_000
    assert {"mb_per_s", "p50_us", "p99_us", "cpu_us_per_call", "versions", "placement"} <= figures.keys()
    assert figures["against"] == []


def test_the_table_of_one_workload(command):
    out = command("bench", "-p", "3", "--against", "ceiling").stdout
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[0] == f"rpcproto {rpcproto.__version__} (compiled), CPython 3.11, uvloop 0.23"
    assert lines[1] == "Abacus, 2 CPUs, load 0.25; server on CPU 0, clients on CPU 1"
    assert "10 bytes, 10 bytes back; 3 clients x 64 calls in flight; sync handler, tcp" in lines[3]
    assert "requests/s 400,000 1,000,000" in lines
    assert "us per request 2.50 1.00" in lines
    assert "p99.9 us 1,234 1,234" in lines
    assert "server 1.25 1.25" in lines
    assert "messages per send, clients 32.0" in lines


def test_without_pinning_the_figures_carry_a_warning(command):
    assert "not pinned" in command("bench", "--no-pin").stdout


@pytest.mark.parametrize(("others", "warned"), [(None, False), (0.05, False), (1.3, True)])
@pytest.mark.parametrize("arguments", [["-c", "1"], []])
def test_a_busy_machine_is_told(command, monkeypatch, arguments, others, warned):
    def disturbed(workload, **options):
        return replace(measured(workload, **options), disturbance=others)

    monkeypatch.setattr(engine, "run", disturbed)
    monkeypatch.setattr(suite_module, "run", disturbed)
    assert ("Other processes kept up to 1.3 of these CPUs busy" in command("bench", *arguments).stdout) is warned


def test_without_options_the_standard_rows_run_once_beside_the_ceiling(command):
    result = command("bench")
    assert result.exit_code == 0
    assert [subject for subject, _ in WORKLOADS] == ["rpcproto", "ceiling"] * len(engine.STANDARD_ROWS)
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "10 KB 3 x 16 rpcproto 400,000 0.40 4.00 150 250 1,234 1.25 + 1.75 16.0 / 32.0" in lines
    assert "ceiling 1,000,000 4.00 150 250 1,234 1.25 + 1.75" in lines


def test_json_of_the_standard_rows(command):
    report = json.loads(command("bench", "--json").stdout)
    assert [row["name"] for row in report["rows"]] == [row.name for row in engine.STANDARD_ROWS]
    assert report["rows"][0]["cells"]["ceiling"]["rps"] == 1_000_000


def test_a_missing_subject_is_told_and_the_rest_goes_on(command):
    result = command("bench", "--against", "gone")
    assert result.exit_code == 0
    assert "gone was not measured: not installed (pip install gone)\n" in result.stdout


def test_a_missing_subject_asked_for_alone_is_an_error(command):
    result = command("bench", "-c", "1", "--against", "gone")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "rpcproto: gone: not installed (pip install gone)\n"


def test_the_suite_judges(command):
    result = command("bench", "--suite", "--repeats", "2", "--no-pin")
    assert result.exit_code == 1, "1 MB misses 0.90 of the ceiling"
    assert not any(workload.pin for _, workload in WORKLOADS)
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "10 B x 64 requests/s / ceiling's >= 0.35 0.40 met" in lines
    assert "CPU per call / prototype's <= 1.25 1.00 met" in lines
    assert "1 MB 3 x 1 requests/s / ceiling's >= 0.9 0.40 MISSED" in lines
    assert any(line.startswith("- Handlers do nothing.") for line in lines)


def test_json_of_the_suite(command):
    result = command("bench", "--suite", "--repeats", "1", "--json")
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert report["met"] is False
    assert report["rows"][0]["cells"]["prototype"]["repeats"] == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("--suite -b 10 --echo", "the rows of --suite set -b, --echo themselves"),
        ("--repeats 3", "--repeats goes with --suite"),
        ("-p 0", "procs must be a whole number from 1 to 256, not 0"),
        ("-b ten", "Invalid value for '-b' / '--bytes': 'ten' is not a size; write 1000, 1e6, 10k or 64KiB"),
        ("--handler fast", "Invalid value for '--handler': 'fast' is not one of 'sync', 'async', 'thread'."),
    ],
)
def test_wrong_usage(command, arguments, told):
    result = command("bench", *arguments.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"rpcproto: {told}")
    assert result.stderr.count("\n") == 1


def test_ctrl_c_in_the_suite_keeps_what_was_measured(command, monkeypatch):
    def interrupted(workload, **arguments):
        if len(WORKLOADS) == 2:
            raise KeyboardInterrupt
        return measured(workload, **arguments)

    monkeypatch.setattr(suite_module, "run", interrupted)
    result = command("bench")
    assert result.exit_code == 130
    assert "10 B x 64" in result.stdout
    assert "dict x 64" not in result.stdout


def test_the_suite_over_tls_has_rows_of_its_own(command):
    report = json.loads(command("bench", "--suite", "--ssl", "--repeats", "1", "--json").stdout)
    assert [row["name"] for row in report["rows"]] == [row.name for row in engine.TLS_ROWS]
    assert {workload.transport for _, workload in WORKLOADS} == {"tls"}
