"""The server process of a run: ``python -m rpcproto.bench._server``, started by the engine only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import environment
from ._child import Channel, Meter, main, sleep_until
from .subjects import find_subject
from .workload import Workload


async def body(job: dict[str, Any], workload: Workload, channel: Channel) -> None:
    subject = find_subject(job["subject"], Path(job["benchmarks"]) if job["benchmarks"] else None)
    subject.prepare()
    server = await subject.serve(workload, job["address"])
    channel.report(
        address=server.address,
        cpus=environment.cpus(),
        build=environment.build(),
        versions=environment.versions() | dict(subject.versions()),
    )
    span = await channel.command()
    await sleep_until(span["start"])
    meter = Meter(server.counters)
    await sleep_until(span["end"])
    channel.report(**meter.figures())
    await channel.command()
    await server.close()


if __name__ == "__main__":
    main(body)
