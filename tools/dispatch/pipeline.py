"""The pipeline of one call: prepare, gate, act, finish. Every tool runs through it.

Each step is a coroutine. If no code of plugins or tools can await (see ``Plan.inline``), the steps are driven inline, at the cost
of a function call; otherwise a loop drives the same coroutines (see ``bridge``).
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Any, TypeVar, cast

from toolcrib.contract.context import ToolCallContext, give_own_state, mint_context
from toolcrib.contract.dataclass import dataclass, replace
from toolcrib.contract.decision import Block, Decision
from toolcrib.contract.effects import Effect
from toolcrib.contract.entry import ToolEntry
from toolcrib.contract.errors import (
    Cancelled,
    Denied,
    EnvironmentFailed,
    ExecutionFailed,
    Internal,
    InvalidArguments,
    LeaseLost,
    NotFound,
    Timeout,
    ToolcribError,
    ToolError,
)
from toolcrib.contract.passing import SHORTAGE, is_passing
from toolcrib.contract.registry import ToolRegistry
from toolcrib.contract.session import ExecutedCall
from toolcrib.contract.state import SHARED
from toolcrib.contract.store import Settled, TicketRecord
from toolcrib.contract.types import Answer, SuspendTicket, ToolCall, ToolCallStatus, ToolResult
from tools.arguments import ArgumentCheck, own_copy
from tools.dispatch.act import run_again, run_handler
from tools.dispatch.after import run_later
from tools.dispatch.answers import settle_answer
from tools.dispatch.bridge import run_async
from tools.dispatch.finish import close
from tools.dispatch.gates import ask_gates, decide, first_answers, foresee, go_on
from tools.dispatch.hooks import HookManager, ToolHookPlan, plan_hooks
from tools.dispatch.json_results import failed
from tools.dispatch.progress import LIMIT, PENDING, CallInProgress, Plan
from tools.dispatch.scope import CallScope
from tools.dispatch.states import read_shared
from tools.dispatch.where import placed

T = TypeVar("T")
_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _Known:
    """Plans that belong together. They are replaced as a whole, so that no thread combines a new gate with an old plan."""

    registry_generation: int
    hooks_generation: int
    hooks: ToolHookPlan
    plans: dict[str, Plan] = field(default_factory=dict)


_INTERRUPTED = "interrupted; it may have done part of its work"
_BEFORE = "interrupted before it began"


class Dispatcher:
    """Runs calls of the registry's tools through the plugins' hooks. Thread-safe; one serves many sessions."""

    def __init__(self, registry: ToolRegistry, hooks: HookManager) -> None:
        self.registry = registry
        self.hooks = hooks
        self._known = self._look()

    # -- entry points --------------------------------------------------------------------------------------------

    def call_sync(self, call: ToolCall, scope: CallScope, extra: Mapping[str, Any] = _NOTHING) -> ExecutedCall:
        """Run one call from any sync code, even inside a running loop. ``extra``: keywords for the handler.

        They override the scope's keywords (``CallScope.extra``). Errors become the call's result. Raises LeaseLost; after
        Ctrl-C, records the end of the call and raises KeyboardInterrupt again.
        """
        plan = self._plan(call.name)
        waits = scope.asker_is_async or scope.ledger is not None or scope.tickets is not None or scope.snapshots is not None
        inline = (plan is None or plan.inline) and not waits
        current = _begin(call, scope, extra, inline=inline, found=plan)
        executed = contextvars.copy_context().run(_drive, self.whole(current)) if inline else run_async(self.whole(current))
        if current.later:
            run_async(run_later([current]))
        return executed

    async def call(self, call: ToolCall, scope: CallScope, extra: Mapping[str, Any] = _NOTHING) -> ExecutedCall:
        """Run one call from async code. Sync handlers run in a thread, so that the loop continues."""
        current = self.begin(call, scope, extra)
        executed = await self.whole(current)
        await run_later([current])
        return executed

    async def resume(self, answer: Answer, scope: CallScope) -> ExecutedCall:
        """Settle a ticket, and continue its suspended call, which another process may have suspended.

        The call that runs is the one stored with the ticket, never one that came with the answer. Repeating a decision changes
        nothing and returns the call's current outcome. If something that the ticket binds has changed, the answer is not used,
        and the result is pending again, with a new ticket. Raises what ``settle_answer`` does.
        """
        record, settled = await settle_answer(scope.tickets, answer, scope.identity.session_id)
        call = record.ticket.call
        assert call is not None  # noqa: S101 - settle_answer refuses such a ticket
        with scope.resuming(call.id) as claimed:
            if not claimed or not await self._waits_on(record, call, scope, settled):
                return await self._there_is(record, call, scope)
            current = self.begin(call, scope)
            current.opened = current.parked = True
            if scope.ledger is not None and (known := await scope.ledger.get(scope.identity.session_id, call.id)) is not None:
                current.own = known.state
            executed = await self.whole(current, (record.ticket, record.answer or answer))
        await run_later([current])
        return executed

    async def _waits_on(self, record: TicketRecord, call: ToolCall, scope: CallScope, settled: Settled) -> bool:
        """Return whether the call still waits for this very ticket, also after a crash between the answer and the action."""
        if scope.ledger is None or scope.tickets is None:
            return settled == "settled"
        known = await scope.ledger.get(scope.identity.session_id, call.id)
        if known is None or known.status is not ToolCallStatus.SUSPENDED:
            return False
        of_call = await scope.tickets.of_call(scope.identity.session_id, call.id)
        return bool(of_call) and of_call[-1].ticket.id == record.ticket.id

    async def _there_is(self, record: TicketRecord, call: ToolCall, scope: CallScope) -> ExecutedCall:
        known = None if scope.ledger is None else await scope.ledger.get(scope.identity.session_id, call.id)
        if known is not None and known.result is not None:
            return ExecutedCall(known.call, known.result, known.status, end_run=known.end_run)
        pending = ToolResult.suspended_with(call.name, record.ticket.message, record.ticket)
        return ExecutedCall(call, pending, ToolCallStatus.SUSPENDED if known is None else known.status)

    # -- steps; ``batch`` takes them one by one for calls that run together or wait ---------------------------------

    def begin(self, call: ToolCall, scope: CallScope, extra: Mapping[str, Any] = _NOTHING) -> CallInProgress:
        """Return a new call in progress, for ``whole`` or for the single steps."""
        return _begin(call, scope, extra, inline=False, offload=True)

    async def prepare_only(self, current: CallInProgress) -> ExecutedCall | None:
        """Prepare a call without running it. This sets ``ctx.effects``. Return the ended call if it cannot run, else None."""
        try:
            await self._look_at(current)
        except BaseException as error:
            return await _ended_by(current, error, "preparing")
        return None

    async def effects_of(self, call: ToolCall, scope: CallScope) -> tuple[Effect, ...] | None:
        """Return the effects that a call's tool declares for it; None if the call cannot be prepared. Nothing is recorded."""
        current = self.begin(call, scope)
        try:
            await self._look_at(current)
        except BaseException as error:
            current.let_pass(error)
            return None
        return tuple(current.ctx.effects)

    async def foresee(self, call: ToolCall, scope: CallScope) -> Decision | None:
        """Return the gates' decision on a call, None if it would run. No user is asked, and the dispatcher records nothing.

        The approval gate records nothing either if the scope's policy is ``Policy.only_asking``. Raises EnvironmentFailed.
        """
        current = self.begin(call, scope)
        try:
            await self._look_at(current)
        except ToolError as error:
            return Block(str(error))
        return await foresee(current)

    async def gate(
        self, current: CallInProgress, answered: tuple[SuspendTicket, Answer | None] | None = None
    ) -> ExecutedCall | None:
        """Prepare, and ask the gates. Return None if the call may run, else the ended or waiting call.

        ``answered``: continue with this ticket and its answer; with None as the answer, the user is asked now.
        """
        try:
            if current.scope.ledger is not None and not current.trial:
                await current.open()
            if current.scope.cancelled:
                raise Cancelled(_INTERRUPTED if current.begun else _BEFORE)
            if not current.prepared:
                effects = self._prepare(current)
                if effects is not None:
                    current.ctx.effects = tuple(await current.await_value(effects, current.scope.limits.gate_seconds))
                current.prepared = True
            if answered is not None:
                result = await go_on(current, *answered)
            else:
                answers = await ask_gates(current) if current.plan.hooks.in_worker else first_answers(current)
                result = await decide(current, answers) if answers else None
            return None if result is None else await close(current, result)
        except BaseException as error:
            return await _ended_by(current, error, "gating")

    async def act(self, current: CallInProgress) -> ExecutedCall:
        """Run the handler and finish."""
        try:
            result = await run_handler(current)
            if result.status is PENDING:
                result = await run_again(current, result)
            return await close(current, placed(current, result))
        except BaseException as error:
            return await _broken_off(current, error, "running")

    async def end(self, current: CallInProgress, result: ToolResult) -> ExecutedCall:
        """Finish with a result that did not come from a handler."""
        try:
            return await close(current, result)
        except BaseException as error:
            return await _broken_off(current, error, "ending")

    async def whole(self, current: CallInProgress, answered: tuple[SuspendTicket, Answer | None] | None = None) -> ExecutedCall:
        """Gate the call, and run it if allowed. The caller runs the actions that plugins scheduled (``current.later``)."""
        task = None if current.inline else asyncio.current_task()
        if task is not None:
            current.scope.running.add(task)
        try:
            ended = await self.gate(current, answered)
            return ended if ended is not None else await self.act(current)
        finally:
            if task is not None:
                current.scope.running.discard(task)

    # -- prepare -------------------------------------------------------------------------------------------------

    async def _look_at(self, current: CallInProgress) -> None:
        effects = self._prepare(current)
        if effects is not None:
            current.ctx.effects = tuple(await current.await_value(effects, current.scope.limits.gate_seconds))
        current.prepared = True

    def _prepare(self, current: CallInProgress) -> Any:
        """Check the call, and return its declared effects, perhaps as an awaitable. Raises ToolError if the call cannot run."""
        call, scope, plan = current.call, current.scope, current.found or self._plan(current.call.name)
        if call.fault is not None:
            raise InvalidArguments(f"the call was not run: {call.fault}; send it again")
        if plan is None:
            raise NotFound(self._unknown(call.name, scope))
        if scope.granted is not None and call.name not in scope.granted:
            raise Denied(
                f"the tool {call.name!r} is not granted to this session; granted: {', '.join(sorted(scope.granted)) or 'none'}"
            )
        args = plan.check(call.args)
        if plan.entry.validate is not None:
            plan.entry.validate(args)
        if plan.acts and not plan.hooks.has_approval:
            raise Denied(f"{call.name!r} has effects, but no approval gate is registered with this dispatcher")
        if args is not call.args:
            current.call = replace(call, args=args)
        current.args = own_copy(args)
        current.plan, current.ctx = plan, mint_context(current.call, scope)
        if current.group is not None:
            current.ctx.snapshot = current.group.state
        if current.own:
            give_own_state(current.ctx, current.own)
        if plan.shared:
            return _after_reading(current)
        declare = _declaring(current)
        return None if declare is None else declare(current.args, current.ctx)

    def _unknown(self, name: str, scope: CallScope) -> str:
        known = self.registry.names() if scope.granted is None else sorted(scope.granted)
        if (why := self.registry.why_gone(name)) and (scope.granted is None or name in scope.granted):
            return f"the tool {name!r} is unavailable: {why}"
        close_name = self.registry.closest(name)
        hint = f"did you mean {close_name!r}?" if close_name in known else f"known: {', '.join(known) or 'none'}"
        return f"Unknown tool: {name} ({hint})"

    def _plan(self, name: str) -> Plan | None:
        known = self._known
        if self.registry.generation != known.registry_generation or self.hooks.generation != known.hooks_generation:
            known = self._known = self._look()
        plan = known.plans.get(name)
        if plan is None and (entry := self.registry.get(name)) is not None:
            plan = known.plans[name] = _make_plan(entry, self.registry, known.hooks)
        return plan

    def _look(self) -> _Known:
        # Read the generations first, so that the next call notices a change that is made while the hooks are read.
        registry_generation, hooks_generation = self.registry.generation, self.hooks.generation
        return _Known(registry_generation, hooks_generation, plan_hooks(self.hooks))


