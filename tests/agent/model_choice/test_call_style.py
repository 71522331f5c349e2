"""Tests of the call style that a server reports for its model: native calls, or text with a protocol (000-14)."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import agent.model_choice.call_style
from agent.api import Agent
from agent.config import config_path, state_dir
from agent.model_choice.call_style import Calling, choose_calling, is_hosted
from agent.providers.endpoint import Endpoint
from agent.providers.factory import ModelTarget
from toolcrib.testing import ChatServer, Response

HERMES = '<tool_call>{"name": "read_file", "arguments": {"path": "a.txt"}}</tool_call>'
NO_TOOLS = {"capabilities": ["completion"], "template": "{{ .Prompt }}<tool_call>", "model_info": {"x.context_length": 4096}}
UNABLE = {"supports_tools": False, "supports_tool_calls": False}


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time limit is for servers that hang. A test's server answers, so a busy machine may take longer."""
    monkeypatch.setattr(agent.model_choice.call_style, "SECONDS", 120.0)


def ollama(shown: Any, *responses: Response, name: str = "m:8b", owner: str = "library") -> ChatServer:
    listed = {"object": "list", "data": [{"id": name, "object": "model", "owned_by": owner}]}
    return ChatServer(*responses, answers={"/v1/models": listed, "/api/show": shown})


def llama_cpp(props: Any, *responses: Response) -> ChatServer:
    listed = {"object": "list", "data": [{"id": "m", "object": "model", "owned_by": "llamacpp"}]}
    return ChatServer(*responses, answers={"/v1/models": listed, "/props": props})


def choose(
    base_url: str,
    provider: str = "chat",
    model: str = "m:8b",
    configured: str = "",
    environ: Mapping[str, str] | None = None,
    key: str | None = None,
) -> Calling:
    target = ModelTarget(provider, Endpoint(base_url, model, key))
    return asyncio.run(choose_calling(target, configured, environ or {}))


def wire_and_protocol(calling: Calling) -> tuple[str, str]:
    return calling.target.provider, calling.protocol


@contextmanager
def talking(tmp_path: Path, **model: Any) -> Iterator[Agent]:
    path = config_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"model": model}))
    with Agent(project_dir=tmp_path) as agent:
        yield agent


# -- the choice --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shown", "provider", "configured", "expected"),
    [
        ({"capabilities": ["tools"], "template": "[TOOL_CALLS]"}, "chat", "", ("chat", "")),
        ({"capabilities": ["tools"], "template": "[TOOL_CALLS]"}, "chat", "glm", ("chat", "")),
        ({"capabilities": ["tools"], "template": "[TOOL_CALLS]"}, "text", "", ("text", "mistral")),
        ({"capabilities": ["tools"], "template": "[TOOL_CALLS]"}, "text", "glm", ("text", "glm")),
        (NO_TOOLS, "chat", "", ("text", "hermes")),
        (NO_TOOLS, "chat", "glm", ("text", "glm")),
        ({"capabilities": []}, "chat", "", ("text", "auto")),
        ({}, "chat", "", ("chat", "")),
        ({}, "text", "", ("text", "auto")),
        ({"capabilities": "all", "template": 7}, "chat", "", ("chat", "")),
        (ChatServer.body({}, 404), "chat", "", ("chat", "")),
        (Response(b"<html>"), "chat", "", ("chat", "")),
    ],
)
def test_000_14_the_order_of_the_choice(shown: Any, provider: str, configured: str, expected: tuple[str, str]) -> None:
    """000-14: the configuration decides, then native unless the server has none, then the template, then the name, then auto."""
    with ollama(shown) as server:
        assert wire_and_protocol(choose(server.base_url, provider, configured=configured)) == expected


def test_the_name_tells_where_the_template_does_not() -> None:
    with ollama({"capabilities": [], "template": "{{ .Prompt }}"}, name="kimi-k2:1t") as server:
        found = choose(server.base_url, model="kimi-k2:1t")
    assert wire_and_protocol(found) == ("text", "kimi")
    assert "its name shows" in found.why


