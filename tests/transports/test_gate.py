"""How many pass at once, who waits, and who is put out."""

from __future__ import annotations

import asyncio

import pytest

from rpcproto.transports import _gate
from rpcproto.transports._gate import Gate, PutOut
from tests.transports.peers import turns

HOUR = 3600.0


class Guest:
    """Passes a gate, and stays inside until told to go."""

    def __init__(self, gate: Gate, timeout: float = HOUR) -> None:
        self.go = asyncio.Event()
        self.inside = False
        self.task = asyncio.ensure_future(self._pass(gate, timeout))

    async def _pass(self, gate: Gate, timeout: float) -> None:
        async with gate.passing(timeout):
            self.inside = True
            try:
                await self.go.wait()
            finally:
                self.inside = False

    async def error(self) -> BaseException | None:
        await asyncio.wait([self.task])
        return asyncio.CancelledError() if self.task.cancelled() else self.task.exception()


def inside(guests):
    return [number for number, guest in enumerate(guests) if guest.inside]


async def leave(*guests):
    for guest in guests:
        guest.go.set()
    for guest in guests:
        await guest.error()


def test_as_many_as_allowed_pass_and_the_newest_is_next(run):
    async def main():
        gate = Gate(2, HOUR)
        guests = [Guest(gate) for _ in range(5)]
        await turns()
        assert inside(guests) == [0, 1]
        assert repr(gate) == "<Gate 2 of 2 inside, 3 waiting>"
        await leave(guests[0])
        await turns()
        assert inside(guests) == [1, 4]
        await leave(*guests)
        assert repr(gate) == "<Gate 0 of 2 inside, 0 waiting>"

    run(main())


def test_whoever_stays_too_long_is_put_out_for_others(run):
    async def main():
        gate = Gate(2, 0.01)
        idle = [Guest(gate), Guest(gate)]
        await turns()
        newcomer = Guest(gate)
        error = await idle[0].error()
        assert isinstance(error, PutOut)
        assert str(error) == "not done within 0.01 s while others waited (limit max_handshakes 2)"
        await turns()
        assert newcomer.inside
        assert idle[1].inside  # there was nobody else to make room for
        await leave(newcomer, idle[1])

    run(main())


def test_nobody_is_put_out_while_there_is_room(run):
    async def main():
        gate = Gate(2, 0.0)
        guests = [Guest(gate), Guest(gate)]
        await turns(10)
        assert inside(guests) == [0, 1]
        await leave(*guests)

    run(main())


def test_a_crowd_that_does_nothing_keeps_no_newcomer_out(run):
    async def main():
        gate = Gate(4, 0.005)
        crowd = [Guest(gate) for _ in range(30)]
        await turns()
        newcomer = Guest(gate)
        while not newcomer.inside:
            await asyncio.sleep(0)
        assert len(inside(crowd)) <= 3
        await leave(newcomer, *crowd)
        assert repr(gate) == "<Gate 0 of 4 inside, 0 waiting>"

    run(main())


def test_the_waiting_room_is_bounded(run, monkeypatch):
    monkeypatch.setattr(_gate, "ROOM", 2)

    async def main():
        gate = Gate(1, HOUR)
        guests = [Guest(gate) for _ in range(4)]
        error = await guests[1].error()  # the one that has waited longest
        assert isinstance(error, PutOut)
        assert str(error) == "more than 1 at once and 2 waiting (limit max_handshakes)"
        await leave(guests[0], *guests[2:])

    run(main())


def test_the_time_counts_for_waiting_and_passing(run):
    async def main():
        gate = Gate(1, HOUR)
        first = Guest(gate, 0.01)
        second = Guest(gate, 0.01)
        assert isinstance(await first.error(), TimeoutError)
        assert isinstance(await second.error(), TimeoutError)
        assert repr(gate) == "<Gate 0 of 1 inside, 0 waiting>"

    run(main())


@pytest.mark.parametrize("moment", range(4))
def test_a_cancel_gives_the_place_back(run, moment):
    async def main():
        gate = Gate(1, HOUR)
        first, second = Guest(gate), Guest(gate)
        await turns()
        first.go.set()
        await turns(moment)
        second.task.cancel()
        assert isinstance(await second.error(), asyncio.CancelledError)
        third = Guest(gate)
        await leave(first)
        await turns()
        assert third.inside
        await leave(third)
        assert repr(gate) == "<Gate 0 of 1 inside, 0 waiting>"

    run(main())


def test_what_happens_inside_comes_out(run):
    async def main():
        gate = Gate(1, HOUR)
        for error in (ValueError("x"), TimeoutError("inside")):
            with pytest.raises(type(error)) as caught:
                async with gate.passing(HOUR):
                    raise error
            assert caught.value is error

    run(main())


def test_closing_turns_away_and_hurries(run):
    async def main():
        gate = Gate(1, HOUR)
        first, second = Guest(gate), Guest(gate)
        late = Guest(gate)
        await turns()
        gate.close(0.01)
        assert isinstance(await first.error(), TimeoutError)
        assert str(await second.error()) == "closed meanwhile"
        assert str(await late.error()) == "closed meanwhile"
        assert str(await Guest(gate).error()) == "closed meanwhile"

    run(main())
