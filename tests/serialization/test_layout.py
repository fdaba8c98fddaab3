"""The numbers in Python and in C are the same."""

from __future__ import annotations

import re
from pathlib import Path

import rpcproto.serialization._layout as layout

TYPES = Path(layout.__file__).with_name("_layout.pxd")


def test_both_files_have_the_same_numbers() -> None:
    in_c = {name: int(value, 0) for name, value in re.findall(r"^ {4}(\w+) = (\S+)$", TYPES.read_text(), re.MULTILINE)}
    in_python = {name: value for name, value in vars(layout).items() if name.isupper()}
    assert in_c == in_python


def test_extension_types_differ() -> None:
    names = ["TIMESTAMP", "TUPLE", "SET", "FROZENSET", "INTEGER", "COMPLEX", "DATETIME", "BYTES", "BYTEARRAY"]
    names += ["MEMORYVIEW", "ARRAY_OF_NUMPY", "SCALAR_OF_NUMPY"]
    assert [getattr(layout, name) for name in names] == [-1, *range(1, 12)]
