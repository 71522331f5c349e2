"""Sessions of Claude Code: a file of JSON lines for each session, ``~/.claude/projects/FOLDER/SESSION.jsonl``.

The location of the files and ``CLAUDE_CONFIG_DIR`` are documented at https://code.claude.com/docs/en/sessions. That page calls
the lines internal: their format may change with each release. The format is taken from third-party descriptions:

- https://github.com/skillsynchq/txcript/blob/main/docs/formats/claude-code.md
- https://github.com/DRMacIver/claude-reliability/blob/main/notes/transcript-format.md
- https://github.com/alicoding/claude-parser/blob/main/docs/JSONL-STRUCTURE.md

A line has a ``type``; ``user`` and ``assistant`` lines have a ``message`` as in Anthropic's Messages API, whose content is a
string or blocks (text, thinking, tool_use, tool_result, image), a ``timestamp``, ``sessionId`` and ``cwd``. A reply takes
several lines with one ``message.id``, and results come in ``user`` lines. The reader skips lines of subagents
(``isSidechain``), lines that the tool itself added (``isMeta``, ``isCompactSummary``, a model ``<synthetic>``, the output of
its own commands) and thinking. Lines are read in file order: if a user went back to an earlier message, both branches are
included.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from agent.importing.session_files import (
    ForeignSession,
    ImportFault,
    files_below,
    items_in,
    lines_of,
    mapping_in,
    text_in,
    time_in,
)
from agent.importing.turns import Turns, image_from
from toolcrib.contract.image import Image
from toolcrib.contract.regex import Regex

SOURCE = "claude-code"
_COMMAND = Regex(r"<command-name>\s*(.*?)\s*</command-name>")
_ARGS = Regex(r"<command-args>\s*(.*?)\s*</command-args>")
_OWN = ("<local-command-stdout>", "<local-command-stderr>", "<local-command-caveat>")
_TITLES = {"summary": "summary", "agent-name": "agentName", "custom-title": "customTitle"}
"""Type of a line with a title -> key of the title. If a session has several titles, the last type of this table wins."""


def default_path() -> Path:
    """Return the folder with the sessions."""
    return Path(os.environ.get("CLAUDE_CONFIG_DIR") or "~/.claude").expanduser() / "projects"


def read(path: Path, fault: Callable[[ImportFault], None]) -> Iterator[ForeignSession]:
    """Yield the sessions of a file, or of all files below a folder. Raises ToolcribError if it does not exist."""
    for file in files_below(path, "*.jsonl", ("subagents", "tool-results")):
        found = _session(file, fault)
        if found is not None:
            yield found


def _session(path: Path, fault: Callable[[ImportFault], None]) -> ForeignSession | None:
    turns = Turns()
    titles: dict[str, str] = {}
    about = {"sessionId": "", "cwd": "", "model": ""}
    for number, line in lines_of(path, fault):
        kind = text_in(line.get("type"))
        if kind in _TITLES:
            titles[kind] = text_in(line.get(_TITLES[kind])) or titles.get(kind, "")
        if kind not in ("user", "assistant") or line.get("isSidechain") or line.get("isMeta") or line.get("isCompactSummary"):
            continue
        message = line.get("message")
        if not isinstance(message, dict) or not isinstance(message.get("content"), str | list):
            fault(ImportFault(path, number, f"a line of the type {kind} without a message with content"))
            continue
        for key in ("sessionId", "cwd"):
            about[key] = about[key] or text_in(line.get(key))
        if kind == "user":
            _said(turns, message["content"], time_in(line.get("timestamp")))
        elif message.get("model") != "<synthetic>":
            about["model"] = text_in(message.get("model")) or about["model"]
            _replied(turns, message, time_in(line.get("timestamp")))
    if not turns.spoken:
        return None
    records, times = turns.records()
    title = next((titles[kind] for kind in reversed(_TITLES) if titles.get(kind)), "")
    name = about["sessionId"] or path.stem
    return ForeignSession(SOURCE, name, path, title, about["cwd"], about["model"], records, times)


def _said(turns: Turns, content: str | list[Any], at: float | None) -> None:
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else items_in(content)
    texts, images = [], []
    for block in blocks:
        if block.get("type") == "tool_result":
            text, shown = _result(block.get("content"))
            turns.result(text_in(block.get("tool_use_id")), text, is_error=block.get("is_error") is True, images=shown)
        elif block.get("type") == "text":
            texts.append(_typed(text_in(block.get("text"))))
        elif (image := _image(block)) is not None:
            images.append(image)
    turns.say("\n\n".join(filter(None, texts)), images, at)


def _typed(text: str) -> str:
    """Return the text that a user typed: for a command of Claude Code its name and arguments, "" for a command's output."""
    if text.lstrip().startswith(_OWN):
        return ""
    command = _COMMAND.search(text) if text.lstrip().startswith(("<command-name>", "<command-message>")) else None
    if command is None:
        return text
    args = _ARGS.search(text)
    return f"{command[1]} {args[1]}".strip() if args is not None else command[1]


def _replied(turns: Turns, message: Mapping[str, Any], at: float | None) -> None:
    content = message["content"]
    about = {"key": text_in(message.get("id")), "model": text_in(message.get("model"))}
    for block in [{"type": "text", "text": content}] if isinstance(content, str) else items_in(content):
        if block.get("type") == "text":
            turns.reply(text_in(block.get("text")), at=at, **about)
        elif block.get("type") == "tool_use":
            args = block.get("input")
            given = args if isinstance(args, dict) else {"input": args}
            turns.call(text_in(block.get("id")), text_in(block.get("name")), given, at=at, **about)


def _result(content: object) -> tuple[str, list[Image]]:
    if isinstance(content, str):
        return content, []
    texts = [text_in(block.get("text")) for block in items_in(content) if block.get("type") == "text"]
    images = [image for block in items_in(content) if (image := _image(block)) is not None]
    return "\n".join(texts), images


def _image(block: Mapping[str, Any]) -> Image | None:
    return image_from(mapping_in(block.get("source")).get("data")) if block.get("type") == "image" else None
