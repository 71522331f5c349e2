"""``ctx.spawn``: a tool starts exactly the process that it declared, and uses it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from toolcrib import RunIdentity, RunsCommand, ToolCall, hookimpl
from toolcrib.contract.registry import ToolRegistry
from tools.dispatch.hooks import new_manager
from tools.dispatch.pipeline import Dispatcher
from tools.dispatch.scope import CallScope
from tools.environments import open_environment

COMMAND = 'echo up; read -r line; echo "<$line>"; exit 3'
SCHEMA = {"description": "d", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}


class Gate:
    @hookimpl
    def tool_gate(self, call: ToolCall) -> None:
        """Allow every call."""


@pytest.fixture
def scope(tmp_path: Path) -> Iterator[CallScope]:
    folder = str(tmp_path.resolve())
    scope = CallScope(
        identity=RunIdentity(f"s-{secrets.token_hex(6)}"), open_environment=lambda: open_environment("local", cwd=folder)
    )
    yield scope
    asyncio.run(scope.close())


def called(scope: CallScope, handler: Any, **args: Any) -> Any:
    registry = ToolRegistry()
    registry.register(
        "serve", "t", SCHEMA, handler, kind="execute",
        effects=lambda args, ctx: [RunsCommand(COMMAND, ctx.environment.cwd, background=True, open_input=True)],
    )  # fmt: skip
    manager = new_manager()
    manager.register(Gate(), name="approval")
    return Dispatcher(registry, manager).call_sync(ToolCall(ToolCall.new_id(), "serve", args), scope).result


def test_it_is_used_recorded_and_closed(scope: CallScope) -> None:
    """003-30"""

    async def serve(args: Any, ctx: Any) -> Any:
        process = await ctx.spawn(COMMAND)
        assert await process.wait(within=0.05) is None
        await process.write("hello\n")
        code, printed = await process.wait(), b""
        while not printed.endswith(b">\n"):
            printed = await process.log()
        return [process.name, code, printed.decode()]

    assert called(scope, serve).data == ["serve", 3, "up\n<hello>\n"]
    assert scope.state["processes"]["serve"]["command"] == COMMAND

    async def again(args: Any, ctx: Any) -> Any:
        process = await ctx.spawn(COMMAND, name="serve")
        await process.close()
        return process.name

    assert called(scope, again).data == "serve-2"


def test_another_command_than_the_declared_one_is_denied(scope: CallScope) -> None:
    async def serve(args: Any, ctx: Any) -> Any:
        return (await ctx.spawn("touch other")).name

    assert "may not start 'touch other'" in str(called(scope, serve).message)
