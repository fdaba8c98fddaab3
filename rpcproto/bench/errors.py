"""What can go wrong in a benchmark beside a wrong setting. In the tree of :mod:`rpcproto.errors`, below its root."""

from __future__ import annotations

from ..errors import RpcError

__all__ = ["BenchmarkFailed", "SubjectMissing", "Unsupported"]


class BenchmarkFailed(RpcError):
    """A run did not come to its end: a process of it ended, failed or did not answer in time.

    Args:
        message: one line: which process, and what it said last.
        details: all that the process wrote to its error output.
    """

    def __init__(self, message: str, *, details: str = "") -> None:
        super().__init__(message)
        self.details = details


class SubjectMissing(BenchmarkFailed):
    """What is to be measured is not here: not installed, or it cannot be built. The text says what would help."""


class Unsupported(BenchmarkFailed):
    """What is to be measured cannot do the workload: it has no such handler, codec or transport."""
