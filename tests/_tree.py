"""Where the tests run: in the source tree, or beside an installed package, which a copy of them is to test."""

from __future__ import annotations

from pathlib import Path

import rpcproto

ROOT = Path(__file__).parent.parent

IN_TREE = Path(rpcproto.__file__).parent.parent == ROOT
"""Whether the package under test is the one of the tree that the tests lie in. If not, those marked ``tree`` are left
out: they need the README, the examples, the benchmarks, or the means to build the package."""
