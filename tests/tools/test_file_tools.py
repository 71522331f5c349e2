from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tools.clarify_tool
import tools.file_tools
import tools.todo_tool  # noqa: F401 - with the two above: registers the tools under test
from toolcrib import Block, ExecutedCall, RunIdentity, ToolCall, hookimpl, registry
from tools.dispatch.hooks import HookManager
from tools.dispatch.pipeline import Dispatcher
from tools.dispatch.scope import CallScope
from tools.environments.local import LocalEnvironment

NAMES = ("read_file", "write_file", "patch", "search_files")


class Approval:
    """A stand-in for the approval gate, which records what the gate would judge."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.refuses = False

    @hookimpl
    def tool_gate(self, call: ToolCall, ctx: Any) -> Block | None:
        self.seen.append((call.name, ctx.effects))
        return Block("no") if self.refuses else None


@pytest.fixture
def gate() -> Approval:
    return Approval()


@pytest.fixture
def run(tmp_path: Path, gate: Approval) -> Callable[..., ExecutedCall]:
    hooks = HookManager()
    hooks.register(gate, name="approval")
    dispatcher = Dispatcher(registry, hooks)

    def call(name: str, **args: Any) -> ExecutedCall:
        async def whole() -> ExecutedCall:
            scope = CallScope(identity=RunIdentity("s"), open_environment=lambda: LocalEnvironment(str(tmp_path)))
            try:
                return await dispatcher.call(ToolCall("c", name, args), scope)
            finally:
                await scope.close()

        return asyncio.run(whole())

    return call


def test_how_they_are_registered() -> None:
    """003-1"""
    entries = {name: registry.get(name) for name in NAMES}
    assert all(entry is not None and entry.toolset == "file" and entry.emoji and entry.effects for entry in entries.values())
    assert [entry.kind for entry in entries.values() if entry] == ["read", "edit", "edit", "read"]
    assert [entry.parallel_safe for entry in entries.values() if entry] == [True, False, False, True]


def test_schemas_are_terse() -> None:
    assert len(json.dumps(registry.get_definitions([*NAMES, "todo", "clarify"]))) <= 5000


def test_write_patch_search_and_read_go_through_the_dispatcher(run: Any, gate: Approval, tmp_path: Path) -> None:
    assert run("write_file", path="a.txt", content="one\ntwo\n").result.data["action"] == "created"
    assert run("patch", path="a.txt", old="two", new="2").result.is_success
    assert run("search_files", pattern="2").result.data["matches"] == [{"path": "a.txt", "line": 2, "text": "2"}]
    assert run("read_file", path="a.txt", limit="1").result.data["content"] == "one"
    assert [(name, [effect.path for effect in effects]) for name, effects in gate.seen] == [
        ("write_file", [f"{tmp_path}/a.txt"]),
        ("patch", [f"{tmp_path}/a.txt"]),
        ("search_files", [str(tmp_path)]),
        ("read_file", [f"{tmp_path}/a.txt"]),
    ]


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("read_file", {}),
        ("read_file", {"path": "a", "offset": 0}),
        ("write_file", {"path": "a"}),
        ("patch", {"diff": "nonsense"}),
        ("search_files", {"pattern": "x", "target": "both"}),
    ],
)
def test_bad_arguments_reach_neither_gate_nor_handler(run: Any, gate: Approval, name: str, args: dict[str, Any]) -> None:
    result = run(name, **args).result
    assert result.is_error
    assert gate.seen == []


def test_patch_takes_the_names_of_other_tools(run: Any, gate: Approval, tmp_path: Path) -> None:
    """Gates, the ledger and the handler get a call with patch's own names, and the model's schema has only those."""
    (tmp_path / "a.txt").write_text("one\ntwo\ntwo\n")
    done = run("patch", path="a.txt", old_string="two", new_string="2", replace_all="true")
    assert (tmp_path / "a.txt").read_text() == "one\n2\n2\n"
    assert done.call.args == {"path": "a.txt", "old": "two", "new": "2", "replace_all": True}
    assert "old_string" not in json.dumps(registry.get_definitions(["patch"]))
    both = run("patch", path="a.txt", old="one", new="1", old_string="one").result
    assert "old_string" in (both.message or "")


def test_nothing_of_a_file_is_told_before_the_gates(run: Any, gate: Approval, tmp_path: Path) -> None:
    """A patch that does not fit would show the nearest lines; a gate that refuses runs first."""
    (tmp_path / "key").write_text("secret line\n")
    args = {"path": "key", "old": "line secret", "new": "x"}
    assert "1|secret line" in (run("patch", **args).result.message or "")
    gate.refuses = True
    refused = run("patch", **args).result
    assert refused.is_error
    assert "secret line" not in refused.to_json_text()
    assert len(gate.seen) == 2
