"""The example provider: a plugin adds a fifth wire, which drives tools through the unchanged loop."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.api import Agent
from agent.config import config_path
from agent.conversation.limits import RunLimits
from agent.events import Event, ToolFinished
from agent.model_choice.retry import RetryPolicy
from toolcrib import ConfigError, Overloaded, StreamBroken
from toolcrib.testing import ChatServer, Response


@pytest.fixture(autouse=True)
def plugin(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The example in the person's plugin folder, enabled."""
    folder = config_path().parent / "plugins"
    folder.mkdir(parents=True)
    shutil.copytree(
        root / "examples" / "hello-provider" / "hello_provider",
        folder / "hello_provider",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    monkeypatch.syspath_prepend(str(folder))
    yield
    for name in [name for name in sys.modules if name.startswith("hello_provider")]:
        del sys.modules[name]


def configure(**model: Any) -> None:
    settings = {"plugins": {"enabled": ["hello_provider"]}, "model": {"provider": "ollama", **model}}
    config_path().write_text(json.dumps(settings))


def lines(*pieces: dict[str, Any], **how: Any) -> Response:
    body = "".join(json.dumps({"model": "q:7b", **piece}) + "\n" for piece in pieces)
    return Response(body.encode(), content_type="application/x-ndjson", **how)


def says(text: str, **more: Any) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": text}, **more}


CALL = {"function": {"name": "read_file", "arguments": {"path": "a.txt"}}}
DONE = {"done": True, "done_reason": "stop", "prompt_eval_count": 9, "eval_count": 4}


def test_004_22_a_fifth_provider_touches_no_engine_code(tmp_path: Path) -> None:
    """004-22, X-2: with the hook alone: a call, its result, an answer; then another process resumes the conversation."""
    (tmp_path / "a.txt").write_text("forty-two\n")
    calls = {"message": {"role": "assistant", "content": "", "thinking": "hm", "tool_calls": [CALL]}}
    events: list[Event] = []
    with ChatServer(
        lines(calls, says("", **DONE)), lines(says("It says "), says("forty-two.", **DONE), pieces=7), lines(says("Yes.", **DONE))
    ) as server:
        configure(name="q", base_url=server.base_url, api_key_env="MY_KEY")
        (config_path().parent / "secrets.env").write_text("MY_KEY=very-secret\n")
        (config_path().parent / "secrets.env").chmod(0o600)
        with Agent(project_dir=tmp_path, on_event=events.append) as agent:
            reply = agent.ask("What is in a.txt?")
            identity = agent.session.identity.session_id
        with Agent(project_dir=tmp_path, resume=identity) as agent:
            assert agent.ask("Sure?").text == "Yes."
        sent, headers = server.requests, server.headers
        assert server.paths == ["/v1/api/chat"] * 3
    assert (reply.text, reply.usage) == ("It says forty-two.", {"input": 18, "output": 8})
    assert [event.executed.result.is_success for event in events if isinstance(event, ToolFinished)] == [True]
    assert headers[0]["authorization"] == "Bearer very-secret"
    assert [one["role"] for one in sent[1]["messages"]] == ["system", "user", "assistant", "tool"]
    assert sent[1]["messages"][2]["tool_calls"] == [CALL]
    assert "forty-two" in sent[1]["messages"][3]["content"]
    assert {tool["function"]["name"] for tool in sent[0]["tools"]} >= {"read_file", "terminal"}
    assert [one["role"] for one in sent[2]["messages"]] == ["system", "user", "assistant", "tool", "assistant", "user"]


@pytest.mark.parametrize(
    ("response", "kind"),
    [
        (lines({"error": "out of memory"}), Overloaded),
        (lines(says("half")), StreamBroken),
        (Response(b"<html>"), StreamBroken),
        (Response(b"busy", 503), Overloaded),
    ],
)
def test_its_failures_are_provider_errors(response: Response, kind: type[Exception], tmp_path: Path) -> None:
    with ChatServer(response) as server:
        configure(name="q", base_url=server.base_url)
        limits = RunLimits(retry=RetryPolicy(attempts=1))
        with Agent(project_dir=tmp_path, limits=limits) as agent, pytest.raises(kind):
            agent.ask("hi")


@pytest.mark.parametrize("reason", ["load", "filtered", ""])
def test_no_call_runs_after_an_end_that_it_does_not_know(tmp_path: Path, reason: str) -> None:
    (tmp_path / "a.txt").write_text("forty-two\n")
    calls = {"message": {"role": "assistant", "content": "", "tool_calls": [CALL]}}
    with ChatServer(lines(calls, {**DONE, "done_reason": reason}), lines(says("Well.", **DONE))) as server:
        configure(base_url=server.base_url, name="q")
        with Agent(project_dir=tmp_path) as agent:
            assert agent.ask("go").text == "Well."
        sent = json.dumps(server.requests[1])
    assert "none of its calls was run" in sent
    assert "forty-two" not in sent


def test_without_a_model_it_says_what_to_do(tmp_path: Path) -> None:
    configure()
    with Agent(project_dir=tmp_path) as agent, pytest.raises(ConfigError, match="--model NAME"):
        agent.ask("hi")


def test_not_enabled_there_is_no_such_provider(tmp_path: Path) -> None:
    config_path().write_text("model: {provider: ollama, name: q}\n")
    with Agent(project_dir=tmp_path) as agent, pytest.raises(ConfigError, match=r"unknown provider 'ollama'.*enabled"):
        agent.ask("hi")
