"""read_file: a page of numbered lines, from a bounded number of bytes."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Callable, Sequence
from typing import Any

from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.effects import Effect, ReadsFile
from toolcrib.contract.environment import FileInfo
from toolcrib.contract.errors import ExecutionFailed, InvalidArguments
from toolcrib.contract.types import ToolResult, ToolStatus
from tools.files import PAGE_LINES
from tools.files.places import Files, files_of, judged, located, missing, resolve, shown, translate_file_errors, unmoved
from tools.files.text import clip, decode, describe

READ_BYTES = 16 * 1024 * 1024
"""Number of bytes at the beginning of a file that are read."""
PAGE_CHARS = 30_000
LINE_CHARS = 2000
FOLDER_ENTRIES = 500


async def effects(args: dict[str, Any], ctx: ToolCallContext) -> Sequence[Effect]:
    path = await located(ctx, args["path"])
    return [ReadsFile(await resolve(files_of(ctx, path), path))]


async def handle(args: dict[str, Any], ctx: ToolCallContext) -> ToolResult:
    """Read a page. ``data``: {path, content, first_line, last_line, total_lines | None, encoding, note?}.

    For a folder ``data`` is {path, entries, total}, for a binary file {path, binary, size}. Raises NotFound with similar names,
    InvalidArguments for an offset or a column past the end.
    """
    path = judged(ctx, ReadsFile).path
    files = files_of(ctx, path)
    with translate_file_errors(path):
        info = await files.stat(path)
        if info is None:
            raise await missing(files, path)
        await unmoved(files, path)
        if info.kind == "dir":
            return _folder(ctx, path, await files.list_dir(path))
        if info.kind != "file":
            raise ExecutionFailed(f"{path} is a device, pipe or socket, not a regular file")
        return await _page(args, ctx, files, info)


async def _page(args: dict[str, Any], ctx: ToolCallContext, files: Files, info: FileInfo) -> ToolResult:
    path, offset, limit = info.path, int(args.get("offset", 1)), int(args.get("limit", PAGE_LINES))
    data = await files.read_file(path, limit=READ_BYTES + 1)
    path = shown(ctx, path)
    cut = len(data) > READ_BYTES
    decoded = decode(data[:READ_BYTES], cut=cut)
    if decoded is None:
        kind = describe(path, data)
        size = max(info.size, len(data))
        return _result(ctx, {"path": path, "binary": kind, "size": size}, f"{path} is binary ({kind}, {size} bytes); not shown")
    *lines, rest = decoded.text.split("\n")
    if rest and not cut:
        lines.append(rest)
    total = len(lines)
    content: dict[str, Any] = {
        "path": path,
        "content": "",
        "first_line": offset,
        "last_line": 0,
        "total_lines": None if cut else total,
        "encoding": decoded.encoding,
    }
    notes = ["not UTF-8: read as Latin-1"] if decoded.encoding == "latin-1" else []
    begun = cut and bool(rest)  # the end of the last line was not read
    if "column" in args and offset <= total + begun:
        line = ctx.redact(lines[offset - 1] if offset <= total else rest)
        return _result(ctx, *_part(content, line, int(args["column"]), notes, cut=offset > total))
    if offset > max(total, 1):
        raise InvalidArguments(_past_the_end(path, offset, total, cut=cut))
    page = _take(lines, offset, limit, ctx.redact)
    content |= {"content": "\n".join(page), "last_line": offset + len(page) - 1}
    if any(len(line) > LINE_CHARS for line in page):
        notes.append(f"longer lines are cut: read the rest of one with offset=LINE and column={LINE_CHARS + 1}")
    if cut and content["last_line"] == total:
        notes.append(_unread(path, total + 1, begun=begun))
    if notes:
        content["note"] = "; ".join(notes)
    if total or cut:
        numbered = [f"{number}|{line}" for number, line in enumerate(page, offset)]
        return _result(ctx, content, "\n".join([_heading(content, total), *numbered]))
    return _result(ctx, content, f"{path} has no text, only a byte order mark" if data else f"{path} is empty")


def _take(lines: list[str], offset: int, limit: int, redact: Callable[[str], str]) -> list[str]:
    shown: list[str] = []
    room = PAGE_CHARS
    for line in lines[offset - 1 : offset - 1 + limit]:
        text = line.removesuffix("\r")
        if len(text) > LINE_CHARS:
            text = clip(redact(text), LINE_CHARS)  # redact before the cut: half a secret is not recognised
        room -= len(text) + 8
        if room < 0 and shown:
            break
        shown.append(text)
    return shown


def _part(content: dict[str, Any], line: str, column: int, notes: Sequence[str], *, cut: bool) -> tuple[dict[str, Any], str]:
    """Return the result's data and text for the part of one line that begins at ``column``. ``cut``: its end was not read."""
    number, line = content["first_line"], line if cut else line.removesuffix("\r")
    if column > max(len(line), 1):
        what = f"the part of line {number} that is read" if cut else f"line {number}"
        raise InvalidArguments(f"column: {what} has only {len(line)} characters")
    part = line[column - 1 : column - 1 + PAGE_CHARS]
    last = column - 1 + len(part)
    said = f"characters {min(column, last)}-{last} of {'more than ' * cut}{len(line)}"
    if last < len(line):
        said += f" (continue with column={last + 1})"
    elif cut:
        said += f"; {_unread(content['path'], number)}"
    content |= {"content": part, "last_line": number, "note": "; ".join([*notes, said])}
    return content, f"{content['path']}: line {number} [{content['note']}]\n{number}|{part}"


