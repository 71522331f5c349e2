"""Format calls and lists for users, without colours; the chat's own screen adds those."""

from __future__ import annotations

import json
import logging
import shutil
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO, TypeVar, get_args
from unicodedata import category, east_asian_width

from agent.cli.escape import one_line, tame
from toolcrib.contract.available import let_pass
from toolcrib.contract.dataclass import replace
from toolcrib.contract.display import NO_DISPLAY, LineStyle, ShownLine, ToolDisplay
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.image import Image
from toolcrib.contract.session import ExecutedCall
from toolcrib.contract.types import Json, ToolCall, ToolCallStatus
from tools.contained.outside import is_elsewhere
from tools.dispatch.json_results import as_json, images_of

if TYPE_CHECKING:
    from agent.events import ToolFinished, ToolStarted

T = TypeVar("T")
S = TypeVar("S")

_log = logging.getLogger(__name__)
_OUTCOMES: Mapping[ToolCallStatus, tuple[str, LineStyle]] = {
    ToolCallStatus.SUCCEEDED: ("ok", "ok"),
    ToolCallStatus.FAILED: ("failed", "bad"),
    ToolCallStatus.CANCELLED: ("interrupted", "warn"),
    ToolCallStatus.SUSPENDED: ("waits for an answer", "warn"),
}


def display_of(event: ToolStarted | ToolFinished) -> ToolDisplay:
    """Return the display settings of an event's tool."""
    return event.display or ToolDisplay(emoji=event.emoji)


def from_row(function: Callable[[Mapping[str, Json]], T | None] | None, given: object, shape: Callable[[T], S]) -> S | None:
    """Call a function of a tool's row with a call's arguments or data, and return its result, converted by ``shape``. Return None
    if either function raises, or if the arguments or data are not a mapping.
    """
    if function is None or not isinstance(given, Mapping):
        return None
    try:
        found = function(given)
        return None if found is None else shape(found)
    except BaseException as error:  # noqa: BLE001 - a plugin's function: the call is shown even if it fails
        let_pass(error)
        _log.warning("%s of a tool failed, so its call is shown like any other: %s: %s", function, type(error).__name__, error)
        return None


def data_of(executed: ExecutedCall) -> Mapping[str, Json] | None:
    """Return the data of a successful call if it is a mapping."""
    data = executed.result.data
    return data if executed.result.is_success and isinstance(data, Mapping) else None


def lines_below(executed: ExecutedCall, display: ToolDisplay) -> list[ShownLine]:
    """Return the lines that the tool's row adds below a call, each safe to print."""
    if not callable(display.below):
        return []
    return from_row(display.below, data_of(executed), lambda lines: list(map(_line, lines))) or []


def _line(line: ShownLine) -> ShownLine:
    return ShownLine(one_line(line.text, 1000), _style(line.style), one_line(line.sign, 4))


def _style(style: LineStyle) -> LineStyle:
    return style if style in get_args(LineStyle) else ""


def outcome(executed: ExecutedCall, display: ToolDisplay = NO_DISPLAY) -> tuple[str, LineStyle]:
    """Return a few words about how a call ended, and their style. A call whose end was not recorded never counts as a success."""
    if executed.unrecorded and executed.status is ToolCallStatus.SUCCEEDED:
        return "it ran, but its outcome could not be recorded", "bad"
    if executed.result.failure is not None and executed.result.failure.kind == "Denied":
        return "denied", "bad"
    ended = from_row(display.outcome, data_of(executed), lambda found: (one_line(found[0], 60), _style(found[1])))
    if ended is not None:
        return ended
    return _OUTCOMES.get(executed.status, (executed.status.value, "bad"))


def result_text(executed: ExecutedCall) -> str:
    """Return the result for a user, safe to print."""
    result = executed.result
    view = result.views.get("person")
    if view is None and (failure := result.failure) is not None and failure.text:
        expected = isinstance(result.data, dict) and "error" in result.data  # a ToolError: its text is complete
        view = failure.text if expected else f"{failure.kind}: {failure.text}"
    if view is None and not result.is_success:
        view = result.message or as_json(executed)
    if view is None:
        view = result.data if isinstance(result.data, str) else json.dumps(result.data, ensure_ascii=False, indent=2, default=str)
        view = view if result.message is None else f"{result.message}\n{view}"
    return "\n".join([tame(view).rstrip("\n"), *map(str, images_of(executed))])


def call_line(executed: ExecutedCall, display: ToolDisplay) -> str:
    """Return a line about a call, such as ``💻 terminal  0.12 s  ok``."""
    head = f"{display.emoji or '🔧'} {tame(executed.call.name) or '?'}"
    return f"{head}  {seconds_of(executed.duration)}  {outcome(executed, display)[0]}"


def seconds_of(duration: float, *, whole: bool = False) -> str:
    """Return a duration as text; with ``whole`` without fractions of a second, for a duration that still grows."""
    if whole:
        return f"{int(duration)} s" if duration < 120 else f"{int(duration) // 60} min {int(duration) % 60:02d} s"
    return f"{duration * 1000:.0f} ms" if duration < 0.1 else f"{duration:.1f} s"


