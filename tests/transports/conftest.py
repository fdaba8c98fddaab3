"""Places to listen at, one for each transport."""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

KINDS = ["tcp4", "tcp6", "tls4", "tls6", "unix", "abstract", "inproc"]

_count = itertools.count()


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder with a path short enough for sockets."""
    path = tempfile.mkdtemp(prefix="rp", dir="/tmp")
    yield Path(path)
    shutil.rmtree(path)


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, folder: Path) -> Callable[[], str]:
    """A function that returns an address to listen at, another one at each call, of the transport under test."""
    kind = request.param
    if kind in ("tcp6", "tls6") and not has_ipv6():
        pytest.skip("this machine has no IPv6")

    def make() -> str:
        name = f"rpcproto-{os.getpid()}-{next(_count)}"
        return {
            "tcp4": "tcp://127.0.0.1:0",
            "tcp6": "tcp://[::1]:0",
            "tls4": "tls://127.0.0.1:0",
            "tls6": "tls://[::1]:0",
            "unix": f"unix://{folder}/{name}",
            "abstract": f"unix:@{name}",
            "inproc": f"inproc://{name}",
        }[kind]

    return make
