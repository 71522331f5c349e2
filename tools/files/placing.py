"""Find where the lines of a change belong in a file, without ever guessing between several places."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from enum import IntEnum

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import ExecutionFailed
from tools.files.differing import changes
from tools.files.line_ends import end_near, end_of, without_end
from tools.files.look_alikes import look_alike
from tools.files.text import clip

_LOOKED_AT = 50_000
"""Number of lines, from the beginning of a file, that are searched for the most similar line."""


class Fit(IntEnum):
    """Quality of the match between a change's lines and the file's."""

    EXACT = 0
    LINE_END = 1
    SPACE = 2


Ops = Sequence[tuple[str, str]]
"""The lines of a change: (" ", "-" or "+", the line with its end)."""


@dataclass(frozen=True, slots=True)
class Placement:
    """A place for a change: ``index`` of the first replaced line, from 0; ``lines`` replace ``length`` old ones."""

    index: int
    length: int
    lines: Sequence[str]
    fit: Fit


def place(lines: Sequence[str], ops: Ops, *, start: int, expected: int | None, what: str) -> Placement:
    """Find the place at or after ``start`` where the old lines of ``ops`` are in the file.

    If they are at several places, ``expected`` decides; but if they match only apart from white space, the place must be unique.
    Raises ExecutionFailed, naming ``what``, if they fit nowhere (with the nearest lines) or at several places (with their line
    numbers).
    """
    ops = _refined(ops)
    old = [text for op, text in ops if op != "+"]
    for fit in (Fit.LINE_END, Fit.SPACE):
        found = _fits(lines, old, ops, start, fit)
        if not found:
            continue
        if expected is not None and expected in found and (fit is not Fit.SPACE or len(found) == 1):
            found = [expected]
        if len(found) > 1:
            raise several(what, [index + 1 for index in found])
        return _make(lines, ops, found[0], Fit.EXACT if lines[found[0] : found[0] + len(old)] == old else fit)
    raise ExecutionFailed(absent(what, lines, old))


def _refined(ops: Ops) -> Ops:
    """Return the change, but with every line that it removes and adds again as context, so that the file's bytes stay."""
    found: list[tuple[str, str]] = []
    for is_context, run in itertools.groupby(ops, key=_is_context):
        steps = list(run)
        if is_context:
            found += steps
            continue
        old, new = ([text for op, text in steps if op == wanted] for wanted in "-+")
        for kind, begin, end, first, last in changes(old, new):
            same = kind == "equal"
            found += [(" " if same else "-", text) for text in old[begin:end]]
            found += [("+", text) for text in ([] if same else new[first:last])]
    return found


def _is_context(step: tuple[str, str]) -> bool:
    return step[0] == " "


def absent(what: str, lines: Sequence[str], old: Sequence[str]) -> str:
    """Return the message that ``old`` is not among the lines, with the characters or lines that are similar."""
    return f"{what} is not in the file; nothing was changed. {look_alike(lines, old, what) or _nearest(lines, old)}"


def several(what: str, numbers: Sequence[int], *, more: bool = False) -> ExecutionFailed:
    listed = ", ".join(str(number) for number in numbers[:20]) + (" ..." if more or len(numbers) > 20 else "")
    return ExecutionFailed(
        f"{what} fits at {len(numbers)}{' or more' if more else ''} places, lines {listed}; nothing was changed. "
        "Send more of the lines around it"
    )


def _key(line: str, fit: Fit) -> str | bytes:
    """Return the part of a line that must be equal.

    If white space may differ, it is bytes, because ``bytes.split`` splits only at ASCII white space.
    """
    return line.rstrip("\r\n") if fit is Fit.LINE_END else b" ".join(line.encode("utf-8", "surrogatepass").split())


def _fits(lines: Sequence[str], old: Sequence[str], ops: Ops, start: int, fit: Fit) -> list[int]:
    keys = [_key(line, fit) for line in old]
    if not keys or (fit is Fit.SPACE and not any(keys)):
        return []
    haystack = [_key(line, fit) for line in lines]
    found = [
        index
        for index in range(start, len(haystack) - len(keys) + 1)
        if haystack[index] == keys[0] and haystack[index : index + len(keys)] == keys
    ]
    if fit is Fit.SPACE:
        return [index for index in found if _shifted(lines[index : index + len(old)], ops) is not None]
    return found


