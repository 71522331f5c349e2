"""Lines of a unified diff with their numbers in the files, for showing a diff."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.regex import Regex

DiffKind: TypeAlias = Literal["before", "after", "hunk", "added", "removed", "same", "note"]
_HUNK = Regex(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_KINDS: dict[str, DiffKind] = {"+": "added", "-": "removed", " ": "same"}


class DiffLine(NamedTuple):
    """A line of a diff. ``before`` and ``after`` are the lines that name a file. ``note`` is a line of no other kind: text around
    hunks, or the remark that a file has no newline at its end.

    ``number`` is the line's number: in the old file for a removed line, else in the new file; 0 for other lines.
    """

    kind: DiffKind
    text: str
    number: int = 0


def diff_lines(diff: str) -> Iterator[DiffLine]:
    """Yield the lines of a diff in order. A hunk has as many lines as its header says: a removed line that begins with ``--``
    is not mistaken for the name of a file.
    """
    old = new = old_left = new_left = 0
    for line in diff.split("\n"):
        kind = _KINDS.get(line[:1], "same" if not line else "note")
        if (old_left and kind in ("removed", "same")) or (new_left and kind in ("added", "same")):
            yield DiffLine(kind, line, old if kind == "removed" else new)
            if kind != "added":
                old, old_left = old + 1, old_left - 1
            if kind != "removed":
                new, new_left = new + 1, new_left - 1
        elif (found := _HUNK.match(line)) is not None:
            old, new = int(found[1]), int(found[3])
            old_left, new_left = (1 if found[at] is None else int(found[at]) for at in (2, 4))
            yield DiffLine("hunk", line)
        elif line.startswith(("--- ", "+++ ")):
            yield DiffLine("before" if line[0] == "-" else "after", line)
        else:
            yield DiffLine("note", line)


def number_width(lines: list[DiffLine]) -> int:
    """Return the number of digits of the greatest line number."""
    return len(str(max((one.number for one in lines), default=0)))