def _begin(
    call: ToolCall, scope: CallScope, extra: Mapping[str, Any], *, inline: bool, offload: bool = False, found: Plan | None = None
) -> CallInProgress:
    """Return a new call in progress. All interfaces and sessions use this."""
    passed = {**scope.extra, **extra} if extra else scope.extra
    return CallInProgress(call, scope, passed, inline, offload, started=time.perf_counter(), found=found)


def _make_plan(entry: ToolEntry, registry: ToolRegistry, hooks: ToolHookPlan) -> Plan:
    shared = tuple(dict.fromkeys(key.scope for key in entry.state if key.scope in SHARED))
    inline = hooks.is_sync and not entry.is_async and entry.timeout is None and entry.handler is not None and not shared
    acts = entry.kind in ("edit", "execute")
    return Plan(entry, registry, ArgumentCheck(entry.schema["parameters"]), hooks, acts, inline, shared)


async def _after_reading(current: CallInProgress) -> Sequence[Effect]:
    """Read the shared state that the call may see, then resolve the effects that the tool declares."""
    await read_shared(current)
    declare = _declaring(current)
    if declare is None:
        return ()
    return cast("Sequence[Effect]", await current.await_value(declare(current.args, current.ctx)))


def _declaring(current: CallInProgress) -> Callable[[Any, ToolCallContext], Any] | None:
    """Return the function that declares the call's effects: the tool's, or the ``effects`` of the session's own handler."""
    entry = current.plan.entry
    if entry.effects is None and entry.handler is None:
        found: Callable[[Any, ToolCallContext], Any] | None = getattr(current.scope.handlers.get(entry.name), "effects", None)
        return found
    return entry.effects


