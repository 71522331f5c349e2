"""Text of an approval prompt: what an approval covers, written so that no foreign text can look like toolcrib's own lines.

Only the quoted call keeps its line breaks; all other foreign text is on one line. ``physical`` breaks lines at the terminal's
width, because the terminal would break them without a bar. ``str(prompt)`` is the same text for other interfaces, such as a chat
platform.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.types import Json, SuspendTicket
from tools.files.diff_lines import diff_lines, number_width
from tools.judge.characters import is_hidden, look_alikes, runs_backwards, spelled, stacked
from tools.judge.findings import visible

BAR = "  │ "
"""Prefix of each line of quoted text."""
WRAPPED = "  │↳"
"""Prefix of the continuation of a quoted line."""
CONTINUED = "  ↳"
"""Prefix of the continuation of toolcrib's own lines, which may contain foreign text that must not begin a row either."""
MOST_PLAIN = 20_000
"""Maximum characters of a call in its ticket's text. The text reports how many were left out."""
_DIFF_HEAD = "  as follows:"
_WARNS = "  ! "
_LEAST_CELLS = 16
_NARROW = frozenset({"H", "N", "Na"})
_NAMED = 8


class PromptLine(NamedTuple):
    """One line, without any terminal control. ``quoted``: it is a line of the call itself.

    ``style`` is the kind of the line, for an interface with colours: ``head``, ``warn``, or for lines of a diff ``added``,
    ``removed`` and ``hunk``. ``number`` is the padded line number of a diff's line. It is shown left of the bar, if at all.
    """

    text: str
    quoted: bool = False
    style: str = ""
    number: str = ""

    def __str__(self) -> str:
        return f"{BAR if self.quoted else ''}{self.text}"


class PromptRow(str):
    """A row of a prompt on a screen. Its first ``margin`` characters are toolcrib's own; ``style`` is its PromptLine's."""

    __slots__ = ("margin", "style")

    def __new__(cls, text: str, margin: int = 0, style: str = "") -> PromptRow:
        """Create a row from its text, with a margin and a style."""
        made = super().__new__(cls, text)
        made.margin, made.style = margin, style
        return made

    margin: int
    style: str


class Prompt(NamedTuple):
    """A prompt. ``call``: everything that an approval would run, perhaps long; ``about``: the folder and the reasons."""

    call: Sequence[PromptLine]
    about: Sequence[PromptLine] = ()

    def __str__(self) -> str:
        return "\n".join(map(str, [*self.call, *self.about]))


def prompt_of(ticket: SuspendTicket) -> Prompt:
    """Return the prompt of a ticket: the whole call, its folder, and each finding."""
    given = ticket.parameters
    name, args = (ticket.call.name, ticket.call.args) if ticket.call else (str(given.get("tool", "a tool")), {})
    if ticket.relays and isinstance(relayed := given.get("call"), Mapping):
        name, args = str(relayed.get("name")), relayed.get("args")
    return worded(name, args, given, ticket.message)


def worded(name: str, args: Any, given: Mapping[str, Json], message: str = "", most: int | None = None) -> Prompt:
    """Return a prompt for a ticket's parameters; ``message`` is shown if there are no findings, as in another
    gate's ticket.

    ``most`` limits the quoted characters of the call; the prompt then reports how many more the approval covers.
    """
    found: Sequence[Mapping[str, Any]] = given.get("findings") or ()
    command = str(given.get("command", ""))
    parts, left = _cut(list(_parts(name, args, given)), most)
    about = (
        [PromptLine(f"  ! {left:,} more characters, covered by an approval: `toolcrib approvals show TICKET` shows all")]
        if left
        else []
    )
    about += _delegate(given.get("delegate"))
    about += [PromptLine(f"  in {spelled(str(given.get('cwd', '?')))}")] if "command" in given else []
    about += dict.fromkeys(note for _, text in parts for note in notes(text))
    about += [
        PromptLine(line, style="warn" if line.startswith(_WARNS) else "")
        for line in dict.fromkeys(line for one in found for line in _reason(one, command))
    ]
    if not found:
        about += [PromptLine("  with this request:"), *quoted(message), *notes(message)]
    if unheld := given.get("unheld"):
        about.append(PromptLine(f"  The sandbox can't contain this: {spelled('; '.join(map(str, unheld)))}"))
    if any(one.get("level") == "ask-once" for one in found):
        about.append(PromptLine("  You are asked about this every time."))
    call: list[PromptLine] = []
    for head, text in parts:
        call += [*([PromptLine(head, style="" if head.startswith(" ") else "head")] if head else []), *_quoted_part(head, text)]
    return Prompt(call, about)


def _delegate(about: Json) -> list[PromptLine]:
    """Return the lines about the delegate that asks, and its task."""
    if not isinstance(about, Mapping):
        return []
    head = PromptLine(f"  asked by the delegate {spelled(str(about.get('name', '?')))}, whose task is:")
    lines = [head, *quoted(" ".join(str(about.get("task", "")).split()))]
    if granted := about.get("granted"):
        why = "covers only the session's own calls, and a delegate has its own session"
        lines.append(PromptLine(f"{_WARNS}the session's grant ({spelled(str(granted))}) {why}", style="warn"))
    return lines


