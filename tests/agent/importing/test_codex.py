"""Codex's sessions as records."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.importing import codex
from agent.importing.session_files import ForeignSession, ImportFault
from agent.importing.turns import NOT_RECORDED
from tests.agent.importing.samples import CODEX_ID, codex_line, codex_lines, codex_message, old_codex_lines, write_lines


def read(path: Path) -> tuple[list[ForeignSession], list[str]]:
    faults: list[ImportFault] = []
    return list(codex.read(path, faults.append)), [f"{fault.place}: {fault.why}" for fault in faults]


def test_a_session_is_read(tmp_path: Path) -> None:
    write_lines(tmp_path / "2026" / "04" / "29" / f"rollout-2026-04-29T10-58-39-{CODEX_ID}.jsonl", codex_lines())
    write_lines(tmp_path / "session_index.jsonl", codex_lines())
    (found,), faults = read(tmp_path)
    assert (found.name, found.title, found.cwd, found.model) == (CODEX_ID, "The apricot build", "/home/made/codex", "gpt-made")
    said = [(record["role"], record.get("text", "")) for record in found.records]
    assert said == [
        ("user", "Build the apricot"),
        ("assistant", "I run make."),
        ("results", ""),
        ("assistant", ""),
        ("results", ""),
        ("assistant", ""),
        ("results", ""),
        ("assistant", "Built."),
    ]
    calls = [call for record in found.records for call in record.get("calls", ())]
    assert [(call["name"], call["args"]) for call in calls] == [
        ("exec_command", {"cmd": "make apricot"}),
        ("apply_patch", {"input": "*** Begin Patch"}),
        ("web_search", {"type": "search", "query": "apricot"}),
    ]
    results = [result for record in found.records for result in record.get("results", ())]
    assert [(result["text"], result["is_error"]) for result in results] == [
        ("Process exited with code 0\nOutput:\nripe", False),
        ("no such file", True),
        (NOT_RECORDED, True),
    ]
    assert faults == [
        "15: a result of the call 'call_gone', which is missing",
        "16: expected a JSON object, got list",
    ]


def test_an_older_file_is_read(tmp_path: Path) -> None:
    (found,), faults = read(write_lines(tmp_path / "rollout-2025-05-07-5973b6c0-made.jsonl", old_codex_lines()))
    assert (found.name, faults) == ("5973b6c0-made", [])
    assert [record["role"] for record in found.records] == ["user", "assistant", "results", "assistant"]
    assert found.records[1]["calls"][0] == {"id": "c", "name": "local_shell", "args": {"type": "exec", "command": ["ls"]}}


def test_broken_lines_are_named_and_the_rest_is_read(tmp_path: Path) -> None:
    lines = [
        codex_line("session_meta", {"id": 7, "source": {"subagent": "review"}} | {"source": "cli"}),
        {"type": "session_meta"},
        {"type": "response_item", "payload": [1]},
        codex_line("response_item", {"type": "message", "role": "user", "content": None}),
        codex_line("response_item", {"type": "function_call", "name": 5, "arguments": "{half", "call_id": None}),
        codex_line("something_new", {"type": "made"}),
        codex_message("user", "still here"),
        '{"timestamp"',
    ]
    path = write_lines(tmp_path / "rollout-made.jsonl", lines)
    (found,), faults = read(path)
    assert [fault.split(":")[0] for fault in faults] == ["2", "3", "4", "8"]
    assert found.name == "rollout-made"
    assert found.records[0]["calls"] == [{"id": "call_1", "name": "unknown", "args": {"input": "{half"}}]
    assert found.records[-1]["text"] == "still here"


def test_subagents_are_left_out(tmp_path: Path) -> None:
    meta = codex_line("session_meta", {"id": "x", "source": {"subagent": "review"}})
    assert read(write_lines(tmp_path / "rollout-made.jsonl", [meta, codex_message("user", "hi")])) == ([], [])


def test_it_looks_where_the_tool_keeps_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert codex.default_path() == Path.home() / ".codex" / "sessions"
    monkeypatch.setenv("CODEX_HOME", "/made")
    assert codex.default_path() == Path("/made/sessions")
