"""The models that servers offer, over every wire, and for how long the list is cached."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.config import Config, ModelConfig, state_dir
from agent.config._model import FallbackConfig
from agent.model_choice.catalog import (
    FOUND,
    Cache,
    ModelServer,
    Offer,
    ask_servers,
    configured_servers,
    local_servers,
    probe_tools,
)
from agent.providers.endpoint import Endpoint
from agent.providers.factory import ModelTarget
from agent.providers.listing import ModelInfo
from toolcrib.testing import ChatServer

NOWHERE = "http://127.0.0.1:9/v1"


# Time limits are for servers that hang. A test's server answers, so a busy machine may take longer.
AMPLE = 120.0


def ask(
    provider: str,
    base_url: str,
    environ: Mapping[str, str] | None = None,
    *,
    key: str | None = None,
    seconds: float = AMPLE,
    refresh: bool = False,
) -> Offer:
    server = ModelServer("model", ModelTarget(provider, Endpoint(base_url, "", key)))
    (offer,) = asyncio.run(ask_servers([server], environ or {}, seconds=seconds, refresh=refresh))
    return offer


# -- the wires ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "context", "tools"),
    [
        ({}, None, None),
        ({"context_length": 8192, "supported_parameters": ["tools", "seed"]}, 8192, True),
        ({"context_length": 8192, "supported_parameters": ["seed"]}, 8192, False),
        ({"max_model_len": 32768}, 32768, None),
        ({"context_window": 131072}, 131072, None),
        ({"max_context_length": 4096, "capabilities": {"function_calling": False}}, 4096, False),
        ({"meta": {"n_ctx_train": 2048}}, 2048, None),
        ({"context_length": "many", "capabilities": "all", "supported_parameters": None, "meta": 7}, None, None),
        ({"context_length": True}, None, None),
    ],
)
def test_each_server_has_its_own_word(row: dict[str, Any], context: int | None, tools: bool | None, serve: Any) -> None:
    server = serve({"/v1/models": {"data": [{"id": "m", **row}]}})
    assert ask("chat", f"{server.root}/v1").models == (ModelInfo("m", context, tools),)


def test_rows_alone_are_a_list_too(serve: Any) -> None:
    server = serve({"/v1/models": [[{"id": "m", "context_length": 5}]]})
    assert ask("responses", f"{server.root}/v1", {"K": "s3"}, key="K").models == (ModelInfo("m", 5),)


def test_anthropic_by_its_header_and_page_by_page(serve: Any) -> None:
    first = {"data": [{"type": "model", "id": "a", "max_input_tokens": 200000}], "has_more": True, "last_id": "a"}
    server = serve(
        {"/v1/models?limit=1000": first, "/v1/models?limit=1000&after_id=a": {"data": [{"id": "b"}], "has_more": False}}
    )
    found = ask("anthropic", f"{server.root}/v1", {"ANTHROPIC_API_KEY": "s3cret"}, key="ANTHROPIC_API_KEY")
    assert found.models == (ModelInfo("a", 200000), ModelInfo("b"))
    headers = server.asked[0][1]
    assert headers["x-api-key"] == "s3cret"
    assert headers["anthropic-version"]
    assert "authorization" not in headers


def test_gemini_names_those_that_answer(serve: Any) -> None:
    rows = [
        {"name": "models/gemini-x", "inputTokenLimit": 1048576, "supportedGenerationMethods": ["generateContent"]},
        {"name": "models/embedder", "inputTokenLimit": 2048, "supportedGenerationMethods": ["embedContent"]},
    ]
    more = {"models": [{"name": "models/gemini-y"}]}
    server = serve(
        {
            "/v1beta/models?pageSize=1000": {"models": rows, "nextPageToken": "p/2"},
            "/v1beta/models?pageSize=1000&pageToken=p%2F2": more,
        }
    )
    found = ask("gemini", f"{server.root}/v1beta", {"GEMINI_API_KEY": "k"}, key="GEMINI_API_KEY")
    assert found.models == (ModelInfo("gemini-x", 1048576), ModelInfo("gemini-y"))
    assert server.asked[0][1]["x-goog-api-key"] == "k"


def test_ollama_is_asked_for_each_model(serve: Any) -> None:
    """Ollama's list has names only. A smaller context in the model's file takes precedence."""
    shown = {
        "a": {"model_info": {"qwen3.context_length": 40960}, "capabilities": ["completion", "tools"]},
        "b": {"model_info": {"llama.context_length": 8192}, "parameters": "stop  x\nnum_ctx   4096\n", "capabilities": []},
    }
    rows = [{"id": name, "owned_by": "library"} for name in "abc"]
    server = serve({"/v1/models": {"data": rows}, "/api/show": lambda body: shown.get(body["model"], 404)})
    found = ask("chat", f"{server.root}/v1")
    assert found.models == (ModelInfo("a", 40960, True), ModelInfo("b", 4096, False), ModelInfo("c"))


def test_llama_cpp_and_lm_studio_tell_beside_v1(serve: Any) -> None:
    props = {"default_generation_settings": {"n_ctx": 16384}, "chat_template": "{% if tools %}...{% endif %}"}
    server = serve({"/v1/models": {"data": [{"id": "m", "owned_by": "llamacpp"}]}, "/props": props})
    assert ask("chat", f"{server.root}/v1").models == (ModelInfo("m", 16384, True),)
    row = {"id": "m", "max_context_length": 32768, "loaded_context_length": 4096, "capabilities": ["tool_use"]}
    listed = {"data": [{"id": "m", "owned_by": "organization_owner"}]}
    server = serve({"/v1/models": listed, "/api/v0/models": {"data": [row]}})
    assert ask("chat", f"{server.root}/v1").models == (ModelInfo("m", 4096, True),)
    server = serve({"/v1/models": listed})
    assert ask("chat", f"{server.root}/v1").models == (ModelInfo("m"),)


@pytest.mark.parametrize("body", [{}, {"data": None}, {"data": ["m"]}, 7, b"<html>"])
def test_what_is_no_list_is_told(body: Any, serve: Any) -> None:
    server = serve({"/v1/models": [body if body != 7 else 503]})
    found = ask("chat", f"{server.root}/v1")
    assert found.models == ()
    assert "does not list its models" in found.fault or "503" in found.fault


def test_a_server_that_says_nothing_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        found = ask("chat", f"http://127.0.0.1:{silent.getsockname()[1]}/v1", seconds=0.2)
    assert "in 0.2 s" in found.fault
    assert "could not connect" in ask("chat", NOWHERE).fault
    assert "KEY_THERE_IS_NOT" in ask("chat", NOWHERE, key="KEY_THERE_IS_NOT").fault


# -- the hosts ---------------------------------------------------------------------------------------------------------


def servers(model: ModelConfig, environ: Mapping[str, str]) -> list[tuple[str, str, str]]:
    found = configured_servers(replace(Config(path=Path("/x/config.yaml")), model=model), environ)
    return [
        (one.source, one.target.provider if one.target else one.fault, one.endpoint.base_url if one.endpoint else "")
        for one in found
    ]


def test_places_are_the_configured_ones_each_once() -> None:
    assert servers(ModelConfig(), {}) == []
    fallback = (
        FallbackConfig(name="g", provider="gemini"),
        FallbackConfig(name="q", base_url=NOWHERE),
        FallbackConfig("zz", "q"),
    )
    model = ModelConfig(name="q", base_url=NOWHERE, fallback=fallback)
    found = servers(model, {"ANTHROPIC_API_KEY": "a", "GEMINI_API_KEY": "g", "OPENAI_API_KEY": "o"})
    assert [one[:2] for one in found[:2]] == [("model", "chat"), ("model.fallback, entry 1", "gemini")]
    assert found[2][0] == "model.fallback, entry 3"
    assert "unknown provider 'zz'" in found[2][1]
    assert found[3:] == [
        ("OPENAI_API_KEY", "chat", "https://api.openai.com/v1"),
        ("ANTHROPIC_API_KEY", "anthropic", "https://api.anthropic.com/v1"),
    ]


def test_local_servers_are_found_once_and_named_as_such(serve: Any) -> None:
    server = serve({"/v1/models": {"data": [{"id": "m"}]}})
    (found,) = asyncio.run(local_servers([], {server.port: "Ollama", 9: "nothing"}, seconds=AMPLE))
    assert found.source == f"Ollama: {FOUND}"
    named = ModelServer("model", ModelTarget("chat", Endpoint(f"http://localhost:{server.port}/v1")))
    assert asyncio.run(local_servers([named], {server.port: "Ollama"}, seconds=AMPLE)) == []


# -- the cache ---------------------------------------------------------------------------------------------------------


def test_answers_are_remembered_for_an_hour_privately(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve({"/v1/models": {"data": [{"id": "m", "context_length": 9}]}})
    assert ask("chat", f"{server.root}/v1").age == 0
    again = ask("chat", f"{server.root}/v1")
    assert again.models == (ModelInfo("m", 9),)
    assert again.age > 0
    assert len(server.asked) == 1
    file = state_dir() / "models.json"
    assert file.stat().st_mode & 0o777 == 0o600
    assert ask("chat", f"{server.root}/v1", refresh=True).age == 0
    assert len(server.asked) == 2
    entries = json.loads(file.read_text())
    (entry,) = entries.values()
    for at in (entry["at"] - 3601, entry["at"] + 3600, "now"):
        file.write_text(json.dumps({name: {**entry, "at": at} for name in entries}))
        assert ask("chat", f"{server.root}/v1").age == 0


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"OPENAI http://127.0.0.1:9/v1 ": {"at": 1e99, "models": 3}}', '{"x": 3}', "[" * 9999]
)
def test_a_broken_cache_counts_as_empty(text: str, serve: Any) -> None:
    state_dir().mkdir(parents=True, exist_ok=True)
    (state_dir() / "models.json").write_text(text)
    assert Cache().get(ModelTarget("chat", Endpoint(NOWHERE))) is None
    server = serve({"/v1/models": {"data": [{"id": "m"}]}})
    assert ask("chat", f"{server.root}/v1").models
    assert ask("chat", f"{server.root}/v1").age > 0


# -- asking a model itself ---------------------------------------------------------------------------------------------


def test_a_probe_is_one_tiny_request() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "ready", "arguments": "{}"}}
    yes = {"choices": [{"message": {"role": "assistant", "tool_calls": [call]}, "finish_reason": "tool_calls"}]}
    no = {"choices": [{"message": {"role": "assistant", "content": "I am."}, "finish_reason": "stop"}]}
    long = {"choices": [{"message": {"role": "assistant", "content": "Well"}, "finish_reason": "length"}]}
    refused = ChatServer.body({"error": {"message": "m does not support tools"}}, 400)
    with ChatServer(*map(ChatServer.body, (yes, no, long)), refused) as server:
        target = ModelTarget("chat", Endpoint(server.base_url))
        found = [asyncio.run(probe_tools(target, "m", {})) for _ in range(4)]
    assert found == [True, False, None, False]
    assert server.requests[0]["max_tokens"] == 256
    assert server.requests[0]["model"] == "m"
    assert asyncio.run(probe_tools(ModelTarget("text", Endpoint(NOWHERE)), "m", {})) is None
