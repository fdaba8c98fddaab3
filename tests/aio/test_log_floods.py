"""Row 60: a peer that makes the server log as often as it can."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from pathlib import Path

import pytest

import rpcproto
from rpcproto import _logs
from rpcproto._logs import LINES_PER_SECOND
from rpcproto.testing import pair
from tests._imports import sources
from tests.aio._ends import Kit, poll
from tests.wire import frames

PACKAGE = Path(rpcproto.__file__).parent
FLOOD = 2_000
CANARY = "cAnArY"


@pytest.fixture(autouse=True)
def standing_clock(monkeypatch):
    """The flood takes no time, so that the count of lines is exact. Returns a function that lets time pass."""
    now = [1000.0]
    monkeypatch.setattr(_logs.log, "clock", lambda: now[0])

    def go(seconds):
        now[0] += seconds

    return go


def explode(value):
    raise LookupError("never mind")


async def explode_in_task(value):
    await asyncio.sleep(0)
    raise LookupError("never mind")


NOTIFIES = {
    "inline": rpcproto.notify(explode),
    "task": rpcproto.notify(explode_in_task),
    "awaitable": rpcproto.notify(lambda value: explode_in_task(value)),
    "thread": rpcproto.notify(thread=True)(lambda value: explode(value)),
}


@pytest.mark.parametrize("way", NOTIFIES)
def test_row_60_failing_notifies_fill_no_log(run, address, way, caplog, standing_clock):
    count = FLOOD if way == "inline" else FLOOD // 4

    async def fail(server, client, many):
        peer = server.peers[0]
        before = peer.stats()["handlers_failed"]
        for sent in range(1, many + 1):
            client.notify(way, CANARY)
            if sent % 100 == 0 or sent == many:  # so that none is refused for being one too many at once
                await client.ping()
                await poll(lambda up_to=before + sent: peer.stats()["handlers_failed"] == up_to)

    async def main():
        async with pair([NOTIFIES, Kit()], address) as (server, client):
            await fail(server, client, count)
            assert len(caplog.records) == LINES_PER_SECOND
            standing_clock(1.0)
            await fail(server, client, 1)
            assert await client.request("Kit.echo", 1) == 1

    run(main())
    assert len(caplog.records) == LINES_PER_SECOND + 1
    assert f"({count - LINES_PER_SECOND} lines before this one were left out" in caplog.records[-1].getMessage()
    assert all(record.exc_info[1].args == ("never mind",) for record in caplog.records)
    assert CANARY not in caplog.text


def test_row_60_all_connections_of_a_process_share_the_limit(run, address, caplog):
    async def main():
        async with rpcproto.serve(NOTIFIES, address) as server:
            for _ in range(20):
                async with rpcproto.connect(server.address) as client:
                    for _ in range(5):
                        client.notify("inline", 1)
                    await client.ping()

    run(main())
    assert len(caplog.records) == LINES_PER_SECOND


def test_row_60_a_line_that_is_told_once_is_told_when_there_is_room(run, caplog, standing_clock):
    def slow():
        time.sleep(0.002)

    async def main():
        options = {"timeouts": rpcproto.Timeouts(slow_handler=0.001)}
        async with pair([NOTIFIES, {"slow": slow}], "tcp://127.0.0.1:0", server=options) as (_, client):
            for _ in range(LINES_PER_SECOND):
                client.notify("inline", 1)
            await client.ping()
            await client.request("slow")
            standing_clock(1.0)
            await client.request("slow")
            await client.request("slow")

    run(main())
    texts = [record.getMessage() for record in caplog.records]
    assert len(texts) == LINES_PER_SECOND + 1
    assert texts[-1].startswith("handler slow held the loop")
    assert re.search(r"\(\d lines before this one", texts[-1])  # more than 1 if a notify took a millisecond as well


BAD = {
    "no greeting": b"GET / HTTP/1.1\r\nX: cAnArY\r\n\r\n",
    "a breach": frames.greeting(1) + frames.frame(99, 1, b"cAnArY"),
    "a body that is none": frames.greeting(1) + frames.opening(1, b"\xc1cAnArY", codec=2, name="inline"),
    "half a frame": frames.greeting(1) + frames.opening(1, b"cAnArY" * 10)[:-5],
    "nothing": b"",
}


@pytest.mark.parametrize("what", BAD)
def test_row_60_bad_connections_leave_no_line(run, what, caplog):
    """Whoever connects is told what was wrong; the log is not."""
    caplog.set_level(logging.DEBUG)

    async def main():
        async with rpcproto.serve([NOTIFIES, Kit()], "tcp://127.0.0.1:0") as server:
            host, port = server.address.removeprefix("tcp://").split(":")
            for _ in range(100):
                reader, writer = await asyncio.open_connection(host, int(port))
                writer.write(BAD[what])
                writer.write_eof()
                await asyncio.wait_for(reader.read(), 5)
                writer.close()
                await writer.wait_closed()

    run(main())
    lines = [record.getMessage() for record in caplog.records if record.levelno > logging.DEBUG]
    assert lines == []
    assert CANARY not in caplog.text


def test_row_60_nothing_in_the_package_logs_past_the_limit():
    """A new line in the log is either one of ours alone, or goes through the limit: only _logs.py knows logging."""
    users = [path.name for path in sources(PACKAGE) if "getLogger" in path.read_text(encoding="utf-8")]
    assert users == ["_logs.py"]
