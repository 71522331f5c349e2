"""Servers of other programs, in the forms that these programs use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.mcp.importing import PROGRAMS, found_servers
from toolcrib.contract.errors import ConfigError

STDIO = {"command": "npx", "args": ["-y", "mail"], "env": {"MAIL_TOKEN": "abc123", "LANG": "C"}}
FILES: dict[str, tuple[str, str]] = {
    "claude-code": (".claude.json", json.dumps({"numStartups": 3, "mcpServers": {"mail": STDIO}})),
    "claude-desktop": (".config/Claude/claude_desktop_config.json", json.dumps({"mcpServers": {"mail": STDIO}})),
    "cursor": (".cursor/mcp.json", json.dumps({"mcpServers": {"mail": STDIO}})),
    "vscode": (".config/Code/User/mcp.json", '{\n // the servers\n "servers": {"mail": ' + json.dumps(STDIO) + "}}"),
    "codex": (
        ".codex/config.toml",
        '[mcp_servers.mail]\ncommand = "npx"\nargs = ["-y", "mail"]\nenv = {MAIL_TOKEN = "abc123", LANG = "C"}\n',
    ),
    "gemini": (".gemini/settings.json", json.dumps({"theme": "x", "mcpServers": {"mail": STDIO}})),
    "opencode": (
        ".config/opencode/opencode.json",
        json.dumps({"mcp": {"mail": {"type": "local", "command": ["npx", "-y", "mail"], "environment": STDIO["env"]}}}),
    ),
    "hermes": (
        ".hermes/config.yaml",
        "mcp_servers:\n  mail:\n    command: npx\n    args: [-y, mail]\n    env: {MAIL_TOKEN: abc123, LANG: C}\n",
    ),
}


def _written(home: Path, file: str, text: str) -> None:
    path = home / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_programs_servers_are_found(program: str, tmp_path: Path) -> None:
    """A secret is named, and its value is kept apart."""
    _written(tmp_path, *FILES[program])
    [found] = found_servers(program, tmp_path)
    assert (found.program, found.name, found.fault) == (program, "mail", "")
    assert found.entry == {"command": ["npx", "-y", "mail"], "env": {"LANG": "C"}, "secrets": ["MAIL_TOKEN"]}
    assert found.secrets == {"MAIL_TOKEN": "abc123"}
    assert [one.name for one in found_servers("", tmp_path)] == ["mail"]


@pytest.mark.parametrize(
    ("given", "entry"),
    [
        ({"url": "https://a.example/mcp"}, {"url": "https://a.example/mcp"}),
        ({"type": "sse", "url": "https://a.example/x"}, {"url": "https://a.example/x", "transport": "sse"}),
        ({"url": "https://a.example/sse"}, {"url": "https://a.example/sse", "transport": "sse"}),
        ({"httpUrl": "https://a.example/sse"}, {"url": "https://a.example/sse"}),
        ({"command": "a", "disabled": True}, {"command": ["a"]}),
    ],
)
def test_addresses_and_transports(given: dict[str, Any], entry: dict[str, Any], tmp_path: Path) -> None:
    _written(tmp_path, ".cursor/mcp.json", json.dumps({"mcpServers": {"my mail!": given}}))
    [found] = found_servers("cursor", tmp_path)
    assert found.name == "my-mail"
    assert {**entry, **({"enabled": False} if given.get("disabled") else {})} == found.entry


def test_the_value_of_a_header_is_a_secret(tmp_path: Path) -> None:
    given = {"url": "https://a.example/mcp", "headers": {"Authorization": "Bearer s3cret", "X-Team": "blue"}}
    _written(tmp_path, ".cursor/mcp.json", json.dumps({"mcpServers": {"mail": given}}))
    [found] = found_servers("cursor", tmp_path)
    assert found.entry["headers"] == {"Authorization": "Bearer ${MAIL_AUTHORIZATION}", "X-Team": "${MAIL_X_TEAM}"}
    assert found.secrets == {"MAIL_AUTHORIZATION": "s3cret", "MAIL_X_TEAM": "blue"}


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({}, "it has neither a command nor an address"),
        (["a"], "it is not in the usual form"),
        ({"url": "https://a.example/mcp?key=abc"}, "its address is not a plain http(s) URL"),
        ({"url": "ftp://a.example"}, "its address is not a plain http(s) URL"),
    ],
)
def test_one_that_cannot_be_taken_says_why(given: Any, fault: str, tmp_path: Path) -> None:
    _written(tmp_path, ".cursor/mcp.json", json.dumps({"mcpServers": {"mail": given}}))
    [found] = found_servers("cursor", tmp_path)
    assert fault in found.fault


@pytest.mark.parametrize("text", ["{", '"text', "\xff"])
def test_a_broken_file_is_named(text: str, tmp_path: Path) -> None:
    _written(tmp_path, ".cursor/mcp.json", text)
    with pytest.raises(ConfigError, match=r"mcp\.json can't be read"):
        list(found_servers("cursor", tmp_path))
