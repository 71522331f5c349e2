"""Parse a unified diff, as git, diff and models write it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import InvalidArguments
from toolcrib.contract.regex import Regex

_HUNK = Regex(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_ESCAPE = Regex(r"\\([0-7]{3}|.)")
_ESCAPED = {"n": 10, "t": 9, "r": 13, "a": 7, "b": 8, "f": 12, "v": 11}
FORM = "expected '--- a/PATH', '+++ b/PATH', then hunks that start with '@@ -LINE,COUNT +LINE,COUNT @@'"


@dataclass(frozen=True, slots=True)
class Hunk:
    """A hunk. ``start``: the first old line, from 1 (0: before the first), None if the header has none.

    ``ops``: (" ", "-" or "+", the line with its end). A line has no end only if "No newline at end of file" follows it.
    """

    start: int | None
    ops: Sequence[tuple[str, str]]

    @property
    def old(self) -> list[str]:
        return [text for op, text in self.ops if op != "+"]


@dataclass(slots=True)
class FileDiff:
    """The diff of a file. ``old`` is None for a new file, ``new`` for a deleted one; different names are a rename."""

    old: str | None
    new: str | None
    hunks: list[Hunk] = field(default_factory=list)


@dataclass(slots=True)
class _Header:
    """Git's lines about a file before its first hunk."""

    git: str = ""
    created: bool = False
    deleted: bool = False
    moved_from: str | None = None
    moved_to: str | None = None


def parse_diff(diff: str) -> list[FileDiff]:
    """Parse a diff. Raises InvalidArguments with the number of the wrong line."""
    lines = diff.split("\n")
    if lines and not lines[-1].strip():
        lines.pop()
    found: list[FileDiff] = []
    header = _Header()
    at = 0
    while at < len(lines):
        line = lines[at].removesuffix("\r")
        if line.startswith("diff --git "):
            _settle(header, found)
            header = _Header(git=line.removeprefix("diff --git "))
            at += 1
        elif _starts_file(lines, at):
            found.append(_named(header, line, lines[at + 1].removesuffix("\r"), at))
            header = _Header()
            at += 2
        elif line.startswith("@@"):
            if not found or header.git:
                raise InvalidArguments(f"diff: line {at + 1}: a hunk before the names of its file; {FORM}")
            hunk, at = _hunk(lines, at)
            found[-1].hunks.append(hunk)
        else:
            _note(header, line, at)
            at += 1
    _settle(header, found)
    _complete(found)
    return found


def _complete(found: Sequence[FileDiff]) -> None:
    if not found:
        raise InvalidArguments(f"diff: no file in it; {FORM}")
    for file in found:
        if not file.hunks and file.old == file.new:
            raise InvalidArguments(f"diff: {file.new}: no hunks; {FORM}")


def _starts_file(lines: Sequence[str], at: int) -> bool:
    return lines[at].startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")


def _note(header: _Header, line: str, at: int) -> None:
    """Parse a line outside of hunks: record git's notes about a file in ``header``, and skip prose.

    Raises InvalidArguments for a binary change, a copy, another format of diff, or a line that looks like a part of a hunk.
    """
    if line.startswith("rename from "):
        header.moved_from = _unquote(line.removeprefix("rename from "))
    elif line.startswith("rename to "):
        header.moved_to = _unquote(line.removeprefix("rename to "))
    elif line.startswith("new file mode"):
        header.created = True
    elif line.startswith("deleted file mode"):
        header.deleted = True
    elif line.startswith(("GIT binary patch", "Binary files ", "copy from ")):
        raise InvalidArguments(
            f"diff: line {at + 1}: {line.split(' differ', maxsplit=1)[0]!r}: only text changes and renames can be applied"
        )
    elif line.startswith("*** "):
        raise InvalidArguments(f"diff: line {at + 1}: not a unified diff; {FORM}")
    elif line[:1] in ("+", "-") and line.strip() != "--":
        raise InvalidArguments(f"diff: line {at + 1} belongs to no hunk; {FORM}")