async def _ended_by(current: CallInProgress, error: BaseException, doing: str) -> ExecutedCall:
    """End a call that an error kept from running."""
    if isinstance(error, EnvironmentFailed):
        error = ExecutionFailed(str(error))
    if isinstance(error, TimeoutError) and error.args == (LIMIT,):
        error = Timeout(f"the call was not run: its checks took more than {current.scope.limits.gate_seconds:g} s; call again")
    if isinstance(error, Exception) and not isinstance(error, ToolcribError) and is_passing(error):
        error = ExecutionFailed(f"{error}; {SHORTAGE}")
    if isinstance(error, ToolError):
        try:
            return await close(current, failed(current.call.name, error, inside=False))
        except BaseException as other:
            return await _broken_off(current, other, doing)
    return await _broken_off(current, error, doing)


async def _broken_off(current: CallInProgress, error: BaseException, doing: str) -> ExecutedCall:
    """End a call after an unexpected error. Ctrl-C is recorded and raised again; most other errors become the call's result.

    Raises LeaseLost again, without a record: another process now owns the session.
    """
    if isinstance(error, GeneratorExit | LeaseLost):  # a closed coroutine cannot await; recovery ends the call
        raise error
    if isinstance(error, KeyboardInterrupt):
        await _gave_up(current)
        raise error
    if isinstance(error, asyncio.CancelledError) and current.is_cancelled:
        return await _cancelled(current, error)
    current.log_failure(error, "%s %s failed", doing, current.call.name)
    return await close(current, failed(current.call.name, Internal(f"{type(error).__name__}: {error}"), inside=False))


