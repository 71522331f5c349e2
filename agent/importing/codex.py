"""Sessions of Codex: a file of JSON lines for each session, ``~/.codex/sessions/YYYY/MM/DD/rollout-TIME-ID.jsonl``.

The lines are ``RolloutLine`` of Codex's public sources:

- https://github.com/openai/codex/blob/main/codex-rs/protocol/src/protocol.rs (RolloutItem, SessionMeta, TurnContextItem)
- https://github.com/openai/codex/blob/main/codex-rs/protocol/src/models.rs (ResponseItem, ContentItem, FunctionCallOutputPayload)

A line has a ``timestamp``, a ``type`` and a ``payload``: ``session_meta`` (id, cwd), ``turn_context`` (model),
``response_item`` (messages, calls and their outputs), ``event_msg`` and more. In older files the first line is the bare
metadata, and items have no envelope; both are read. The reader skips subagents, the instructions and environment that Codex
sends to the model as messages of the user, reasoning, events that repeat the items, and the summaries of compactions (the
earlier items are in the file too).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from agent.importing.session_files import (
    ForeignSession,
    ImportFault,
    arguments_in,
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

SOURCE = "codex"
_NOT_THEIRS = Regex(
    r"\s*(?:<(?:environment_context|user_instructions|permissions instructions|turn_aborted|collaboration_mode|skills?"
    r"|apps_instructions|plugins_instructions|user_shell_command|subagent_notification)\b|# AGENTS\.md instructions)"
)
"""Beginning of a message that has the user's role but that Codex wrote."""
_ITEMS = frozenset(
    {
        "message",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "local_shell_call",
        "web_search_call",
    }
)


def default_path() -> Path:
    """Return the folder with the sessions."""
    return Path(os.environ.get("CODEX_HOME") or "~/.codex").expanduser() / "sessions"


def read(path: Path, fault: Callable[[ImportFault], None]) -> Iterator[ForeignSession]:
    """Yield the sessions of a file, or of all files below a folder. Raises ToolcribError if it does not exist."""
    for file in files_below(path, "rollout-*.jsonl"):
        found = _Rollout(file, fault).session()
        if found is not None:
            yield found


class _Rollout:
    def __init__(self, path: Path, fault: Callable[[ImportFault], None]) -> None:
        self._path = path
        self._fault = fault
        self._turns = Turns()
        self._name = self._cwd = self._model = self._title = ""
        self._is_subagent = False

    def session(self) -> ForeignSession | None:
        """Return the session in the file, None if it has no message of a user or is a subagent's."""
        for number, line in lines_of(self._path, self._fault):
            kind, payload = text_in(line.get("type")), line.get("payload")
            at = time_in(line.get("timestamp"))
            if kind in _ITEMS or (not kind and isinstance(line.get("id"), str)):  # written by an older Codex
                kind, payload = ("response_item", line) if kind in _ITEMS else ("session_meta", line)
            if not isinstance(payload, dict):
                if kind in ("session_meta", "response_item", "turn_context"):
                    self._fault(ImportFault(self._path, number, f"a line of the type {kind} without a payload"))
                continue
            self._take(number, kind, payload, at)
        if not self._turns.spoken or self._is_subagent:
            return None
        records, times = self._turns.records()
        about = self._title, self._cwd, self._model
        return ForeignSession(SOURCE, self._name or self._path.stem, self._path, *about, records, times)

    def _take(self, number: int, kind: str, payload: Mapping[str, Any], at: float | None) -> None:
        if kind == "session_meta":
            self._name = self._name or text_in(payload.get("id"))
            self._cwd = self._cwd or text_in(payload.get("cwd"))
            self._is_subagent = self._is_subagent or "subagent" in mapping_in(payload.get("source"))
        elif kind == "turn_context":
            self._model = text_in(payload.get("model")) or self._model
            self._cwd = self._cwd or text_in(payload.get("cwd"))
        elif kind == "event_msg" and payload.get("type") == "thread_name_updated":
            self._title = text_in(payload.get("thread_name")) or self._title
        elif kind == "response_item":
            self._item(number, payload, at)

    def _item(self, number: int, item: Mapping[str, Any], at: float | None) -> None:
        call_id, model = text_in(item.get("call_id")), self._model
        match item.get("type"):
            case "message":
                self._message(number, item, at)
            case "function_call":
                self._turns.call(call_id, text_in(item.get("name")), arguments_in(item.get("arguments")), model=model, at=at)
            case "custom_tool_call":
                self._turns.call(call_id, text_in(item.get("name")), {"input": item.get("input")}, model=model, at=at)
            case "local_shell_call":
                given = mapping_in(item.get("action"))
                self._turns.call(call_id or text_in(item.get("id")), "local_shell", given, model=model, at=at)
            case "web_search_call":
                self._turns.call("", "web_search", mapping_in(item.get("action")), model=model, at=at)
                self._turns.end_reply()  # the server searched, and no item has its results
            case "function_call_output" | "custom_tool_call_output":
                text, images, is_error = _output(item.get("output"))
                if not self._turns.result(call_id, text, is_error=is_error, images=images):
                    self._fault(ImportFault(self._path, number, f"a result of the call {call_id[:80]!r}, which is missing"))

    def _message(self, number: int, item: Mapping[str, Any], at: float | None) -> None:
        content = item.get("content")
        if not isinstance(content, str | list):
            self._fault(ImportFault(self._path, number, "a message without content"))
            return
        text, images = _told(content)
        if item.get("role") == "assistant":
            self._turns.reply(text, model=self._model, at=at)
        elif item.get("role") == "user" and not _NOT_THEIRS.match(text):
            self._turns.say(text, images, at)


def _told(content: object) -> tuple[str, list[Image]]:
    if isinstance(content, str):
        return content, []
    parts = items_in(content)
    images = [image for part in parts if (image := image_from(part.get("image_url"))) is not None]
    return "\n\n".join(filter(None, (text_in(part.get("text")) for part in parts))), images


def _output(output: object) -> tuple[str, list[Image], bool]:
    """Return (text, pictures, whether the call failed) from a call's output.

    The output is a text, a list of parts, or an object with one of these as ``content``, and ``success``.
    """
    if isinstance(output, dict):
        return *_told(output.get("content")), output.get("success") is False
    return *_told(output), False
