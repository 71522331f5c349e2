"""write_file: a whole file, created or replaced atomically."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.effects import Effect, WritesFile
from toolcrib.contract.environment import Environment, FileInfo
from toolcrib.contract.errors import EnvironmentFailed, ExecutionFailed, InvalidArguments, ToolError
from toolcrib.contract.types import ToolResult, ToolStatus
from tools.files.changing import show
from tools.files.kept import changing
from tools.files.places import judged, resolve, translate_file_errors
from tools.files.rewriting import rewrite
from tools.files.text import Text, count_lines, decode, describe

_MOST_COMPARED = 400_000
"""Number of bytes of a replaced file that are read to detect its encoding and line ends. A longer text is not compared with the
new one.
"""


async def effects(args: dict[str, Any], ctx: ToolCallContext) -> Sequence[Effect]:
    path = await resolve(ctx.environment, args["path"])
    try:
        before = await _begin(ctx.environment, path, await ctx.environment.stat(path))
    except (OSError, EnvironmentFailed):  # the call itself reports a failed stat, and replaces a file that it can't read
        before = None
    return [WritesFile(path, _in_form(args["content"], before, path)[1])]


async def handle(args: dict[str, Any], ctx: ToolCallContext) -> ToolResult:
    """Write the judged content to the judged path. ``data``: {path, action: created|replaced, bytes, lines, note?}.

    A replaced file keeps a byte order mark with its encoding, and CRLF if all its lines end with it.

    The difference from a replaced text is shown to the user, but is not in the result, because the model did not ask to read it.
    """
    effect = judged(ctx, WritesFile)
    path = effect.path
    async with changing(ctx, [path]) as kept:
        with translate_file_errors(path):
            info = await ctx.environment.stat(path)
        if info is not None and info.kind != "file":
            raise InvalidArguments(f"path: {path} is {'a folder' if info.kind == 'dir' else 'not a regular file'}; name a file")
        try:
            before = await _begin(ctx.environment, path, info)
        except (OSError, EnvironmentFailed):
            before = None
        old, content, form_note = _in_form(args["content"], before, path)
        if content != effect.content:
            raise ExecutionFailed(f"{path} changed after this call was checked; nothing was written, call again")
        data = (old if old is not None and old.mark else Text("")).encode(content)
        await kept.replaces(path, info, data)
        await kept.record()
        try:
            with translate_file_errors(path):
                lost = await rewrite(ctx.environment, path, data, mode=None if info is None else info.mode)
        except ToolError:
            await kept.forget()
            raise
    if info is not None and old is not None and info.size <= _MOST_COMPARED:
        ctx.report_activity("file-difference", {"text": show(path, old.text, content)[0]})
    note = "; ".join(each for each in (lost, form_note, kept.warning) if each)
    said = {
        "path": path,
        "action": "created" if info is None else "replaced",
        "bytes": len(data),
        "lines": count_lines(content),
        **({"note": note} if note else {}),
    }
    text = f"{said['action']} {path} ({said['lines']} lines, {said['bytes']} bytes)" + (f"; {note}" if note else "")
    return ToolResult(ctx.tool_name, ToolStatus.SUCCESS, said, views={"model": text})


async def _begin(environment: Environment, path: str, info: FileInfo | None) -> bytes | None:
    """Return the beginning of the file that is replaced, None if there is no file. Raises OSError, EnvironmentFailed."""
    if info is None or info.kind != "file":
        return None
    return await environment.read_file(path, limit=_MOST_COMPARED + 1)


def _in_form(content: str, before: bytes | None, path: str) -> tuple[Text | None, str, str]:
    """Return three values: the text in ``before``, which is the beginning of the old file (None if there is no file or it is
    binary); ``content`` with that text's line ends; and a note about the form for the model.
    """
    if before is None:
        return None, content, ""
    old = decode(before, cut=len(before) > _MOST_COMPARED)
    if old is None:
        return None, content, f"the file was binary ({describe(path, before)}) and is now UTF-8 text"
    notes: list[str] = []
    if old.encoding == "latin-1" and not content.isascii():
        notes.append("the file was not UTF-8 and is now")
    if old.mark:
        content = content.removeprefix("\ufeff")
        notes.append(f"kept: {old.encoding} with a byte order mark")
    crlf = old.text.count("\r\n")
    if crlf and "\n" in content and "\r\n" not in content:
        if crlf == old.text.count("\n"):
            content = content.replace("\n", "\r\n")
            notes.append("kept: CRLF line ends (in the terminal, sed -i 's/\\r$//' removes them)")
        else:
            notes.append("some lines ended with CRLF, and all end with LF now")
    return old, content, "; ".join(notes)
