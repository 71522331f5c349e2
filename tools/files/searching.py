"""search_files: a fixed command (ripgrep, else find and grep) that runs in the environment, and its bounded result."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import Any

from toolcrib.contract.artifacts import PREFIX
from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.effects import Effect, ReadsFile
from toolcrib.contract.environment import FileInfo, KnowsHome
from toolcrib.contract.errors import ExecutionFailed, InvalidArguments
from toolcrib.contract.types import ToolResult, ToolStatus
from tools.files.matches import Area, Outcome, find_by_name, find_in_content
from tools.files.places import files_of, is_spilled, judged, located, missing, resolve, shown, translate_file_errors, unmoved
from tools.files.text import clip
from tools.judge.folders import under

LINE_CHARS = 500
RESULT_CHARS = 30_000
_UNSEARCHED = "in a folder, binary files and, with ripgrep, files that .gitignore lists are not searched: name one as path"
_UNLISTED = "with ripgrep, files that .gitignore lists are not listed: name their folder as path"


async def effects(args: dict[str, Any], ctx: ToolCallContext) -> Sequence[Effect]:
    path = await located(ctx, args.get("path", "."))
    where = await resolve(files_of(ctx, path), path)
    own = ctx.settings.get("files.own")
    below = [str(one) for one in own if one != where and under(str(one), where)] if isinstance(own, list) else []
    return [ReadsFile(where, tuple(below))]


async def handle(args: dict[str, Any], ctx: ToolCallContext) -> ToolResult:
    """Search. ``data``: {path, matches: [{path, line, text, context?}]} or {path, files: [...]}, with ``note`` if incomplete.

    Raises InvalidArguments for a bad pattern, NotFound for a missing path.
    """
    effect = judged(ctx, ReadsFile)
    path = effect.path
    for name in ("pattern", "glob"):
        if "\0" in (args.get(name) or ""):
            raise InvalidArguments(f"{name}: has a NUL character; remove it")
    info = await _look(path, ctx)
    on_host = is_spilled(ctx, path)
    shown_as = shown(ctx, path) if on_host else _shorten(path, ctx.environment.cwd)
    root, start = (path, "") if info.kind == "dir" else posixpath.split(path)
    prefix = shown_as if info.kind == "dir" or shown_as.startswith(PREFIX) else posixpath.dirname(shown_as)
    area = Area(root, start, [posixpath.relpath(own, root) for own in effect.without], on_host)
    if args.get("target", "content") == "files":
        found = await find_by_name(args, ctx, area)
        found.left_out = bool(effect.without)
        return _files_result(ctx, args, shown_as, prefix, found)
    found = await find_in_content(args, ctx, area)
    found.left_out = bool(effect.without)
    if not on_host and not isinstance(ctx.environment, KnowsHome):  # toolcrib's own files are on this machine
        await _leave_out_links(ctx, root, found)
    return _content_result(ctx, args, shown_as, prefix, found, is_folder=info.kind == "dir")


async def _leave_out_links(ctx: ToolCallContext, root: str, found: Outcome) -> None:
    """Leave out matches in hard links to toolcrib's own files. Symbolic links need no check, because a search does not follow
    them.
    """
    paths = {line.path: posixpath.normpath(posixpath.join(root, line.path)) for line in found.lines}
    others = {name for name, path in paths.items() if await ctx.environment.resolve(path) != path}
    found.lines = [line for line in found.lines if line.path not in others]
    found.total = sum(line.match for line in found.lines)
    found.unread += len(others)


async def _look(path: str, ctx: ToolCallContext) -> FileInfo:
    files = files_of(ctx, path)
    with translate_file_errors(path):
        info = await files.stat(path)
        if info is None:
            raise await missing(files, path)
        await unmoved(files, path)
    if info.kind not in ("dir", "file"):
        raise ExecutionFailed(f"{path} is a device, pipe or socket; search a file or folder")
    return info


def _shorten(path: str, cwd: str) -> str:
    """Return ``path`` relative to the working folder ``cwd`` if it is in there, else unchanged."""
    if path == cwd:
        return "."
    return path.removeprefix(f"{cwd}/") if cwd not in ("", "/") else path


def _join(prefix: str, name: str) -> str:
    return prefix if prefix.startswith(PREFIX) else posixpath.normpath(posixpath.join(prefix, name))


def _quoted(path: str) -> str:
    """Return the path; quoted if it has control characters, such as line ends, that could fake other lines of the result."""
    return path if path.isprintable() else repr(path)


def _note(found: Outcome, most: int, what: str) -> str:
    notes: list[str] = []
    if found.incomplete:
        notes.append(found.incomplete)
    if found.total > most or found.incomplete:
        notes.append(f"first {most} {what} shown; narrow with path, glob or a longer pattern, or raise limit")
    if found.binary:
        notes.append(f"binary files that match: {found.binary}; not all of their lines are shown")
    if found.skipped:
        notes.append(f"binary files not searched to the end: {found.skipped}; to search one, give it as path")
    if found.unread:
        notes.append(f"{found.unread} files or folders could not be read")
    if found.left_out:
        notes.append("toolcrib's own settings and state were left out")
    return "; ".join(notes)


def _files_result(ctx: ToolCallContext, args: dict[str, Any], path: str, prefix: str, found: Outcome) -> ToolResult:
    names = [_join(prefix, name) for name in found.names[: _limit(args)]]
    while sum(map(len, names)) > RESULT_CHARS and len(names) > 1:
        names = names[: len(names) // 2]
    note = _note(found, len(names), "files")
    data: dict[str, Any] = {"path": path, "files": names, **({"note": note} if note else {})}
    text = "\n".join(map(_quoted, names)) or f"no files match {args['pattern']!r} in {path} ({_UNLISTED})"
    return ToolResult(ctx.tool_name, ToolStatus.SUCCESS, data, views={"model": f"{text}\n[{note}]" if note else text})


def _content_result(
    ctx: ToolCallContext, args: dict[str, Any], path: str, prefix: str, found: Outcome, *, is_folder: bool
) -> ToolResult:
    rows: list[dict[str, Any]] = []
    text: list[str] = []
    room, count, last = RESULT_CHARS, 0, ""
    for line in found.lines:
        if line.match and count == _limit(args):
            break
        name, said = _join(prefix, line.path), clip(line.text, LINE_CHARS)
        if line.is_cut:
            said = f"{line.text[:LINE_CHARS]}... [more characters]"
        room -= len(said) + 10 + (len(name) if name != last else 0)
        if room < 0 and rows:
            break
        count += line.match
        if name != last:
            text.append(_quoted(name))
            last = name
        text.append(f"{line.number}{':' if line.match else '-'}{said}")
        rows.append({"path": name, "line": line.number, "text": said, **({} if line.match else {"context": True})})
    note = _note(found, count, "matches")
    if any(len(row["text"]) > LINE_CHARS for row in rows):
        how = f"longer lines are cut: read the rest of one with read_file, offset=LINE and column={LINE_CHARS + 1}"
        note = f"{note}; {how}" if note else how
    data: dict[str, Any] = {"path": path, "matches": rows, **({"note": note} if note else {})}
    none = f"no matches of {args['pattern']!r} in {path}{_unsearched(args['pattern'], is_folder=is_folder)}"
    if found.binary or found.incomplete:
        none = f"no matching line can be shown in {path}"
    whole = "\n".join(text) or none
    return ToolResult(ctx.tool_name, ToolStatus.SUCCESS, data, views={"model": f"{whole}\n[{note}]" if note else whole})


def _unsearched(pattern: str, *, is_folder: bool) -> str:
    """Return what such a search does not find: a model takes "no matches" for a fact about all files."""
    unsearched = [_UNSEARCHED] if is_folder else []
    if not pattern.isascii():
        unsearched.append("text in other encodings than UTF-8 and UTF-16 matches ASCII only")
    return f" ({'; '.join(unsearched)})" if unsearched else ""


def _limit(args: dict[str, Any]) -> int:
    return int(args.get("limit", 100))
