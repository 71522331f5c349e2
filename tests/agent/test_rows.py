"""A plugin's tool declares in its row its display and its changes: all code that reads a row uses these."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.api import Crib, assemble
from agent.cli.calls import call_words, finished_rows
from agent.cli.render import brief_line
from agent.cli.screen.cells import plain
from agent.cli.show_item import whole_of
from agent.cli.view import View
from agent.config import load_config
from agent.conversation.compressed import last_files
from agent.delegates.task import Order, allowed_tools
from agent.events import ToolFinished, ToolStarted
from agent.undo import UndoRequest
from toolcrib import (
    Principal,
    RegistrationError,
    ToolCall,
    ToolDisplay,
    ToolEntry,
    ToolRegistry,
    WritesFile,
)
from toolcrib.testing import FakeEnvironment, ScriptedSession
from tools.approval.differences import differences
from tools.dispatch.bridge import run_async

PLUGIN = """
from toolcrib import ShownLine, ToolDisplay, hookimpl

SCHEMA = {
    "description": "Use a note.",
    "parameters": {"type": "object", "properties": {"note": {"type": "string"}, "text": {"type": "string"}}},
}


def answer(args, ctx):
    return {"found": 2, "text": args.get("text", ""), "lines": ["milk", "bread"]}


def broken(data):
    raise KeyError("found")


@hookimpl
def register_tools(registry):
    shown = ToolDisplay(
        verb="looks up",
        subject=("note",),
        below=lambda data: [ShownLine(line, "ok", "✓") for line in data["lines"]],
        outcome=lambda data: (f"{data['found']} found", "warn"),
        brief=True,
        result=lambda data: "\\n".join(data["lines"]),
        in_result=("text",),
        in_difference=("note", "text"),
    )
    registry.register("look_up", "notes", SCHEMA, answer, emoji="N", file="note", changes="nothing", display=shown)
    registry.register("poke", "notes", SCHEMA, answer)
    registry.register("recall", "notes", SCHEMA, answer, lasting="changes what you remember", needs="jobs")
    registry.register("rewrite", "notes", SCHEMA, answer, kind="edit", effects=lambda args, ctx: (), changes="kept")
    registry.register("run_note", "notes", SCHEMA, answer, kind="execute", effects=lambda args, ctx: (), changes="command")
    registry.register("ask_note", "notes", SCHEMA, answer, interactive=True)
    registry.register("odd", "notes", SCHEMA, answer, display=ToolDisplay(
        subject=broken, below=broken, outcome=broken, result=broken
    ))
    registry.register("odder", "notes", SCHEMA, answer, display=ToolDisplay(
        below=lambda data: data["lines"], outcome=lambda data: ("fine", "pink")
    ))
