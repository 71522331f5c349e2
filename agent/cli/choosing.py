"""Choices of an approval prompt: their letters and words, and the answer that a typed line or a key gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from agent.cli.escape import exact
from agent.cli.screen.cells import Row, Span, plain, shortened, words_of
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.regex import Regex
from toolcrib.contract.types import SuspendTicket

KEYS: Mapping[str, str] = {
    "once": "o",
    "path": "p",
    "session": "s",
    "task": "t",
    "uses": "u",
    "until": "m",
    "always": "a",
}
"""Scope -> the letter that chooses it, in the order of the prompt."""
NUMBERS: Mapping[str, str] = {"uses": "uses", "until": "minutes"}
"""Scopes that take a number -> the number's key in the answer."""
MOST = 1_000
_WORDS: Mapping[str, str] = {"until": "minutes", "path": "this path"}
_DENIES = ("d", "deny", "n", "no")
_REASONS = ("r", "reason")
_LEGEND = {
    "view": "show the next page; v all: the rest",
    "deny": "do not run it; text after it on the same line is the reason",
    "?": "this list",
}

_OF_DELEGATE = "for this delegate only, until it ends"

_DEFAULT = Regex(r"for (\d+) (call|minute)s \(or another number\)$")

Move: TypeAlias = Literal["left", "right"]


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice of the prompt: a way to answer, or to see more. ``scope`` is the scope of an approval, "" for other choices."""

    letter: str
    word: str
    scope: str = ""


def offered(ticket: SuspendTicket) -> list[str]:
    """Return the scopes that an approval of this ticket may have."""
    given = ticket.parameters.get("scopes", ["once"])
    return [scope for scope in KEYS if scope in given] or ["once"]


def covers_of(ticket: SuspendTicket) -> Mapping[str, Any]:
    """Return what an approval covers, by scope. For a delegate, _OF_DELEGATE replaces "in this session"."""
    covers = ticket.parameters.get("covers") or {}
    if "delegate" not in ticket.parameters:
        return covers
    from tools.approval.offers import IN_SESSION

    return {scope: str(words).replace(IN_SESSION, _OF_DELEGATE) for scope, words in covers.items()}


def granted(payload: Mapping[str, Any], covers: Mapping[str, Any]) -> str:
    """Return a description of the calls that an approval covers, with the number of calls or minutes that it grants."""
    scope = str(payload["scope"])
    given = payload.get(NUMBERS.get(scope, ""))
    words = exact(str(covers.get(scope, "this call only")))
    found = _DEFAULT.search(words)
    if found is None:
        return words
    number = int(found[1]) if given is None else given
    return f"{words[: found.start()]}for {number} {found[2]}{'' if number == 1 else 's'}{words[found.end() :]}"


def choices(scopes: Sequence[str], *, is_long: bool) -> list[Choice]:
    """Return the choices. ``is_long``: the call does not fit on one page."""
    found = [Choice("v", "view")] if is_long else []
    found += [Choice(KEYS[scope], _WORDS.get(scope, scope), scope) for scope in scopes]
    return [*found, Choice("d", "deny"), Choice("?", "help")]


def line_row(offers: Sequence[Choice]) -> str:
    """Return the prompt for a typed answer: ``[o]nce  [d]eny  ? > ``."""
    return f"  {'  '.join(_bracketed(one) for one in offers)} > "


def _bracketed(one: Choice) -> str:
    if one.letter == "?":
        return "?"
    word = one.word.removeprefix("this ")
    return f"[{one.letter}]{word[1:]}"


def key_row(offers: Sequence[Choice], chosen: int | None, columns: int, count: str = "") -> str:
    """Return the row for answers by key: the letters, as many words as fit, and a mark at the highlighted choice."""
    begins = f"  {count}  " if count else "  "
    losing = sorted((at for at in range(len(offers)) if at != chosen), key=lambda at: _FIRST_WORDLESS.index(offers[at].letter))
    for lost in range(len(losing) + 1):
        gap = "  " if lost < len(losing) else " "
        row = begins + gap.join(_in_row(one, at == chosen, at not in losing[:lost]) for at, one in enumerate(offers))
        if len(row) < columns:
            return row
    row = f"  {row.removeprefix(begins)}"  # the letters matter more than the count
    return row[: max(columns - 1, 1)]


_LABELS: Mapping[str, str] = {"view": "Show more", "once": "Allow once", "session": "Allow in session", "deny": "Deny"}
"""Choices with a row of their own in a list, and their labels. All others share the last row."""
_MOST_ROWS = 3
"""Maximum number of rows of a choice in a list."""
_DOES: Mapping[str, str] = {"view": "the next page; V shows all of it", "deny": "and say why"}


def in_list(offers: Sequence[Choice]) -> list[Choice]:
    """Return the choices in the order of a list: first those with a row of their own."""
    return sorted(offers, key=lambda one: one.word not in _LABELS)


def list_rows(offers: Sequence[Choice], covers: Mapping[str, str], chosen: int | None, columns: int) -> list[Row]:
    """Return the rows of a list of choices, each with the calls that it covers, or its effect.

    ``chosen`` is the index of the highlighted choice, in the order of ``in_list``.
    """
    rows: list[Row] = []
    rest: list[Span] = []
    for at, one in enumerate(in_list(offers)):
        is_chosen = at == chosen
        if one.word not in _LABELS:
            rest += [(" · ", "dim")] if rest else []
            rest.append((_in_row(one, is_chosen, is_worded=True), "chosen" if is_chosen else "dim"))
            continue
        does = exact(covers.get(one.scope, "this call only")) if one.scope else _DOES[one.word]
        head = f"{'→' if is_chosen else ' '} {one.letter}  {_LABELS[one.word]}"
        rows += _explained(head, does, "chosen" if is_chosen else "strong", columns)
    begin = "     "
    if sum(len(text) for text, _ in rest) + len(begin) <= columns:
        return [*rows, ((begin, ""), *rest)]
    others = [one for one in in_list(offers) if one.word not in _LABELS]
    own = len(offers) - len(others)
    reached = None if chosen is None or chosen < own else chosen - own
    return [*rows, ((f"   {key_row(others, reached, columns - 3)}", "dim" if reached is None else "strong"),)]


def _explained(head: str, does: str, style: str, columns: int) -> list[Row]:
    """Return a choice with its description beside it, in a few rows."""
    indent = max(map(len, _LABELS.values())) + len("→ o    ")
    first, *more = words_of(does, "dim", max(columns - indent, 8))
    if len(more) >= _MOST_ROWS:
        rest = " ".join(plain(row) for row in more[_MOST_ROWS - 2 :])
        more[_MOST_ROWS - 2 :] = [((shortened(rest, max(columns - indent, 8)), "dim"),)]
    blank = " " * indent
    return [((head, style), (blank[len(head) :], ""), *first), *(((blank, ""), *row) for row in more)]


_FIRST_WORDLESS = "vamutpsod?"
"""Letters of the choices. If the row is too narrow, the choices lose their words in this order."""


def _in_row(one: Choice, is_chosen: bool, is_worded: bool) -> str:
    word = "help" if one.letter == "?" else one.word
    return _marked(f"{one.letter} {word}" if is_worded else one.letter, is_chosen)


def letters_of(offers: Sequence[Choice], *, decide: bool = True) -> str:
    """Return the letters of the choices; without ``decide`` only those of choices that neither approve nor deny."""
    return "".join(one.letter for one in offers if decide or one.letter in "v?")


def _marked(text: str, is_chosen: bool) -> str:
    return f"[{text}]" if is_chosen else text


def moved(chosen: int | None, by: Move, count: int) -> int:
    """Return the choice that an arrow key highlights. The first arrow key highlights the first or the last choice."""
    if chosen is None:
        return 0 if by == "right" else count - 1
    return (chosen + (1 if by == "right" else -1)) % count


def legend(offers: Sequence[Choice], covers: Mapping[str, str], *, by_key: bool) -> list[str]:
    """Return a line for each choice: what it covers or does."""
    lines = []
    for one in offers:
        number = " N" if one.scope in NUMBERS and not by_key else ""
        does = exact(covers.get(one.scope, "this call only")) if one.scope else _LEGEND.get(one.word, _LEGEND["?"])
        if by_key:
            does = does.replace("v all:", "V:").replace("text after it on the same line is the reason", "then type a reason")
            does = _DEFAULT.sub(r"for as many \2s as you then type", does)
        lines.append(f"  {one.letter}{number:<2}  {does}")
    return lines


def chosen(word: str, rest: str, scopes: Sequence[str]) -> dict[str, Any] | None:
    """Return the approval in a typed line, or None if it contains none."""
    scope = next((one for one in scopes if word in (one, KEYS[one], _WORDS.get(one))), None)
    if scope is None or (rest and scope not in NUMBERS):
        return None
    answer: dict[str, Any] = {"approved": True, "scope": scope}
    if rest:
        if (number := number_of(rest)) is None:
            return None
        answer[NUMBERS[scope]] = number
    return answer


def number_of(text: str) -> int | None:
    """Return the typed number, or None if it is not a number from 1 to MOST."""
    return int(text) if text.isascii() and text.isdecimal() and 1 <= int(text) <= MOST else None


def denied(word: str, rest: str) -> dict[str, Any] | None:
    """Return the denial in a typed line, with its reason, or None if it contains none."""
    if word not in (*_DENIES, *_REASONS):
        return None
    reason = rest.strip()
    return {"approved": False, "reason": reason} if reason else {"approved": False}


def said_in_words(payload: Mapping[str, Any], covers: Mapping[str, Any]) -> str:
    """Return the line about the answer that stays on the screen. A denial's reason is shown with the ended call instead."""
    if not payload["approved"]:
        return "denied"
    return f"approved: {granted(payload, covers)}"