def _unread(path: str, number: int, *, begun: bool = True) -> str:
    """Return how to read the rest of a file, from line ``number`` on. ``begun``: the beginning of that line was read."""
    where, how = (
        ("is longer", f"read its beginning with offset={number} and column=1, ") if begun else ("comes after them", "read ")
    )
    return (
        f"only the first {READ_BYTES} bytes are read, and line {number} {where}: {how}the rest in the terminal: "
        f"tail -c +{READ_BYTES + 1} {shlex.quote(path)} | head -c 20000"
    )


def _heading(content: dict[str, Any], total: int) -> str:
    cut, last = content["total_lines"] is None, content["last_line"]
    if not total:
        return f"{content['path']}: its first line is longer than the read limit [{content['note']}]"
    heading = f"{content['path']}: lines {content['first_line']}-{last} of {'more than ' * cut}{total}"
    if last < total:
        heading += f" (continue with offset={last + 1})"
    return f"{heading} [{content['note']}]" if "note" in content else heading


def _past_the_end(path: str, offset: int, total: int, *, cut: bool) -> str:
    if cut:
        return (
            f"offset: line {offset} of {path} does not end within the first {READ_BYTES} bytes ({total} lines); "
            f"give column=1 for the beginning of line {total + 1}; for more use search_files, or sed -n in the terminal"
        )
    return f"offset: {path} has only {total} lines"


def _folder(ctx: ToolCallContext, path: str, entries: Sequence[FileInfo]) -> ToolResult:
    names = [posixpath.basename(entry.path) + ("/" if entry.kind == "dir" else "") for entry in entries]
    more = f"\n... and {len(names) - FOLDER_ENTRIES} more" if len(names) > FOLDER_ENTRIES else ""
    text = f"{path} is a folder of {len(names)} entries:\n" + "\n".join(names[:FOLDER_ENTRIES]) + more
    return _result(ctx, {"path": path, "entries": names[:FOLDER_ENTRIES], "total": len(names)}, text)


def _result(ctx: ToolCallContext, data: dict[str, Any], text: str) -> ToolResult:
    return ToolResult(ctx.tool_name, ToolStatus.SUCCESS, data, views={"model": text})
