"""Hooks around the loop: plugins receive events, and can't stop the loop."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent.api import Crib, assemble
from toolcrib import hookimpl
from toolcrib.testing import ScriptedSession

CALL = [("terminal", {"command": "true"})]


class Watcher:
    def __init__(self) -> None:
        self.seen: list[Any] = []

    @hookimpl
    def on_session_start(self, identity: Any) -> None:
        self.seen.append(("start", identity.platform))

    @hookimpl
    async def pre_llm_call(self) -> None:
        await asyncio.sleep(0)
        self.seen.append("ask")

    @hookimpl
    def post_llm_call(self, text: str, calls: int) -> None:
        self.seen.append((text, calls))

    @hookimpl
    async def on_session_end(self, identity: Any) -> None:
        self.seen.append("end")


class Broken:
    @hookimpl
    def on_session_start(self) -> None:
        raise SystemExit("start")

    @hookimpl
    def pre_llm_call(self) -> None:
        raise RuntimeError("with sk-abcdefghijklmnopqrstuvwxyz")

    @hookimpl
    async def post_llm_call(self) -> None:
        await asyncio.sleep(60)

    @hookimpl
    def on_session_end(self) -> None:
        raise asyncio.CancelledError("end")


def run(crib: Crib, *runs: ScriptedSession) -> list[str]:
    async def go() -> list[str]:
        session = await crib.open()
        try:
            said = []
            for model in runs:
                session.link.use(model)
                said.append((await session.ask("go")).text)
            return said
        finally:
            await session.close()

    return asyncio.run(go())


def test_a_session_and_its_turns_are_told_in_order(crib: Crib) -> None:
    watcher = Watcher()
    crib.dispatcher.hooks.register(watcher, "watcher")
    assert run(crib, ScriptedSession(CALL, "done"), ScriptedSession("again")) == ["done", "again"]
    assert watcher.seen == [("start", "cli"), "ask", ("", 1), "ask", ("done", 0), "ask", ("again", 0), "end"]


def test_a_single_call_is_a_session_too(crib: Crib) -> None:
    watcher = Watcher()
    crib.dispatcher.hooks.register(watcher, "watcher")
    session = crib.open_session(platform="api")
    session.call("terminal", {"command": "true"})
    session.close_sync()
    session.close_sync()
    assert watcher.seen == [("start", "api"), "end"]


def test_one_in_which_nothing_happened_is_not_told(crib: Crib) -> None:
    watcher = Watcher()
    crib.dispatcher.hooks.register(watcher, "watcher")
    crib.open_session().close_sync()
    assert watcher.seen == []


def test_broken_and_late_ones_are_logged_without_secrets(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    from dataclasses import replace

    from agent.config import load_config

    config = load_config()
    config = replace(config, approval=replace(config.approval, gate_timeout=0.5))
    with assemble(config=config, project_dir=tmp_path) as crib:
        watcher = Watcher()
        crib.dispatcher.hooks.register(watcher, "watcher")
        crib.dispatcher.hooks.register(Broken(), "broken")
        assert run(crib, ScriptedSession("done")) == ["done"]
        assert watcher.seen == [("start", "cli"), "ask", ("done", 0), "end"]
    for hook in ("on_session_start", "pre_llm_call", "post_llm_call", "on_session_end"):
        assert f"{hook} of the plugin 'broken' failed; the run continues" in caplog.text
    assert "sk-abc" not in caplog.text
