"""Lines that peers can cause are bounded, and what is left out is told."""

from __future__ import annotations

import logging

import pytest

from rpcproto import _logs
from rpcproto._logs import LINES_PER_SECOND, LimitedLog


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def log(clock: Clock, caplog: pytest.LogCaptureFixture) -> LimitedLog:
    caplog.set_level(logging.WARNING)
    return LimitedLog(logging.getLogger("rpcproto.test"), clock)


def test_so_many_a_second(log: LimitedLog, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    written = [log.error("line %d", number) for number in range(1000)]
    assert written == [True] * LINES_PER_SECOND + [False] * (1000 - LINES_PER_SECOND)
    assert [record.getMessage() for record in caplog.records] == [f"line {number}" for number in range(10)]
    caplog.clear()
    clock.now += 0.999
    assert not log.warning("too early")
    clock.now += 0.001
    assert log.warning("in %s", "time")
    assert log.warning("the next")
    told = f" ({1000 - LINES_PER_SECOND + 1} lines before this one were left out, above {LINES_PER_SECOND} a second)"
    assert [record.getMessage() for record in caplog.records] == ["in time" + told, "the next"]


def test_a_percent_sign_without_arguments_is_only_text(log: LimitedLog, caplog: pytest.LogCaptureFixture) -> None:
    assert log.warning("100%")
    assert caplog.records[0].getMessage() == "100%"


def test_the_line_is_that_of_who_wrote_it(log: LimitedLog, caplog: pytest.LogCaptureFixture) -> None:
    error = ValueError("why")
    log.error("line", exc_info=error)
    (record,) = caplog.records
    assert record.funcName == "test_the_line_is_that_of_who_wrote_it"
    assert record.exc_info is not None
    assert record.exc_info[1] is error
    assert record.levelno == logging.ERROR


def test_lines_that_nobody_wants_do_not_count(log: LimitedLog, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "rpcproto.test")
    assert not any(log.warning("unwanted") for _ in range(100))
    assert log.error("wanted")
    assert [record.getMessage() for record in caplog.records] == ["wanted"]


def test_a_handler_that_fails_blocks_nobody(log: LimitedLog, clock: Clock) -> None:
    """A logging handler may call the library, which may log; no lock is held meanwhile."""

    class Recursive(logging.Handler):
        depth = 0

        def emit(self, record: logging.LogRecord) -> None:
            self.depth += 1
            if self.depth < 5:
                log.error("from the handler")

    handler = Recursive()
    log.logger.addHandler(handler)
    try:
        assert log.error("first")
    finally:
        log.logger.removeHandler(handler)
    assert handler.depth == 5


def test_the_library_has_one_for_the_process() -> None:
    assert _logs.log.logger.name == "rpcproto"