def _named(header: _Header, old_line: str, new_line: str, at: int) -> FileDiff:
    old, new = _path(old_line), _path(new_line)
    if old is None and new is None:
        raise InvalidArguments(f"diff: line {at + 1}: both names are /dev/null")
    if (old is None or old.startswith("a/")) and (new is None or new.startswith("b/")):
        old, new = old and old[2:], new and new[2:]
    if old is not None and new is not None and old != new and header.moved_from is None:
        raise InvalidArguments(
            f"diff: line {at + 1}: the names differ ({old}, {new}); "
            "give the same name twice, or git's 'rename from' and 'rename to' lines"
        )
    if header.moved_from is not None and (old, new) != (header.moved_from, header.moved_to):
        raise InvalidArguments(f"diff: line {at + 1}: the names do not agree with 'rename from' and 'rename to'")
    return FileDiff(old, new)


def _settle(header: _Header, found: list[FileDiff]) -> None:
    """Add the file of a git section without hunks: an empty file that is created or deleted, or only a rename."""
    if header.moved_from is not None and header.moved_to is not None:
        found.append(FileDiff(header.moved_from, header.moved_to))
    elif header.created or header.deleted:
        half = header.git[: len(header.git) // 2]
        name = _unquote(half)
        if not name.startswith("a/"):
            raise InvalidArguments(f"diff: the file's name is unclear in 'diff --git {header.git}'")
        found.append(FileDiff(None, name[2:]) if header.created else FileDiff(name[2:], None))


def _path(line: str) -> str | None:
    name = _unquote(line[4:])
    if name == "/dev/null":
        return None
    if not name:
        raise InvalidArguments(f"diff: {line!r} names no file")
    return name


def _unquote(name: str) -> str:
    """Return the name as git wrote it, without a timestamp, and with git's escapes decoded."""
    name = name.split("\t", maxsplit=1)[0].strip()
    if not (len(name) > 1 and name[0] == name[-1] == '"'):
        return name

    def plain(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code, 8) & 255 if len(code) == 3 else _ESCAPED.get(code, ord(code)))

    parts = _ESCAPE.sub(plain, name[1:-1])
    try:
        return parts.encode("latin-1").decode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return parts


def _hunk(lines: Sequence[str], at: int) -> tuple[Hunk, int]:
    """Return the hunk whose header is line ``at``, and the index after the hunk.

    The header's counts are used if they fit. Models often miscount; the hunk then ends where the next part of the diff begins.
    """
    match = _HUNK.match(lines[at])
    read = None
    if match is not None:
        old, new = (int(match[group]) if match[group] is not None else 1 for group in (2, 3))
        read = _counted(lines, at + 1, old, new)
    ops, end = read or _uncounted(lines, at + 1)
    if not any(op != " " for op, _ in ops):
        raise InvalidArguments(f"diff: line {at + 1}: this hunk changes nothing; {FORM}")
    return Hunk(None if match is None else int(match[1]), ops), end


def _counted(lines: Sequence[str], at: int, old: int, new: int) -> tuple[list[tuple[str, str]], int] | None:
    ops: list[tuple[str, str]] = []
    while at < len(lines) and (old > 0 or new > 0 or lines[at].startswith("\\")):
        op = _add(ops, lines[at])
        if op is None:
            return None
        old -= op in (" ", "-")
        new -= op in (" ", "+")
        at += 1
    goes_on = at < len(lines) and lines[at][:1] in (" ", "+", "-") and lines[at] != "-- " and not _starts_file(lines, at)
    return None if old or new or goes_on else (ops, at)


def _uncounted(lines: Sequence[str], at: int) -> tuple[list[tuple[str, str]], int]:
    ops: list[tuple[str, str]] = []
    while at < len(lines) and not lines[at].startswith(("@@", "diff --git ")) and not _starts_file(lines, at):
        if _add(ops, lines[at]) is None:
            raise InvalidArguments(f"diff: line {at + 1}: a line of a hunk starts with ' ', '+' or '-'")
        at += 1
    while ops and ops[-1] == (" ", "\n") and lines[at - 1] == "":
        ops.pop()  # blank lines between this hunk and the next part
        at -= 1
    return ops, at + next((n for n, line in enumerate(lines[at:]) if line != ""), len(lines) - at)


def _add(ops: list[tuple[str, str]], line: str) -> str | None:
    """Add one line of a hunk to ``ops``, and return its first character; None if the line is not part of a hunk.

    An empty line counts as a blank context line whose space was lost.
    """
    op = line[:1] or " "
    if op == "\\" and ops:
        last, text = ops.pop()
        ops.append((last, text.removesuffix("\n")))
        return op
    if op not in (" ", "+", "-"):
        return None
    ops.append((op, line[1:] + "\n"))
    return op
