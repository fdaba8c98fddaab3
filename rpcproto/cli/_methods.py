"""What ``rpcproto call`` asks a server about its methods: documentation, names like a wrong one, completion.

These are extras. Where a server does not tell (it tells authenticated peers), there is less help, and no error of its
own.
"""

from __future__ import annotations

import asyncio
import difflib
from typing import Any

import click
from click.shell_completion import BashComplete, CompletionItem, add_completion_class

import rpcproto
from rpcproto.errors import NoSuchMethod, RpcError

from ._access import access_of
from ._exit import one_line, printable
from ._run import run

__all__ = ["complete_method", "find_method", "hint", "spelled"]

_PATIENCE = 2.0
"""Seconds that an extra may take."""

_WRONG = (KeyError, TypeError, ValueError, AttributeError)
"""What comes of an answer that is not what it should be."""


async def find_method(client: rpcproto.Client, name: str, timeout: float) -> dict[str, Any]:
    """What the server tells of a method.

    Raises:
        NoSuchMethod: it has none of this name.
        RpcError: it does not tell.
    """
    page = await client.request("rpcproto.methods", name, timeout=timeout, codec="msgpack")
    try:
        found: list[dict[str, Any]] = [method for method in page["methods"] if method["name"] == name]
    except _WRONG:
        found = []
    if not found:
        raise NoSuchMethod(f"{client.address} has no method {name}{await hint(client, name)}", method=name)
    return found[0]


async def hint(client: rpcproto.Client, name: str) -> str:
    """The end of an error text about a name that is not one of a request: what may be meant; nothing if it is not
    known."""
    try:
        page = await client.request("rpcproto.methods", timeout=_PATIENCE, codec="msgpack")
        kinds = {method["name"]: method["kind"] for method in page["methods"]}
        if name in kinds:
            return f"; it is a {kinds[name]}, and rpcproto call makes requests"
        like = difflib.get_close_matches(name, kinds, n=1)
    except (RpcError, *_WRONG):
        return ""
    return f"; did you mean {like[0]}?" if like else ""


def spelled(method: dict[str, Any]) -> str:
    """A method for people: name and signature, how it runs, its documentation."""
    head = f"{one_line(str(method.get('name')))}{one_line(str(method.get('signature', '')))}"
    ways = {"inline": "runs on the event loop", "task": "runs as a task", "thread": "runs in a thread"}
    way = ways.get(str(method.get("runs")), f"runs: {method.get('runs')}")
    lines = [head, one_line(f"{method.get('kind')}, {way}; defined as {method.get('defined')}")]
    if method.get("doc"):
        lines += ["", printable(str(method["doc"]))]
    return "\n".join(lines)


def complete_method(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
    """The names of methods that begin with what was typed, asked from the server at the address that was typed before.
    Nothing, if anything is in the way: a shell that waits for completion is no place for errors."""
    try:
        return run(_complete(ctx.params["address"], access_of(**ctx.params), incomplete))
    except Exception:
        return []


async def _complete(address: str, access: dict[str, Any], incomplete: str) -> list[CompletionItem[Any]]:
    async with asyncio.timeout(_PATIENCE):
        async with rpcproto.connect(address, **access) as client:
            page = await client.request("rpcproto.methods", incomplete, timeout=_PATIENCE, codec="msgpack")
    names = [(method["name"], method["signature"]) for method in page["methods"] if method["kind"] == "request"]
    return [
        CompletionItem(name, help=one_line(signature))
        for name, signature in names
        if name.startswith(incomplete) and name.isprintable()  # one that is not would be typed into the shell
    ]


@add_completion_class
class Bash(BashComplete):
    """Completion for bash, which takes ``tcp://host:1`` for five words, since a colon ends one; they are joined
    again."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the one that is completed, and what there is of that."""
        parts, incomplete = super().get_completion_args()
        words: list[str] = []
        glue = False
        for part in parts:
            joint = bool(words) and (not part.strip(":") or (part == "=" and words[-1].startswith("--")))
            if words and (joint or glue):
                words[-1] += part
            else:
                words.append(part)
            glue = joint
        return words, incomplete
