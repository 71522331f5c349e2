"""A bench: each test has its own registry, dispatcher and scope."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from agent.store.memory import MemoryStore
from toolcrib import ExecutedCall, RunIdentity, ToolCall, ToolRegistry, hookimpl
from toolcrib.contract.store import CallRecord
from toolcrib.testing import FakeEnvironment
from tools.arguments import check_schema
from tools.dispatch.batch import run_calls
from tools.dispatch.bridge import close_loop, run_async
from tools.dispatch.hooks import APPROVAL, HookManager, new_manager
from tools.dispatch.json_results import as_json
from tools.dispatch.pipeline import Dispatcher
from tools.dispatch.scope import CallScope, Limits

ANY = {"description": "A tool.", "parameters": {"type": "object"}}


class AllowAll:
    @hookimpl
    def tool_gate(self) -> None:
        return None


@dataclass
class Bench:
    registry: ToolRegistry
    hooks: HookManager
    dispatcher: Dispatcher
    store: MemoryStore
    scope: CallScope

    def tool(self, name: str, handler: Callable[..., Any] | None, **options: Any) -> None:
        self.registry.register(name, options.pop("toolset", "t"), options.pop("schema", ANY), handler, **options)

    def call(self, name: str, args: Any = None, **options: Any) -> ExecutedCall:
        call = ToolCall(options.pop("call_id", ToolCall.new_id()), name, {} if args is None else args, **options)
        return self.dispatcher.call_sync(call, self.scope)

    def text(self, name: str, args: Any = None) -> Any:
        return json.loads(self.registry.dispatch(name, {} if args is None else args))

    def turn(self, *calls: ToolCall | tuple[str, Any], **options: Any) -> list[ExecutedCall]:
        made = [call if isinstance(call, ToolCall) else ToolCall(ToolCall.new_id(), *call) for call in calls]
        return asyncio.run(run_calls(self.dispatcher, made, self.scope, **options))

    def plugin(self, name: str = "plugin", **hooks: Callable[..., Any]) -> None:
        """Register a plugin with these hook functions."""
        body: Mapping[str, Any] = {key: staticmethod(hookimpl(function)) for key, function in hooks.items()}
        self.hooks.register(type(name, (), dict(body))(), name)

    def record(self, call_id: str) -> CallRecord | None:
        return run_async(self.store.ledger.get(self.scope.identity.session_id, call_id))

    def status(self, executed: ExecutedCall) -> Any:
        record = self.record(executed.call.id)
        return None if record is None else record.status


@pytest.fixture
def bench() -> Iterator[Bench]:
    registry, hooks, store = ToolRegistry(), new_manager(), MemoryStore()
    hooks.register(AllowAll(), APPROVAL)
    dispatcher = Dispatcher(registry, hooks)
    scope = CallScope(
        identity=RunIdentity("session"),
        open_environment=FakeEnvironment,
        ledger=store.ledger,
        tickets=store.tickets,
        limits=Limits(handler_seconds=20, gate_seconds=1.5),
    )
    registry.attach(
        lambda name, args, **extra: as_json(dispatcher.call_sync(ToolCall(ToolCall.new_id(), name, args), scope, extra)),
        check_schema,
    )
    yield Bench(registry, hooks, dispatcher, store, scope)
    run_async(scope.close())
    close_loop()
