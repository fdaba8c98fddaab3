from __future__ import annotations

import click
import pytest

from rpcproto.cli._params import size


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("1000", 1000),
        ("1e6", 1_000_000),
        ("2.5e3", 2500),
        ("10k", 10_000),
        ("10kB", 10_000),
        ("1.5M", 1_500_000),
        ("2g", 2_000_000_000),
        ("64KiB", 65_536),
        ("1Mi", 1_048_576),
        ("1 MB", 1_000_000),
    ],
)
def test_sizes(text, expected):
    assert size(text) == expected


@pytest.mark.parametrize("text", ["", "x", "-1", "10x", "1e-3", "0.5", "1.0001k", "i", "5i", "nan", "inf"])
def test_what_is_no_size(text):
    with pytest.raises(click.BadParameter):
        size(text)