async def _cancelled(current: CallInProgress, error: asyncio.CancelledError) -> ExecutedCall:
    """Turn an interrupt of the scope into the call's result. A cancellation from outside is recorded and raised again.

    A handler can add a note to the error, which becomes part of the result.
    """
    task = asyncio.current_task()
    if not current.scope.cancelled or task is None:
        await _gave_up(current)
        raise asyncio.CancelledError
    text = "\n".join([_INTERRUPTED if current.begun else _BEFORE, *getattr(error, "__notes__", ())])
    while True:
        while task.uncancel():
            pass
        try:
            if current.ended is not None:
                # an interrupt may have stopped the recording; repeating it is harmless
                current.ended.unrecorded = not await current.finish(current.ended.result, current.ended.status)
                return current.ended
            return await close(current, failed(current.call.name, Cancelled(text), inside=False))
        except asyncio.CancelledError:  # interrupted again: the session closes
            if not current.is_cancelled:
                raise


async def _gave_up(current: CallInProgress) -> None:
    if current.ended is not None:
        await current.finish(current.ended.result, current.ended.status)
    else:
        await current.finish(failed(current.call.name, Cancelled(_INTERRUPTED), inside=False), ToolCallStatus.CANCELLED)


def _drive(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never really awaits, without a loop."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # a coroutine's StopIteration carries its T
    coroutine.close()
    raise Internal("a call that was planned to run inline awaited something")
