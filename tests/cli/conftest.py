"""Running the command without a terminal, a network or a second process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result

import rpcproto
from rpcproto.cli.app import app


@pytest.fixture
def command() -> Callable[..., Result]:
    """``command("ping", address)`` runs it and returns click's result: exit_code, stdout, stderr."""

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(app, arguments, prog_name="rpcproto")

    return run


class FakeClient:
    """Stands for ``rpcproto.connect(...)`` and the client it gives. Answers from a script.

    Args:
        answers: what ``request`` and ``ping`` return in turn; an exception is raised instead.
        refusal: the error of connecting, or None.
    """

    def __init__(self, *answers: object, refusal: Exception | None = None) -> None:
        self.answers = list(answers)
        self.refusal = refusal
        self.address = ""
        self.options: dict[str, Any] = {}
        self.requests: list[tuple[Any, ...]] = []

    def connect(self, address: str, **options: Any) -> FakeClient:
        self.address = address
        self.options = options
        return self

    async def __aenter__(self) -> FakeClient:
        if self.refusal is not None:
            raise self.refusal
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def request(self, method: str, *arguments: object, timeout: float, codec: str = "") -> object:
        self.requests.append((method, *arguments))
        return self._answer()

    async def ping(self, timeout: float) -> object:
        self.ping_timeout = timeout
        return self._answer()

    def _answer(self) -> object:
        if not self.answers:
            raise rpcproto.NotPermitted("the script is over")
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Callable[..., FakeClient]:
    """``fake(answers...)`` puts a :class:`FakeClient` in the place of ``rpcproto.connect``."""

    def install(*answers: object, refusal: Exception | None = None) -> FakeClient:
        client = FakeClient(*answers, refusal=refusal)
        monkeypatch.setattr(rpcproto, "connect", client.connect, raising=False)
        return client

    return install
