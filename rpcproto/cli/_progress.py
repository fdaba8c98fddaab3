"""What is shown while a benchmark runs: on stderr, and only where that is a terminal.

Drawn anew between runs only, never by a thread of its own: on a machine of two cores that would be part of the figures.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["ProgressBar"]


class ProgressBar:
    """A line with what is going on and how much of it is done. A context manager; the line goes away at its end.

    Args:
        total: how many steps there are.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._progress: Progress | None = None

    def __enter__(self) -> ProgressBar:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

            columns = (BarColumn(bar_width=24), MofNCompleteColumn(), TextColumn("{task.description}", markup=False))
            self._progress = Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
            self._progress.start()
            self._progress.add_task("starting", total=self._total)
        return self

    def show(self, done: int, text: str) -> None:
        """Say that ``done`` steps are done and ``text`` is going on."""
        if self._progress is not None:
            self._progress.update(self._progress.task_ids[0], completed=done, description=text, refresh=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()
