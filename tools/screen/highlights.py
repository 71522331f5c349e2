"""Find the text that a program highlights on a screen, such as the selected row of a menu."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tools.screen.grid import ScreenLine

_MOST = 4
"""The screen is divided by this number: a larger part in reverse video or another background is no highlight."""
_COLOURS = {"5": 1, "2": 3}
"""Numbers of parameters that follow the kind of a colour."""


class Highlight(NamedTuple):
    """Highlighted text in a row: its first column, and the column after it. The text has no blanks at its ends."""

    start: int
    end: int


class _Run(NamedTuple):
    """Cells of a row on the same ground."""

    ground: str
    start: int
    end: int


@functools.lru_cache(1024)
def _ground(style: str) -> str:
    """Return the ground of a style: its reverse video and its background colour, as parameters of SGR; "" if it has neither."""
    found, given = list[str](), iter(style.split(";"))
    for one in given:
        if one in ("38", "48"):
            kind = next(given, "")
            colour = [one, kind, *itertools.islice(given, _COLOURS.get(kind, 0))]
            found += colour if one == "48" else []
        elif one == "7" or (len(one) > 1 and one[:-1] in ("4", "10")):
            found.append(one)
    return ";".join(found)


def highlights(lines: Sequence[ScreenLine]) -> list[list[Highlight]]:
    """Return the highlighted texts of each row.

    Text in reverse video is highlighted, and text on a background that neither the row above nor the row below has there. If
    they are a large part of the screen, or a single cell (a cursor that the program draws), they are not.
    """
    runs = [[*_runs(line)] for line in lines]
    found = [[run for run in row if run.end - run.start > 1 and _stands_out(lines, at, run)] for at, row in enumerate(runs)]
    cells = sum(run.end - run.start for row in found for run in row)
    if cells * _MOST > sum(len(line.chars) for line in lines):
        return [[] for _ in lines]
    return [[*_texts(line, row)] for line, row in zip(lines, found, strict=True)]


def _runs(line: ScreenLine) -> Iterator[_Run]:
    start = 0
    for ground, cells in itertools.groupby(map(_ground, line.styles)):
        end = start + sum(1 for _ in cells)
        if ground:
            yield _Run(ground, start, end)
        start = end


def _stands_out(lines: Sequence[ScreenLine], row: int, run: _Run) -> bool:
    if "7" in run.ground.split(";")[:1]:
        return True
    near = [lines[at] for at in (row - 1, row + 1) if 0 <= at < len(lines)]
    return all(_ground(style) != run.ground for line in near for style in line.styles[run.start : run.end])


def _texts(line: ScreenLine, runs: Sequence[_Run]) -> Iterator[Highlight]:
    for run in runs:
        chars = line.chars[run.start : run.end]
        used = [at for at, char in enumerate(chars) if char.strip()]
        if used:
            end = run.start + used[-1] + 1
            while end < run.end and not line.chars[end]:  # the second cell of a wide character
                end += 1
            yield Highlight(run.start + used[0], end)
