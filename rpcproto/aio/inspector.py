"""What a server tells of itself: the built-in methods, and who may call them.

They are plain handlers, answered at once, so they are told as the event loop sees things. What they read is there
anyway. :mod:`rpcproto.aio.introspection` describes them for callers.
"""

from __future__ import annotations

import dataclasses
import os
import platform
import sys
from collections.abc import Callable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, get_args

from rpcproto import _clock
from rpcproto.aio import context, session
from rpcproto.aio.describing import MethodInfo, describe, doc_of
from rpcproto.aio.handler import Handler
from rpcproto.aio.introspection import (
    RESERVED,
    CallInfo,
    CallsPage,
    ConnectionInfo,
    ConnectionsPage,
    Introspection,
    MethodsPage,
    ServerInfo,
    ServiceInfo,
    Told,
)
from rpcproto.aio.service import Service
from rpcproto.aio.serving import Entry
from rpcproto.connection.snapshot import calls_of, state_of
from rpcproto.errors import ConfigurationError, NotPermitted
from rpcproto.wire.spec import FrameType

if TYPE_CHECKING:
    from rpcproto.aio.link import Link
    from rpcproto.aio.options import Options
    from rpcproto.aio.server import Server

__all__ = ["Inspector", "check_told"]

MAX_PAGE = 1000
"""Methods, connections or calls in one answer: usually below 1 MB, and some milliseconds of the loop; 13 MB at most."""


def check_told(told: object) -> None:
    """Refuse what ``introspection=`` cannot be.

    Raises:
        ConfigurationError: it is none of the three.
    """
    if told not in get_args(Told):
        choices = ", ".join(repr(choice) for choice in get_args(Told))
        raise ConfigurationError(f"introspection= must be one of {choices}, not {told!r}")


