"""Run the handler, and turn its outcome into one result."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from types import CoroutineType
from typing import Any

from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import Denied, EnvironmentFailed, ExecutionFailed, Internal, LeaseLost, NotFound, Timeout, ToolError
from toolcrib.contract.private import Private
from toolcrib.contract.types import SuspendTicket, ToolOutput, ToolResult
from tools.dispatch.finish import observe
from tools.dispatch.gates import ROUNDS, suspend
from tools.dispatch.json_results import failed
from tools.dispatch.preload import load_all
from tools.dispatch.progress import LIMIT, PENDING, PLAIN, SUCCESS, CallInProgress
from tools.dispatch.scope import CallSnapshots
from tools.dispatch.states import keep_state
from tools.dispatch.threads import in_daemon_thread

_log = logging.getLogger(__name__)
_ACTS = frozenset({"edit", "execute"})
ANSWER = "answer"
"""Action of the ticket that the dispatcher makes if a handler's pending result has no ticket: the answer becomes the result."""


async def run_again(current: CallInProgress, result: ToolResult) -> ToolResult:
    """Return the result of a handler that suspended. The handler runs again with the answer, and may suspend again."""
    for _ in range(ROUNDS):
        if result.status is not PENDING:
            return result
        ticket = result.suspension
        if ticket is None:
            if current.scope.asker is None and not current.scope.suspends:
                return result
            words = result.message or f"{current.call.name} waits for an answer"
            ticket = SuspendTicket(ANSWER, words, resume_mode="use_as_result")
        stopped = await suspend(current, ticket, relays=current.plan.entry.handler is None)  # the agent loop's own handler
        if stopped is not None:
            return stopped
        result = await run_handler(current)
    raise Internal(f"{current.call.name} suspended too often")


def run_handler(current: CallInProgress) -> Coroutine[Any, Any, ToolResult]:
    """Run the handler once, between two snapshots if the call may write. Every outcome becomes a result."""
    # Not a coroutine itself, so a call without snapshots awaits only the handler's coroutine.
    snapshots = current.scope.snapshots
    if snapshots is None or (current.plan.entry.kind == "read" and not current.ctx.effects):
        return _handled(current)
    return _between_snapshots(current, snapshots)


async def _between_snapshots(current: CallInProgress, snapshots: CallSnapshots) -> ToolResult:
    entry = current.plan.entry
    try:
        follows = await snapshots.before(current.call, entry, current.ctx)
    except Denied as error:
        return failed(current.call.name, error, inside=False)
    try:
        return await _handled(current)
    finally:
        if follows:
            await snapshots.after(current.call, entry)


async def _handled(current: CallInProgress) -> ToolResult:
    name, entry, scope = current.call.name, current.plan.entry, current.scope
    invoke, is_async = entry.invoke, entry.is_async
    if entry.handler is None:
        invoke, is_async = scope.loop_handlers.get(name, (None, False))
    if invoke is None:
        return failed(name, Internal(f"{name} is run by the agent loop, but no agent loop made this call"), inside=False)
    if current.plan.registry.get(name) is not entry:  # it was removed while the call waited for an answer
        why = current.plan.registry.why_gone(name) or "it was removed or replaced while the call waited"
        return failed(name, NotFound(f"the tool {name!r} is unavailable: {why}"), inside=False)
    if before := current.plan.hooks.of("pre_tool_call"):
        await observe(current, before, current.call, current.ctx)
    current.begun = True
    if scope.ledger is not None:
        await scope.ledger.handler_started(scope.identity.session_id, current.call.id)
    seconds = entry.timeout
    if seconds is None and (is_async or current.offload):
        seconds = scope.limits.handler_seconds
    task = _task(current)
    current.ctx.used_environment = False  # only use by the handler counts, not by effects and gates
    try:
        value = _invoked(current, invoke, None if is_async else seconds)
        if type(value) not in PLAIN:
            value = await current.await_value(value, seconds)
            if type(value) is CoroutineType:  # from a thread: a plain function returned the coroutine of an async one
                value = await current.await_value(value, seconds)
        return _result(current, await _kept(current, value) if type(value) is ToolOutput else value)
    except TimeoutError as error:
        if error.args != (LIMIT,):
            return failed(name, error, inside=True)
        late = Timeout(f"no result within {seconds:g} s; it may have done part of its work, or may still be running")
        return failed(name, late, inside=True)
    except BaseException as error:  # 003-19: whatever it raises becomes its result
        _let_pass(current, task, error)
        return _raised(current, error)


def _let_pass(current: CallInProgress, task: asyncio.Task[Any] | None, error: BaseException) -> None:
    """Raise Ctrl-C, a cancellation or a GeneratorExit again, but not a GeneratorExit that the handler itself raised."""
    if isinstance(error, GeneratorExit) and (current.inline or _runs(task)):
        return
    current.let_pass(error)


def _task(current: CallInProgress) -> asyncio.Task[Any] | None:
    return None if current.inline else asyncio.current_task()


def _runs(task: asyncio.Task[Any] | None) -> bool:
    """Return whether ``task`` runs now. If not, its coroutine is being closed."""
    try:
        return asyncio.current_task() is task
    except RuntimeError:  # no loop runs
        return False


def _invoked(current: CallInProgress, invoke: Callable[..., Any], seconds: float | None) -> Any:
    """Return the handler's result or its awaitable. With a limit of ``seconds`` it runs in a thread."""
    if current.plan.entry.kind in _ACTS:
        load_all()
    if seconds is None:
        return invoke(current.args, current.ctx, current.extra)
    return in_daemon_thread(invoke, current.args, current.ctx, current.extra)


def _raised(current: CallInProgress, error: BaseException) -> ToolResult:
    if isinstance(error, LeaseLost):  # the changes to the state no longer count
        raise error
    name = current.call.name
    if isinstance(error, EnvironmentFailed):  # the handler did not handle it
        error = ExecutionFailed(str(error))
    if not isinstance(error, ToolError):
        _log.warning("%s raised %s: %s", name, type(error).__name__, Private(current.scope.redactor.text(str(error))))
    return failed(name, error, inside=True)


async def _kept(current: CallInProgress, output: ToolOutput) -> ToolResult:
    """Keep the call's changes to the state, and return its result. Raises like ``keep_state``."""
    if output.state_changes:
        await keep_state(current, output.state_changes)
    return output.result


def _result(current: CallInProgress, value: Any) -> ToolResult:
    """Turn a handler's return value into a result. Whether it is JSON is checked when the result is encoded."""
    if isinstance(value, ToolResult):
        if value.suspension is not None and not isinstance(value.suspension, SuspendTicket):
            raise TypeError(f"suspension holds {type(value.suspension).__name__}; it must be a SuspendTicket")
        return value if value.tool_name == current.call.name else replace(value, tool_name=current.call.name)
    return ToolResult(current.call.name, SUCCESS, value)
