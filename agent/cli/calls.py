"""Calls as rows of the chat's screen: a line for each, then its important part, such as a diff or the end of the output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent.cli.escape import one_line, tame
from agent.cli.render import about, data_of, lines_below, outcome, result_text, seconds_of
from agent.cli.screen.cells import TEXT_WIDTH, Row, chunks, folded, row_width, shortened, width, words_of
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.display import ShownLine, ToolDisplay
from toolcrib.contract.session import ExecutedCall
from toolcrib.contract.types import ToolCall
from tools.contained.outside import is_elsewhere
from tools.files.diff_lines import DiffLine, diff_lines, number_width

MOST_OUTPUT, MOST_DIFF, MOST_REASON = 6, 40, 6
"""Maximum number of rows that are shown of an output, a diff and a reason; /show prints the rest."""
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


@dataclass(slots=True)
class ShownItem:
    """The full text of an item that was shown shortened: ``/show`` prints it, and below it the diff in colours."""

    title: str
    whole: str
    diff: str = ""


def call_words(call: ToolCall, display: ToolDisplay, limit: int) -> str:
    """Return words such as ``💻 terminal runs ls -la``, with at most about ``limit`` characters of arguments."""
    verb = f"{one_line(display.verb, 40)} " if display.verb else ""
    return f"{display.emoji or '🔧'} {one_line(call.name, 40) or '?'} {verb}{one_line(about(call, display), limit)}".rstrip()


_NARROW = 10
"""Minimum number of cells for the subject of a call in its row. If there are fewer, the row omits the subject."""


def call_row(call: ToolCall, display: ToolDisplay, tail: Sequence[tuple[str, str]], columns: int) -> Row:
    """Return a row such as ``💻 terminal runs ls -la  0.1 s  ok``; only the middle is shortened."""
    name = one_line(call.name, 40) or "?"
    head = f"{display.emoji or '🔧'} {name} "
    word = f"{one_line(display.verb, 40)} "
    room = columns - row_width(((head, ""), *tail))
    if room < _NARROW:
        return ((shortened(head.rstrip(), columns - row_width((*tail,))), ""), *tail)
    subject = about(call, display)
    if room - width(word) < min(width(subject), _NARROW):  # the subject matters more than the verb
        word = ""
    return ((head, ""), (word, "dim"), (shortened(subject, room - width(word)), ""), *tail)


def running_row(call: ToolCall, display: ToolDisplay, seconds: float, columns: int, *, ended: bool = False) -> Row:
    """Return the line of a running call, or, with ``ended``, of an ended one that waits for the other calls of its reply."""
    spinner = "·" if ended else SPINNER[int(seconds * 10) % len(SPINNER)]
    tail = [(f"  {seconds_of(seconds, whole=True)}", "dim")]
    return ((f"{spinner} ", ""), *call_row(call, display, tail, columns - 2))


def finished_rows(
    executed: ExecutedCall,
    display: ToolDisplay,
    number: int,
    columns: int,
    *,
    whole: bool,
    differs: str | None = None,
    timed: bool = True,
    numbered: bool = True,
) -> list[Row]:
    """Return the rows of an ended call. ``whole`` shows its whole result, as for a call that a user typed. ``differs`` is the
    diff of a file that the call replaced. Without ``timed`` the duration is unknown and left out; without ``numbered`` a diff has
    no line numbers.
    """
    word, style = outcome(executed, display)
    if (code := _exit_code(executed)) and word == "ok":
        word, style = f"exit {code}", "warn"
    took = [(f"  {seconds_of(executed.duration)}", "dim")] if timed else []
    tail = [*took, (f"  {word}", "dim" if style == "ok" else style), *_where(executed), (f"  #{number}", "dim")]
    first = call_row(executed.call, display, tail, columns)
    if whole:
        return [first, *_lines(result_text(executed), columns), *([] if differs is None else diff_rows(differs, columns))]
    return [first, *_what_matters(executed, display, number, columns, differs, numbered=numbered)]


def _exit_code(executed: ExecutedCall) -> int:
    data = executed.result.data
    code = data.get("exit_code") if isinstance(data, Mapping) else None
    return code if isinstance(code, int) else 0


def _where(executed: ExecutedCall) -> list[tuple[str, str]]:
    data = executed.result.data
    if isinstance(data, Mapping) and is_elsewhere(where := data.get("where", "")):
        return [(f"  {one_line(str(where), 60)}", "dim")]
    return []


def _what_matters(
    executed: ExecutedCall, display: ToolDisplay, number: int, columns: int, differs: str | None, *, numbered: bool
) -> list[Row]:
    result, data = executed.result, data_of(executed)
    if not result.is_success:
        return _some(_reason(result_text(executed), columns), MOST_REASON, number)
    if data is not None:
        if isinstance(diff := data.get("diff"), str) and diff:
            return _some(diff_rows(diff, columns, numbered=numbered), MOST_DIFF, number)
        if below := lines_below(executed, display):
            return [row for line in below for row in _line_below(line, columns)]
        if display.below == "content" and isinstance(executed.call.args, Mapping):
            if differs is not None:
                rows = _some(diff_rows(differs, columns, numbered=numbered), MOST_DIFF, number)
                return rows or [(("  nothing changed", "dim"),)]
            return _written(str(executed.call.args.get("content", "")), number, columns, numbered=numbered)
        if display.below == "output":
            rows = _lines(result_text(executed).removesuffix("[exit code 0]"), columns - 2, "dim")
            cut = len(rows) - MOST_OUTPUT
            more: list[Row] = [_more(cut, number)] if cut > 0 else []
            return [*more, *((("  ", ""), *row) for row in rows[max(cut, 0) :])]
    return [((f"  {image}", "dim"),) for image in result.images]


def _reason(text: str, columns: int) -> list[Row]:
    """Return the reason why a call failed, and below it the call's output, line by line."""
    first, *more = [line for line in text.splitlines() if line.strip()] or [""]
    rows = [*words_of(first.strip(), "bad", min(columns, TEXT_WIDTH) - 2), *_lines("\n".join(more), columns - 2, "dim")]
    return [(("  ", ""), *row) for row in rows]


