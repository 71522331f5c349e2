"""Run the handler, and make one result of whatever it does."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from types import CoroutineType
from typing import Any

from toolcrib import (
    EnvironmentFailed,
    ExecutionFailed,
    Internal,
    SuspendTicket,
    Timeout,
    ToolError,
    ToolOutput,
    ToolResult,
)
from tools.clip import encode
from tools.dispatch.faces import failed
from tools.dispatch.finish import observe
from tools.dispatch.gates import ROUNDS, suspend
from tools.dispatch.run import LIMIT, PENDING, PLAIN, SUCCESS, Run
from tools.dispatch.threads import in_daemon_thread

_log = logging.getLogger(__name__)
ANSWER = "answer"
"""The action of the ticket that a handler's pending result gets where it brings none: what is answered becomes the result."""


async def run_again(run: Run, result: ToolResult) -> ToolResult:
    """The result of a handler that suspended: it is run again with its answer, which may make it suspend again."""
    for _ in range(ROUNDS):
        if result.status is not PENDING:
            return result
        ticket = result.suspension
        if ticket is None:
            if run.scope.asker is None and not run.scope.suspends:
                return result
            words = result.message or f"{run.call.name} waits for an answer"
            ticket = SuspendTicket(ANSWER, words, resume_mode="use_as_result")
        stopped = await suspend(run, ticket)
        if stopped is not None:
            return stopped
        result = await run_handler(run)
    raise Internal(f"{run.call.name} suspended again and again")


async def run_handler(run: Run) -> ToolResult:
    """Run it once. Whatever it does becomes a result."""
    name, entry, scope = run.call.name, run.plan.entry, run.scope
    invoke, is_async = entry.invoke, entry.is_async
    if entry.handler is None:
        invoke, is_async = scope.loop_handlers.get(name, (None, False))
    if invoke is None:
        return failed(name, Internal(f"{name} is run by the agent loop, and none is attached to this call"), inside=False)
    if run.plan.hooks.before:
        await observe(run, run.plan.hooks.before, run.call, run.ctx)
    if scope.ledger is not None:
        await scope.ledger.handler_started(scope.identity.session_id, run.call.id)
    seconds = entry.timeout
    if seconds is None and (is_async or run.offload):
        seconds = scope.limits.handler_seconds
    run.ctx.used_environment = False  # its effects and the gates may have: what counts is what the handler does
    try:
        if is_async or seconds is None:
            value = invoke(run.args, run.ctx, run.extra)
        else:
            value = in_daemon_thread(invoke, run.args, run.ctx, run.extra)
        if type(value) not in PLAIN:
            value = await run.settle(value, seconds)
            if type(value) is CoroutineType:  # from a thread: a plain function that hands on an async one's
                value = await run.settle(value, seconds)
        return _result(run, value)
    except TimeoutError as error:
        if error.args != (LIMIT,):
            return failed(name, error, inside=True)
        late = Timeout(f"no answer within {seconds:g} s; it was stopped, and may have done part of its work")
        return failed(name, late, inside=True)
    except BaseException as error:  # 003-19: whatever it raises becomes its result
        run.let_pass(error)
        return _raised(run, error)


def _raised(run: Run, error: BaseException) -> ToolResult:
    name = run.call.name
    if isinstance(error, EnvironmentFailed):  # the handler left it to us
        error = ExecutionFailed(str(error))
    if not isinstance(error, ToolError):
        _log.warning("%s raised %s: %s", name, type(error).__name__, run.scope.redactor.text(str(error)))
    return failed(name, error, inside=True)


def _result(run: Run, value: Any) -> ToolResult:
    """Turn a handler's return value into a result. Whether it is JSON shows when the result is written out."""
    if isinstance(value, ToolOutput):
        if value.state_changes:
            run.scope.change_state(_changes(value.state_changes))
        value = value.result
    if isinstance(value, ToolResult):
        if value.suspension is not None and not isinstance(value.suspension, SuspendTicket):
            raise TypeError(f"suspension holds {type(value.suspension).__name__}; make a SuspendTicket")
        return value if value.tool_name == run.call.name else replace(value, tool_name=run.call.name)
    return ToolResult(run.call.name, SUCCESS, value)


def _changes(given: Any) -> dict[str, Any]:
    """A copy as JSON has it, as it will be kept with the results. Raises TypeError for anything else."""
    try:
        changes = dict(given)
        if wrong := [name for name in changes if not isinstance(name, str)]:
            raise TypeError(f"{wrong[0]!r} is no name")
        return json.loads(encode(changes))  # type: ignore[no-any-return]  # what a dict is encoded to
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"state_changes must be pairs of a name and JSON: {error}") from None