def _parts(name: str, args: Any, given: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    """Yield what an approval covers: a line of toolcrib's own or "", and the text to quote below it."""
    if "command" in given:
        how = f" {spelled(str(given['starts']))}" if given.get("starts") else ""
        yield f"{spelled(name)} wants to run{how}:", str(given["command"])
        return
    if "sends" in given:
        yield from _sent(spelled(name), given["sends"])
        return
    if "inputs" in given:
        for one in given["inputs"]:
            process = spelled(str(one["name"]))
            if one.get("keys"):
                yield f"{spelled(name)} wants to press keys in the terminal of the process {process}:", str(one["keys"])
            else:
                yield f"{spelled(name)} wants to write to the input of the process {process}:", str(one["text"])
            yield "  which runs:", str(one["program"])
        return
    if isinstance(job := given.get("job"), Mapping):
        yield f"{spelled(name)} wants to schedule:", str(job.get("task", ""))
        yield "  with its creator's rights:", str(job.get("facts", ""))
        return
    paths = [given["path"]] if "path" in given else list(given.get("paths") or ())
    for number, path in enumerate(paths):
        yield "" if number else f"{spelled(name)} wants to change:", str(path)
    if "diff" in given and isinstance(args, dict):
        args = {key: value for key, value in args.items() if key not in given.get("diff_for", ())}
        yield _DIFF_HEAD, str(given["diff"]).removesuffix("\n")
        if not args:
            return
    texts = {key: text for key, text in args.items() if isinstance(text, str) and "\n" in text} if isinstance(args, dict) else {}
    rest = {key: value for key, value in args.items() if key not in texts} if texts else args
    if rest or not texts:
        yield (
            "  with:" if paths else f"{spelled(name)} wants to run with:",
            json.dumps(rest, ensure_ascii=False, indent=2, default=str),
        )
    for key, text in texts.items():
        yield f"  {'and' if rest or paths else f'{spelled(name)} wants to run with'} {spelled(str(key))}:", text


def _sent(name: str, sends: Sequence[Mapping[str, Json]]) -> Iterator[tuple[str, str]]:
    """Yield the messages that would be sent, each with its recipient and files."""
    for one in sends:
        to = spelled(str(one["to"]))
        whom = f"{spelled(str(one['whom']))} ({to})" if one["whom"] else to
        yield f"{name} wants to send, to {whom}:", one["text"]
        for file in one["files"]:
            yield "  with the file:", file


def _cut(parts: list[tuple[str, str]], most: int | None) -> tuple[list[tuple[str, str]], int]:
    """Return the parts with at most this many characters of text, and the number of omitted characters."""
    if most is None:
        return parts, 0
    kept, left = [], 0
    for head, text in parts:
        kept.append((head, text[:most]))
        left += len(text) - len(text[:most])
        most = max(most - len(text), 0)
    return kept, left


def quoted(text: str) -> Iterator[PromptLine]:
    """Quote a text line by line."""
    return (PromptLine(line, quoted=True) for line in spelled(text, keep="\n").split("\n"))


def _quoted_part(head: str, text: str) -> Iterator[PromptLine]:
    """Quote the text below a head. Lines of a diff get their styles and numbers."""
    if head != _DIFF_HEAD:
        yield from quoted(text)
        return
    lines = [*diff_lines(spelled(text, keep="\n"))]
    digits = number_width(lines)
    for one in lines:
        style = one.kind if one.kind in ("added", "removed", "hunk") else ""
        yield PromptLine(one.text, quoted=True, style=style, number=f"{one.number or '':>{digits}}")


def notes(text: str) -> Iterator[PromptLine]:
    """Yield warnings about misleading characters in a quoted text."""
    if any(char not in "\n\t" and is_hidden(char) for char in set(text)):
        yield PromptLine("  ! invisible characters are escaped as ^X, \\xNN or \\uNNNN")
    if alike := sorted(look_alikes(text)):
        names = list(dict.fromkeys(_named(text[at]) for at in alike))
        shown = "; ".join(names[:_NAMED]) + ("; ..." if len(names) > _NAMED else "")
        yield PromptLine(f"  ! look-alike characters are escaped: {shown}")
    if stacked(text):
        yield PromptLine("  ! combining marks that would overlap other text are escaped")
    if runs_backwards(text):
        yield PromptLine("  ! parts run from right to left: a screen may show the words in another order")


def _named(char: str) -> str:
    return f"U+{ord(char):04X} {unicodedata.name(char, 'without a name').lower()}"


def _reason(finding: Mapping[str, Any], command: str) -> Iterator[str]:
    """Yield the reason, and the resolved command if it differs from the written one."""
    yield f"{_WARNS}{spelled(str(finding.get('why', '')))} ({spelled(str(finding.get('key', '')))})"
    resolved = str(finding.get("text", ""))
    if command and resolved and resolved not in command and resolved != visible(command):
        yield f"      as: {spelled(resolved)}"


# -- lines for a screen --------------------------------------------------------------------------------------------------


def physical(lines: Iterable[PromptLine], columns: int, *, numbered: bool = False) -> list[PromptRow]:
    """Return the lines broken for a terminal of that width, so that the terminal breaks none itself. ``numbered``: lines of a
    diff get their numbers.
    """
    return [row for line in lines for row in wrapped(line, columns, numbered=numbered)]


def wrapped(line: PromptLine, columns: int, *, numbered: bool = False) -> Iterator[PromptRow]:
    """Break one line at the width, at a nearby blank if there is one. Continuations begin with a mark."""
    text, mark, margin = str(line), WRAPPED if line.quoted else CONTINUED, len(BAR) if line.quoted else 0
    if numbered and line.number:
        gutter = f"{line.number:>{len(BAR) - 3}} "
        text, mark = f"{gutter}{BAR.lstrip()}{line.text}", f"{' ' * len(gutter)}{WRAPPED.lstrip()}"
        margin = len(gutter) + 2
    room = max(columns - 1, _LEAST_CELLS)
    while True:
        end = _fits(text, room, margin)
        if end < len(text):
            end = _before_blank(text, end, margin)
        yield PromptRow(text[:end], margin, line.style)
        if end >= len(text):
            return
        text, margin = mark + text[end:], len(mark)


def _before_blank(text: str, end: int, margin: int) -> int:
    """Return the start of the last blanks before ``end`` if it is in the last half, else ``end``.

    All of these blanks move to the next row, and stay visible.
    """
    blank = text.rfind(" ", 0, end + 1)
    while blank > 0 and text[blank - 1] == " ":
        blank -= 1
    return blank if blank > max(margin, len(WRAPPED)) and blank * 2 >= end else end


def _fits(text: str, room: int, margin: int) -> int:
    """Return how many characters fit into ``room`` cells; at least a bar and one character."""
    if len(text) <= room and text.isascii():
        return len(text)
    taken = 0
    for at, char in enumerate(text):
        taken += cells(char)
        if taken > room and at > max(margin, len(WRAPPED)):
            return at
    return len(text)


def cells(char: str) -> int:
    """Return the maximum number of cells that a character takes in a terminal. An overestimate only breaks a line early."""
    if char < "\x7f" or char in "│↳":
        return 1
    if unicodedata.east_asian_width(char) in _NARROW and unicodedata.category(char)[0] in "LMNP":
        return 1
    return 2 if unicodedata.category(char) != "Mn" else 1


class PromptPages:
    """A prompt shown page by page. An approval covers the whole call, so ``unseen`` counts the lines not yet shown."""

    def __init__(self, prompt: Prompt, columns: int, rows: int, *, everything: str = "v all", numbered: bool = False) -> None:
        """``rows`` is the screen's height; a page leaves room for the answer.

        The reasons are on the first page if a part of the call fits beside them, else after the call. ``everything`` is the input
        that shows all the rest.
        """
        self._everything = everything
        self._columns = columns
        call, about = physical(prompt.call, columns, numbered=numbered), physical(prompt.about, columns)
        self._page = max(rows - _FOR_ANSWERS, _LEAST_ROWS)
        beside = len(about) + _LEAST_ROWS <= self._page
        self._lines = call if beside else [*call, *about]
        self._about = about if beside else []
        self._at = 0
        self.is_long = len(call) + len(about) > self._page

    @property
    def unseen(self) -> int:
        """The number of lines that an approval covers and that were not shown yet."""
        return len(self._lines) - self._at

    def first(self) -> list[PromptRow]:
        """Return the first page: as much of the call as fits, and the lines about it."""
        return [*self._take(self._page - len(self._about)), *self._about]

    def next(self, *, whole: bool = False) -> list[PromptRow]:
        """Return the next page, or all lines not shown yet if ``whole``. At the end, return a note, after all lines
        if ``whole``.
        """
        if self.unseen:
            return self._take(len(self._lines) if whole else self._page)
        return [*(self._lines if whole else ()), *self._note(f"this is the end; {self._everything} shows all again")]

    def _take(self, count: int) -> list[PromptRow]:
        end = min(self._at + count, len(self._lines))
        shown, self._at = self._lines[self._at : end], end
        if not self.is_long:
            return shown
        return [*shown, *self._note(self.missing if self.unseen else _END)]

    def _note(self, text: str) -> list[PromptRow]:
        return physical([PromptLine(f"{_WARNS}{text}")], self._columns)

    @property
    def missing(self) -> str:
        """Text that says how many lines were not shown yet, and how to see them."""
        many = "1 more line" if self.unseen == 1 else f"{self.unseen:,} more lines"
        return f"{many}: v next page, {self._everything} the rest"


_FOR_ANSWERS = 4
"""Number of rows below a page: for the note about unseen lines, the choices, and the line below them."""
_LEAST_ROWS = 3
_END = "this is the end"
