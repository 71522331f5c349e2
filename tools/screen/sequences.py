"""Control characters and sequences: the operation of the grid for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tools.screen.grid import Grid

MODES = frozenset(
    {1, 5, 6, 7, 9, 12, 25, 47, 66, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1015, 1016, 1047, 1048, 1049, 2004, 2026}
)
"""Private modes that a program may set and ask for."""


def _carriage_return(grid: Grid) -> None:
    grid.column, grid.wraps = 0, False


def _feed(grid: Grid) -> None:
    grid.line_feed()
    if grid.newline:
        grid.column = 0


def _next_line(grid: Grid) -> None:
    grid.line_feed()
    grid.column = 0


def _shift(grid: Grid, shifted: bool) -> None:
    grid.shifted = shifted


CONTROLS: Mapping[str, Callable[[Grid], None]] = {
    "\r\n": _next_line,
    "\r": _carriage_return,
    "\n": _feed,
    "\v": _feed,
    "\f": _feed,
    "\b": lambda grid: grid.move(grid.row, grid.column - 1),
    "\t": lambda grid: grid.tab(1),
    "\x0e": lambda grid: _shift(grid, True),
    "\x0f": lambda grid: _shift(grid, False),
}


def _align(grid: Grid) -> None:
    grid.top, grid.bottom = 0, grid.rows - 1
    grid.move(0, 0)
    for line in grid.lines:
        line.fill(0, grid.columns, "", "E")


def _reset(grid: Grid) -> None:
    grid.reset()
    grid.history.clear()


ESCAPES: Mapping[str, Callable[[Grid], None]] = {
    "7": Grid.save,
    "8": Grid.restore,
    "D": Grid.line_feed,
    "E": _next_line,
    "M": Grid.reverse_line_feed,
    "H": lambda grid: grid.stops.add(grid.column),
    "=": lambda grid: grid.modes.add(66),
    ">": lambda grid: grid.modes.discard(66),
    "c": _reset,
    "#8": _align,
}
"""Operations of ESC and these characters."""


def escape(grid: Grid, name: str) -> None:
    """Carry out ESC and these characters; a character set is ASCII or the one that draws lines."""
    if name in ESCAPES:
        ESCAPES[name](grid)
    elif name[0] in "()" and len(name) == 2:
        drawn, (first, second) = name[1] in "02", grid.graphics
        grid.graphics = (drawn, second) if name[0] == "(" else (first, drawn)


def _erase_screen(grid: Grid, part: int) -> None:
    here, end = (grid.row, grid.column + grid.wraps), (grid.rows - 1, grid.columns)
    if part < 3:
        grid.erase(*((here, end), ((0, 0), (grid.row, grid.column + 1)), ((0, 0), end))[part])
    elif part == 3:
        grid.history.clear()


def _erase_line(grid: Grid, part: int) -> None:
    if part < 3:
        start, end = ((grid.column + grid.wraps, grid.columns), (0, grid.column + 1), (0, grid.columns))[part]
        grid.erase((grid.row, start), (grid.row, end))


def _clear_stops(grid: Grid, which: int) -> None:
    if which == 0:
        grid.stops.discard(grid.column)
    elif which == 3:
        grid.stops.clear()


def _shift_cells(grid: Grid, by: int) -> None:
    if not grid.wraps:
        grid.lines[grid.row].shift(grid.column, by, grid.pen.blank)


def _lines(grid: Grid, count: int) -> None:
    """Insert lines at the cursor, or delete them if ``count`` is negative."""
    if grid.top <= grid.row <= grid.bottom:
        if count > 0:
            grid.scroll_down(count, grid.row)
        else:
            grid.scroll_up(-count, grid.row)
        _carriage_return(grid)


def _lead(grid: Grid, by: int) -> None:
    grid.move_rows(by)
    grid.column = 0


def _erase_cells(grid: Grid, count: int) -> None:
    start = grid.column + grid.wraps
    grid.erase((grid.row, start), (grid.row, min(start + count, grid.columns)))


COUNTED: Mapping[str, Callable[[Grid, int], None]] = {
    "@": _shift_cells,
    "A": lambda grid, count: grid.move_rows(-count),
    "B": Grid.move_rows,
    "C": lambda grid, count: grid.move(grid.row, grid.column + count),
    "D": lambda grid, count: grid.move(grid.row, grid.column - count),
    "E": _lead,
    "F": lambda grid, count: _lead(grid, -count),
    "G": lambda grid, count: grid.move(grid.row, count - 1),
    "I": Grid.tab,
    "L": _lines,
    "M": lambda grid, count: _lines(grid, -count),
    "P": lambda grid, count: _shift_cells(grid, -count),
    "S": Grid.scroll_up,
    "X": _erase_cells,
    "Z": lambda grid, count: grid.tab(-count),
    "`": lambda grid, count: grid.move(grid.row, count - 1),
    "a": lambda grid, count: grid.move(grid.row, grid.column + count),
    "b": Grid.repeat,
    "d": lambda grid, count: grid.address(count - 1, grid.column),
    "e": Grid.move_rows,
}
"""Sequences with a count or position, 1 if it is missing or 0."""


def _margins(grid: Grid, given: Sequence[int]) -> None:
    grid.set_margins(given[0], given[1] if len(given) > 1 else 0)


def _address(grid: Grid, given: Sequence[int]) -> None:
    grid.address(given[0] - 1, given[1] - 1 if len(given) > 1 else 0)


def _scroll_down(grid: Grid, given: Sequence[int]) -> None:
    if len(given) == 1:  # with five numbers it is about the mouse
        grid.scroll_down(given[0] or 1, grid.top)


def _set_ansi(grid: Grid, given: Sequence[int], on: bool) -> None:
    if 4 in given:
        grid.inserting = on
    if 20 in given:
        grid.newline = on


def _set_private(grid: Grid, given: Sequence[int], on: bool) -> None:
    for mode in given:
        if mode not in MODES:
            continue
        if mode in (1048, 1049) and on and not (mode == 1049 and grid.primary is not None):
            grid.save()
        (grid.modes.add if on else grid.modes.discard)(mode)
        if mode in (47, 1047, 1049):
            was = grid.primary is not None
            grid.show_alternate(on)
            if mode == 1049 and was and not on:
                grid.restore()
        elif mode == 1048 and not on:
            grid.restore()
        elif mode == 6:
            grid.address(0, 0)


OTHERS: Mapping[str, Callable[[Grid, Sequence[int]], None]] = {
    "H": _address,
    "f": _address,
    "J": lambda grid, given: _erase_screen(grid, given[0]),
    "?J": lambda grid, given: _erase_screen(grid, given[0]),
    "K": lambda grid, given: _erase_line(grid, given[0]),
    "?K": lambda grid, given: _erase_line(grid, given[0]),
    "T": _scroll_down,
    "g": lambda grid, given: _clear_stops(grid, given[0]),
    "h": lambda grid, given: _set_ansi(grid, given, True),
    "l": lambda grid, given: _set_ansi(grid, given, False),
    "?h": lambda grid, given: _set_private(grid, given, True),
    "?l": lambda grid, given: _set_private(grid, given, False),
    "r": _margins,
    "s": lambda grid, _: grid.save(),
    "u": lambda grid, _: grid.restore(),
    "!p": lambda grid, _: grid.soft_reset(),
}
"""Sequences with other parameters, 0 if one is missing; the key has what surrounds them."""
