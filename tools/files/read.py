"""read_file: a page of numbered lines, from a bounded number of bytes."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
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
"""Maximum bytes to read of a larger file."""
PAGE_CHARS = 30_000
LINE_CHARS = 2000
FOLDER_ENTRIES = 500


async def effects(args: dict[str, Any], ctx: ToolCallContext) -> Sequence[Effect]:
    path = await located(ctx, args["path"])
    return [ReadsFile(await resolve(files_of(ctx, path), path))]


async def handle(args: dict[str, Any], ctx: ToolCallContext) -> ToolResult:
    """Read a page. ``data``: {path, content, first_line, last_line, total_lines | None, encoding, note?}.

    For a folder it is {path, entries}, for a binary file {path, binary, size}. Raises NotFound with similar names,
    InvalidArguments for an offset past the end.
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
    lines = decoded.text.split("\n")
    if lines[-1] == "" or cut:
        lines.pop()  # the text after the last line feed is not a line, or its end was not read
    total = len(lines)
    if offset > max(total, 1):
        raise InvalidArguments(_past_the_end(path, offset, total, cut=cut))
    page = _take(lines, offset, limit)
    last = offset + len(page) - 1
    content: dict[str, Any] = {
        "path": path,
        "content": "\n".join(page),
        "first_line": offset,
        "last_line": last,
        "total_lines": None if cut else total,
        "encoding": decoded.encoding,
    }
    if decoded.encoding == "latin-1":
        content["note"] = "not UTF-8: read as Latin-1"
    numbered = "\n".join(f"{number}|{line}" for number, line in enumerate(page, offset))
    return _result(ctx, content, f"{_heading(content, total)}\n{numbered}" if page else f"{path} is empty")


def _take(lines: list[str], offset: int, limit: int) -> list[str]:
    shown: list[str] = []
    room = PAGE_CHARS
    for line in lines[offset - 1 : offset - 1 + limit]:
        text = clip(line.removesuffix("\r"), LINE_CHARS)
        room -= len(text) + 8
        if room < 0 and shown:
            break
        shown.append(text)
    return shown


def _heading(content: dict[str, Any], total: int) -> str:
    cut = content["total_lines"] is None
    heading = (
        f"{content['path']}: lines {content['first_line']}-{content['last_line']} of {f'more than {total}' if cut else total}"
    )
    if content["last_line"] < total:
        heading += f" (continue with offset={content['last_line'] + 1})"
    return f"{heading} [{content['note']}]" if "note" in content else heading


def _past_the_end(path: str, offset: int, total: int, *, cut: bool) -> str:
    if cut:
        return (
            f"offset: line {offset} of {path} is beyond its first {READ_BYTES} bytes ({total} lines); "
            "use search_files, or sed -n in the terminal"
        )
    return f"offset: {path} has only {total} lines"


def _folder(ctx: ToolCallContext, path: str, entries: Sequence[FileInfo]) -> ToolResult:
    names = [posixpath.basename(entry.path) + ("/" if entry.kind == "dir" else "") for entry in entries]
    more = f"\n... and {len(names) - FOLDER_ENTRIES} more" if len(names) > FOLDER_ENTRIES else ""
    text = f"{path} is a folder of {len(names)} entries:\n" + "\n".join(names[:FOLDER_ENTRIES]) + more
    return _result(ctx, {"path": path, "entries": names[:FOLDER_ENTRIES], "total": len(names)}, text)


def _result(ctx: ToolCallContext, data: dict[str, Any], text: str) -> ToolResult:
    return ToolResult(ctx.tool_name, ToolStatus.SUCCESS, data, views={"model": text})
