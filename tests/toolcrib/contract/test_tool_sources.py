"""Sources add tools to a registry, and remove them when they end."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from toolcrib import RegistrationError, ToolEntry, ToolRegistry
from toolcrib.contract.tool_sources import ToolSources


def made(name: str, toolset: str = "far") -> ToolEntry:
    return ToolRegistry().register(name, toolset, {"description": "d"}, lambda args: name)


class Far:
    """A source of the tests; ``fails`` names the method that raises."""

    def __init__(self, *entries: ToolEntry, fails: str = "") -> None:
        self.entries = list(entries)
        self.fails = fails
        self.log: list[str] = []
        self.changed: Callable[[], None] = lambda: None

    async def start(self, changed: Callable[[], None]) -> None:
        self.log.append("start")
        self.changed = changed
        await asyncio.sleep(0)
        if self.fails == "start":
            raise ConnectionError("nobody there")

    def tools(self) -> Sequence[ToolEntry]:
        if self.fails == "tools":
            raise RuntimeError("lost")
        return self.entries

    async def stop(self) -> None:
        self.log.append("stop")


class AtOnce(Far):
    async def start(self, changed: Callable[[], None]) -> None:
        self.log.append("start")


class RaisingSource(Far):
    error: BaseException | None = None

    def tools(self) -> Sequence[ToolEntry]:
        if self.error is not None:
            raise self.error
        return super().tools()


class HangingSource(Far):
    """A source whose ``tools`` waits for ``go_on`` while ``hangs`` is set, and returns the entries from before the wait."""

    def __init__(self, *entries: ToolEntry) -> None:
        super().__init__(*entries)
        self.hangs = False
        self.is_asked, self.go_on = threading.Event(), threading.Event()

    def tools(self) -> Sequence[ToolEntry]:
        entries = list(self.entries)
        if self.hangs:
            self.is_asked.set()
            assert self.go_on.wait(30)
        return entries


def test_a_source_adds_and_removes_tools_while_it_runs() -> None:
    registry, far = ToolRegistry(), Far(made("one"))
    sources = ToolSources(registry)
    sources.add("far", far)
    assert (sources.waiting(), sources.opened(), registry.names()) == (["far"], [], [])
    asyncio.run(sources.start("far"))
    assert (sources.waiting(), sources.opened(), registry.names()) == ([], ["far"], ["one"])
    shown = registry.get_definitions()
    generation = sources.generation
    far.changed()
    assert sources.generation == generation
    far.entries = [far.entries[0], made("two")]
    far.changed()
    assert registry.names() == ["one", "two"] == sources.tools_of("far")
    assert len(registry.get_definitions()) == len(shown) + 1
    assert sources.generation == generation + 1
    del far.entries[0]
    far.changed()
    assert registry.names() == ["two"]
    assert registry.why_gone("one") == "the tool source 'far' no longer has it"
    far.entries = [made("two")]  # another tool with this name
    far.changed()
    assert registry.get("two") is far.entries[0]
    assert registry.why_gone("two") == ""
    asyncio.run(sources.stop("far"))
    assert (registry.names(), far.log) == ([], ["start", "stop"])
    far.changed()
    assert registry.names() == []


def test_one_that_fails_brings_nothing_and_may_be_started_again() -> None:
    registry, far = ToolRegistry(), Far(made("one"), fails="start")
    sources = ToolSources(registry)
    sources.add("far", far)
    with pytest.raises(ConnectionError):
        asyncio.run(sources.start("far"))
    assert (registry.names(), sources.opened()) == ([], ["far"])
    asyncio.run(sources.stop("far"))
    assert (far.log, sources.waiting()) == (["start", "stop"], ["far"])
    far.fails = ""
    asyncio.run(sources.start("far"))
    assert registry.names() == ["one"]


def test_tools_that_can_t_be_had_are_gone(caplog: pytest.LogCaptureFixture) -> None:
    registry, far = ToolRegistry(), Far(made("one"))
    sources = ToolSources(registry)
    sources.add("far", far)
    asyncio.run(sources.start("far"))
    far.fails = "tools"
    with caplog.at_level(logging.ERROR):
        far.changed()
    assert registry.names() == []
    assert [problem.reason for problem in registry.problems] == ["its tools are missing: RuntimeError: lost"]


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError("odd")])
def test_a_source_that_would_end_the_program_only_loses_its_tools(error: BaseException) -> None:
    registry, far = ToolRegistry(), RaisingSource(made("one"))
    sources = ToolSources(registry)
    sources.add("near", Far(made("two")))
    sources.add("far", far)
    for name in ("near", "far"):
        asyncio.run(sources.start(name))
    far.error = error
    far.changed()
    assert registry.names() == ["two"]
    assert registry.problems[0].reason == f"its tools are missing: {type(error).__name__}: {error}"
    far.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        far.changed()


@pytest.mark.parametrize("odd", [object(), None, "one"])
def test_what_is_no_entry_is_no_tool(odd: Any) -> None:
    registry, far = ToolRegistry(), Far(made("one"), odd)
    sources = ToolSources(registry)
    sources.add("far", far)
    asyncio.run(sources.start("far"))
    assert registry.names() == []
    assert "expected toolcrib.ToolEntry objects, got" in registry.problems[0].reason


def test_a_source_that_hangs_holds_up_no_other_and_its_late_answer_counts_no_more() -> None:
    registry, far, near = ToolRegistry(), HangingSource(made("old")), Far(made("two"))
    sources = ToolSources(registry)
    for name, source in (("far", far), ("near", near)):
        sources.add(name, source)
        asyncio.run(sources.start(name))
    far.hangs = True
    thread = threading.Thread(target=far.changed, daemon=True)
    thread.start()
    assert far.is_asked.wait(10)
    near.entries.append(made("three"))
    other = threading.Thread(target=near.changed, daemon=True)
    other.start()
    other.join(10)
    assert registry.names() == ["old", "two", "three"]
    far.hangs, far.entries = False, [made("new")]
    far.changed()
    assert registry.names() == ["two", "three", "new"]
    far.go_on.set()
    thread.join(10)
    assert registry.names() == ["two", "three", "new"]
    asyncio.run(sources.stop("far"))
    assert registry.names() == ["two", "three"]


def test_no_tool_of_another_is_replaced() -> None:
    registry, checked = ToolRegistry(), ToolRegistry()
    own = registry.register("one", "own", {"description": "d"}, lambda args: "own")
    bad = checked.register("bad", "far", {"description": "d", "parameters": {"type": "object", "properties": 3}}, lambda args: 1)
    registry.attach(lambda name, args: "", lambda parameters: ("$", "no") if parameters.get("properties") == 3 else None)
    sources = ToolSources(registry)
    sources.add("far", Far(made("one"), bad, made("two")))
    asyncio.run(sources.start("far"))
    assert registry.get("one") is own
    assert registry.names() == ["one", "two"]
    assert [problem.subject for problem in registry.problems] == ["tool one", "tool bad"]
    assert "rename one of the two" in registry.problems[0].reason
    asyncio.run(sources.stop("far"))
    assert registry.get("one") is own


def test_a_registered_tool_is_not_taken_over() -> None:
    registry, far = ToolRegistry(), Far()
    own = registry.register("one", "own", {"description": "d"}, lambda args: "own")
    sources = ToolSources(registry)
    sources.add("far", far)
    asyncio.run(sources.start("far"))
    far.entries = [own]
    far.changed()
    assert sources.tools_of("far") == []
    assert "(toolset 'own') has a tool of this name; rename one of the two" in registry.problems[0].reason
    far.entries = [made("one")]
    far.changed()
    assert registry.get("one") is own
    far.entries = []
    far.changed()
    asyncio.run(sources.stop("far"))
    assert registry.entries() == [own]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"kind": "edti"}, "kind is one of"),
        ({"kind": "edit", "changes": "nothing"}, "a tool of the kind 'edit' changes something"),
        ({"schema": {"name": "terminal", "description": "d", "parameters": {"type": "object"}}}, r"bad schema at \$\.name"),
        ({"schema": {"name": "one", "description": "d"}}, r"bad schema at \$\.parameters"),
        ({"name": "one more"}, "name has 1 to 128"),
        ({"toolset": ""}, "toolset: expected a name"),
        ({"timeout": -1}, "timeout must be seconds"),
    ],
)
def test_a_changed_copy_of_an_entry_is_checked_as_a_registration_is(changes: dict[str, Any], reason: str) -> None:
    registry, bad = ToolRegistry(), replace(made("one"), **changes)
    with pytest.raises(RegistrationError, match=reason):
        registry.put(bad)
    sources, fine = ToolSources(registry), made("two")
    sources.add("far", Far(bad, fine))
    asyncio.run(sources.start("far"))
    assert registry.entries() == [fine]
    [problem] = registry.problems
    assert re.search(reason, problem.reason)


def test_no_source_brings_a_tool_as_toolcrib_s_own() -> None:
    registry = ToolRegistry()
    sources = ToolSources(registry)
    sources.add("far", Far(replace(made("one"), module="tools.terminal_tool")))
    asyncio.run(sources.start("far"))
    assert registry.names() == []
    assert "may not register a tool of the built-in tools.terminal_tool" in registry.problems[0].reason


def test_a_tool_of_two_sources_stays_with_the_first() -> None:
    registry, shared = ToolRegistry(), made("one")
    sources = ToolSources(registry)
    for name in ("first", "second"):
        sources.add(name, Far(shared))
        asyncio.run(sources.start(name))
    assert (sources.tools_of("first"), sources.tools_of("second")) == (["one"], [])
    asyncio.run(sources.stop("second"))
    assert registry.entries() == [shared]


def test_one_that_waits_for_nothing_starts_from_sync_code_and_gives_back_what_was_replaced() -> None:
    registry = ToolRegistry()
    before = registry.register("one", "own", {"description": "d"}, lambda args: "before")
    source = AtOnce()

    async def registers(changed: Any) -> None:
        source.entries = [registry.register("one", "own", {"description": "d"}, lambda args: "after")]

    source.start = registers  # type: ignore[method-assign]  # this one registers
    sources = ToolSources(registry)
    sources.begin("at once", source)
    assert registry.get("one") is source.entries[0]
    assert sources.generation == 0
    source.entries.append(made("more"))
    sources.refresh("at once")
    assert (registry.names(), sources.generation) == (["one", "more"], 0)
    sources.end()
    assert registry.entries() == [before]
    assert source.log == ["stop"]
    sources.end()


def test_what_is_no_source_is_refused() -> None:
    sources = ToolSources(ToolRegistry())
    sources.add("far", Far())
    with pytest.raises(RegistrationError, match="'far' already exists"):
        sources.add("far", Far())
    with pytest.raises(RegistrationError, match=r"'odd' has no start, tools, stop: it must be a toolcrib\.ToolSource"):
        sources.add("odd", object())  # type: ignore[arg-type]  # as a plugin might
    with pytest.raises(RegistrationError, match="may not await"):
        sources.begin("waits", Far())
    assert sources.waiting() == ["far"]
