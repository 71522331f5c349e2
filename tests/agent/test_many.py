"""Several of everything in one process: cribs, sessions, threads. None changes another's state."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import model_tools
from agent.api import Agent, Crib, RunResult, assemble
from agent.config import Config, PluginsConfig, load_config
from agent.conversation.session import Session
from agent.store.memory import MemoryStore
from toolcrib import ToolCall, registry
from toolcrib.testing import ScriptedSession
from tools.dispatch.bridge import close_loop
from tools.environments import known_environments, register_environment
from tools.environments.local.sandbox import Sandbox

Make = Callable[..., Crib]

HOOKED = """
from toolcrib import Block, hookimpl

@hookimpl
def register_tools(registry):
    registry.register("many_hooked", "many", {"description": "d"}, lambda args: "hooked")

@hookimpl
def register_environment(add):
    add("many_place", lambda cwd: None)

@hookimpl
def tool_gate(call):
    return Block("not today") if call.name == "todo" else None
"""
AT_IMPORT = """
from toolcrib import registry, tool

@tool(toolset="many")
def many_imported() -> str:
    return "imported"
"""


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Make cribs with the plugins ``hooked`` (a file) and ``imported`` (installed; it registers when it is imported)."""
    (tmp_path / "config" / "plugins").mkdir(parents=True)
    (tmp_path / "config" / "plugins" / "hooked.py").write_text(HOOKED)
    site = tmp_path / "site"
    (site / "many-1.0.dist-info").mkdir(parents=True)
    (site / "many_imported_module.py").write_text(AT_IMPORT)
    (site / "many-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: many\nVersion: 1.0\n")
    (site / "many-1.0.dist-info" / "entry_points.txt").write_text("[toolcrib]\nimported = many_imported_module\n")
    monkeypatch.syspath_prepend(site)
    made: list[Crib] = []

    def make(*plugins: str) -> Crib:
        config = replace(Config(path=tmp_path / "config" / "config.yaml"), plugins=PluginsConfig(enabled=plugins))
        made.append(assemble(config=config, project_dir=tmp_path, store=MemoryStore()))
        assert [info.error for info in made[-1].plugins] == [""] * len(plugins)
        return made[-1]

    yield make
    for crib in made:
        crib.close()
    close_loop()
    for name in [name for name in sys.modules if name.startswith(("toolcrib_plugin_", "many_imported"))]:
        del sys.modules[name]


def mine(crib: Crib) -> set[str]:
    return {line.name for line in crib.explain("api") if line.toolset == "many" and line.granted}


@pytest.mark.parametrize(("plugin", "tool"), [("hooked", "many_hooked"), ("imported", "many_imported")])
def test_two_at_once_have_the_same_plugin(make: Make, plugin: str, tool: str) -> None:
    """A bot may have an Agent for each chat. Neither refuses the other's tools, and closing one leaves the other's."""
    before = registry.names()
    first, second, without = make(plugin), make(plugin), make()
    assert (mine(first), mine(second), mine(without)) == ({tool}, {tool}, set())
    first.close()
    assert (mine(second), registry.names()) == ({tool}, before)
    assert second.open_session(platform="api").call(tool, {}).result.data == tool.removeprefix("many_")
    assert mine(make(plugin)) == {tool}


def test_they_are_assembled_from_several_threads(make: Make) -> None:
    cribs: list[Crib] = []
    threads = [threading.Thread(target=lambda: cribs.append(make("hooked", "imported"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [mine(crib) for crib in cribs] == [{"many_hooked", "many_imported"}] * 4


def test_what_the_program_registers_is_there_for_all(make: Make) -> None:
    """The program may register tools later. A plugin's tool with the same name stays the plugin's."""
    crib = make("hooked")
    try:
        registry.register("many_late", "many", {"description": "d"}, lambda args: "late")
        registry.register("many_hooked", "many", {"description": "d"}, lambda args: "the program's")
        session = crib.open_session(platform="api")
        assert [session.call(name, {}).result.data for name in ("many_late", "many_hooked")] == ["late", "hooked"]
    finally:
        for name in ("many_late", "many_hooked"):
            registry.unregister(name)
    assert mine(crib) == {"many_hooked"}


def test_the_synchronous_face_runs_a_sessions_call_as_the_session_does(make: Make) -> None:
    """A scope includes its plugins: their tools and their gates."""
    scope = make("hooked").open_session(platform="api").scope
    assert json.loads(model_tools.handle_function_call("many_hooked", {}, scope=scope)) == "hooked"
    said = json.loads(model_tools.handle_function_call("todo", {"todos": []}, scope=scope))
    assert said == {"error": "Error executing todo: not today"}
    assert "Unknown tool" in model_tools.handle_function_call("many_hooked", {})


def test_a_place_is_taken_back_in_any_order(make: Make) -> None:
    first, second = make("hooked"), make("hooked")
    first.close()
    assert "many_place" in known_environments()
    second.close()
    assert "many_place" not in known_environments()
    take_back = register_environment("many_place", lambda: None)  # type: ignore[arg-type, return-value]  # never opened
    take_back()
    take_back()
    assert "many_place" not in known_environments()


def test_closing_an_agent_that_answers_interrupts_it(tmp_path: Path) -> None:
    """Otherwise the run would lose its store and its connection."""

    async def go() -> RunResult:
        begun = asyncio.Event()
        agent = Agent(config=Config(), project_dir=tmp_path, on_event=lambda event: begun.set())
        agent.session.link.use(ScriptedSession([("terminal", {"command": "sleep 300"})], "never"))
        asking = asyncio.create_task(agent.aask("wait"))
        await begun.wait()
        await agent.aclose()
        await agent.aclose()
        return await asking

    assert asyncio.run(go()).stopped == "interrupted"


@pytest.mark.defaults
async def test_a_session_takes_no_more_descriptors_than_its_sandbox_says(tmp_path: Path) -> None:
    """If the declared number were too low, many sessions would use up all descriptors before the process releases idle shells."""
    (tmp_path / "config.yaml").write_text("snapshots: {enabled: false}\n")
    (tmp_path / "project").mkdir()
    with assemble(config=load_config(tmp_path / "config.yaml"), project_dir=tmp_path / "project") as crib:
        sessions, open_files = list[Session](), list[int]()
        try:
            for _ in range(4):
                session = await crib.open(platform="api")
                sessions.append(session)
                executed = await session.acall(ToolCall(ToolCall.new_id(), "terminal", {"command": "true"}))
                assert executed.result.is_success
                assert session.scope.environment.identity == "local:workspace"
                open_files.append(len(os.listdir("/proc/self/fd")))  # noqa: PTH208 - only their number counts
        finally:
            for session in sessions:
                await session.close()
    assert (open_files[3] - open_files[1]) / 2 <= Sandbox.descriptors
