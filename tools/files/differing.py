"""Unified diffs of two texts, in bounded time, for users and models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tools.files.text import split_lines

_MOST_PAIRS = 4_000_000
"""Maximum number of line pairs for a minimal diff. Beyond it, everything between the first and last difference is one change."""
_CONTEXT = 3
NOWHERE = "/dev/null"
"""Name of a file that does not exist."""


def unified(old: str, new: str, before: str, after: str) -> str:
    """Return the unified diff from ``old``, named ``before``, to ``new``, named ``after``; "" if they are equal."""
    ours, theirs = split_lines(old), split_lines(new)
    if ours == theirs:
        return ""
    same = alike(ours, theirs)
    first = max(same - _CONTEXT, 0)
    last = max(alike(ours[same:][::-1], theirs[same:][::-1]) - _CONTEXT, 0)
    a, b = ours[first : len(ours) - last], theirs[first : len(theirs) - last]
    return f"--- {before}\n+++ {after}\n" + "".join(line for hunk in _hunks(a, b) for line in _written(hunk, a, b, first))


def alike(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the number of equal lines at the beginning."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


_Hunk = Sequence[tuple[str, int, int, int, int]]


def changes(a: Sequence[str], b: Sequence[str]) -> _Hunk:
    """Return the steps that turn ``a`` into ``b``, in the form of difflib's get_opcodes."""
    from difflib import SequenceMatcher  # imported here, because every start loads this module

    if len(a) * len(b) > _MOST_PAIRS:
        return [("replace", 0, len(a), 0, len(b))]
    return SequenceMatcher(None, a, b).get_opcodes()


def _hunks(a: Sequence[str], b: Sequence[str]) -> Iterator[_Hunk]:
    from difflib import SequenceMatcher  # as above

    if len(a) * len(b) <= _MOST_PAIRS:
        yield from SequenceMatcher(None, a, b).get_grouped_opcodes(_CONTEXT)
    else:
        yield [("replace", 0, len(a), 0, len(b))]


def _written(hunk: _Hunk, a: Sequence[str], b: Sequence[str], first: int) -> Iterator[str]:
    (_, a1, _, b1, _), (_, _, a2, _, b2) = hunk[0], hunk[-1]
    yield f"@@ -{_span(first + a1, a2 - a1)} +{_span(first + b1, b2 - b1)} @@\n"
    for kind, from_a, to_a, from_b, to_b in hunk:
        if kind == "equal":
            yield from (_ended(f" {line}") for line in a[from_a:to_a])
            continue
        yield from (_ended(f"-{line}") for line in a[from_a:to_a])
        yield from (_ended(f"+{line}") for line in b[from_b:to_b])


def _span(begin: int, count: int) -> str:
    """Return a line range as in a hunk's header: the first line from 1, and the count if it is not 1."""
    return str(begin + 1) if count == 1 else f"{begin + bool(count)},{count}"


def _ended(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
