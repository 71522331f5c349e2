"""A test bench: the real dispatcher, gate, store and tools; only the environment of commands is a double."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import tools.file_tools
import tools.terminal_tool  # noqa: F401 - both register tools
from agent.store.sqlite import SqliteStore
from toolcrib import Answer, ExecutedCall, RunIdentity, ToolCall, ToolRegistry
from toolcrib.testing import FakeEnvironment
from tools.approval.gate import APPROVAL, ApprovalGate
from tools.dispatch.hooks import new_manager
from tools.dispatch.pipeline import Dispatcher
from tools.dispatch.scope import CallScope
from tools.judge.setting import Setting
from tools.registry import registry as known

HOME = "/home/dev"
PROJECT = f"{HOME}/project"
OWN = (f"{HOME}/.config/toolcrib", f"{HOME}/.local/state/toolcrib")


class Floor:
    """A session. ``do`` and ``call`` return the outcome of a call: ``ran``, ``refused``, or the keys of the approval
    request.
    """

    def __init__(self, file: Path, environment: Any = None, **options: Any) -> None:
        self.environment = environment or FakeEnvironment(commands=lambda request: (0, b"done"), cwd=PROJECT)
        self.store = SqliteStore(file)
        registry, hooks = ToolRegistry(), new_manager()
        for name in ("terminal", "write_file", "patch", "read_file"):
            entry = known.get(name)
            assert entry is not None
            registry.put(entry)
        options.setdefault("setting", Setting(protected=OWN, home=HOME))
        options.setdefault("project_root", PROJECT)
        self.gate = ApprovalGate(options.pop("grants", None) or self.store.grants, audit=self.store.audit, **options)
        hooks.register(self.gate, APPROVAL)
        self.dispatcher = Dispatcher(registry, hooks)
        self.numbers = count(1)
        self.last: ExecutedCall | None = None
        self.scopes: list[CallScope] = []

    async def close(self) -> None:
        self.store.close()
        for scope in self.scopes:
            await scope.close()
        await self.environment.close()

    def scope(self, session: str = "s1", asker: Any = None, *, suspends: bool = True) -> CallScope:
        made = CallScope(
            identity=RunIdentity(session),
            open_environment=lambda: self.environment,
            suspends=suspends and asker is None,
            asker=asker,
            ledger=self.store.ledger,
            tickets=self.store.tickets,
        )
        self.scopes.append(made)
        return made

    def run(self, tool: str, args: dict[str, Any], scope: CallScope | None = None) -> ExecutedCall:
        call = ToolCall(f"c{next(self.numbers)}", tool, args)
        self.last = asyncio.run(self.dispatcher.call(call, scope or self.scope()))
        return self.last

    def call(self, tool: str, args: dict[str, Any], session: str = "s1") -> str | set[str]:
        result = self.run(tool, args, self.scope(session)).result
        if result.suspension is not None:
            return {finding["key"] for finding in result.suspension.parameters["findings"]}
        if result.failure is not None:
            assert result.failure.kind == "Denied", result
            return "refused"
        return "ran"

    def do(self, command: str, session: str = "s1") -> str | set[str]:
        return self.call("terminal", {"command": command}, session)

    def asks(self, command: str) -> bool:
        return isinstance(self.do(command), set)

    def answer(self, payload: dict[str, Any] | None = None, session: str = "s1") -> ExecutedCall:
        """Answer the question of the last call."""
        assert self.last is not None
        assert self.last.result.suspension is not None, self.last.result
        answer = Answer(self.last.result.suspension.id, payload=payload or {"approved": True}, by="ann", at=time.time())
        return asyncio.run(self.dispatcher.resume(answer, self.scope(session)))

    def grant(self, command: str, scope: str = "session", **more: Any) -> None:
        assert self.asks(command), command
        assert self.answer({"approved": True, "scope": scope, **more}).result.is_success

    @property
    def ran(self) -> list[str]:
        return [request.command for request in self.environment.executed]


@pytest.fixture
def floors(tmp_path: Path) -> Iterator[Callable[..., Floor]]:
    made: list[Floor] = []

    def one(environment: Any = None, **options: Any) -> Floor:
        made.append(Floor(tmp_path / "store.db", environment, **options))
        return made[-1]

    yield one
    for floor in made:
        asyncio.run(floor.close())


@pytest.fixture
def floor(floors: Callable[..., Floor]) -> Floor:
    return floors()
