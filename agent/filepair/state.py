"""A file in memory, and the two tools that write it: ``create_file`` and ``edit_file``."""

from __future__ import annotations

import difflib
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.filepair.preview import shortened
from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.errors import InvalidArguments, NotFound
from toolcrib.contract.regex import Regex
from toolcrib.contract.types import Handler, ToolResult

_SHOWN = 120
_CONTEXT = 3
_RANGE = Regex(r"([-+])(\d+)")


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the first ``count`` matches of ``old_text`` with ``new_text``; -1 means all."""

    old_text: str
    new_text: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class Edited:
    """Result of edits. ``first_changed_line`` counts from 1 in the new content; None if nothing changed.

    ``replaced`` has the number of replaced places for each edit.
    """

    path: str
    replaced: Sequence[int]
    diff: str
    first_changed_line: int | None


class VariantFile:
    """A variant's file. A method that raises leaves the file unchanged; ``version`` grows with every change."""

    def __init__(self, path: str = "", content: str = "") -> None:
        self._path = _normal(path)
        self._content = content
        self.version = 0

    @property
    def path(self) -> str:
        """The file's path, "" until there is a file."""
        return self._path

    @property
    def content(self) -> str:
        return self._content

    def create_file(self, path: str, content: str) -> None:
        """Create or replace the file. Raises InvalidArguments if the path or the content is empty."""
        if not path.strip():
            raise InvalidArguments("path is empty; name the file, such as index.html")
        if not content.strip():
            raise InvalidArguments("content is empty; send the whole file in content")
        self._set(_normal(path), content)

    def edit_file(self, edits: Sequence[Edit], path: str = "") -> Edited:
        """Make all edits in order, each on the result of the previous one, or none of them.

        Raises NotFound if there is no such file or an old_text is not in it, and InvalidArguments for an invalid edit.
        """
        if not self._content:
            raise NotFound("no file exists yet; call create_file first")
        if path.strip() and _normal(path) != self._path:
            raise NotFound(f"there is no file {path!r}; the file is {self._path!r}")
        if not edits:
            raise InvalidArguments("edits is empty; send at least one {old_text, new_text}")
        before, after = self._content, self._content
        replaced = []
        for number, edit in enumerate(edits, 1):
            after, places = _replaced(after, edit, number, self._path)
            replaced.append(places)
        edited = Edited(self._path, replaced, unified_diff(before, after, self._path), first_changed_line(before, after))
        self._set(self._path, after)
        return edited

    def _set(self, path: str, content: str) -> None:
        self._path, self._content = path, content
        self.version += 1

    # -- as tools ------------------------------------------------------------------------------------------------

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers by tool name, for one session's scope."""
        return {"create_file": self._create, "edit_file": self._edit}

    def _create(self, args: dict[str, Any], ctx: ToolCallContext) -> ToolResult:
        """Create the file. ``data``: {path, content_length, lines}."""
        self.create_file(args["path"], args["content"])
        lines = self._content.count("\n") + (not self._content.endswith("\n"))
        return ToolResult.success(ctx.tool_name, {"path": self._path, "content_length": len(self._content), "lines": lines})

    def _edit(self, args: dict[str, Any], ctx: ToolCallContext) -> ToolResult:
        """Edit the file. ``data``: {path, replaced: [int], first_changed_line, diff}."""
        edits = [Edit(one["old_text"], one["new_text"], one.get("count", 1)) for one in args["edits"]]
        done = self.edit_file(edits, args.get("path", ""))
        data = {
            "path": done.path,
            "replaced": list(done.replaced),
            "first_changed_line": done.first_changed_line,
            "diff": done.diff,
        }
        return ToolResult.success(ctx.tool_name, data)


def _replaced(text: str, edit: Edit, number: int, path: str) -> tuple[str, int]:
    """Return the text after an edit, and the number of changed places."""
    if not edit.old_text:
        raise InvalidArguments(f"edit {number}: old_text is empty; send the exact text to replace")
    if edit.count < -1 or edit.count == 0:
        raise InvalidArguments(f"edit {number}: count is {edit.count}; use 1 or more, or -1 for all matches")
    there = text.count(edit.old_text)
    if not there:
        raise NotFound(
            f"edit {number}: old_text is not in {path}: {shortened(edit.old_text, _SHOWN)!r}; nothing was changed. "
            "It must match exactly, with spaces and line ends, the file as the earlier edits left it"
        )
    return text.replace(edit.old_text, edit.new_text, edit.count), there if edit.count == -1 else min(there, edit.count)


def unified_diff(before: str, after: str, path: str) -> str:
    """Return a unified diff, "" if nothing changed. Lines end with a newline; a last line without one is marked as in git."""
    old, new = _lines(before), _lines(after)
    start = max(0, _same(old, new) - _CONTEXT)
    end = max(0, _same(old[:start:-1], new[:start:-1]) - _CONTEXT)
    # Skip equal lines at both ends first: difflib's time grows faster than the file.
    middle = old[start : len(old) - end], new[start : len(new) - end]
    lines = difflib.unified_diff(*middle, f"a/{path}", f"b/{path}", n=_CONTEXT)
    return "".join(_diff_line(line, start) for line in lines)


def _diff_line(line: str, start: int) -> str:
    if line.startswith("@@"):
        return _RANGE.sub(lambda number: f"{number[1]}{int(number[2]) + start}", line)
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def first_changed_line(before: str, after: str) -> int | None:
    """Return the number, from 1, of the first line that differs; None if all lines are equal."""
    return None if before == after else _same(_lines(before), _lines(after)) + 1


def _same(old: Sequence[str], new: Sequence[str]) -> int:
    """Return the number of equal lines at the beginning."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((number for number, (one, other) in pairs if one != other), min(len(old), len(new)))


def _lines(text: str) -> list[str]:
    """Return the lines with their ends. Only a newline ends a line: ``splitlines`` also cuts at U+2028 and similar."""
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop().removesuffix("\n")
    return [*lines, last] if last else lines


def _normal(path: str) -> str:
    return posixpath.normpath(path.strip()) if path.strip() else ""
