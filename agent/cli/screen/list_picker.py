"""A list to pick one item from: typing searches, arrows move the mark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent.cli.escape import one_line
from agent.cli.screen.cells import Row, shortened, width
from toolcrib.contract.namedtuple import NamedTuple

_MOST_ROWS, _LEAST_ROWS = 10, 3
_LONGEST, _LEAST_ABOUT = 400, 6
_MOVES: Mapping[str, int] = {"up": -1, "down": 1, "pageup": -_MOST_ROWS, "pagedown": _MOST_ROWS}
MOVES = tuple(_MOVES)
"""Keys that move the mark."""


class PickItem(NamedTuple):
    """An item of a list. ``about`` is information that helps to choose, such as age, size or price. ``value`` is returned if
    the item is picked.
    """

    value: str
    name: str
    about: str = ""


class ListPicker:
    """The items, the current search and the mark. The mark starts at the first item, or at the one with the value ``current``."""

    def __init__(self, items: Sequence[PickItem], title: str, current: str = "") -> None:
        self._items = [PickItem(one.value, one_line(one.name, _LONGEST), one_line(one.about, _LONGEST)) for one in items]
        self._texts = [f"{one.name} {one.about}".casefold() for one in self._items]
        self._found = self._items
        self.title = title
        self._at = next((at for at, one in enumerate(items) if current and one.value == current), 0)

    @property
    def chosen(self) -> PickItem | None:
        """Return the marked item, or None if no item contains the search text."""
        return self._found[self._at] if self._found else None

    def search(self, text: str) -> None:
        """Keep the items that contain all words of the text, and mark the first one."""
        words = text.casefold().split()
        self._found = [one for one, there in zip(self._items, self._texts, strict=True) if all(word in there for word in words)]
        self._at = 0

    def move(self, key: str) -> None:
        """Move the mark; it stops at both ends."""
        self._at = min(max(self._at + _MOVES[key], 0), max(len(self._found) - 1, 0))

    def rows(self, columns: int, height: int) -> list[Row]:
        """Return the items around the mark, and the number of items unless all are shown. The screen has ``height`` rows."""
        if not self._found:
            return [((shortened("  no item contains this text", columns), "dim"),)]
        most = min(max(height // 2, _LEAST_ROWS), _MOST_ROWS)
        first = max(0, min(self._at - most // 2, len(self._found) - most))
        shown = self._found[first : first + most]
        names = min(max(width(one.name) for one in shown), max(columns * 2 // 3, 8))
        rows = [_item_row(one, names, columns, is_marked=one is self.chosen) for one in shown]
        if len(self._found) > most or len(self._found) < len(self._items):
            rows.append(((shortened(f"  {len(self._found):,} of {len(self._items):,}", columns), "dim"),))
        return rows


def _item_row(one: PickItem, names: int, columns: int, *, is_marked: bool) -> Row:
    name = shortened(one.name, min(names, columns - 2))
    row: Row = ((f"{'→' if is_marked else ' '} {name}", "chosen" if is_marked else ""),)
    room = columns - 2 - width(name)
    if not one.about or room < _LEAST_ABOUT:
        return row
    return (*row, (shortened(f"{' ' * (names - width(name))}  {one.about}", room), "dim"))
