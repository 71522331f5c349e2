"""read_file, write_file, patch and search_files: wherever the session's environment is (toolset ``file``)."""

from __future__ import annotations

from typing import Any

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


registry.register(
    name="read_file",
    toolset="file",
    schema=_schema(
        "Read a text file as 'NUMBER|line'; the number is not part of the file. Lists a folder; describes a binary file.",
        ["path"],
        path=_text(),
        offset=_number(1, 1_000_000_000, description="First line, from 1."),
        limit=_number(PAGE_LINES, PAGE_LINES, description="Lines."),
    ),
    handler=late("read", "handle"),
    kind="read",
    effects=late("read", "effects"),
    parallel_safe=True,
    repeatable=True,
    max_result_chars=60_000,
    emoji="📖",
)

registry.register(
    name="write_file",
    toolset="file",
    schema=_schema(
        "Create a file or replace all of it; missing folders are made. Use patch to change a part.",
        ["path", "content"],
        path=_text(),
        content=_text("The whole content."),
    ),
    handler=late("writing", "handle"),
    kind="edit",
    effects=late("writing", "effects"),
    repeatable=True,
    emoji="✍️",
)

registry.register(
    name="patch",
    toolset="file",
    schema=_schema(
        "Change files: path, old and new replace exact text; or diff applies a unified diff to one or several files "
        "(create, delete and rename too). If any part does not fit, nothing is written.",
        [],
        path=_text("With old and new."),
        old=_text("Text as in the file, with enough lines around it to be unique."),
        new=_text("What takes its place; may be empty."),
        replace_all={"type": "boolean", "default": False, "description": "Replace every occurrence of old."},
        diff=_text(
            "Unified diff with '--- a/PATH' and '+++ b/PATH' (/dev/null: create, delete) and context lines; give it alone."
        ),
    ),
    handler=late("patching", "handle"),
    kind="edit",
    effects=late("patching", "effects"),
    emoji="🩹",
)

registry.register(
    name="search_files",
    toolset="file",
    schema=_schema(
        "Search file contents by regular expression, or file names by glob. Respects .gitignore where ripgrep is present.",
        ["pattern"],
        pattern=_text("Regular expression; for target files a glob such as '*.py'."),
        path=_text("Folder or file.", default="."),
        target=_text(enum=["content", "files"], default="content"),
        glob=_text("Only files that fit, such as '*.py', 'src/**' or '!*.min.js'."),
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
)
