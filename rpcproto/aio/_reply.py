"""The steps of ``reply.py`` that Python and C do differently. Never compiled: ``_reply.pxd`` has the C bodies."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rpcproto.aio.reply import Reply

_BUILTIN = type(len)


def set_defaults(reply: Reply) -> None:
    """Fill the slots of a new reply, which Python leaves unset. In C they are None, 0 and False from the start."""
    reply._asyncio_future_blocking = False
    reply.was_cancelled = False
    reply.deadline = 0.0
    reply.sent = False
    reply.value = None
    reply.error = None
    reply.error_traceback = None
    reply.callback = None
    reply.callback_context = None
    reply.further = None
    reply.given_metadata = None


run_in: Callable[[Context, Callable[[Any], object], Any], object] = Context.run
"""``run_in(context, callback, argument)``: call ``callback(argument)`` in a context. No function of ours: that
would be a call more, and a frame that keeps the argument."""


def is_task_wakeup(callback: Callable[[Any], object]) -> bool:
    """Whether this is how asyncio's tasks (those in C) are woken by what they await."""
    return type(callback) is _BUILTIN and callback.__name__ == "task_wakeup"
