"""Tests of the API key that each server gets."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping
from typing import TypeAlias

import pytest

from agent.providers import Configured, Endpoint, HttpClient, LocalServer, choose_model, find_local_servers, resolve_endpoint
from toolcrib import ConfigError, ConnectionFailed
from toolcrib.testing import ChatServer

Flags: TypeAlias = tuple[str | None, str | None, str | None]
K = {"OPENAI_API_KEY": "k", "MINE": "m"}
OWN = {"OPENAI_BASE_URL": "https://own.example/v1"}
CONFIG = Configured("https://conf.example/v1", "cm", "MINE")


@pytest.mark.parametrize(
    ("flags", "environ", "configured", "wanted"),
    [
        ((None, None, None), {}, None, None),
        ((None, None, None), K, None, None),
        ((None, "x", None), K, None, ("https://api.openai.com/v1", "x", "OPENAI_API_KEY")),
        ((None, None, None), K | OWN, None, ("https://own.example/v1", "", "OPENAI_API_KEY")),
        ((None, "x", None), K | OWN, CONFIG, ("https://own.example/v1", "x", "OPENAI_API_KEY")),
        ((None, None, None), K, CONFIG, ("https://conf.example/v1", "cm", "MINE")),
        ((None, None, None), K, Configured("https://conf.example/v1"), ("https://conf.example/v1", "", None)),
        (("https://a.example/v1", "x", None), K, None, ("https://a.example/v1", "x", None)),
        (("https://a.example/v1", "x", None), K | OWN, CONFIG, ("https://a.example/v1", "x", None)),
        (("https://a.example/v1", "x", "MINE"), K | OWN, CONFIG, ("https://a.example/v1", "x", "MINE")),
        (("https://OWN.example:443/other/", "x", None), K | OWN, None, ("https://OWN.example:443/other", "x", "OPENAI_API_KEY")),
        (("https://own.example:444/v1", "x", None), K | OWN, None, ("https://own.example:444/v1", "x", None)),
        (("https://api.openai.com/v1", "x", None), K | OWN, None, ("https://api.openai.com/v1", "x", None)),
        (("https://api.openai.com.evil.example/v1", "x", None), K, None, ("https://api.openai.com.evil.example/v1", "x", None)),
        (("https://conf.example/v1", "x", None), K, CONFIG, ("https://conf.example/v1", "x", "MINE")),
        (("http://127.0.0.1:8080/v1/chat/completions", "x", "MINE"), K, None, ("http://127.0.0.1:8080/v1", "x", "MINE")),
        (("http://lan.example/v1", "x", None), K, None, ("http://lan.example/v1", "x", None)),
    ],
)
def test_a_key_goes_to_its_own_host_only(
    flags: Flags, environ: Mapping[str, str], configured: Configured | None, wanted: tuple[str, str, str | None] | None
) -> None:
    base_url, model, key_env = flags
    found = resolve_endpoint(base_url, model, key_env, environ, configured)
    assert (None if found is None else (found.base_url, found.model, found.key_env)) == wanted


@pytest.mark.parametrize(
    ("flags", "environ", "words"),
    [
        (("http://lan.example/v1", "x", "MINE"), K, "unencrypted to lan.example; use https"),
        ((None, "x", None), K | {"OPENAI_BASE_URL": "http://10.0.0.5:8000/v1"}, "unencrypted"),
        (("localhost:8000/v1", "x", None), {}, "write a full address"),
        (("https://user:pw@a.example", "x", None), {}, "name or password"),
        (("https://a.example:port", "x", None), {}, r"--base-url is not an address \('https://a.example:port'\): Port"),
        (("https://user:pw@a.example:port", "x", None), {}, "--base-url is not an address: Port"),
        (("https://a.example", "x", "NOPE"), {}, "NOPE is not set; set it to the key for a.example"),
        (("https://a.example", "x", "BAD"), {"BAD": "se cret"}, "BAD does not contain a key"),
        ((None, "x", None), {}, "no server is configured"),
    ],
)
def test_what_cannot_be_used_names_its_fix(flags: Flags, environ: Mapping[str, str], words: str) -> None:
    base_url, model, key_env = flags
    with pytest.raises(ConfigError, match=words) as caught:
        resolve_endpoint(base_url, model, key_env, environ)
    assert "se cret" not in str(caught.value)
    assert ":pw" not in str(caught.value)


def test_addresses_and_shown_names() -> None:
    endpoint = Endpoint("https://a.example/openai?api-version=1", "m", "MINE")
    assert endpoint.url("chat/completions") == "https://a.example/openai/chat/completions?api-version=1"
    assert "secret" not in repr(HttpClient(endpoint, {"MINE": "secret"}))


def test_local_servers_are_found_and_get_no_key() -> None:
    with ChatServer(models=["a", "b"]) as server:
        found = asyncio.run(find_local_servers(5, {server.port: "Ollama", 1: "nothing"}))
        assert found == [LocalServer(f"http://127.0.0.1:{server.port}/v1", "Ollama", ("a", "b"))]


def test_the_only_model_is_chosen_and_several_are_named() -> None:
    async def choose(base_url: str) -> str:
        client = HttpClient(Endpoint(base_url), {})
        try:
            return await choose_model(client)
        finally:
            await client.aclose()

    with ChatServer(models=["only"]) as server:
        assert asyncio.run(choose(server.base_url)) == "only"
    with ChatServer(models=["a", "b"]) as server, pytest.raises(ConfigError, match=r"2 models; choose one with --model \(a, b\)"):
        asyncio.run(choose(server.base_url))
    with pytest.raises(ConnectionFailed):
        asyncio.run(choose("http://127.0.0.1:1/v1"))


def test_http_libraries_wait_until_a_client_is_used() -> None:
    code = """
import json, sys, agent.providers as p
p.HttpClient(p.Endpoint("https://a.example"), {})
print(json.dumps(sorted({"httpx", "httpx_sse", "httpcore", "ssl"} & set(sys.modules))))
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout
    assert "httpx" not in json.loads(shown)
    assert "httpcore" not in json.loads(shown)
