"""Keys that collide are told from keys as they occur."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcproto.serialization import _layout as layout
from rpcproto.serialization import flood
from tests.serialization._forms import load_python_form

HASH_MODULUS = 2**61 - 1  # of ints


python_form = load_python_form(flood)


def collide(keys: list[Any], count: int | None = None) -> bool:
    """The verdict, which both forms share."""
    result = flood.collide(keys, len(keys) if count is None else count)
    assert result == python_form.collide(keys, len(keys) if count is None else count)
    return result


def slots(key: int, mask: int) -> list[int]:
    """The slots of a dict's table that are tried for an int below 2^61, until only the last slot decides."""
    rest = key
    tried = [rest & mask]
    while rest:
        rest >>= 5
        tried.append((tried[-1] * 5 + rest + 1) & mask)
    return tried


def attack(bits: int, count: int) -> list[int]:
    """Ints for which a dict with a table of ``2**bits`` slots takes hundreds of steps each.

    Two thirds of them fill a row of slots in the order in which a dict tries them. The others start anywhere in the
    row, and have to go to its end.
    """
    mask = (1 << bits) - 1
    row = [1]
    while len(row) < count * 2 // 3:
        row.append((5 * row[-1] + 1) & mask)
    taken = set(row)
    draw = random.Random(1)
    keys = dict.fromkeys(row)
    while len(keys) < count:
        key = draw.randrange(mask + 1, 1 << (bits + 7))
        if taken.issuperset(slots(key, mask)):
            keys[key] = None
    return list(keys)


def test_row_61_ints_that_collide() -> None:
    keys = attack(11, 1300)
    assert collide(keys)
    assert collide([float(key) for key in keys])


def test_row_61_ints_that_collide_on_the_way_to_a_larger_table() -> None:
    """A dict grows as it fills: keys can be bad for a size that it has only for a while."""
    assert collide(attack(9, 330) + list(range(100_000, 110_000)))


def test_row_61_ints_that_collide_among_texts() -> None:
    """Texts make the table larger than the ints alone would."""
    ints = attack(11, 650)
    assert collide([*ints, *map(str, range(700))])


def test_row_61_ints_with_one_hash() -> None:
    assert not collide([i * HASH_MODULUS for i in range(9)])
    assert collide([i * HASH_MODULUS for i in range(11)])
    assert collide([(i * HASH_MODULUS, "x") for i in range(11)])


def test_row_61_a_million_repeated_keys() -> None:
    assert collide([0] * 1_000_000)
    assert collide([None] * 20)


def test_few_keys_are_not_looked_at() -> None:
    assert not collide([0] * 8)
    assert not collide([])


SEQUENCES: dict[str, list[Any]] = {
    "in a row": list(range(20_000)),
    "negative": [-i for i in range(20_000)],
    "addresses": [140_000_000_000_000 + 48 * i for i in range(20_000)],
    "times in ns": [1_700_000_000_000_000_000 + 1_000_000 * i for i in range(20_000)],
    "random": [random.Random(i).getrandbits(64) for i in range(5000)],
    "floats": [i / 4096 for i in range(20_000)],
    "small floats": [i * 0.001 for i in range(20_000)],
    "pairs": [(i // 150, i % 150) for i in range(20_000)],
    "pairs of texts": [(str(i), i) for i in range(5000)],
    "sets": [frozenset((i, i + 1)) for i in range(5000)],
    "mixed": [*range(100), *map(str, range(100)), None, True, 1.5, (1, 2), b"x"],
    "texts": [str(i) for i in range(5000)],
    "bytes": [b"%d" % i for i in range(5000)],
}  # fmt: skip


@pytest.mark.parametrize("keys", SEQUENCES.values(), ids=SEQUENCES)
def test_keys_as_they_occur(keys: list[Any]) -> None:
    assert not collide(keys)


@pytest.mark.parametrize("shift", [1, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44])
def test_multiples_of_powers_of_two(shift: int) -> None:
    assert not collide([i << shift for i in range(20_000)])


def test_what_has_no_hash() -> None:
    for module in (flood, python_form):
        with pytest.raises(TypeError, match="unhashable"):
            module.collide([[]] * 9, 9)


@given(st.lists(st.integers() | st.floats() | st.text() | st.tuples(st.integers()), unique=True, max_size=200))
def test_random_keys(keys: list[Any]) -> None:
    assert not collide(keys)


@given(st.lists(st.integers(0, 40), max_size=300))
def test_both_forms_have_one_verdict(keys: list[int]) -> None:
    repeated = len(keys) - len(set(keys))
    assert collide([key << 40 for key in keys]) == (len(keys) > layout.MAX_SAME and repeated > layout.MAX_SAME)
