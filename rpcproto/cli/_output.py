"""Tables for people, drawn with rich: coloured on a terminal, plain elsewhere."""

from __future__ import annotations

from collections.abc import Collection, Sequence

__all__ = ["table"]

WIDTH = 200
"""Columns a table may take. Wider than most terminals: these wrap a long line, while rich would cut it off."""


def table(
    head: Sequence[str] | None,
    rows: Sequence[Sequence[str]],
    *,
    title: str | None = None,
    numbers: Collection[int] = (),
) -> None:
    """Print a table on stdout, with an empty line after it.

    Args:
        head: the names of the columns, or None for a list of names and values.
        rows: the cells.
        title: a line above the table.
        numbers: indices of the columns that are aligned to the right.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(
        box=SIMPLE_HEAD,
        show_header=head is not None,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        title=title,
        title_justify="left",
        title_style="bold",
    )
    for index, name in enumerate(head or ("",) * len(rows[0])):
        drawn.add_column(name, justify="right" if index in numbers else "left", no_wrap=True)
    for row in rows:
        drawn.add_row(*map(Text, row))
    out = Console(width=WIDTH, highlight=False, markup=False)
    out.print(drawn)
    out.print()