def _make(lines: Sequence[str], ops: Ops, index: int, fit: Fit) -> Placement:
    length = sum(op != "+" for op, _ in ops)
    block = lines[index : index + length]
    if fit is Fit.EXACT:
        return Placement(index, length, [text for op, text in ops if op != "-"], fit)
    fresh = iter(_shifted(block, ops) or () if fit is Fit.SPACE else [text for op, text in ops if op == "+"])
    kept = iter(block)
    new: list[str] = []
    for is_context, run in itertools.groupby(ops, key=_is_context):
        steps = list(run)
        before = [next(kept) for op, _ in steps if op != "+"]
        after = before if is_context else [next(fresh) for op, _ in steps if op == "+"]
        for line, replaced in itertools.zip_longest(after, before[: len(after)], fillvalue=""):
            end = end_of(replaced) or (end_of(new[-1]) if new else end_near(lines, index))
            new.append(without_end(line) + (end if is_context or line.endswith("\n") else ""))
    gets_end = ops[-1][0] == "+" and not ops[-2][1].endswith("\n") if len(ops) > 1 else False
    if new and index + length == len(lines) and not lines[-1].endswith("\n") and not gets_end:
        new[-1] = without_end(new[-1])
    return Placement(index, length, new, fit)


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _shifted(block: Sequence[str], ops: Ops) -> list[str] | None:
    """Return the added lines with the file's indent; None if the indents of file and change don't differ by one common prefix."""
    old = [text for op, text in ops if op != "+"]
    pairs = [(_indent(here), _indent(said)) for here, said in zip(block, old, strict=True) if said.strip()]
    here, said = pairs[0]
    if here.endswith(said):
        more, less = here[: len(here) - len(said)], ""
    elif said.endswith(here):
        more, less = "", said[: len(said) - len(here)]
    else:
        return None
    if any(more + theirs != less + ours for ours, theirs in pairs):
        return None
    added = [text for op, text in ops if op == "+"]
    if any(text.strip() and not text.startswith(less) for text in added):
        return None
    return [more + text[len(less) :] if text.strip() else text for text in added]


def _nearest(lines: Sequence[str], old: Sequence[str]) -> str:
    """Return the most similar part of the file, with line numbers, to help the next attempt."""
    from difflib import SequenceMatcher  # imported only if needed, because every start of toolcrib loads placing.py

    blank, wanted = next(((at, line.strip()) for at, line in enumerate(old) if line.strip()), (0, ""))
    words = set(wanted.split())
    if not words or not lines:
        return "The file is empty." if not lines else "Read it first."
    scored = sorted(range(min(len(lines), _LOOKED_AT)), key=lambda index: -_overlap(words, lines[index]))[:20]

    def likeness(index: int) -> tuple[int, float]:
        return _same(lines[index:], old[blank:]), SequenceMatcher(None, lines[index].strip()[:200], wanted[:200]).ratio()

    best = max(scored, key=likeness)
    same, fits = _same(lines[best:], old[blank:]), ""
    if blank + same == len(old):
        same = 0  # only white space differs
    elif same > 1:
        wrong = clip(old[blank + same].strip(), 200)
        fits = f"Lines {best + 1}-{best + same} of the file fit, but the next line does not: {wrong!r}. "
    start = max(best + same - 1, 0)
    shown = [
        f"{number}|{clip(line.rstrip(chr(10) + chr(13)), 200)}"
        for number, line in enumerate(lines[start : best + same + 5], start + 1)
    ]
    return f"{fits}The nearest lines:\n" + "\n".join(shown)


def _same(lines: Sequence[str], old: Sequence[str]) -> int:
    """Return how many lines at the beginning are the same, apart from white space."""
    pairs = zip(lines, old, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: _key(pair[0], Fit.SPACE) == _key(pair[1], Fit.SPACE), pairs))


def _overlap(words: set[str], line: str) -> float:
    here = set(line[:1000].split())
    return len(words & here) / (len(words | here) or 1)