"""


def made(folder: Path, more: str = "") -> Crib:
    (folder / "plugins").mkdir(exist_ok=True)
    (folder / "plugins" / "notes.py").write_text(PLUGIN)
    file, project = folder / "config.yaml", folder / "project"
    file.write_text(f"plugins: {{enabled: [notes]}}\n{more}")
    project.mkdir(exist_ok=True)
    return assemble(config=load_config(file, project_dir=project), project_dir=project)


@pytest.fixture
def crib(tmp_path: Path) -> Iterator[Crib]:
    with made(tmp_path) as crib:
        yield crib


@pytest.fixture
def session(crib: Crib) -> Iterator[Any]:
    session = crib.open_session()
    yield session
    session.close_sync()


def test_screens_show_it_as_its_row_says(session: Any) -> None:
    display, executed = session.display("look_up"), session.call("look_up", {"note": "a.md", "text": "x\ny"})
    assert call_words(executed.call, display, 80) == "N look_up looks up a.md"
    first, *below = [plain(row) for row in finished_rows(executed, display, 1, 80, whole=False, timed=False)]
    assert first == "N look_up looks up a.md  2 found  #1"
    assert below == ["  ✓ milk", "  ✓ bread"]
    assert brief_line(executed, display, timed=False) == "N look_up  a.md  2 found: milk"
    assert whole_of(executed, display) == "look_up\nnote: a.md\n\nmilk\nbread\n"


def test_events_bring_the_row_to_a_screen(session: Any, capsys: pytest.CaptureFixture[str]) -> None:
    from agent.cli.plain import PlainScreen

    seen: list[Any] = []
    session.link.use(ScriptedSession([("look_up", {"note": "a.md"})], "done"))
    asyncio.run(session.ask("look", emit=seen.append))
    events = [event for event in seen if isinstance(event, ToolStarted | ToolFinished)]
    view = View(PlainScreen(words=False))
    for event in events:
        view(event)
    started, ended, *below = capsys.readouterr().out.splitlines()
    assert started == "N look_up looks up a.md ..."
    assert ended.startswith("N look_up looks up a.md  ")
    assert below == ["  ✓ milk", "  ✓ bread"]


def test_a_function_of_a_row_that_fails_has_it_shown_as_any_other(session: Any) -> None:
    display, executed = session.display("odd"), session.call("odd", {"note": "a.md"})
    assert call_words(executed.call, display, 80) == "🔧 odd a.md"
    assert [plain(row) for row in finished_rows(executed, display, 1, 80, whole=False, timed=False)] == ["🔧 odd  a.md  ok  #1"]
    assert whole_of(executed, display) == whole_of(executed, ToolDisplay())
    display, executed = session.display("odder"), session.call("odder", {"note": "a.md"})
    (row,) = finished_rows(executed, display, 1, 80, whole=False, timed=False)
    assert plain(row) == "🔧 odder  a.md  fine  #1"


def test_a_function_of_a_row_that_exits_has_it_shown_as_any_other(session: Any) -> None:
    def leave(given: Any) -> Any:
        sys.exit(3)

    executed, display = (
        session.call("poke", {"note": "a.md"}),
        ToolDisplay(subject=leave, below=leave, outcome=leave, result=leave),
    )
    assert call_words(executed.call, display, 80) == "🔧 poke a.md"
    assert [plain(row) for row in finished_rows(executed, display, 1, 80, whole=False, timed=False)] == ["🔧 poke  a.md  ok  #1"]
    assert whole_of(executed, display) == whole_of(executed, ToolDisplay())


def test_modes_that_ask_about_changes_go_by_the_row(session: Any) -> None:
    asyncio.run(session.mode.switch("plan"))
    assert session.call("look_up", {"note": "a"}).result.is_success
    said = {name: session.call(name, {"note": "a"}).result.failure.text for name in ("poke", "recall", "rewrite", "run_note")}
    assert "poke has unknown effects" in said["poke"]
    assert "recall changes what you remember" in said["recall"]
    assert "rewrite has unknown effects" in said["rewrite"]
    assert "run_note has unknown effects" in said["run_note"]


def test_an_undo_names_the_calls_whose_effects_stay(session: Any, crib: Crib) -> None:
    calls = [(name, {"note": "a"}) for name in ("look_up", "poke", "rewrite")]
    calls += [("run_note", {"command": command}) for command in ("ls", "touch x")]
    writes = ("write_file", {"path": "a.txt", "content": "x\n"})
    session.link.use(ScriptedSession([writes, *calls], "done"))
    asyncio.run(session.ask("go"))
    plan = run_async(crib.undo(session.id).plan(UndoRequest(), session.scope.environment))
    assert plan.others == ["poke", "run_note: touch x"]


def test_a_summary_names_the_files_of_its_calls(session: Any) -> None:
    records = [
        {"role": "assistant", "calls": [{"name": name, "args": {"note": "a.md", "path": "b.md"}}]} for name in ("look_up", "poke")
    ]
    assert last_files(records, session.file_arguments) == ["a.md"]


def test_a_tool_is_granted_only_with_what_it_needs(tmp_path: Path) -> None:
    def reasons(more: str) -> dict[str, str | None]:
        with made(tmp_path, more) as crib:
            return {line.name: line.reason for line in crib.explain()}

    assert reasons("")["recall"] is None
    off = reasons("store: {enabled: false}\n")
    assert off["recall"] == off["cronjob"] == "disabled in the configuration (store.enabled: jobs outlive the process)"
    assert off["look_up"] is None


def test_delegates_that_cannot_ask_get_no_interactive_tool(session: Any) -> None:
    order = Order.of({"task": "x"}, Principal())
    both = {asks: allowed_tools(order, session.entries, asks=asks, delegates=True) for asks in (True, False)}
    assert set(both[True]) - set(both[False]) == {"clarify", "ask_note"}


def test_a_prompt_shows_the_whole_call_of_a_plugins_tool(session: Any) -> None:
    """Only built-in tools may omit arguments beside a diff, whatever a plugin declares."""
    entry: ToolEntry = next(one for one in session.entries if one.name == "look_up")
    assert entry.display.in_difference == ("note", "text")
    found = run_async(differences(entry, [WritesFile("/a", "2\n")], FakeEnvironment({"/a": b"1\n"}), str))
    assert found is not None
    assert found.stands_for == frozenset()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"changes": "little"}, "changes is one of 'unknown', 'nothing', 'declared', 'kept', 'command'; got 'little'"),
        ({"needs": "luck"}, "needs is one of '', 'memory', 'jobs', 'delegates', 'chats'; got 'luck'"),
        ({"kind": "edit", "changes": "nothing"}, "a tool of the kind 'edit' changes something; got changes='nothing'"),
        ({"kind": "execute", "changes": "declared"}, "a tool of the kind 'execute' changes something"),
        ({"file": "path"}, "file names an argument of the schema, got 'path'"),
        ({"display": "reads"}, r"display is a ToolDisplay\(...\), got 'reads'"),
    ],
)
def test_a_row_that_contradicts_itself_is_refused(options: dict[str, Any], said: str) -> None:
    schema = {"description": "", "parameters": {"type": "object", "properties": {}}}
    with pytest.raises(RegistrationError, match=said):
        ToolRegistry().register("x", "t", schema, print, **options)


def test_a_call_of_an_unknown_tool_is_shown(session: Any) -> None:
    assert call_words(ToolCall("1", "gone", {"a": "b"}), session.display("gone"), 80) == "🔧 gone b"
