"""write_file: a whole file, created or replaced atomically."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.effects import Effect, WritesFile
from toolcrib.contract.environment import Environment, FileInfo
from toolcrib.contract.errors import EnvironmentFailed, InvalidArguments, ToolError
from toolcrib.contract.types import ToolResult, ToolStatus
from tools.files.changing import show
from tools.files.kept import changing
from tools.files.places import judged, resolve, translate_file_errors
from tools.files.rewriting import rewrite
from tools.files.text import Text, count_lines

_MOST_COMPARED = 400_000
"""Maximum bytes of a replaced text whose difference from the new one is shown."""


async def effects(args: dict[str, Any], ctx: ToolCallContext) -> Sequence[Effect]:
    return [WritesFile(await resolve(ctx.environment, args["path"]), args["content"])]


async def handle(args: dict[str, Any], ctx: ToolCallContext) -> ToolResult:
    """Write the file. ``data``: {path, action: created|replaced, bytes, lines}. It writes the judged content to the judged path.

    The difference from a replaced text is shown to the user, but is not in the result, because the model did not ask to read it.
    """
    effect = judged(ctx, WritesFile)
    path, content = effect.path, effect.content or ""
    data = Text("").encode(content)
    async with changing(ctx, [path]) as kept:
        with translate_file_errors(path):
            info = await ctx.environment.stat(path)
        before = await _text_of(ctx.environment, path, info)
        if info is not None and info.kind != "file":
            raise InvalidArguments(f"path: {path} is {'a folder' if info.kind == 'dir' else 'not a regular file'}; name a file")
        await kept.replaces(path, info, data)
        await kept.record()
        try:
            with translate_file_errors(path):
                lost = await rewrite(ctx.environment, path, data, mode=None if info is None else info.mode)
        except ToolError:
            await kept.forget()
            raise
    if before is not None:
        ctx.report_activity("file-difference", {"text": show(path, before, content)[0]})
    note = "; ".join(each for each in (lost, kept.warning) if each)
    said = {
        "path": path,
        "action": "created" if info is None else "replaced",
        "bytes": len(data),
        "lines": count_lines(content),
        **({"note": note} if note else {}),
    }
    text = f"{said['action']} {path} ({said['lines']} lines, {said['bytes']} bytes)" + (f"; {note}" if note else "")
    return ToolResult(ctx.tool_name, ToolStatus.SUCCESS, said, views={"model": text})


async def _text_of(environment: Environment, path: str, info: FileInfo | None) -> str | None:
    """Return a file's text before it is replaced; None if it is missing, not text, or too long to compare."""
    if info is None or info.kind != "file" or info.size > _MOST_COMPARED:
        return None
    try:
        return (await environment.read_file(path, limit=_MOST_COMPARED + 1)).decode()
    except (UnicodeDecodeError, OSError, EnvironmentFailed):
        return None
