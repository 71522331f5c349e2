"""Lay out tables: columns as wide as their content, wrapped if too wide; each cell on rows of its own if columns don't fit."""

from __future__ import annotations

from collections.abc import Sequence

from agent.cli.screen.cells import Row, row_width, wrap
from agent.cli.screen.inline import parse
from toolcrib.contract.regex import Regex

_NARROWEST = 4
_BETWEEN = "  "
_BAR = Regex(r"(?<!\\)\|")
_ALIGNS = Regex(r" {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*\Z")
_Cell = tuple[Row, int]


def is_delimiter(line: str, head: str) -> bool:
    """Return True if ``line`` is the delimiter row of a table with the header row ``head``."""
    if _ALIGNS.match(line) is None or ("|" not in line and "|" not in head):
        return False
    return len(cells_of(line)) == len(cells_of(head))


def cells_of(line: str) -> list[str]:
    """Return the texts of a row's cells."""
    text = line.strip()
    text = text.removeprefix("|")
    if text.endswith("|") and not text.endswith("\\|"):
        text = text[:-1]
    return [cell.strip().replace("\\|", "|") for cell in _BAR.split(text)]


def table_rows(lines: Sequence[str], aligns: str, room: int) -> list[Row]:
    """Return the rows of a table from its lines; ``aligns`` is the delimiter row."""
    head, *body = [cells_of(line) for line in lines]
    count = len(head)
    rows = [(row + [""] * count)[:count] for row in body]
    sides = [_side(cell) for cell in cells_of(aligns)]
    widths = [max(_wide(cell) for cell in column) for column in zip(head, *rows, strict=True)]
    left = room - len(_BETWEEN) * (count - 1)
    if left < _NARROWEST * count and sum(widths) > left:
        return _listed(head, rows, room)
    widths = _fitted(widths, left)
    rule: Row = ((_BETWEEN.join("─" * wide for wide in widths), "mark"),)
    return [*_laid_out(head, widths, sides, "strong"), rule, *(one for row in rows for one in _laid_out(row, widths, sides, ""))]


def _side(cell: str) -> str:
    if cell.endswith(":"):
        return "center" if cell.startswith(":") else "right"
    return "left"


def _wide(cell: str) -> int:
    return max((row_width(row) for row, _ in wrap(parse(cell)[0], 10_000)), default=0) or 1


def _fitted(widths: list[int], room: int) -> list[int]:
    """Narrow the widest columns until all fit."""
    fitted = [*widths]
    over = sum(fitted) - room
    while over > 0:
        widest = max(fitted)
        if widest <= _NARROWEST:
            break
        next_one = max((wide for wide in fitted if wide < widest), default=_NARROWEST)
        alike = [place for place, wide in enumerate(fitted) if wide == widest]
        step = min(max(over // len(alike), 1), widest - max(next_one, _NARROWEST))
        for place in alike:
            if over > 0:
                fitted[place] -= max(step, 1)
                over -= max(step, 1)
    return fitted


def _laid_out(cells: Sequence[str], widths: Sequence[int], sides: Sequence[str], style: str) -> list[Row]:
    folded: list[list[_Cell]] = [wrap(parse(cell, style)[0], wide) for cell, wide in zip(cells, widths, strict=True)]
    rows = []
    for number in range(max(map(len, folded)) or 1):
        row: list[tuple[str, str]] = []
        for column, (cell, wide) in enumerate(zip(folded, widths, strict=True)):
            part: Row = cell[number][0] if number < len(cell) else ()
            free = wide - row_width(part)
            before = {"left": 0, "right": free, "center": free // 2}[sides[column]]
            after = free - before + len(_BETWEEN)
            row += [(" " * before, ""), *part, (" " * after, "")]
        rows.append(_stripped(row))
    return rows


def _stripped(row: list[tuple[str, str]]) -> Row:
    """Return the row without empty spans, and without blanks at its end."""
    kept = [span for span in row if span[0]]
    while kept and not kept[-1][1] and not kept[-1][0].strip():
        kept.pop()
    return tuple(kept)


def _listed(head: Sequence[str], rows: Sequence[Sequence[str]], room: int) -> list[Row]:
    """Return each cell on rows of its own, after its column's name."""
    shown: list[Row] = []
    for row in rows:
        for name, cell in zip(head, row, strict=True):
            pieces = [*parse(f"{name}: ", "strong")[0], *parse(cell)[0]]
            shown += [one for one, _ in wrap(pieces, room)]
        shown.append(())
    return shown[:-1]
