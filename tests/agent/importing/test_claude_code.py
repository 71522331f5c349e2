"""Claude Code's sessions as records."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.importing import claude_code
from agent.importing.session_files import ForeignSession, ImportFault
from agent.importing.turns import NOT_RECORDED
from tests.agent.importing.samples import CLAUDE_ID, claude_line, claude_lines, write_lines
from toolcrib import ToolcribError


def read(path: Path) -> tuple[list[ForeignSession], list[str]]:
    faults: list[ImportFault] = []
    return list(claude_code.read(path, faults.append)), [str(fault).removeprefix(f"{path}/") for fault in faults]


def test_a_session_is_read(tmp_path: Path) -> None:
    write_lines(tmp_path / "-home-made-project" / f"{CLAUDE_ID}.jsonl", claude_lines())
    (found,), faults = read(tmp_path)
    assert (found.name, found.title, found.cwd, found.model) == (
        CLAUDE_ID,
        "Made: the parser",
        "/home/made/project",
        "claude-made-1",
    )
    said = [(record["role"], record.get("text", "")) for record in found.records]
    assert said == [
        ("user", "/review the parser"),
        ("user", "Why does quince_parser fail?"),
        ("assistant", "I will read it."),
        ("results", ""),
        ("assistant", "It imports a module that is not there."),
        ("user", "Mend it."),
        ("assistant", ""),
        ("results", ""),
    ]
    assert [call["name"] for call in found.records[2]["calls"]] == ["Read", "Bash"]
    assert found.records[2]["calls"][0]["args"] == {"file_path": "/made/a.py"}
    first, second = found.records[3]["results"]
    assert (first["call_id"], first["text"], first["is_error"]) == ("toolu_1", "1\timport quince", False)
    assert (second["call_id"], second["text"], second["is_error"]) == ("toolu_2", "1 failed", True)
    assert found.records[5]["images"][0]["media_type"] == "image/png"
    assert faults == [
        f"-home-made-project/{CLAUDE_ID}.jsonl:14: not valid JSON: Expecting property name enclosed in double quotes at column 3"
    ]
    assert found.ended - found.began == pytest.approx(9.0)


def test_a_call_without_a_result_gets_one(tmp_path: Path) -> None:
    """X-1"""
    (found,), _ = read(write_lines(tmp_path / "a.jsonl", claude_lines()))
    (result,) = found.records[-1]["results"]
    assert (result["call_id"], result["text"], result["is_error"]) == ("toolu_3", NOT_RECORDED, True)
    assert "not recorded" in NOT_RECORDED


def test_broken_lines_are_named_and_the_rest_is_read(tmp_path: Path) -> None:
    lines = [
        "not JSON",
        "[]",
        '{"type": "user"}',
        {"type": "user", "message": {"role": "user", "content": 7}},
        "",
        "[" * 100_000,
        claude_line("user", "still here", 3, timestamp="yesterday"),
        {"type": "assistant", "message": {"content": [{"type": "tool_use", "id": 5, "input": "x"}, "odd", {"type": "text"}]}},
        '{"type": "assistant", "message": {"content": "torn',
    ]
    (found,), faults = read(write_lines(tmp_path / "a.jsonl", lines))
    assert [fault.split(": ")[0].rpartition(":")[2] for fault in faults] == ["1", "2", "3", "4", "6", "9"]
    assert found.records[0]["text"] == "still here"
    assert found.records[1]["calls"] == [{"id": "call_1", "name": "unknown", "args": {"input": "x"}}]


def test_what_is_no_session_is_none(tmp_path: Path) -> None:
    write_lines(tmp_path / "empty.jsonl", [{"type": "summary", "summary": "only a title"}])
    write_lines(tmp_path / "a" / "subagents" / "agent-1.jsonl", [claude_line("user", "of a subagent")])
    write_lines(tmp_path / "a" / "notes.txt", ["{}"])
    assert read(tmp_path) == ([], [])
    with pytest.raises(ToolcribError, match="nowhere does not exist; give the file or folder"):
        read(tmp_path / "nowhere")


def test_a_title_of_the_persons_goes_before(tmp_path: Path) -> None:
    titled = [{"type": "custom-title", "customTitle": "Mine", "sessionId": CLAUDE_ID}, *claude_lines()]
    (found,), _ = read(write_lines(tmp_path / "a.jsonl", titled))
    assert found.title == "Mine"


def test_it_looks_where_the_tool_keeps_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert claude_code.default_path() == Path.home() / ".claude" / "projects"
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", "/made")
    assert claude_code.default_path() == Path("/made/projects")
