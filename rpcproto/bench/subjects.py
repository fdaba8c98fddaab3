"""What can be measured: rpcproto itself, and by the same client code the prototype and the peers of ``benchmarks/``.

A subject is an object of the form of :class:`Subject`. Those outside of the package live in files of the benchmarks
folder, each with a mapping ``SUBJECTS`` from name to a factory without arguments; a file is loaded only when a name
that is not built in is asked for. A subject's module must not import what it measures before :meth:`Subject.prepare`.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from types import ModuleType
from typing import Protocol, cast

from ..errors import ConfigurationError
from .errors import SubjectMissing, Unsupported
from .workload import Workload

__all__ = ["SUBJECT_FILES", "Client", "Server", "Subject", "check_supported", "find_benchmarks", "find_subject"]

SUBJECT_FILES = ("prototype/subject.py", "peers.py")


class Server(Protocol):
    """A server that answers."""

    @property
    def address(self) -> str:
        """Where clients connect to."""

    def counters(self) -> tuple[int, int] | None:
        """Messages and system calls sent so far, if the subject counts them."""

    async def close(self) -> None:
        """End it."""


class Client(Protocol):
    """A client with one connection."""

    def request(self, method: str, value: object, /) -> Awaitable[object]:
        """Send a request, to be awaited for its reply."""

    def counters(self) -> tuple[int, int] | None:
        """Messages and system calls sent so far, if the subject counts them."""

    async def close(self) -> None:
        """End it."""


class Subject(Protocol):
    """Something that can serve and connect."""

    @property
    def handlers(self) -> Collection[str]:
        """Kinds of handler it has, of those of :class:`Workload`."""

    @property
    def codecs(self) -> Collection[str]:
        """Codecs it has."""

    @property
    def transports(self) -> Collection[str]:
        """Transports it has."""

    def prepare(self) -> None:
        """Import or build what is needed. Raises :exc:`SubjectMissing` with what would help."""

    def versions(self) -> Mapping[str, str | None]:
        """Versions of what is measured, beyond Python, uvloop and rpcproto."""

    def method(self, workload: Workload) -> str:
        """The method that clients call."""

    async def serve(self, workload: Workload, address: str) -> Server:
        """Start a server on ``tcp://127.0.0.1:0``, ``tls://127.0.0.1:0`` or ``unix:///path``.

        Certificates for TLS are those of :func:`rpcproto.bench.certificates.of_this_run`.
        """

    async def connect(self, workload: Workload, address: str) -> Client:
        """Connect to what :attr:`Server.address` said."""


def find_benchmarks(given: Path | None = None) -> Path | None:
    """The folder with the ceiling, the prototype and the peers: ``given``, else beside the package, else ``benchmarks``
    in the current folder; None if there is none.

    Raises:
        ConfigurationError: ``given`` is not such a folder.
    """
    if given is not None:
        if not (given / "ceiling.c").is_file():
            raise ConfigurationError(f"{given} is not the benchmarks folder: it has no ceiling.c")
        return given.resolve()
    for folder in (Path(__file__).resolve().parents[2], Path.cwd()):
        if (folder / "benchmarks" / "ceiling.c").is_file():
            return folder / "benchmarks"
    return None


def load_file(file: Path, folder: Path) -> ModuleType:
    """Imports a file of the benchmarks folder, which may import its neighbours by their plain names."""
    name = f"rpcproto_benchmarks:{file}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise SubjectMissing(f"cannot load {file}")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(folder))
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.path.remove(str(folder))
    return module


def find_subject(name: str, benchmarks: Path | None) -> Subject:
    """The subject of that name.

    Args:
        name: ``"rpcproto"``, or one of the benchmarks folder.
        benchmarks: that folder, as :func:`find_benchmarks` found it.

    Raises:
        SubjectMissing: there is none of that name; the text lists those there are.
    """
    if name == "rpcproto":
        from ._own import Rpcproto  # here, so that measuring something else does not load the library

        return Rpcproto()
    if benchmarks is None:
        raise SubjectMissing(f"{name!r} needs the benchmarks folder of a checkout (--benchmarks DIR)")
    known = ["rpcproto"]
    for file in SUBJECT_FILES:
        if not (benchmarks / file).is_file():
            continue
        subjects: Mapping[str, Callable[[], object]] = load_file(benchmarks / file, benchmarks).SUBJECTS
        if name in subjects:
            return cast(Subject, subjects[name]())
        known += subjects
    raise SubjectMissing(f"no subject {name!r}; there are {', '.join(known)}")


def check_supported(name: str, subject: Subject, workload: Workload) -> None:
    """Raises Unsupported, with what it can do, if the subject cannot do the workload."""
    for what, asked, offered in (
        ("handlers", workload.handler, subject.handlers),
        ("codecs", workload.codec, subject.codecs),
        ("transports", workload.transport, subject.transports),
    ):
        if asked not in offered:
            raise Unsupported(f"{name} has no {asked!r} among its {what} ({', '.join(offered)})")