@pytest.mark.parametrize(
    ("props", "expected"),
    [
        ({"chat_template": "{{ tools }}[TOOL_CALLS]"}, ("chat", "")),
        ({"chat_template": "<start_of_turn>"}, ("text", "gemma")),
        ({"chat_template": "<arg_key>", "chat_template_caps": UNABLE}, ("text", "glm")),
        ({"chat_template": "{{ tools }}", "chat_template_caps": {"supports_tool_calls": True}}, ("chat", "")),
        ({"chat_template": "x", "chat_template_caps": {"supports_tools": True, "supports_tool_calls": False}}, ("chat", "")),
        ({"chat_template": "x", "chat_template_tool_use": "<arg_key>", "chat_template_caps": UNABLE}, ("text", "glm")),
        ({"chat_template": "", "default_generation_settings": None}, ("chat", "")),
        ([], ("chat", "")),
    ],
)  # fmt: skip
def test_llama_cpp_by_its_template_and_caps(props: Any, expected: tuple[str, str]) -> None:
    """The server accepts any name, so the listed name may differ. The request loads no model."""
    with llama_cpp(props) as server:
        assert wire_and_protocol(choose(server.base_url, model="any name")) == expected
        assert [path for path, _, _ in server.asides] == ["/v1/models", "/props?model=any%20name&autoload=false"]


def test_lm_studio_makes_calls_of_any_models_text() -> None:
    """A model that was not trained on tools gets them natively: the server has its own prompt and parser."""
    rows = {"data": [{"id": "m:8b", "owned_by": "organization_owner"}]}
    with ChatServer(answers={"/v1/models": rows, "/api/v0/models": {"data": [{"id": "m:8b", "capabilities": []}]}}) as server:
        assert wire_and_protocol(choose(server.base_url)) == ("chat", "")
        assert len(server.asides) == 2


def test_a_model_of_another_namespace_is_ollamas_too() -> None:
    with ollama(NO_TOOLS, owner="somebody") as server:
        assert wire_and_protocol(choose(server.base_url)) == ("text", "hermes")


def test_other_wires_and_vendors_are_not_asked() -> None:
    with ollama(NO_TOOLS) as server:
        for provider in ("responses", "anthropic", "gemini"):
            assert wire_and_protocol(choose(server.base_url, provider)) == (provider, "")
        assert wire_and_protocol(choose(server.base_url, "text", configured="glm")) == ("text", "glm")
        assert server.asides == []
    for url in ("https://api.openai.com/v1", "https://openrouter.ai/api/v1", "https://API.Groq.com./openai/v1"):
        assert is_hosted(Endpoint(url))
    for url in ("http://127.0.0.1:8080/v1", "http://box.lan/v1", "https://llm.example.org/v1", "https://notopenai.com/v1"):
        assert not is_hosted(Endpoint(url))


# -- the requests ------------------------------------------------------------------------------------------------------


def test_it_is_asked_once_an_hour_for_each_model_by_its_own_key() -> None:
    with ollama(NO_TOOLS) as server:
        for _ in range(2):
            assert wire_and_protocol(choose(server.base_url, environ={"K": "s3cret"}, key="K")) == ("text", "hermes")
        assert [path for path, _, _ in server.asides] == ["/v1/models", "/api/show"]
        assert {headers["authorization"] for _, headers, _ in server.asides} == {"Bearer s3cret"}
        choose(server.base_url, model="other:8b", environ={"K": "s3cret"}, key="K")
        assert server.asides[-1][2] == {"model": "other:8b"}
        choose(server.base_url)
        assert len(server.asides) == 6
        assert "authorization" not in server.asides[-1][1]
    file = state_dir() / "models.json"
    assert "s3cret" not in file.read_text()
    file.write_text("[")
    assert wire_and_protocol(choose(server.base_url)) == ("chat", "")


