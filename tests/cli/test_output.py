from __future__ import annotations

from rpcproto.cli._output import table


def test_numbers_are_aligned_to_the_right(capsys):
    table(("name", "n"), [("a", "1"), ("long name", "1,000")], numbers=(1,))
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert [line for line in lines if line and not set(line) & set("─-")] == [
        "name           n",
        "a              1",
        "long name  1,000",
    ]


def test_cells_are_text_and_no_markup(capsys):
    table(None, [("[bold]x[/bold]", "")], title="[red]")
    out = capsys.readouterr().out
    assert "[bold]x[/bold]" in out
    assert "[red]" in out


def test_long_lines_are_not_cut_in_a_pipe(capsys):
    table(None, [("name", "x" * 150)])
    assert "x" * 150 in capsys.readouterr().out
