"""The reassembly budget: first come, first served, never above its size but for one message alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcproto.config import default_reassembly_budget
from rpcproto.connection.budget import ReassemblyBudget, Reservation


class Claims:
    """Claims on one budget, and in which order they were admitted."""

    def __init__(self, size: int) -> None:
        self.budget = ReassemblyBudget(size)
        self.admitted: list[Any] = []

    def reserve(self, name: str, size: int) -> Reservation:
        return self.budget.reserve(size, self.admitted.append, name)


def test_what_fits_is_admitted_at_once() -> None:
    claims = Claims(100)
    claims.reserve("a", 60)
    claims.reserve("b", 40)
    assert claims.admitted == ["a", "b"]
    assert claims.budget.reserved == 100


def test_the_next_waits_and_a_small_one_does_not_pass_it() -> None:
    claims = Claims(100)
    first = claims.reserve("a", 60)
    claims.reserve("b", 50)
    claims.reserve("c", 1)
    assert claims.admitted == ["a"]
    claims.budget.release(first)
    assert claims.admitted == ["a", "b", "c"]
    assert claims.budget.reserved == 51


def test_one_larger_than_the_budget_is_admitted_alone() -> None:
    claims = Claims(100)
    small = claims.reserve("small", 1)
    large = claims.reserve("large", 1000)
    claims.reserve("later", 1)
    assert claims.admitted == ["small"]
    claims.budget.release(small)
    assert claims.admitted == ["small", "large"]
    claims.budget.release(large)
    assert claims.admitted == ["small", "large", "later"]


def test_a_claim_that_waits_can_be_given_up() -> None:
    claims = Claims(100)
    first = claims.reserve("a", 100)
    second = claims.reserve("b", 100)
    claims.reserve("c", 10)
    claims.budget.release(second)
    claims.budget.release(second)
    claims.budget.release(first)
    assert claims.admitted == ["a", "c"]
    assert claims.budget.reserved == 10


def test_giving_up_the_first_that_waits_lets_the_next_in() -> None:
    claims = Claims(100)
    claims.reserve("a", 50)
    second = claims.reserve("b", 60)
    claims.reserve("c", 50)
    claims.budget.release(second)
    assert claims.admitted == ["a", "c"]


def test_releasing_twice_gives_back_once() -> None:
    claims = Claims(100)
    first = claims.reserve("a", 60)
    claims.budget.release(first)
    claims.budget.release(first)
    assert claims.budget.reserved == 0


def test_a_claim_admitted_may_be_released_from_within() -> None:
    budget = ReassemblyBudget(100)
    order: list[str] = []
    waiting: list[Reservation] = []

    def give_up(name: Any) -> None:
        order.append(name)
        for claim in waiting:
            budget.release(claim)

    first = budget.reserve(100, order.append, "first")
    waiting.append(budget.reserve(10, give_up, "second"))
    waiting.append(budget.reserve(10, order.append, "third"))
    budget.release(first)
    assert order[:2] == ["first", "second"]
    assert budget.reserved == 0


@pytest.mark.parametrize("size", [None, 5])
def test_its_size(size: int | None) -> None:
    assert ReassemblyBudget(size).size == (size or default_reassembly_budget())


@given(st.integers(1, 100), st.lists(st.tuples(st.booleans(), st.integers(1, 150)), max_size=60))
def test_it_is_never_exceeded_and_everything_comes_in_order(size: int, steps: list[tuple[bool, int]]) -> None:
    claims = Claims(size)
    held: dict[str, Reservation] = {}
    for number, (take, amount) in enumerate(steps):
        if take or not held:
            held[str(number)] = claims.reserve(str(number), amount)
        else:
            claims.budget.release(held.pop(sorted(held)[amount % len(held)]))
        inside = [claim for claim in held.values() if claim.admitted]
        assert claims.budget.reserved == sum(claim.size for claim in inside)
        assert claims.budget.reserved <= size or len(inside) == 1
    while inside := [name for name, claim in held.items() if claim.admitted]:
        claims.budget.release(held.pop(inside[0]))
    assert not held
    assert claims.budget.reserved == 0
    assert claims.admitted == sorted(claims.admitted, key=int)
