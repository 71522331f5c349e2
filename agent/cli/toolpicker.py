"""The picker of tools: lists, searches and switches tools, and returns the rows to show. It writes nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from agent.cli.escape import one_line
from agent.cli.render import first_sentence
from agent.cli.screen.cells import Row, clip, shortened, width, words_of
from agent.cli.screen.picker import Outcome
from agent.policy.tool_selection import ToolLine
from toolcrib.contract.dataclass import dataclass

_KEYS = "Type to search; arrows move, Space switches, Enter continues, Esc cancels."
_REVIEW_KEYS = "Enter writes the changes, Esc goes back, Ctrl-C cancels. Nothing is written before Enter."
_LEAST_LIST, _LEAST_PANE, _MOST_PANE = 3, 3, 10
"""Minimum number of rows for the list; minimum and maximum for the description of a tool."""
_ANY = 1_000_000


@dataclass(slots=True)
class SwitchableTool:
    """A tool in the picker. ``cost`` is the number of tokens of its schema. ``is_off``: the list of disabled tools contains it.

    ``missing`` is another reason why the tool is unavailable, or "", and ``fix`` how to make it available.
    """

    line: ToolLine
    cost: int
    missing: str
    fix: str
    is_off: bool
    was_off: bool

    @property
    def granted(self) -> bool:
        return not self.is_off and not self.missing

    @property
    def mark(self) -> str:
        """[x] granted, [ ] switched off, [-] missing for another reason; followed by * if Enter would change it."""
        sign = " " if self.is_off else "-" if self.missing else "x"
        return f"[{sign}]{'*' if self.is_off != self.was_off else ' '}"

    def matches(self, text: str) -> bool:
        return any(text in part.casefold() for part in (self.line.name, self.line.toolset, self.line.description))


class ToolPicker:
    """The picker. ``key`` is the configuration key of the list that Space changes. ``locked`` is the reason why Space must not
    change it, or "". ``effect`` receives the names switched on and off, and returns lines about the consequences; it may take a
    moment.
    """

    def __init__(
        self,
        tools: Sequence[SwitchableTool],
        title: str,
        key: str,
        effect: Callable[[Sequence[str], Sequence[str]], Sequence[str]],
        locked: str = "",
    ) -> None:
        self._tools = tools
        self._title = title
        self._key = key
        self._effect = effect
        self._locked = locked
        self._query = ""
        self._at = 0
        self._note = ""
        self._review: Sequence[str] | None = None
        self._is_seen = False
        """True once the consequences have been drawn; Enter accepts nothing before that."""
        self._scrolled = 0

    @property
    def changed(self) -> tuple[list[str], list[str]]:
        """Return the names switched on, and the names switched off."""
        other = [one for one in self._tools if one.is_off != one.was_off]
        return [one.line.name for one in other if not one.is_off], [one.line.name for one in other if one.is_off]

    def pressed(self, key: str) -> Outcome | Callable[[], None] | None:
        """Handle a key: see agent.cli.screen.picker."""
        self._note = ""
        if key in ("c-c", "c-d"):
            return "leave"
        if self._review is not None:
            return self._reviewed(key)
        match key:
            case "escape":
                return "leave"
            case "enter":
                if any(self.changed):
                    return self._look
                self._note = "nothing to change yet: Space switches the tool marked with >"
            case "space":
                self._switch()
            case "backspace":
                self._search(self._query[:-1])
            case "c-u":
                self._search("")
            case _ if key in _MOVES:
                self._at = min(max(self._at + _MOVES[key], 0), max(len(self._found) - 1, 0))
            case _:
                self._search(self._query + "".join(char for char in key if char.isprintable()))
        return None

    @property
    def _found(self) -> list[SwitchableTool]:
        query = self._query.casefold()
        return [one for one in self._tools if one.matches(query)]

    def _search(self, query: str) -> None:
        """Search, and select the first tool with the text in its name, else the first match."""
        self._query = query
        named = [at for at, one in enumerate(self._found) if query and query.casefold() in one.line.name.casefold()]
        self._at = named[0] if named else 0

    def _switch(self) -> None:
        found = self._found
        if not found:
            return
        chosen = found[self._at]
        if self._locked:
            self._note = self._locked
        elif chosen.missing and not chosen.is_off and not chosen.was_off:
            self._note = "Space cannot enable this tool: see above why it is missing"
        else:
            chosen.is_off = not chosen.is_off

    def _look(self) -> None:
        self._review, self._scrolled, self._is_seen = self._effect(*self.changed), 0, False

    def _reviewed(self, key: str) -> Outcome | None:
        if key == "enter" and self._is_seen:
            return "done"
        if key == "escape":
            self._review = None
        self._scrolled = max(self._scrolled + _MOVES.get(key, 0), 0)
        return None

    def rows(self, columns: int, height: int) -> list[Row]:
        """Return the screen: at most ``height`` rows of at most ``columns`` cells."""
        self._is_seen = self._review is not None
        rows = self._review_rows(columns, height) if self._is_seen else self._list_rows(columns, height)
        return [clip(row, columns) for row in rows][:height]

    def _review_rows(self, columns: int, height: int) -> list[Row]:
        lines = [row for line in self._review or () for row in words_of(one_line(line, _ANY), "", columns)]
        keys = list(words_of(_REVIEW_KEYS, "em", columns))
        room = max(height - len(keys) - 2, 1)
        self._scrolled = min(self._scrolled, max(len(lines) - room, 0))
        shown = lines[self._scrolled : self._scrolled + room]
        more = len(lines) - self._scrolled - len(shown)
        return [_heading("What would change"), *shown, *_text(f"{more} more: arrow down" if more else ""), *keys]

    def _list_rows(self, columns: int, height: int) -> list[Row]:
        granted = [one for one in self._tools if one.granted]
        total = f"{len(granted)} of {len(self._tools)} on, {sum(one.cost for one in granted):,} tokens per request"
        top: list[Row] = [_heading(shortened(self._title, columns)), *_text(f"search: {self._query}_")]
        footer = list(words_of(self._note or _KEYS, "strong" if self._note else "em", columns))
        footer = [*_text(shortened(total, columns)), *(footer if height > 14 or self._note else footer[:1])]
        room = height - len(top) - len(footer) - 1
        pane = min(max(room // 2, _LEAST_PANE), _MOST_PANE, max(room - _LEAST_LIST, 0))
        found = self._found
        listed = self._listed(found, columns, room - pane) if found else [*_text(f"no tool matches {self._query!r}")]
        listed += [()] * (room - pane - len(listed))
        said = self._said(found[self._at], columns)[:pane] if found else []
        return [*top, *listed, _ruled(columns), *said, *([()] * (pane - len(said))), *footer]

    def _listed(self, found: Sequence[SwitchableTool], columns: int, room: int) -> list[Row]:
        """Return the rows of the list around the selected tool. Each group has a heading."""
        rows: list[Row] = []
        chosen = 0
        names = min(max(width(one.line.name) for one in found), max(columns - 16, 8))
        at = 0
        for toolset, group in groupby(found, key=lambda one: one.line.toolset):
            rows.append(_heading(shortened(one_line(toolset), columns)))
            for one in group:
                if at == self._at:
                    chosen = len(rows)
                rows.append(_tool_row(one, names, columns, is_chosen=at == self._at))
                at += 1
        begin = min(max(chosen - room // 2, 0), max(len(rows) - room, 0))
        return rows[begin : begin + room]

    def _said(self, one: SwitchableTool, columns: int) -> list[Row]:
        state = "on" if one.granted else f"switched off by {self._key}" if one.is_off else "missing"
        lines = [f"{one.line.name}: {state}; {one.cost:,} tokens in each request"]
        lines += [f"why: {one.missing}"] if one.missing else []
        lines += [f"fix: {one.fix}"] if one.fix else []
        lines += [one.line.description]
        return [row for line in lines for row in words_of(one_line(line, _ANY), "", columns)]


_MOVES = {"up": -1, "down": 1, "pageup": -10, "pagedown": 10, "home": -_ANY, "end": _ANY}


def by_toolset(tools: Iterable[SwitchableTool]) -> list[SwitchableTool]:
    """Return the tools grouped by toolset, in the order of each toolset's first tool."""
    found: dict[str, list[SwitchableTool]] = {}
    for one in tools:
        found.setdefault(one.line.toolset, []).append(one)
    return [one for group in found.values() for one in group]


def _tool_row(one: SwitchableTool, names: int, columns: int, *, is_chosen: bool) -> Row:
    name = shortened(one_line(one.line.name), names)
    text = f"{'>' if is_chosen else ' '} {one.mark} {name}{' ' * (names - width(name))} {one.cost:>6,}"
    why = "switched off" if one.is_off else one.missing or first_sentence(one.line.description)
    text = shortened(f"{text}  {one_line(why)}", columns)
    return ((text, "chosen" if is_chosen else ""),)


def _heading(text: str) -> Row:
    return ((text, "heading"),)


def _text(text: str) -> Iterator[Row]:
    if text:
        yield ((text, ""),)


def _ruled(columns: int) -> Row:
    return (("-" * columns, ""),)
