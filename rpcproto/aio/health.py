"""Whether a server wants calls, as its owner says."""

from __future__ import annotations

from collections.abc import Iterable

from rpcproto.aio.parameters import did_you_mean
from rpcproto.errors import ConfigurationError

__all__ = ["NOT_SERVING", "SERVING", "UNKNOWN", "Health"]

SERVING = "serving"
NOT_SERVING = "not serving"
UNKNOWN = "unknown"


class Health:
    """What the built-in method ``rpcproto.health`` answers: :attr:`Server.health <rpcproto.Server.health>`.

    It is answered by the event loop, in turn with everything else, so a loop that hangs answers nothing: a time-out
    says as much as "not serving". Whoever balances load can be sent elsewhere by ``server.health.set(False)`` some time
    before the server is closed, which refuses this call like any other.

    Args:
        methods: wire names of what is served. What is before the last dot is the name of a service.
    """

    __slots__ = ("_away", "_services")

    def __init__(self, methods: Iterable[str]) -> None:
        self._services = {name.rpartition(".")[0]: True for name in methods}
        self._services.setdefault("", True)  # the whole server
        self._away: set[str] = set()

    def set(self, serving: bool, service: str = "") -> None:
        """Say whether calls are welcome. They are served in any case; callers that ask find out.

        Args:
            serving: whether they are.
            service: for which service, by what its wire names have before the dot. The whole server if it is left out:
                while that is not serving, nothing is.

        Raises:
            ConfigurationError: there is no such service.
        """
        if service not in self._services:
            hint = did_you_mean(service, {name: True for name in self._services if name})
            raise ConfigurationError(f"there is no service {service!r} here{hint}")
        if serving:
            self._away.discard(service)
        else:
            self._away.add(service)

    def status(self, service: str = "") -> str:
        """``"serving"`` or ``"not serving"``; ``"unknown"`` if there is no such service.

        Args:
            service: as for :meth:`set`.
        """
        if service not in self._services:
            return UNKNOWN
        return NOT_SERVING if self._away & {"", service} else SERVING

    def services(self) -> dict[str, str]:
        """The status of each service by name; that of the whole server is under ``""``."""
        return {name: self.status(name) for name in self._services}

    def __repr__(self) -> str:
        return f"<Health {self.status()}{''.join(f', {name} not serving' for name in sorted(self._away) if name)}>"