def diff_rows(diff: str, columns: int, *, named: bool = False, numbered: bool = True) -> list[Row]:
    """Return a unified diff in colours, with line numbers if ``numbered``. A row names each file if ``named``, or if the diff has
    several files.
    """
    rows: list[Row] = []
    lines = [*diff_lines(tame(diff).removesuffix("\n"))]
    named = named or sum(one.kind == "after" for one in lines) > 1
    digits = number_width(lines) if numbered else 0
    before, is_first = "", True
    for one in lines:
        match one.kind:
            case "before":
                before = one.text[4:]
            case "after":
                is_first = True
                if named:
                    name = (before if one.text[4:] == "/dev/null" else one.text[4:]).partition("/")[2]
                    rows += [(("  ", ""), *row) for row in words_of(name, "name", columns - 2)]
            case "hunk" if numbered:
                rows += [] if is_first else [((f"  {'⋮':>{digits}}", "hunk"),)]
                is_first = False
            case _:
                rows += _diff_line(one, columns, digits)
    return rows


def _diff_line(one: DiffLine, columns: int, digits: int) -> list[Row]:
    """Return a line of a diff after its number, or without numbers if ``digits`` is 0."""
    style = {"added": "added", "removed": "removed", "hunk": "hunk"}.get(one.kind, "dim")
    text = one.text.expandtabs(4)
    if digits and one.number:
        head, text = f"  {one.number:>{digits}} ", f"{text[:1]} {one.text[1:].expandtabs(4)}"
        blank = " " * (len(head) + 2)
    else:
        head = blank = " " * (digits + 3) if digits else "  "
    first, *more = chunks(((text, style),), max(columns - len(blank), 8)) if text else [()]
    return [((head, "dim"), *first), *(((blank, ""), *row) for row in more)]


def _written(content: str, number: int, columns: int, *, numbered: bool) -> list[Row]:
    """Return the first lines of a new file, each cut to one row."""
    lines = [DiffLine("added", f"+{line}", at) for at, line in enumerate(tame(content).splitlines(), 1)]
    digits = number_width(lines[:MOST_OUTPUT]) if numbered else 0
    rows = [
        _diff_line(one._replace(text=shortened(one.text.expandtabs(4), columns - digits - 6)), columns, digits)[0]
        for one in lines
    ]
    return _some(rows, MOST_OUTPUT, number)


def _line_below(line: ShownLine, columns: int) -> list[Row]:
    """Return a line that a tool's row adds below a call, broken between words."""
    margin = f"{line.sign} " if line.sign else ""
    rows = words_of(line.text, line.style, columns - 2 - width(margin))
    head = line.style if margin else ""
    return [((f"  {margin if place == 0 else ' ' * width(margin)}", head), *row) for place, row in enumerate(rows)]


def _some(rows: list[Row], most: int, number: int) -> list[Row]:
    if len(rows) <= most:
        return rows
    return [*rows[:most], _more(len(rows) - most, number)]


def _more(count: int, number: int) -> Row:
    return ((f"  … {count:,} more line{'' if count == 1 else 's'}: /show {number}", "dim"),)


def _lines(text: str, columns: int, style: str = "") -> list[Row]:
    return [row for line in text.splitlines() for row in folded(((line.expandtabs(4), style),) if line else (), columns)]
