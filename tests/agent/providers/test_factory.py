"""The choice of provider, server and key; and that each provider is created with everything it needs."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
from collections.abc import Mapping
from typing import Any

import pytest

from agent.providers import Endpoint
from agent.providers.factory import (
    ModelRequest as Wanted,
)
from agent.providers.factory import ModelTarget, ProviderOpening, check_name, find_target, open_session
from agent.providers.rows import PROVIDERS, load, wire_of
from toolcrib import ConfigError
from toolcrib.testing import ScriptedSession

K = {"OPENAI_API_KEY": "ok"}
A = {"ANTHROPIC_API_KEY": "ak"}
G = {"GEMINI_API_KEY": "gk"}
OWN = {"OPENAI_BASE_URL": "https://own.example/v1"}
ANTHROPIC = "https://api.anthropic.com/v1"
GEMINI = "https://generativelanguage.googleapis.com/v1beta"
OPENAI = "https://api.openai.com/v1"
LOCAL = "http://127.0.0.1:1/v1"
PROXY = "https://p.example"
EVIL = "https://api.anthropic.com.evil.example/v1"
NOTHING = Wanted()


@pytest.mark.parametrize(
    ("wanted", "configured", "environ", "found"),
    [
        (NOTHING, NOTHING, K | A | G, ("manual",)),
        # an explicit provider
        (Wanted("manual", "x", LOCAL), NOTHING, K, ("manual",)),
        (Wanted("gemini", "x"), NOTHING, K | G, ("gemini", GEMINI, "x", "GEMINI_API_KEY")),
        (Wanted("gemini", "x"), NOTHING, {"GOOGLE_API_KEY": "k"}, ("gemini", GEMINI, "x", "GOOGLE_API_KEY")),
        (Wanted("responses", "x"), NOTHING, K, ("responses", OPENAI, "x", "OPENAI_API_KEY")),
        (Wanted("responses"), NOTHING, K | OWN, ("responses", "https://own.example/v1", "", "OPENAI_API_KEY")),
        (Wanted("anthropic", "x", "https://p.example"), NOTHING, A, ("anthropic", "https://p.example/v1", "x", None)),
        (Wanted("anthropic", "x", PROXY, "MINE"), NOTHING, {"MINE": "k"}, ("anthropic", f"{PROXY}/v1", "x", "MINE")),
        # the server's host
        (Wanted("", "x", ANTHROPIC), NOTHING, K | A, ("anthropic", ANTHROPIC, "x", "ANTHROPIC_API_KEY")),
        (Wanted("", "x", "https://generativelanguage.googleapis.com"), NOTHING, G, ("gemini", GEMINI, "x", "GEMINI_API_KEY")),
        (Wanted("", "x", OPENAI), NOTHING, K, ("chat", OPENAI, "x", "OPENAI_API_KEY")),
        (Wanted("", "claude-x", LOCAL), NOTHING, A, ("chat", LOCAL, "claude-x", None)),
        (Wanted("", "x", EVIL), NOTHING, A, ("chat", EVIL, "x", None)),
        (
            Wanted("", "x", "https://proxy.example/a/v1"),
            NOTHING,
            A | {"ANTHROPIC_BASE_URL": "https://proxy.example/a"},
            ("anthropic", "https://proxy.example/a/v1", "x", "ANTHROPIC_API_KEY"),
        ),
        # the model's name, if that vendor's key is set and no server is named
        (Wanted("", "claude-x"), NOTHING, K | A, ("anthropic", ANTHROPIC, "claude-x", "ANTHROPIC_API_KEY")),
        (Wanted("", "gemini-x"), NOTHING, K | G, ("gemini", GEMINI, "gemini-x", "GEMINI_API_KEY")),
        (Wanted("", "gpt-x"), NOTHING, K | A, ("chat", OPENAI, "gpt-x", "OPENAI_API_KEY")),
        (Wanted("", "claude-x"), NOTHING, K, ("chat", OPENAI, "claude-x", "OPENAI_API_KEY")),
        (Wanted("", "claude-x"), NOTHING, K | A | OWN, ("chat", "https://own.example/v1", "claude-x", "OPENAI_API_KEY")),
        (NOTHING, Wanted("", "claude-x"), A, ("anthropic", ANTHROPIC, "claude-x", "ANTHROPIC_API_KEY")),
        # the configuration
        (NOTHING, Wanted("anthropic", "c", ANTHROPIC, "MINE"), K | OWN | {"MINE": "k"}, ("anthropic", ANTHROPIC, "c", "MINE")),
        (NOTHING, Wanted("gemini", "c", "", "MINE"), {"MINE": "k"}, ("gemini", GEMINI, "c", "MINE")),
        (NOTHING, Wanted("", "c", ANTHROPIC), A, ("anthropic", ANTHROPIC, "c", "ANTHROPIC_API_KEY")),
        (NOTHING, Wanted("manual", "c", LOCAL), K, ("manual",)),
        (Wanted("", "x"), Wanted("manual", "c", LOCAL), {}, ("chat", LOCAL, "x", None)),
        (Wanted("", "x"), Wanted("text", "c", LOCAL), {}, ("text", LOCAL, "x", None)),
        (Wanted("", "", LOCAL), Wanted("text", "c", LOCAL), {}, ("text", LOCAL, "c", None)),
        # text stays text for every server and model that would use chat
        (Wanted("", "x", LOCAL), Wanted("text"), {}, ("text", LOCAL, "x", None)),
        (Wanted("", "x", f"{PROXY}/v1"), Wanted("text", "c", LOCAL, "MINE"), {"MINE": "k"}, ("text", f"{PROXY}/v1", "x", None)),
        (Wanted("", "gpt-x"), Wanted("text", "c"), K, ("text", OPENAI, "gpt-x", "OPENAI_API_KEY")),
        (Wanted("", "x", ANTHROPIC), Wanted("text", "c"), A, ("anthropic", ANTHROPIC, "x", "ANTHROPIC_API_KEY")),
        (Wanted("", "claude-x"), Wanted("text", "c"), K | A, ("anthropic", ANTHROPIC, "claude-x", "ANTHROPIC_API_KEY")),
        (Wanted("", "claude-x"), Wanted("gemini", "c"), A | G, ("anthropic", ANTHROPIC, "claude-x", "ANTHROPIC_API_KEY")),
        (Wanted("", "claude-x"), Wanted("gemini", "c", f"{PROXY}/v1"), A | G, ("gemini", f"{PROXY}/v1", "claude-x", None)),
        # a configured provider stays if another server is named, unless that server is known to be another vendor's
        (Wanted("", "", LOCAL), Wanted("anthropic", "c"), {}, ("anthropic", LOCAL, "c", None)),
        (Wanted("", "x", f"{PROXY}/v1"), Wanted("anthropic", "c", ANTHROPIC), A, ("anthropic", f"{PROXY}/v1", "x", None)),
        (Wanted("", "x", LOCAL), Wanted("responses", "c"), K, ("responses", LOCAL, "x", None)),
        (Wanted("", "x", LOCAL), Wanted("hello"), K, ("hello", LOCAL, "x", None)),
        (Wanted("", "x", LOCAL), Wanted("gemini", "c", PROXY), {"GEMINI_BASE_URL": PROXY}, ("gemini", LOCAL, "x", None)),
        (Wanted("", "x", OPENAI), Wanted("anthropic", "c"), K | A, ("chat", OPENAI, "x", "OPENAI_API_KEY")),
        (Wanted("", "x", OPENAI), Wanted("responses", "c"), K, ("responses", OPENAI, "x", "OPENAI_API_KEY")),
        (Wanted("", "x", OPENAI), Wanted("hello"), K, ("chat", OPENAI, "x", "OPENAI_API_KEY")),
        (Wanted("", "x", ANTHROPIC), Wanted("gemini", "c"), A | G, ("anthropic", ANTHROPIC, "x", "ANTHROPIC_API_KEY")),
        # one provider's configured server, model and key are not used for another
        (Wanted("gemini", "x"), Wanted("chat", "c", LOCAL, "MINE"), G | {"MINE": "k"}, ("gemini", GEMINI, "x", "GEMINI_API_KEY")),
        (Wanted("text"), Wanted("chat", "c", LOCAL, "MINE"), {"MINE": "k"}, ("text", LOCAL, "c", "MINE")),
        # a plugin's
        (Wanted("hello", "x"), NOTHING, K, ("hello", "", "x", None)),
        (NOTHING, Wanted("my-own", "c"), {"MY_OWN_API_KEY": "k"}, ("my-own", "", "c", "MY_OWN_API_KEY")),
        (Wanted("hello", "x", "https://h.example"), NOTHING, K, ("hello", "https://h.example", "x", None)),
        (Wanted("hello", "x"), NOTHING, {"HELLO_BASE_URL": LOCAL, "HELLO_API_KEY": "k"}, ("hello", LOCAL, "x", "HELLO_API_KEY")),
    ],
)  # fmt: skip
def test_the_provider_its_server_and_its_key(
    wanted: Wanted, configured: Wanted, environ: Mapping[str, str], found: tuple[Any, ...]
) -> None:
    """004-22: the name decides, else the base URL, else the model. A key is sent only to its own server."""
    target = find_target(wanted, configured, environ)
    endpoint = target.endpoint
    got = (target.provider,) if endpoint is None else (target.provider, endpoint.base_url, endpoint.model, endpoint.key_env)
    assert got == found


@pytest.mark.parametrize(
    ("wanted", "environ", "words"),
    [
        (Wanted("gemini"), G, "the provider is gemini.*--model NAME"),
        (Wanted("gemini", "x"), {}, "set GEMINI_API_KEY"),
        (Wanted("", "claude-x"), {}, "set ANTHROPIC_API_KEY"),
        (Wanted("", "qwen"), {}, "set OPENAI_API_KEY"),
        (Wanted("anthropic", "x", "http://lan.example", "MINE"), {"MINE": "k"}, "unencrypted"),
    ],
)
def test_what_is_missing_is_named(wanted: Wanted, environ: Mapping[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        find_target(wanted, NOTHING, environ)


def test_an_unknown_name_is_told_with_those_that_there_are() -> None:
    for name in [*PROVIDERS, "manual", "mine"]:
        check_name(name, {"mine": ScriptedSession})
    with pytest.raises(ConfigError, match=r"chat, responses, anthropic, gemini, text, manual, mine; did you mean gemini\?"):
        check_name("gemmini", {"mine": ScriptedSession})
    with pytest.raises(ConfigError, match=r"plugins\.enabled"):
        open_session(ModelTarget("zzz", Endpoint("")), ProviderOpening(), {})


@pytest.mark.parametrize("name", PROVIDERS)
def test_004_22_every_line_of_the_table_makes_a_session(name: str) -> None:
    """004-22: all sessions are made with the same named arguments, and have the methods of ProviderSession."""
    line = PROVIDERS[name]
    taken = inspect.signature(load(line.wire.session)).parameters
    assert {"model", "system", "tools", "records", "stream", "max_tokens"} <= set(taken)

    async def make() -> None:
        tools = [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}]
        target = ModelTarget(name, Endpoint(LOCAL, "m"))
        session = open_session(target, ProviderOpening("s", tools, [{"role": "user", "text": "hi"}], False, 9), {})
        assert session.model == "m"  # type: ignore[attr-defined]  # every session over HTTP has it
        for method in ("say", "stream_turn", "append_tool_results", "close"):
            assert callable(getattr(session, method))
        await session.close()

    asyncio.run(make())
    assert wire_of(name) == line.wire.name


def test_the_text_protocol_is_named_or_goes_by_the_model() -> None:
    """004-22, X-9"""
    target = ModelTarget("text", Endpoint(LOCAL, "m"))
    with pytest.raises(ConfigError, match="unknown text protocol 'zzz'"):
        open_session(target, ProviderOpening(protocol="zzz"), {})


def test_the_manual_one_knows_the_tools() -> None:
    session = open_session(ModelTarget("manual", None), ProviderOpening(tools=[{"name": "f"}, {"function": {"name": "g"}}]), {})
    session.say("@g {}")
    turn = asyncio.run(session.stream_turn(lambda event: None))
    assert [call.name for call in turn.tool_calls] == ["g"]


def test_a_plugins_factory_gets_plain_values_and_its_faults_are_told_without_the_key() -> None:
    got: dict[str, Any] = {}

    def factory(**fields: Any) -> Any:
        got.update(fields)
        return ScriptedSession("hi")

    def broken(*, api_key: str, **fields: Any) -> Any:
        raise RuntimeError(f"no luck with {api_key}")

    target = ModelTarget("mine", Endpoint("", "m", "MINE"))
    open_session(target, ProviderOpening("s", options={"thinking": 1}), {"MINE": "secret"}, plugins={"mine": factory})
    assert got == {
        "model": "m", "base_url": "", "api_key": "secret", "system": "s", "tools": (), "records": (), "stream": True,
        "max_tokens": None, "thinking": 1,
    }  # fmt: skip
    with pytest.raises(ConfigError, match=r"'mine' failed to open: RuntimeError: no luck with \[key\]"):
        open_session(target, ProviderOpening(), {"MINE": "secret"}, plugins={"mine": broken})
    with pytest.raises(ConfigError, match="not a ProviderSession: it has no say"):
        open_session(target, ProviderOpening(), {"MINE": "secret"}, plugins={"mine": lambda **fields: object()})
    with pytest.raises(ConfigError, match="MINE is not set; set it to the key for the provider"):
        open_session(target, ProviderOpening(), {}, plugins={"mine": factory})


def test_the_table_loads_no_provider(python: str) -> None:
    code = (
        "import sys, agent.providers.factory; "
        "print(*(name for name in sys.modules if name.rpartition('.')[2] in "
        "('httpx', 'gemini', 'anthropic', 'openai_responses', 'text', 'manual')))"
    )
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == ""