def short_args(args: Any, limit: int = 60) -> str:
    """Return the arguments in a few words: ``ls -la``, or ``path=a.py start=10``."""
    if not isinstance(args, Mapping):
        return one_line(str(args), limit)
    if len(args) == 1 and isinstance(only := next(iter(args.values())), str):
        return one_line(only, limit)
    return one_line(" ".join(f"{name}={_short(value)}" for name, value in args.items()), limit)


def about(call: ToolCall, display: ToolDisplay) -> str:
    """Return a few words about what a call does."""
    if isinstance(call.args, Mapping):
        if callable(display.subject):
            said = from_row(display.subject, call.args, lambda found: one_line(str(found), 400))
            return short_args(call.args, 400) if said is None else said
        named = [one_line(str(call.args[name]), 400) for name in display.subject if call.args.get(name)]
        if named:
            return " in ".join(named)
    return short_args(call.args, 400)


def about_in_short(call: ToolCall, display: ToolDisplay) -> str:
    """Return a few words about a call: its subject if the display is brief, otherwise its arguments."""
    return one_line(about(call, display), 60) if display.brief else short_args(call.args)


def brief_line(executed: ExecutedCall, display: ToolDisplay, words: str = "", *, timed: bool = True) -> str:
    """Return a line about a model's call, such as ``💻 terminal  ls -la  0.1 s  ok``, with the reason if it failed.

    ``words`` is its beginning, such as ``💻 terminal runs ls -la``.
    """
    call, result = executed.call, executed.result
    parts = [
        words or f"{display.emoji or '🔧'} {tame(call.name) or '?'}",
        "" if words else about_in_short(call, display),
        seconds_of(executed.duration) if timed else "",
        outcome(executed, display)[0],
    ]
    if isinstance(result.data, dict) and is_elsewhere(where := result.data.get("where", "")):
        parts.append(one_line(str(where), 60))
    line = "  ".join(part for part in parts if part)
    if result.is_success:
        if display.brief:
            line = ": ".join([line, *(below.text for below in lines_below(executed, display)[:1])])
        return " ".join([line, *map(str, result.images)])
    word, why = parts[3], one_line(" · ".join(filter(None, map(str.strip, result_text(executed).splitlines()))), 160)
    return f"{line}{why.removeprefix(word)}" if why.startswith(f"{word};") else f"{line}: {why}"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return one_line(text, 40)


class Screen:
    """Plain output of a chat: results on stdout; lines about calls also on stdout at a terminal, else on stderr.

    For pipes, files and terminals that can't redraw; agent.cli.liveview has the screen for other terminals. ``words`` replaces
    each emoji by a word, for a screen reader.
    """

    def __init__(self, *, interactive: bool, words: bool = False) -> None:
        self.interactive = interactive
        self.words = words

    @property
    def width(self) -> int:
        """Return the number of the terminal's columns."""
        return shutil.get_terminal_size().columns

    def started(self, call: ToolCall, display: ToolDisplay) -> None:
        """Print that a call by hand begins."""
        if self.interactive:
            self.line(f"{self._sign(display, 'begins:').emoji} {one_line(call.name)} ...")

    def call(self, executed: ExecutedCall, display: ToolDisplay) -> None:
        """Print the line about a call, and its result."""
        self.line(call_line(executed, self._sign(display, "ended:")))
        if text := result_text(executed):
            self.text(text)

    def opened(self, call: ToolCall, display: ToolDisplay) -> None:
        """Print that a model's call begins."""
        if self.interactive:
            self.line(f"{self._sign(display, 'begins:').emoji} {one_line(call.name)}  {about_in_short(call, display)} ...")

    def differs(self, call_id: str, diff: str) -> None:
        """Do nothing: only the chat's own screen shows the diff of a file that a running call replaced."""

    def closed(self, executed: ExecutedCall, display: ToolDisplay, *, timed: bool = True) -> None:
        """Print the line about a model's call. Without ``timed`` its duration is unknown and left out."""
        self.line(brief_line(executed, self._sign(display, "ended:"), timed=timed))

    def whole(self, number: int | None) -> str:
        """Raise ToolcribError: items have no numbers here."""
        raise ToolcribError("items have no numbers in a pipe; /show all prints the session, /show N needs a terminal")

    def _sign(self, display: ToolDisplay, word: str) -> ToolDisplay:
        return replace(display, emoji=word if self.words else display.emoji or "🔧")

    def line(self, text: str) -> None:
        """Print a line that is not a result."""
        print(text, file=sys.stdout if self.interactive else sys.stderr, flush=True)

    def print_note(self, text: str) -> None:
        """Print a note about the chat itself, which is not part of a result."""
        self.line(text)

    def fault(self, text: str) -> None:
        """Print an error."""
        self.line(text)

    def diff(self, text: str) -> None:
        """Print a unified diff."""
        self.text(text)

    def draw(self, image: Image) -> None:
        """Do nothing: only the chat's own screen draws images."""

    def text(self, text: str, end: str = "\n") -> None:
        """Print a result."""
        print(tame(text), end=end, flush=True)


