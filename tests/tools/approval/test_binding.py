"""An answer binds the same in every process that has the same folder and the same exported variables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from toolcrib import RunIdentity, RunsCommand, ShellState, ToolCall, ToolEntry
from toolcrib.contract.context import mint_context
from toolcrib.testing import FakeEnvironment
from tools.approval.binding import digest
from tools.dispatch.scope import CallScope

ASK = """
import asyncio, json, sys
import tools.terminal_tool
from agent.store.memory import MemoryStore
from toolcrib import ExecRequest, RunIdentity, ToolCall, ToolRegistry
from tools.approval.gate import APPROVAL, ApprovalGate
from tools.dispatch.hooks import new_manager
from tools.dispatch.pipeline import Dispatcher
from tools.dispatch.scope import CallScope
from tools.environments.local.environment import LocalEnvironment
from tools.registry import registry as known

async def binds(folder, command, before):
    registry, hooks, store = ToolRegistry(), new_manager(), MemoryStore()
    registry.put(known.get("terminal"))
    hooks.register(ApprovalGate(store.grants, project_root=folder), APPROVAL)
    environment = LocalEnvironment(folder)
    for line in before:
        await environment.execute(ExecRequest(line))
    scope = CallScope(identity=RunIdentity("s1"), open_environment=lambda: environment, suspends=True,
                      ledger=store.ledger, tickets=store.tickets)
    call = ToolCall("c1", "terminal", {"command": command})
    executed = await Dispatcher(registry, hooks).call(call, scope)
    await scope.close()
    return executed.result.suspension.binds

async def main(folder, command, shells):
    print(json.dumps([await binds(folder, command, before) for before in json.loads(shells)]))

asyncio.run(main(*sys.argv[1:]))
"""


def binds(folder: Path, command: str, *before: str) -> str:
    """Return what the ticket for ``command`` binds in a new process whose shell ran the lines ``before``."""
    [bound] = binds_after(folder, command, before)
    return bound


def binds_after(folder: Path, command: str, *shells: Sequence[str]) -> list[str]:
    """Return what the tickets for ``command`` bind in a new process with several shells, after the lines of each."""
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    run = subprocess.run(
        [sys.executable, "-c", ASK, str(folder), command, json.dumps(shells)],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    found: list[str] = json.loads(run.stdout)
    return found


def test_two_processes_bind_the_same(tmp_path: Path) -> None:
    """002-24: one shell ran several commands, the other only got the same folder and exported variables"""
    command = 'bash build.sh; rm -rf "$TARGET"'
    (tmp_path / "build.sh").write_text("rm -rf out\n")
    (tmp_path / "sub").mkdir()
    worked = binds(tmp_path, command, "true", "cd sub", "export TARGET=old", "ls | cat; false", "cd ..", "export TARGET=out")
    restored = binds(tmp_path, command, "export TARGET=out")
    assert worked == restored
    assert len(worked) == 64


def test_a_shell_that_was_not_used_binds_as_one_that_was(tmp_path: Path) -> None:
    assert binds(tmp_path, "rm -rf out") == binds(tmp_path, "rm -rf out", "true", "ls")


@pytest.mark.full
def test_what_decides_what_the_command_means_is_bound(tmp_path: Path) -> None:
    lines = ["export TARGET=/", "alias x=echo", "x() { echo; }", "set -- a", "shopt -s dotglob", "set -f", "IFS=/", "cd /"]
    plain, again, *found = binds_after(tmp_path, "rm -rf out", ["true"], ["true"], *([line] for line in lines))
    assert plain == again
    assert [line for line, bound in zip(lines, found, strict=True) if bound == plain] == []


def of(command: str, **variables: str) -> str:
    call = ToolCall("c1", "terminal", {"command": command})
    ctx = mint_context(call, CallScope(identity=RunIdentity("s1"), open_environment=FakeEnvironment))
    ctx.effects = [RunsCommand(command, "/project", ShellState(variables=variables))]
    return digest(call, ctx, [], {})


def test_a_number_of_one_process_counts_where_the_command_names_it() -> None:
    assert of("kill $PPID", PPID="1") != of("kill $PPID", PPID="2")
    assert of("ls", PPID="1") == of("ls", PPID="2") == of("ls")


@pytest.mark.parametrize(
    ("change", "is_bound"),
    [
        ({}, False),
        ({"kind": "edit"}, True),
        ({"toolset": "other"}, True),
        ({"module": "other"}, True),
        ({"schema": {"name": "deploy", "description": "Deploy to production."}}, True),
        ({"emoji": "x"}, False),
    ],
)
def test_what_a_plugins_tool_claims_to_be_is_bound(change: dict[str, Any], is_bound: bool) -> None:
    call = ToolCall("c1", "deploy", {})
    ctx = mint_context(call, CallScope(identity=RunIdentity("s1"), open_environment=FakeEnvironment))
    fields: dict[str, Any] = {"name": "deploy", "toolset": "t", "schema": {"name": "deploy"}, "kind": "execute", "module": "mine"}
    one, other = (ToolEntry(**{"handler": None, "invoke": None, **fields, **more}) for more in ({}, change))
    assert (digest(call, ctx, [], {}, one) != digest(call, ctx, [], {}, other)) is is_bound


def test_the_order_in_which_variables_are_told_does_not_count() -> None:
    assert of("ls", A="1", B="2") == of("ls", B="2", A="1") != of("ls", A="2", B="1")
