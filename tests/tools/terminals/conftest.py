"""A session whose calls reach real terminals through the dispatcher; a stand-in for the gate allows them."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tools.process_registry
import tools.terminal_tool  # noqa: F401 - both register tools
from toolcrib import RunIdentity, ToolCall, hookimpl, registry
from tools.dispatch.hooks import new_manager
from tools.dispatch.pipeline import Dispatcher
from tools.dispatch.scope import CallScope
from tools.environments import open_environment


class AllowingGate:
    """Allows every call, and records its effects."""

    def __init__(self) -> None:
        self.effects: list[Any] = []

    @hookimpl
    def tool_gate(self, call: ToolCall, ctx: Any) -> None:
        self.effects = list(ctx.effects)


class Desk:
    """Calls the tools as a model does. ``terminal`` and ``process`` return the result's data, or the message of an error."""

    def __init__(self, scope: CallScope) -> None:
        self.scope, self.gate = scope, AllowingGate()
        manager = new_manager()
        manager.register(self.gate, name="approval")
        self._dispatcher = Dispatcher(registry, manager)

    def call(self, tool: str, /, **args: Any) -> Any:
        result = self._dispatcher.call_sync(ToolCall(ToolCall.new_id(), tool, args), self.scope).result
        return result.data if result.is_success else str(result.message)

    def terminal(self, command: str, **args: Any) -> Any:
        return self.call("terminal", command=command, pty=True, **args)

    def process(self, action: str, name: str, **args: Any) -> Any:
        return self.call("process", action=action, name=name, **args)

    def keys(self, name: str, *keys: str) -> Any:
        return self.process("keys", name, keys=list(keys))

    def sees(self, name: str, pattern: str) -> str:
        """Wait until the pattern is on the screen, and return the whole screen."""
        found = self.process("wait", name, pattern=pattern, timeout=30)
        assert found["came"] == "pattern", found
        return str(self.process("screen", name)["screen"])


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    folder = str(tmp_path.resolve())
    scope = CallScope(
        identity=RunIdentity(f"s-{secrets.token_hex(6)}", user=secrets.token_hex(6)),
        open_environment=lambda: open_environment("local", cwd=folder),
    )
    yield Desk(scope)
    asyncio.run(scope.close())


@pytest.fixture
def eventually() -> Callable[[Callable[[], object]], None]:
    """Return a function that waits until a condition is true, and fails after a generous time."""
    import time

    def eventually(condition: Callable[[], object]) -> None:
        give_up = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < give_up, "it did not come true"
            time.sleep(0.02)

    return eventually
