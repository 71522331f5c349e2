"""read_file, write_file, patch and search_files, in the session's environment (toolset ``file``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolcrib.contract.display import ToolDisplay
from tools.files import PAGE_LINES, late
from tools.registry import registry


def _schema(description: str, required: list[str], **properties: dict[str, Any]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {"description": description, "parameters": parameters}


def _text(description: str = "", **more: Any) -> dict[str, Any]:
    return {"type": "string", **({"description": description} if description else {}), **more}


def _number(default: int, most: int, least: int = 1, description: str = "") -> dict[str, Any]:
    number: dict[str, Any] = {"type": "integer", "minimum": least, "maximum": most, "default": default}
    return {**number, "description": description} if description else number


def _content(data: Mapping[str, Any]) -> str | None:
    """Return the result of read_file as text: a file, or the entries of a folder; None for other data."""
    if isinstance(content := data.get("content"), str):
        total = "" if data.get("total_lines") is None else f" of {data['total_lines']}"
        lines = f"lines {data.get('first_line')} to {data.get('last_line')}{total}"
        if data.get("last_line") == 0:
            lines = "empty" if data.get("total_lines") == 0 else "the first line is longer than the read limit"
        return f"{data.get('path')}: {lines}{_note(data)}\n{content}"
    if isinstance(entries := data.get("entries"), Sequence):
        return "\n".join([f"{data.get('path')}: {data.get('total')} entries", *map(str, entries)])
    return None


def _found(data: Mapping[str, Any]) -> str | None:
    """Return the result of search_files as text: a line for each match or file; None for other data."""
    if isinstance(found := data.get("matches"), Sequence):
        rows = [_match(one) for one in found if isinstance(one, Mapping)]
    elif isinstance(files := data.get("files"), Sequence):
        rows = [*map(str, files)]
    else:
        return None
    return "\n".join(rows or ["no line can be shown" if data.get("note") else "nothing found"]) + _note(data)


def _match(found: Mapping[str, Any]) -> str:
    path = " ".join(str(found.get("path")).split())
    return f"{path}:{found.get('line')}{'-' if found.get('context') else ':'} {found.get('text')}"


def _written(data: Mapping[str, Any]) -> str | None:
    if "action" not in data:
        return None
    return f"{data['action']} {data.get('path')}: {data.get('lines')} lines, {data.get('bytes')} bytes{_note(data)}"


def _patched(data: Mapping[str, Any]) -> str | None:
    if not isinstance(files := data.get("files"), Sequence):
        return None
    done = [f"{one.get('action')} {one.get('path')}" for one in files if isinstance(one, Mapping)]
    return "\n".join([*done, *(f"note: {note}" for note in data.get("notes") or ())])


def _note(data: Mapping[str, Any]) -> str:
    return f"  [{data['note']}]" if data.get("note") else ""


def _files_of(args: Mapping[str, Any]) -> str | None:
    """Return the path that a call of patch gives, or the paths in the ``+++`` lines of its diff (``/dev/null`` for a deleted
    file); None if the call has neither a path nor a diff.
    """
    if args.get("path") or not args.get("diff"):
        return str(args.get("path") or "") or None
    return " ".join(line[4:].removeprefix("b/") for line in str(args["diff"]).splitlines() if line.startswith("+++ "))


registry.register(
    name="read_file",
    toolset="file",
    schema=_schema(
        "Read a text file as 'NUMBER|line'; the number is not part of the file. Lists a folder; describes a binary file.",
        ["path"],
        path=_text(),
        offset=_number(1, 1_000_000_000, description="First line, from 1."),
        limit=_number(PAGE_LINES, PAGE_LINES, description="Lines."),
        column={"type": "integer", "minimum": 1, "description": "Only the line at offset, from this character; for long lines."},
    ),
    handler=late("read", "handle"),
    kind="read",
    effects=late("read", "effects"),
    parallel_safe=True,
    repeatable=True,
    max_result_chars=60_000,
    file="path",
    emoji="📖",
    display=ToolDisplay(verb="reads", subject=("path",), result=_content),
)

registry.register(
    name="write_file",
    toolset="file",
    schema=_schema(
        "Create or replace a whole file; missing folders are created. Use patch to change a part.",
        ["path", "content"],
        path=_text(),
        content=_text("The whole content."),
    ),
    handler=late("writing", "handle"),
    kind="edit",
    effects=late("writing", "effects"),
    repeatable=True,
    file="path",
    changes="kept",
    emoji="✍️",
    display=ToolDisplay(verb="writes", subject=("path",), below="content", result=_written, in_difference=("path", "content")),
)

registry.register(
    name="patch",
    toolset="file",
    schema=_schema(
        "Change files: path, old and new replace exact text; or diff applies a unified diff to one or several files "
        "(create, delete and rename too). If any part does not match, nothing is written.",
        [],
        path=_text("With old and new."),
        old=_text("Text as in the file, with enough lines around it to be unique."),
        new=_text("Replacement; may be empty."),
        replace_all={"type": "boolean", "default": False, "description": "Replace every occurrence of old."},
        diff=_text(
            "Unified diff with '--- a/PATH' and '+++ b/PATH' (/dev/null: create, delete) and context lines; send it alone."
        ),
    ),
    handler=late("patching", "handle"),
    kind="edit",
    effects=late("patching", "effects"),
    file="path",
    changes="kept",
    emoji="🩹",
    display=ToolDisplay(
        verb="edits",
        subject=_files_of,
        result=_patched,
        in_result=("diff",),
        in_difference=("path", "old", "new", "old_string", "new_string", "replace_all", "diff"),
    ),
)

registry.register(
    name="search_files",
    toolset="file",
    schema=_schema(
        "Search file contents by regular expression, or file names by glob. Respects .gitignore if ripgrep is installed.",
        ["pattern"],
        pattern=_text("Regular expression; for target files a glob such as '*.py'."),
        path=_text("Folder or file.", default="."),
        target=_text(enum=["content", "files"], default="content"),
        glob=_text("Only matching files, such as '*.py', 'src/**' or '!*.min.js'."),
        limit=_number(100, 1000),
        context=_number(0, 20, 0, "Lines around each match."),
        ignore_case={"type": "boolean", "default": False},
    ),
    handler=late("searching", "handle"),
    kind="read",
    effects=late("searching", "effects"),
    parallel_safe=True,
    repeatable=True,
    max_result_chars=120_000,
    emoji="🔎",
    display=ToolDisplay(verb="searches", subject=("pattern", "path"), result=_found),
)
