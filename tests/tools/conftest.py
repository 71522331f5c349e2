"""Sessions whose calls reach the real tools through the dispatcher, and checks of processes that a tool started."""

from __future__ import annotations

import asyncio
import secrets
import time
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


@pytest.fixture
def alive() -> Callable[[int], bool]:
    def alive(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        except OSError:
            return False

    return alive


@pytest.fixture
def eventually() -> Callable[[Callable[[], object]], None]:
    """Return a function that waits until a condition is true, and fails after a generous time."""

    def eventually(condition: Callable[[], object]) -> None:
        give_up = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < give_up, "it did not come true"
            time.sleep(0.01)

    return eventually


class AllowingGate:
    """A stand-in for the approval gate, which allows every call and records its effects. The next call calls ``before``."""

    def __init__(self) -> None:
        self.effects: list[Any] = []
        self.before: Callable[[], object] = lambda: None

    @hookimpl
    def tool_gate(self, call: ToolCall, ctx: Any) -> None:
        self.effects = list(ctx.effects)
        before, self.before = self.before, lambda: None
        before()


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
def told() -> list[Any]:
    """Events that were reported to the session."""
    return []


@pytest.fixture
def desks(tmp_path: Path, told: list[Any]) -> Iterator[Callable[..., Desk]]:
    """Return a function that opens a session on this machine."""
    folder, made = str(tmp_path.resolve()), list[CallScope]()

    async def tell(events: Any, left_out: int) -> None:
        told.extend(events)

    def desks(session: str = "", **settings: Any) -> Desk:
        identity = RunIdentity(session or f"s-{secrets.token_hex(6)}", user=secrets.token_hex(6))
        scope = CallScope(
            identity=identity,
            open_environment=lambda: open_environment("local", cwd=folder),
            tell_processes=tell,
            settings=settings,
        )
        made.append(scope)
        return Desk(scope)

    yield desks
    for scope in made:
        asyncio.run(scope.close())


@pytest.fixture
def desk(desks: Callable[..., Desk], request: pytest.FixtureRequest) -> Desk:
    """A session, with the settings that a test may give as the parameter of this fixture."""
    return desks(**getattr(request, "param", {}))