def table(
    rows: Sequence[Sequence[str]],
    *,
    out: TextIO | None = None,
    spare: Sequence[int] = (),
    whole: Sequence[int] = (),
    width: int = 0,
    wrap: bool = False,
    below: bool = False,
) -> None:
    """Print columns padded to their widest cell. On a terminal no line is wider than ``width`` (0: the whole terminal).

    On a narrow terminal the ``spare`` columns are dropped, in the order given; then cells are cut, those of the ``whole`` columns
    last. The first column is never cut. With ``wrap`` the last column is wrapped instead of cut, for cells with advice. With
    ``below`` the cells of the last column, except its heading, move to lines of their own on a narrow terminal.
    """
    if not rows:
        return
    stream = out or sys.stdout
    cells = [[tame(cell) for cell in row] for row in rows]
    widths = [max(_width(row[column]) for row in cells) for column in range(len(cells[0]))]
    shown, beneath = list(range(len(widths))), 0
    if stream.isatty():
        room, last = width or shutil.get_terminal_size().columns, {0, *whole}
        if below and sum(widths) + 2 * (len(widths) - 1) > room and _last_room(widths, room) < _TITLE:
            beneath, shown = room - 2, shown[:-1]
        for column in spare:
            least = [widths[one] if one in last else min(widths[one], _READABLE) for one in shown]
            if sum(least) + 2 * (len(shown) - 1) <= room:
                break
            shown.remove(column)
        if wrap:
            excess = sum(widths[one] for one in shown) + 2 * (len(shown) - 1) - room
            widths[shown[-1]] -= max(0, min(excess, widths[shown[-1]] - _WRAPPED))
        _fit(widths, shown, room, last)
    for number, row in enumerate(cells):
        fitted = [_cut(row[column], widths[column]) for column in shown]
        more: list[str] = []
        if wrap and fitted[-1] != row[shown[-1]]:
            fitted[-1], more = _broken(row[shown[-1]], widths[shown[-1]], sum(widths[one] + 2 for one in shown[:-1]))
        padded = [cell + " " * (widths[column] - _width(cell)) for column, cell in zip(shown, fitted, strict=True)]
        if beneath and number and row[-1]:
            more.append(f"  {_cut(row[-1], beneath)}")
        print("\n".join(["  ".join(padded).rstrip(), *more]), file=stream)


def _last_room(widths: Sequence[int], room: int) -> int:
    """Return the cells that remain for the last column when all others are as narrow as is readable."""
    return room - sum(min(one, _READABLE) + 2 for one in widths[:-1])


_READABLE, _LEAST, _WRAPPED, _TITLE = 12, 4, 20, 28
"""Minimum width in cells: of a column before a spare one is dropped; of any column; of the last column if lines don't fit anyway;
of a title beside other columns.
"""


def _fit(widths: list[int], shown: Sequence[int], room: int, last: Collection[int]) -> None:
    """Narrow the widest columns until all fit. Columns of ``last`` are narrowed only when the others are at their minimum, and
    the first column never.

    If that is not enough, the terminal wraps lines, and only the last column is cut.
    """
    room -= 2 * (len(shown) - 1)
    if widths[0] + sum(min(widths[column], _LEAST) for column in shown[1:]) > room:
        widths[shown[-1]] = min(widths[shown[-1]], _WRAPPED) if len(shown) > 1 else widths[0]
        return
    while (excess := sum(widths[column] for column in shown) - room) > 0:
        wide = [column for column in shown[1:] if widths[column] > _LEAST]
        free = [column for column in wide if column not in last] or wide
        widest = max(free, key=lambda column: widths[column])
        following = max((widths[column] for column in free if column != widest), default=_LEAST)
        widths[widest] -= min(excess, max(1, widths[widest] - max(following, _LEAST)))


def _broken(text: str, room: int, before: int) -> tuple[str, list[str]]:
    """Return the last cell's text for its row, and the lines below it. A cell with a word that does not fit moves to the lines
    below as a whole.
    """
    from agent.cli.screen.cells import words_of

    if max(map(_width, text.split()), default=0) > room:
        return "", [f"    {text}"]
    first, *others = ["".join(part for part, _ in row).rstrip() for row in words_of(text, "", room)]
    return first, [" " * before + line for line in others]


def _cut(text: str, room: int) -> str:
    """Return the text, cut to ``room`` cells with a mark at its end."""
    if _width(text) <= room:
        return text
    end = room - 1
    while _width(text[:end]) > room - 1:
        end -= 1
    return f"{text[:end]}…"


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    # U+FE0F requests the wide, coloured form of the character before it.
    return sum(
        2 if east_asian_width(char) in "WF" else char == "\ufe0f" or category(char) not in ("Mn", "Me", "Cf") for char in text
    )


def first_sentence(text: str) -> str:
    return " ".join(text.split()).split(". ")[0].rstrip(".")
