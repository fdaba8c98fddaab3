"""Lines in the log that a peer can cause: a few a second for the whole process, whatever the peers do.

A peer chooses how often it makes a notify fail, and a log that it can fill costs disk, time, and the lines that
matter (reliability row 60). Every line of the library that a peer can cause goes through :data:`log`; what is left
out is counted, and the next line tells how many that were. What a peer sent is never part of a line, except for what
a handler itself puts into the text of the exception it raises.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from time import monotonic

__all__ = ["LINES_PER_SECOND", "LimitedLog", "log"]

LINES_PER_SECOND = 10


class LimitedLog:
    """Writes to a logger at most so many lines a second.

    Args:
        logger: where to.
        clock: monotonic seconds.
    """

    def __init__(self, logger: logging.Logger, clock: Callable[[], float] = monotonic) -> None:
        self.logger = logger
        self.clock = clock
        self._lock = threading.Lock()  # loops run in several threads; never held while a line is written
        self._start = float("-inf")
        self._count = 0
        self._left_out = 0

    def error(self, text: str, *args: object, exc_info: BaseException | None = None) -> bool:
        """Write a line of level ERROR. Returns whether it was written."""
        return self._write(logging.ERROR, text, args, exc_info)

    def warning(self, text: str, *args: object) -> bool:
        """Write a line of level WARNING. Returns whether it was written."""
        return self._write(logging.WARNING, text, args, None)

    def reset(self) -> None:
        """Begin anew, as a process does: for tests."""
        with self._lock:
            self._start = float("-inf")
            self._count = self._left_out = 0

    def _write(self, level: int, text: str, args: tuple[object, ...], exc_info: BaseException | None) -> bool:
        if not self.logger.isEnabledFor(level):
            return False
        with self._lock:
            now = self.clock()
            if now - self._start >= 1.0:
                self._start = now
                self._count = 0
            self._count += 1
            if self._count > LINES_PER_SECOND:
                self._left_out += 1
                return False
            left_out, self._left_out = self._left_out, 0
        if left_out:
            text += " (%d lines before this one were left out, above %d a second)"
            args = (*args, left_out, LINES_PER_SECOND)
        self.logger.log(level, text, *args, exc_info=exc_info, stacklevel=3)
        return True


log = LimitedLog(logging.getLogger("rpcproto"))
