"""Samples of other tools' session files. All are invented, based on the public descriptions that the readers
name, so some paths and ids look odd.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
CLAUDE_ID = "3f2a0000-made-4000-8000-000000000001"
CODEX_ID = "019dd8e4-made-7143-95e8-000000000002"


def write_lines(path: Path, lines: Iterable[Mapping[str, Any] | str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return path


# -- Claude Code (made) ------------------------------------------------------------------------------------------------


def claude_line(kind: str, content: Any, second: int = 0, **more: Any) -> dict[str, Any]:
    """Return a line with its envelope. Fields in ``more`` are beside the message, those with the prefix ``message_`` in it."""
    inner = {name.removeprefix("message_"): value for name, value in more.items() if name.startswith("message_")}
    beside = {name: value for name, value in more.items() if not name.startswith("message_")}
    return {
        "type": kind,
        "uuid": f"made-{second}",
        "parentUuid": None,
        "sessionId": CLAUDE_ID,
        "timestamp": f"2026-01-20T11:57:{second:02d}.716Z",
        "cwd": "/home/made/project",
        "version": "2.1.12",
        "gitBranch": "main",
        "isSidechain": False,
        "message": {"role": kind, "content": content, **inner},
        **beside,
    }


def claude_lines() -> list[Any]:
    def reply(block: Mapping[str, Any], second: int, name: str) -> dict[str, Any]:
        usage = {"input_tokens": 12, "output_tokens": 4}
        return claude_line("assistant", [block], second, message_id=name, message_model="claude-made-1", message_usage=usage)

    def returned(call: str, content: Any, second: int, **more: Any) -> dict[str, Any]:
        return claude_line("user", [{"type": "tool_result", "tool_use_id": call, "content": content, **more}], second)

    return [
        {"type": "summary", "summary": "Made: the parser", "leafUuid": "made-9"},
        {"type": "file-history-snapshot", "messageId": "made", "snapshot": {}},
        claude_line("user", "Caveat: made by the tool", 0, isMeta=True),
        claude_line("user", "<command-name>/review</command-name>\n<command-args>the parser</command-args>", 1),
        claude_line("user", "<local-command-stdout>made output</local-command-stdout>", 1),
        claude_line("user", [{"type": "text", "text": "Why does quince_parser fail?"}], 2),
        reply({"type": "thinking", "thinking": "hidden quince", "signature": "made"}, 3, "msg_1"),
        reply({"type": "text", "text": "I will read it."}, 3, "msg_1"),
        reply({"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "/made/a.py"}}, 4, "msg_1"),
        returned("toolu_1", "1\timport quince", 5),
        reply({"type": "tool_use", "id": "toolu_2", "name": "Bash", "input": {"command": "pytest"}}, 5, "msg_1"),
        returned("toolu_2", [{"type": "text", "text": "1 failed"}], 6, is_error=True),
        claude_line("user", "inner question", 6, isSidechain=True),
        "{ this line was torn",
        reply({"type": "text", "text": "It imports a module that is not there."}, 7, "msg_2"),
        claude_line("assistant", [{"type": "text", "text": "API Error"}], 8, message_model="<synthetic>"),
        claude_line("user", "This session is being continued", 8, isCompactSummary=True),
        claude_line(
            "user",
            [
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
                {"type": "text", "text": "Mend it."},
            ],
            9,
        ),
        reply({"type": "tool_use", "id": "toolu_3", "name": "Edit", "input": {"file_path": "a.py"}}, 10, "msg_3"),
    ]  # fmt: skip


# -- Codex (made) ------------------------------------------------------------------------------------------------------


def codex_line(kind: str, payload: Mapping[str, Any], second: int = 0) -> dict[str, Any]:
    return {"timestamp": f"2026-04-29T10:58:{second:02d}.000Z", "type": kind, "payload": dict(payload)}


def codex_message(role: str, text: str, second: int = 0) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return codex_line("response_item", {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}, second)


def codex_lines() -> list[Any]:
    def item(second: int, **payload: Any) -> dict[str, Any]:
        return codex_line("response_item", payload, second)

    arguments = json.dumps({"cmd": "make apricot"})
    return [
        codex_line("session_meta", {"id": CODEX_ID, "cwd": "/home/made/codex", "originator": "codex-tui", "source": "cli"}),
        codex_line("turn_context", {"cwd": "/home/made/codex", "model": "gpt-made", "approval_policy": "never"}),
        codex_message("developer", "<permissions instructions>made</permissions instructions>"),
        codex_message("user", "# AGENTS.md instructions for /home/made\n\nbe good"),
        codex_message("user", "<environment_context>made</environment_context>", 1),
        codex_message("user", "Build the apricot", 2),
        codex_line("event_msg", {"type": "user_message", "message": "Build the apricot"}, 2),
        item(3, type="reasoning", summary=[], encrypted_content="gAAAAmade"),
        codex_message("assistant", "I run make.", 3),
        codex_line("event_msg", {"type": "agent_message", "message": "I run make."}, 3),
        item(3, type="function_call", name="exec_command", arguments=arguments, call_id="call_1"),
        item(4, type="function_call_output", call_id="call_1", output="Process exited with code 0\nOutput:\nripe"),
        item(5, type="custom_tool_call", name="apply_patch", input="*** Begin Patch", call_id="call_2", status="completed"),
        item(6, type="custom_tool_call_output", call_id="call_2", output={"content": "no such file", "success": False}),
        item(6, type="function_call_output", call_id="call_gone", output="of a call that is not there"),
        "[1, 2]",
        item(7, type="web_search_call", status="completed", action={"type": "search", "query": "apricot"}),
        codex_message("assistant", "Built.", 8),
        codex_line("event_msg", {"type": "thread_name_updated", "thread_name": "The apricot build"}, 8),
        codex_line("compacted", {"message": "made summary", "replacement_history": []}, 9),
    ]


def old_codex_lines() -> list[Any]:
    """A file as Codex wrote it before lines had an envelope (made)."""
    return [
        {"id": "5973b6c0-made", "timestamp": "2025-05-07T17:24:21.123Z", "instructions": None},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Old apricot?"}]},
        {"type": "local_shell_call", "call_id": "c", "action": {"type": "exec", "command": ["ls"]}},
        {"type": "function_call_output", "call_id": "c", "output": '{"output":"a.txt","metadata":{"exit_code":0}}'},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]},
    ]


# -- Hermes (made) -----------------------------------------------------------------------------------------------------

Row = Sequence[Any]


def write_hermes(path: Path, *, old: bool = False) -> Path:
    """Make a state.db with three sessions, one of them empty; ``old``: without the later columns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    late, live = ("", "") if old else (", cwd TEXT, title TEXT", ", active INTEGER NOT NULL DEFAULT 1")
    calls = json.dumps([{"id": "call_1", "type": "function", "function": {"name": "web_search", "arguments": '{"q": "medlar"}'}}])
    parts = "\x00json:" + json.dumps(
        [{"type": "text", "text": "and this?"}, {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}]
    )
    rows: list[Row] = [
        ("system", "you are made", None, None, 1.0),
        ("user", "Is the medlar ripe?", None, None, 2.0),
        ("assistant", "", None, calls, 3.0),
        ("tool", '{"found": true}', "call_1", None, 4.0),
        ("assistant", "It is.", None, None, 5.0),
        ("user", parts, None, None, 6.0),
        ("assistant", "", None, "{broken", 7.0),
    ]
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT NOT NULL, user_id TEXT, model TEXT,"
            f" started_at REAL NOT NULL, ended_at REAL, message_count INTEGER DEFAULT 0{late});"
            "CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, role TEXT NOT NULL,"
            f" content TEXT, tool_call_id TEXT, tool_calls TEXT, tool_name TEXT, timestamp REAL NOT NULL{live});"
        )
        for name in ("20260709_made_1", "20260709_made_2", "20260709_empty"):
            connection.execute(
                "INSERT INTO sessions (id, source, model, started_at) VALUES (?, 'cli', 'made/x', 1752000000)", (name,)
            )
        sql = "INSERT INTO messages (session_id, role, content, tool_call_id, tool_calls, timestamp) VALUES (?, ?, ?, ?, ?, ?)"
        for role, content, call_id, made, at in rows:
            connection.execute(sql, ("20260709_made_1", role, content, call_id, made, 1_752_000_000 + at))
        connection.execute(sql, ("20260709_made_2", "user", "Second", None, None, 1_752_000_100))
        if not old:
            connection.execute("UPDATE sessions SET title = 'Medlars', cwd = '/home/made/h' WHERE id = '20260709_made_1'")
            connection.execute(sql, ("20260709_made_1", "user", "taken back", None, None, 1_752_000_050))
            connection.execute("UPDATE messages SET active = 0 WHERE content = 'taken back'")
        connection.commit()
    return path
