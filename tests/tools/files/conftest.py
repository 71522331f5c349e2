from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tools.file_tools  # noqa: F401 - registers the tools under test
from toolcrib import Effect, RunIdentity, ToolCall, ToolResult, registry
from toolcrib.contract.context import ToolCallContext, mint_context
from tools.dispatch.scope import CallScope
from tools.environments.local import LocalEnvironment


class Caller:
    """Prepares and runs a file tool as the dispatcher does; ``between`` runs after the gates' part."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.scope = CallScope(identity=RunIdentity("test"), open_environment=lambda: LocalEnvironment(str(folder)))
        self.between: Callable[[], object] | None = None
        self.judged: tuple[Effect, ...] = ()

    def __call__(self, name: str, **args: Any) -> ToolResult:
        return asyncio.run(self._call(name, args))

    def text(self, name: str, **args: Any) -> str:
        return self(name, **args).views["model"]

    async def effects(self, name: str, args: dict[str, Any]) -> ToolCallContext:
        ctx = mint_context(ToolCall("c1", name, args), self.scope)
        entry = registry.get(name)
        assert entry is not None
        assert entry.effects is not None
        ctx.effects = self.judged = tuple(await entry.effects(args, ctx))  # type: ignore[misc]  # all of ours are async
        return ctx

    async def _call(self, name: str, args: dict[str, Any]) -> ToolResult:
        ctx = await self.effects(name, args)
        if self.between is not None:
            self.between()
        entry = registry.get(name)
        assert entry is not None
        assert entry.handler is not None
        result = await entry.handler(args, ctx)
        assert isinstance(result, ToolResult)
        return result


@pytest.fixture
def call(tmp_path: Path) -> Iterator[Caller]:
    caller = Caller(tmp_path)
    yield caller
    asyncio.run(caller.scope.close())
