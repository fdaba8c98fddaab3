"""Makes benchmarks folders with a subject that misbehaves on purpose, for tests of the engine."""

from __future__ import annotations

from pathlib import Path

TEMPLATE = """
import asyncio, os
from pathlib import Path

HERE = Path(__file__).parent

def note(role):
    file = HERE / f"{role}-{os.getpid()}.pid"
    file.with_suffix(".new").write_text(str(os.getpid()))
    file.with_suffix(".new").rename(file)

class Server:
    address = "tcp://nowhere:1"
    def counters(self):
        return None
    async def close(self):
        pass

class Client(Server):
    calls = 0
    async def request(self, method, value):
        self.calls += 1
        await asyncio.sleep(0.001)
        @request@
        return b"0123456789"

class Subject:
    handlers, codecs, transports = ("sync",), ("raw",), ("tcp",)
    def prepare(self):
        @prepare@
    def versions(self):
        return {"subject": "1.0"}
    def method(self, workload):
        return "Echo.echo"
    async def serve(self, workload, address):
        note("server")
        @serve@
        return Server()
    async def connect(self, workload, address):
        note("client")
        return Client()

SUBJECTS = {"odd": Subject}
"""


def make_benchmarks(folder: Path, *, prepare: str = "pass", serve: str = "pass", request: str = "pass") -> Path:
    """A benchmarks folder whose subject ``odd`` has these statements in it.

    Each of its processes leaves a file ``server-PID.pid`` or ``client-PID.pid`` in the folder.
    """
    (folder / "ceiling.c").touch()
    text = TEMPLATE
    for place, statement in (("@prepare@", prepare), ("@serve@", serve), ("@request@", request)):
        text = text.replace(place, statement)
    (folder / "peers.py").write_text(text)
    return folder


def noted_pids(folder: Path) -> list[int]:
    """The processes that the subject ran in so far."""
    return [int(file.read_text()) for file in sorted(folder.glob("*.pid"))]


def is_alive(pid: int) -> bool:
    """Whether there is such a process; one that only waits to be reaped by another process counts as gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
