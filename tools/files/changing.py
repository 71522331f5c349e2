"""Change a text: an exact replacement, or the hunks of a diff. Pure: text in, text and notes out."""

from __future__ import annotations

from collections.abc import Sequence

from toolcrib.contract.errors import ExecutionFailed, InvalidArguments
from tools.files.differing import alike, unified
from tools.files.line_ends import MOST, end_near, fitted, lf, places, without_end
from tools.files.placing import Fit, Ops, Placement, absent, place, several
from tools.files.text import split_lines
from tools.files.unified import Hunk

DIFF_CHARS = 20_000
_DIFF_LINES = 4000


def replace(text: str, old: str, new: str, *, every: bool) -> tuple[str, list[str]]:
    """Return ``text`` with ``old`` replaced, and notes about how it was replaced.

    Raises InvalidArguments or ExecutionFailed if ``old`` is empty, equal to ``new``, missing, or fits at several places.
    """
    if not old:
        raise InvalidArguments("old: empty; send the text to replace, or use write_file for a whole file")
    if old == new:
        raise InvalidArguments("old and new are the same: nothing to change")
    ends_only = lf(old) == lf(new)
    found = places(text, old, exact=True, every=every) if ends_only or ("\r\n" in old and not every) else []
    if not found and not ends_only:
        found = places(text, old, exact=False, every=every)
    if len(found) > 1 and not every:
        raise several("old", [text.count("\n", 0, one.start()) + 1 for one in found], more=len(found) == MOST)
    if found:
        parts, done = list[str](), 0
        for one in found:
            parts += [text[done : one.start()], new if ends_only else fitted(text, one, new)]
            done = one.end()
        return "".join([*parts, text[done:]]), [f"replaced {len(found)} places"] if every else []
    if ends_only and places(text, old, exact=False, every=True):
        raise ExecutionFailed(
            "old and new differ only in their line ends, and those of the file are different; nothing was changed"
        )
    lines = split_lines(text)
    ops = None if every or ends_only else _as_ops(old, new)
    if ops is None:
        raise ExecutionFailed(absent("old", lines, split_lines(old)))
    spot = place(lines, ops, start=0, expected=None, what="old")
    changed = "".join([*lines[: spot.index], *spot.lines, *lines[spot.index + spot.length :]])
    return changed, [_tolerated(spot, "old")]


def _as_ops(old: str, new: str) -> Ops | None:
    """Return the replacement as whole lines, or None if it joins lines."""
    if old.endswith("\n"):
        if new and not new.endswith("\n"):
            return None
    else:
        old, new = f"{old}\n", f"{new}\n"
    return [*(("-", line) for line in split_lines(lf(old))), *(("+", line) for line in split_lines(lf(new)))]


def _tolerated(spot: Placement, what: str) -> str:
    how = "line ends" if spot.fit is Fit.LINE_END else "white space"
    return f"{what} matched lines {spot.index + 1}-{spot.index + spot.length} except for {how}"


def apply_hunks(text: str, hunks: Sequence[Hunk]) -> tuple[str, list[str]]:
    """Return ``text`` with every hunk applied, and notes. Hunks are in file order.

    Raises ExecutionFailed for the first hunk that does not fit.
    """
    lines = split_lines(text)
    out: list[str] = []
    notes: list[str] = []
    done = drift = 0
    for number, hunk in enumerate(hunks, 1):
        what = f"hunk {number}" + ("" if hunk.start is None else f" (line {hunk.start})")
        spot = _spot(lines, hunk, done, drift, what)
        if hunk.start is not None and hunk.old:
            if spot.index - (hunk.start - 1) != drift:
                notes.append(f"hunk {number} applied at line {spot.index + 1}; its header says {hunk.start}")
            drift = spot.index - (hunk.start - 1)
        if spot.fit is not Fit.EXACT:
            notes.append(_tolerated(spot, f"hunk {number}"))
        out += [*lines[done : spot.index], *spot.lines]
        done = spot.index + spot.length
    out += lines[done:]
    for line in out[:-1]:
        if not line.endswith("\n"):
            raise ExecutionFailed("a hunk says 'No newline at end of file' for a line that others follow; nothing was changed")
    return "".join(out), notes


def _spot(lines: list[str], hunk: Hunk, done: int, drift: int, what: str) -> Placement:
    if hunk.old:
        expected = None if hunk.start is None else hunk.start - 1 + drift
        return place(lines, hunk.ops, start=done, expected=expected, what=what)
    if not lines:
        return Placement(0, 0, [text for _, text in hunk.ops], Fit.EXACT)
    at = None if hunk.start is None else hunk.start + drift
    if at is None or not done <= at <= len(lines):
        raise ExecutionFailed(
            f"{what} only adds lines and has no context to place it by; nothing was changed. Give the lines around it"
        )
    return _insert(lines, at, [text for _, text in hunk.ops])


def _insert(lines: list[str], at: int, added: Sequence[str]) -> Placement:
    """Insert lines with their neighbour's line end, unless the diff has carriage returns."""
    end = end_near(lines, at)
    new = (
        list(added)
        if any("\r" in text for text in added)
        else [without_end(text) + end if text.endswith("\n") else text for text in added]
    )
    if at == len(lines) and not lines[-1].endswith("\n"):
        new[-1] = without_end(new[-1])
        return Placement(at - 1, 1, [lines[-1] + end, *new], Fit.EXACT)
    return Placement(at, 0, new, Fit.EXACT)


def show(path: str, before: str, after: str) -> tuple[str, int]:
    """Return (a bounded unified diff for users and models, the number of the first changed line, from 1)."""
    old, new = split_lines(before), split_lines(after)
    head = alike(old, new)
    tail = min(alike(old[::-1], new[::-1]), len(old) - head, len(new) - head)
    start = max(head - 3, 0)
    ours, theirs = old[start : len(old) - max(tail - 3, 0)], new[start : len(new) - max(tail - 3, 0)]
    if len(ours) + len(theirs) > _DIFF_LINES:
        return f"{path}: {len(ours)} lines from line {head + 1} became {len(theirs)}; too many to show\n", head + 1
    text = unified(before, after, f"a{path}", f"b{path}")
    if len(text) > DIFF_CHARS:
        text = text[:DIFF_CHARS] + f"\n... [{len(text) - DIFF_CHARS} more characters of diff]\n"
    return text, head + 1
