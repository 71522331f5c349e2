"""``/mcp`` in the chat: the servers of the process, and their configuration and lock as they are now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.api import Crib
from agent.cli.conversation import Conversation
from agent.cli.opening import ChatOpening
from agent.cli.refusing import refuse
from agent.cli.render import Screen
from agent.cli.slash import obey
from agent.config import load_config
from agent.conversation.limits import RunLimits
from agent.model_choice.models import ModelChoice
from tests.agent.mcp.conftest import Asked, configure, lock
from toolcrib.contract.types import ToolCall


async def chat_of(crib: Crib) -> Conversation:
    chat = Conversation(
        ChatOpening(crib, refuse, RunLimits()), ModelChoice(provider="manual"), Screen(interactive=False), obey=obey
    )
    await chat.open()
    return chat


async def test_the_servers_are_listed_with_their_state(
    raw: dict[str, Any], opened: Callable[[], Crib], asked: Asked, capsys: pytest.CaptureFixture[str]
) -> None:
    configure({"raw": raw, "other": raw, "off": {**raw, "enabled": False}})
    await asyncio.to_thread(lock, "raw")
    crib = opened()
    chat = await chat_of(crib)
    await obey(chat, "/mcp")
    shown = capsys.readouterr()
    rows = [line.split()[:5] for line in shown.out.splitlines()]
    assert rows[0] == ["NAME", "STATE", "TOOLS", "RUNNING", "WHERE"]
    assert [" ".join(row[:-1]) for row in rows[1:]] == ["raw on 21 no", "other not locked 0", "off off 0 no"]
    assert "MCP server other: its tools are not locked; check and lock them: toolcrib mcp lock other" in shown.err
    session = await crib.open(platform="api", asker=asked, enabled=["mcp-raw"])
    await session.acall(ToolCall("c1", "echo", {"text": "x"}))
    await obey(chat, "/mcp")
    assert capsys.readouterr().out.splitlines()[1].split()[:4] == ["raw", "on", "21", "yes"]
    await session.close()
    await chat.close()


async def test_reload_takes_new_servers_and_locks_for_new_sessions(
    raw: dict[str, Any], opened: Callable[[], Crib], capsys: pytest.CaptureFixture[str]
) -> None:
    configure({})
    crib = opened()
    chat = await chat_of(crib)
    await obey(chat, "/mcp")
    assert "no MCP servers; add one outside the chat: toolcrib mcp add" in capsys.readouterr().err
    configure({"raw": raw})
    await asyncio.to_thread(lock, "raw")
    assert crib.registry.get("hidden") is None
    await obey(chat, "/mcp reload")
    shown = capsys.readouterr()
    assert "MCP servers are reloaded" in shown.err
    assert "raw " in shown.out
    assert crib.registry.get("hidden") is not None
    assert "hidden" not in chat.session.names
    await obey(chat, "/new")
    assert "hidden" in chat.session.names
    configure({"raw": {**raw, "enabled": False}})
    await obey(chat, "/mcp reload")
    assert crib.registry.get("hidden") is None
    await chat.close()


def test_a_reload_keeps_unchanged_servers_and_restarts_changed_ones(
    raw: dict[str, Any], opened: Callable[[], Crib], asked: Asked, tmp_path: Path
) -> None:
    path = configure({"raw": raw})
    lock("raw")
    crib = opened()
    session = crib.open_session(platform="api", asker=asked, enabled=["mcp-raw"])

    def pid_of_call() -> int:
        assert session.call("echo", {"text": "x"}).result.data == "x"
        return int((tmp_path / "raw/starts").read_text().split()[-1])

    first, entry = pid_of_call(), crib.registry.get("echo")
    crib.reload_mcp(load_config(path))
    assert pid_of_call() == first
    assert crib.registry.get("echo") is entry
    configure({"raw": {**raw, "env": {"NEW": "value"}}})
    crib.reload_mcp(load_config(path))
    session = crib.open_session(platform="api", asker=asked, enabled=["mcp-raw"])
    assert pid_of_call() != first
    assert '"NEW": "value"' in session.call("env", {}).result.data


async def test_a_reload_refuses_an_unconfirmed_configuration(
    raw: dict[str, Any], opened: Callable[[], Crib], capsys: pytest.CaptureFixture[str]
) -> None:
    path = configure({"raw": raw})
    await asyncio.to_thread(lock, "raw")
    crib = opened()
    chat = await chat_of(crib)
    path.write_text(path.read_text().replace("legacy", "auto"))
    await obey(chat, "/mcp reload")
    assert "has unconfirmed changes" in capsys.readouterr().err
    assert crib.registry.get("hidden") is not None
    await chat.close()
