"""The tables of the README as rows of text, and the numbers in them."""

from __future__ import annotations

from tests._tree import ROOT

UNITS = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def in_words(owner: str, value: float | None) -> str:
    """A default of ``Limits`` or ``Timeouts``, as the texts write it: ``64 MiB``, ``1,024``, ``10 s``, ``50 ms``."""
    if owner == "Timeouts":
        assert value is not None
        return f"{value:g} s" if value >= 1 else f"{value * 1000:g} ms"
    assert isinstance(value, int)
    for size, unit in UNITS:
        if value % size == 0 and value != 1024:  # which is a number of things here, and not of bytes
            return f"{value // size} {unit}"
    return f"{value:,}"


def section(heading: str) -> str:
    """The text of the README below a heading, up to the next one."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    level, _, _ = heading.partition(" ")
    _, found, rest = text.partition(f"\n{heading}\n")
    assert found, f"the README has no heading {heading!r}"
    lines = []
    for line in rest.splitlines():
        if line.startswith("#") and len(line.partition(" ")[0]) <= len(level) and "```" not in line:
            break
        lines.append(line)
    return "\n".join(lines)


def tables(heading: str) -> list[list[list[str]]]:
    """The tables of a section: rows of cells, without the head."""
    found: list[list[list[str]]] = []
    previous = ""
    for line in section(heading).splitlines():
        if line.startswith("|"):
            if not previous.startswith("|"):
                found.append([])
            found[-1].append([cell.strip() for cell in line.strip("|").split("|")])
        previous = line
    return [rows[2:] for rows in found]
