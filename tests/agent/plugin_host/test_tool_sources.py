"""A plugin's tool source: its tools are available from the first run on, and change while sessions are open."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.api import Crib, assemble
from agent.config import load_config
from agent.plugin_host import lifecycle
from toolcrib import Answer, Suspend, SuspendTicket, ToolEntry, ToolRegistry, hookimpl
from toolcrib.testing import ScriptedSession

PLUGIN = """
from toolcrib import ToolRegistry, hookimpl

class Bells:
    def __init__(self):
        self.own = ToolRegistry()
        self.log = []

    def cast(self, name):
        self.own.register(name, "bells", {"description": "Ring."}, lambda args: f"{name} rings")

    async def start(self, changed):
        self.log.append("start")
        self.changed = changed
        self.cast("small")

    def tools(self):
        return self.own.entries()

    async def stop(self):
        self.log.append("stop")

bells = Bells()

@hookimpl
def register_tool_source(add):
    add("bells", bells)
"""


@pytest.fixture
def crib(tmp_path: Path) -> Iterator[Crib]:
    folder = tmp_path / "settings" / "plugins"
    folder.mkdir(parents=True)
    (folder / "bells.py").write_text(PLUGIN)
    config = load_config(folder.parent / "config.yaml")
    config = replace(config, plugins=replace(config.plugins, enabled=("bells",)))
    with assemble(config=config, project_dir=tmp_path) as made:
        assert [info.error for info in made.plugins] == [""]
        yield made


def bells(crib: Crib) -> Any:
    return crib.hooks.get_plugin("bells").bells


class Watching(ScriptedSession):
    """A model that records its session's tools, and calls a function before each turn."""

    def __init__(self, *turns: Any, before: Callable[[int], None] = lambda turn: None) -> None:
        super().__init__(*turns)
        self._before = before
        self._turn = 0

    async def stream_turn(self, on_event: Any) -> Any:
        self._before(self._turn)
        self._turn += 1
        return await super().stream_turn(on_event)


async def outcome(session: Any, index: int) -> Any:
    told = await asyncio.to_thread(lambda: list(session.transcript.model_records()))
    (record,) = [one for one in told if one["role"] == "results"][index]["results"]
    return json.loads(record["text"])


def names_of(session: Any) -> list[str]:
    return [one["function"]["name"] for one in session.definitions]


async def test_a_tool_that_becomes_another_kind_is_outside_of_a_sessions_bounds(crib: Crib) -> None:
    await crib.start()
    source, session = bells(crib), await crib.open(platform="api", user="ann", without=["todo"])
    assert session.outfit is not None
    assert "small" in session.names
    source.own.register("small", "bells", {"description": "Ring."}, lambda args: "", kind="execute", effects=lambda args, ctx: ())
    source.changed()
    session.outfit(session.opened_for.principal)
    assert "small" not in session.names
    assert "small" not in session.scope.granted
    await session.close()


def test_its_tools_are_there_with_the_first_run_and_come_and_go(crib: Crib) -> None:
    async def go() -> None:
        session = await crib.open()
        source = bells(crib)
        assert "small" not in session.names  # nothing has been started yet
        session.link.use(Watching([("small", {})], "done"))
        assert (await session.ask("go")).text == "done"
        assert await outcome(session, 0) == "small rings"
        assert "small" in names_of(session)

        def lose(turn: int) -> None:
            if turn == 0:
                source.own.unregister("small")
                source.cast("great")
                source.changed()

        session.link.use(Watching([("small", {})], [("great", {})], "done", before=lose))
        await session.ask("again")
        assert (await outcome(session, 1))["error"].endswith(
            "the tool 'small' is unavailable: the tool source 'bells' no longer has it"
        )
        assert "not granted to this session" in (await outcome(session, 2))["error"]  # a run keeps its first set of tools
        session.link.use(Watching([("great", {})], "done"))
        await session.ask("and again")
        assert await outcome(session, 3) == "great rings"
        assert "small" not in session.names
        await session.close()

    asyncio.run(go())
    crib.close()
    assert bells(crib).log == ["start", "stop"]
    assert crib.registry.get("great") is None


def test_a_call_that_waits_does_not_run_once_its_tool_is_gone(crib: Crib) -> None:
    """The call fails, because the approval was for a tool that no longer exists."""

    class Gate:
        @hookimpl
        def tool_gate(self, call: Any, ctx: Any) -> Suspend | None:
            if call.name != "small" or ctx.answer_to("small"):
                return None
            return Suspend(SuspendTicket("ask", "Ring?", binds="small"))

    async def answers(ticket: SuspendTicket, ctx: Any) -> Answer:
        bells(crib).own.unregister("small")
        bells(crib).changed()
        return Answer(ticket.id, payload={"approved": True})

    async def go() -> None:
        crib.hooks.register(Gate(), "gate")
        await crib.start()
        session = await crib.open(asker=answers)
        session.link.use(ScriptedSession([("small", {})], "done"))
        await session.ask("go")
        assert "is unavailable: the tool source 'bells' no longer has it" in (await outcome(session, 0))["error"]
        await session.close()
        await crib.aclose()

    asyncio.run(go())


class Broken:
    def __init__(self, seconds: float = 0.0) -> None:
        self._seconds = seconds
        self.stopped = 0

    async def start(self, changed: Callable[[], None]) -> None:
        await asyncio.sleep(self._seconds)
        raise ConnectionError("nobody there")

    def tools(self) -> Sequence[ToolEntry]:
        return [ToolRegistry().register("never", "broken", {"description": "d"}, lambda args: "never")]

    async def stop(self) -> None:
        self.stopped += 1
        raise RuntimeError("not even that")


def test_one_that_fails_or_hangs_is_reported_and_the_others_start(crib: Crib, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "START_SECONDS", 0.3)
    broken, slow = Broken(), Broken(60)
    crib.sources.add("broken", broken)
    crib.sources.add("slow", slow)

    async def go() -> None:
        await crib.start()
        assert crib.registry.get("small") is not None
        assert crib.registry.get("never") is None
        await crib.aclose()

    asyncio.run(go())
    reported = {one.subject: one.reason for one in crib.registry.problems}
    assert "could not be started" in reported["tool source broken"]
    assert "longer than 0.3 s" in reported["tool source slow"]
    assert (broken.stopped, slow.stopped) == (1, 1)


def test_what_is_loaded_later_starts_later(crib: Crib) -> None:
    class Late(Broken):
        async def start(self, changed: Callable[[], None]) -> None: ...

        async def stop(self) -> None: ...

    async def go() -> None:
        await crib.start()
        crib.sources.add("late", Late())
        await crib.lifecycle.start_new()
        assert crib.registry.get("never") is not None
        await crib.aclose()
        assert crib.registry.get("never") is None

    asyncio.run(go())