def test_what_models_lists_is_known_and_refreshed() -> None:
    from agent.model_choice.catalog import ModelServer, ask_servers

    with ollama(NO_TOOLS) as server:
        named = ModelServer("model", ModelTarget("chat", Endpoint(server.base_url)))
        asyncio.run(ask_servers([named], {}))
        assert wire_and_protocol(choose(server.base_url)) == ("text", "hermes")
        assert len(server.asides) == 2
        choose(server.base_url, model="other:8b")
        server.answers["/api/show"] = {"capabilities": ["tools"]}
        assert wire_and_protocol(choose(server.base_url, model="other:8b")) == ("text", "hermes")
        asyncio.run(ask_servers([named], {}, refresh=True))
        assert wire_and_protocol(choose(server.base_url)) == ("chat", "")
        assert wire_and_protocol(choose(server.base_url, model="other:8b")) == ("chat", "")


def test_one_that_does_not_answer_changes_nothing_and_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent.model_choice.call_style, "SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert wire_and_protocol(choose(f"http://127.0.0.1:{silent.getsockname()[1]}/v1")) == ("chat", "")
    assert wire_and_protocol(choose("http://127.0.0.1:9/v1", "text", "kimi-k2")) == ("text", "kimi")
    assert not (state_dir() / "models.json").exists()
    with ollama(Response(b"{}", delay=30)) as server:
        assert wire_and_protocol(choose(server.base_url)) == ("chat", "")
        server.answers["/api/show"] = NO_TOOLS
        monkeypatch.setattr(agent.model_choice.call_style, "SECONDS", 120.0)
        assert wire_and_protocol(choose(server.base_url)) == ("text", "hermes")


# -- where conversations are opened ------------------------------------------------------------------------------------


def test_000_14_a_conversation_goes_in_text_where_the_server_has_no_native_calls(tmp_path: Path) -> None:
    """000-14: requests have no tools field, and the protocol defines prompt and parser, also after a resume."""
    (tmp_path / "a.txt").write_text("one\n")
    with (
        ollama(NO_TOOLS, ChatServer.text(HERMES), ChatServer.text("It is one.")) as server,
        talking(tmp_path, name="m:8b", base_url=server.base_url) as agent,
    ):
        assert agent.ask("read a.txt").text == "It is one."
        first, second = server.requests
        assert all("tools" not in sent for sent in server.requests)
    assert "<tools>" in first["messages"][0]["content"]
    assert second["messages"][2] == {"role": "assistant", "content": HERMES}
    assert "one" in second["messages"][3]["content"]


@pytest.mark.parametrize("named", [{}, {"model": "m:8b"}, {"model": "gpt-5"}])
@pytest.mark.parametrize("configured", [{}, {"name": "m:8b"}, {"base_url": "http://127.0.0.1:1/v1", "name": "other"}])
def test_text_stays_text_whatever_server_is_named(
    tmp_path: Path, named: dict[str, str], configured: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """000-14: how the model calls is the person's choice, even if the server supports another way."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-this-server")
    path = config_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"model": {"provider": "text", **configured}}))
    able = {"capabilities": ["tools"], "template": "<tool_call>"}
    with (
        ollama(able, ChatServer.text("Hi.")) as server,
        Agent(project_dir=tmp_path, base_url=server.base_url, **named) as agent,
    ):
        assert agent.ask("hello").text == "Hi."
        assert "tools" not in server.requests[0]
        assert agent.session.via["provider"] == "text"


def test_native_stays_native(tmp_path: Path) -> None:
    with (
        ollama({"capabilities": ["tools"], "template": "<tool_call>"}, ChatServer.text("Hi.")) as server,
        talking(tmp_path, name="m:8b", base_url=server.base_url) as agent,
    ):
        assert agent.ask("hello").text == "Hi."
        assert server.requests[0]["tools"]


def test_the_template_tells_what_the_provider_text_speaks(tmp_path: Path) -> None:
    reply = '[TOOL_CALLS]read_file[ARGS]{"path": "a.txt"}'
    (tmp_path / "a.txt").write_text("one\n")
    with (
        llama_cpp({"chat_template": "{{ tools }}[TOOL_CALLS]"}, ChatServer.text(reply), ChatServer.text("One.")) as server,
        talking(tmp_path, provider="text", base_url=server.base_url) as agent,
    ):
        assert agent.ask("read a.txt").text == "One."
        assert len(server.requests) == 2