class Inspector:
    """The built-in methods of one server.

    Args:
        server: which.
        service: what it serves, as it was given.
        options: its settings; the built-in methods are added to its entries.
        links: its connections, with their ids.
        told: who may ask.
    """

    def __init__(self, server: Server, service: Any, options: Options, links: Mapping[Link, int], told: Told) -> None:
        self._server = server
        self._options = options
        self._links = links
        self._told = told
        self._started = _clock.monotonic()
        entries = options.entries
        self._handlers = {name: entries[name].handler for name in sorted(entries)}
        self._built_in: dict[str, Handler] = {}
        self._described: dict[str, MethodInfo] = {}
        parts = service if isinstance(service, (list, tuple)) else [service]
        self._classes: dict[str, type] = {}
        for part in parts:
            if isinstance(part, Service):
                self._classes.setdefault(part.service_name or type(part).__name__, type(part))
        functions: list[Callable[..., Any]] = [self.health]
        if told != "none":
            functions += [self.server, self.methods, self.connections, self.calls]
        for function in functions:
            name = RESERVED + function.__name__
            owner = f"{__name__}.Inspector.{function.__name__}"
            self._built_in[name] = Handler(name, FrameType.REQUEST, function, thread=False, owner=owner)
            entries[name] = Entry(self._built_in[name])

    def health(self, service: str = "") -> str:
        return self._server.health.status(service)

    health.__doc__ = Introspection.health.__doc__

    def server(self) -> ServerInfo:
        self._check()
        health = self._server.health
        options = self._options
        links = list(self._links)
        opened = sum(link.opened for link in links)
        budget = options.budget
        return {
            "version": sys.modules["rpcproto"].__version__,  # to import it here would be a circle
            "build": "pure" if session.__file__.endswith(".py") else "compiled",
            "python": f"{platform.python_implementation()} {platform.python_version()}",
            "pid": os.getpid(),
            "uptime": _clock.monotonic() - self._started,
            "addresses": self._server.addresses,
            "health": health.status(),
            "services": self._services(),
            "connections": opened,
            "greeting": len(links) - opened,
            "running": sum(len(link.connection.running) for link in links),
            "budget": {"size": budget.size, "reserved": budget.reserved, "waiting": len(budget.waiting)},
            "limits": dataclasses.asdict(options.limits),
            "timeouts": dataclasses.asdict(options.timeouts),
        }

    server.__doc__ = Introspection.server.__doc__

    def methods(self, prefix: str = "", most: int = MAX_PAGE) -> MethodsPage:
        self._check()
        known = self._built_in if prefix.startswith(RESERVED) else self._handlers
        found = [name for name in known if name.startswith(prefix)]
        told = found[: _size(most)]
        return {"methods": [self._describe(known[name]) for name in told], "left_out": len(found) - len(told)}

    methods.__doc__ = Introspection.methods.__doc__

    def connections(self, after: int = 0, most: int = 100) -> ConnectionsPage:
        self._check()
        found = [link for link, number in self._links.items() if number > after and link.opened]
        told = found[: _size(most)]
        return {"connections": [self._connection(link) for link in told], "left_out": len(found) - len(told)}

    connections.__doc__ = Introspection.connections.__doc__

    def calls(self, connection: int = 0, most: int = 100) -> CallsPage:
        self._check()
        links = [(link, number) for link, number in self._links.items() if connection in (0, number)]
        if connection and not links:
            raise ValueError(f"there is no connection {connection!r:.100} now")
        size = _size(most)
        now = _clock.monotonic()
        told: list[CallInfo] = []
        left_out = 0
        for link, number in links:
            found, more = calls_of(link.connection, now, size - len(told))
            told += [{**call, "connection": number} for call in found]
            left_out += more
        return {"calls": told, "left_out": left_out}

    calls.__doc__ = Introspection.calls.__doc__

    def _check(self) -> None:
        """Raise unless the peer that calls may be told."""
        peer = context.peer()
        if self._told == "all" or peer.authenticated:
            return
        raise NotPermitted(
            f"it is for authenticated peers, and {peer.address} has not proved who it is: connect by unix: as the user"
            " of the server, or give both ends a shared secret (secret=...), or the client a certificate that the"
            " server verifies (tls:); or have the server tell everybody (introspection='all')"
        )

    def _services(self) -> list[ServiceInfo]:
        health = self._server.health.services()
        counts: dict[str, int] = {}
        for name in self._handlers:
            prefix = name.rpartition(".")[0]
            counts[prefix] = counts.get(prefix, 0) + 1
        return [self._service(name, count, health[name]) for name, count in islice(counts.items(), MAX_PAGE)]

    def _service(self, name: str, count: int, health: str) -> ServiceInfo:
        cls = self._classes.get(name)
        return {
            "name": name,
            "defined": "" if cls is None else f"{cls.__module__}.{cls.__qualname__}",
            "doc": "" if cls is None or not cls.__doc__ else doc_of(cls),
            "methods": count,
            "health": health,
        }

    def _describe(self, handler: Handler) -> MethodInfo:
        found = self._described.get(handler.name)
        if found is None:
            found = self._described[handler.name] = describe(handler)
        return found

    def _connection(self, link: Link) -> ConnectionInfo:
        peer = link.peer
        credentials = peer.credentials
        return {
            "id": self._links[link],
            "address": peer.address,
            "authenticated": peer.authenticated,
            "certificate": _common_name(peer.certificate),
            "process": None if credentials is None else credentials.pid,
            "user": None if credentials is None else credentials.uid,
            "age": _clock.monotonic() - link.since,
            "stats": peer.stats(),
            **state_of(link.connection),
        }


def _size(most: object) -> int:
    if not isinstance(most, int) or isinstance(most, bool) or most < 0:
        raise ValueError(f"most must be a whole number from 0 to {MAX_PAGE:,}, not {most!r:.100}")
    return min(most, MAX_PAGE)


def _common_name(certificate: dict[str, Any] | None) -> str | None:
    subject = () if certificate is None else certificate.get("subject", ())
    return next((value for group in subject for field, value in group if field == "commonName"), None)
