"""The cases of `scripts/soak llama`, on a scripted server: which replies they accept, and what they report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fuzz import llama_runs
from toolcrib.testing import ChatServer, Response

pytestmark = pytest.mark.full  # each case starts the program

HELLO = "Hello for ever and ever, and once more. "
IN_TEXT = '<tool_call>{"name": "read_file", "arguments": {"path": "note.txt"}}</tool_call>'


def endless(times: int = 40_000) -> Response:
    chunk: dict[str, Any] = {"choices": [{"index": 0, "delta": {"content": HELLO}, "finish_reason": None}]}
    return ChatServer.stream(*[chunk] * times)


def tried(case: str, *replies: Response) -> int:
    with ChatServer(*replies) as server:
        return llama_runs.main(["--base-url", server.base_url, "--model", "test-model", "--case", case])


@pytest.mark.parametrize("call_style", ["chat", "text, hermes", "text, qwen_xml", "text, json_object"])
def test_an_answer_without_tools_is_right(call_style: str, capsys: pytest.CaptureFixture[str]) -> None:
    answer = '{"final": {"content": "It is Paris."}}' if "json" in call_style else "It is Paris."
    assert tried(f"{call_style}, without tools", ChatServer.text(answer)) == 0
    assert "'It is Paris.'" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("case", "call"),
    [
        ("chat, with tools", ChatServer.calls(("read_file", {"path": "note.txt"}))),
        ("text, hermes, with tools", ChatServer.text(IN_TEXT)),
    ],
)
def test_a_call_is_run(case: str, call: Response, capsys: pytest.CaptureFixture[str]) -> None:
    assert tried(case, call, ChatServer.text("At seven.")) == 0
    assert "read_file succeeded, 'At seven.'" in capsys.readouterr().out


@pytest.mark.parametrize("case", ["chat, an endless reply", "text, an endless reply"])
def test_an_endless_reply_is_right_only_if_it_is_stopped(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert tried(case, endless(), ChatServer.text("It is Paris.")) == 0
    assert "stopped after" in capsys.readouterr().out
    assert tried(case, ChatServer.text(HELLO)) == 1
    assert "FAILED" in capsys.readouterr().out


def test_a_model_that_can_not_follow_its_protocol_ends_without_progress(capsys: pytest.CaptureFixture[str]) -> None:
    assert tried("text, json_object, without tools", *[ChatServer.text("It is Paris.")] * 9) == 0
    assert "exit 1" in (printed := capsys.readouterr().out)
    assert "NoProgress" in printed


def test_a_server_that_fails_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    refused = ChatServer.body({"error": {"message": "broken on purpose"}}, 400)
    assert tried("chat, without tools", refused) == 1
    printed = capsys.readouterr().out
    assert "broken on purpose" in printed
    assert "0 of 1 cases are right" in printed


def test_an_environment_that_can_not_be_made_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TOOLCRIB_LLAMA_VENV", str(tmp_path / "file" / "venv"))
    assert llama_runs.main([]) == 1
    assert "can't be installed" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
