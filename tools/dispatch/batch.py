"""Run the calls of one turn, together or in order. Some may wait for answers; each gets exactly one result (003-31)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import field
from itertools import groupby
from typing import Any, TypeVar

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.effects import Effect
from toolcrib.contract.errors import Cancelled, Denied, ToolError
from toolcrib.contract.session import ExecutedCall
from toolcrib.contract.store import CallRecord, TicketRecord
from toolcrib.contract.types import Answer, ToolCall, ToolCallStatus, ToolResult
from tools.dispatch.after import run_later
from tools.dispatch.answers import is_refusal
from tools.dispatch.gates import NO_USER
from tools.dispatch.json_results import failed
from tools.dispatch.overlap import Reach, must_wait
from tools.dispatch.pipeline import Dispatcher
from tools.dispatch.progress import CallInProgress
from tools.dispatch.scope import CallScope
from tools.dispatch.states import CallGroup

R = TypeVar("R")
OnStart = Callable[[ToolCall], None]
OnDone = Callable[[ExecutedCall], None]
INTERRUPTED = "interrupted before it began"
ENDED = "not run: an earlier call ended the run"
LATE = "not answered in time, so it was not run; call it again if still needed"


@dataclass(slots=True)
class BatchCall:
    """A call of a turn and its progress: settled (``executed``), parked (``tickets``), or neither.

    Another process continues it from ``call``, ``executed`` and ``tickets``. ``effects`` are its expected effects, once
    determined. ``later`` holds actions that plugins scheduled for when all results are complete. ``earlier`` is the attempt of a
    process that ended, if the call starts again.
    """

    call: ToolCall
    executed: ExecutedCall | None = None
    tickets: tuple[str, ...] = ()
    effects: Sequence[Effect] | None = None
    later: list[CallInProgress] = field(default_factory=list, repr=False, compare=False)
    earlier: CallRecord | None = field(default=None, repr=False, compare=False)


async def run_batch(
    dispatcher: Dispatcher,
    calls: Sequence[BatchCall],
    scope: CallScope,
    *,
    on_start: OnStart = lambda call: None,
    on_done: OnDone = lambda executed: None,
    turn: str = "",
    since: float | None = None,
) -> bool:
    """Advance every call as far as possible; return True when each has its result. Call it again after tickets were answered.

    Adjacent parallel_safe calls are gated one by one and then run together. Any other call is gated right before it runs, because
    an earlier one may have changed its effects. After an ended run or an interrupt, the remaining calls are not started, and
    their results report this. If ``scope.suspends`` and no user can be asked now, a call that needs an answer is parked with
    its ticket. Later calls are still gated. They run, parallel_safe or not, if their effects do not overlap with those of an
    unsettled earlier call; else they wait (``must_wait``). A call of a tool of kind other without declared effects waits too.
    Actions that plugins scheduled run at the end.

    ``turn`` names the model's reply, for the ledger. ``since``: a process that died may have started the calls, after this
    time. ``Store.recover`` has ended the unfinished ones in the ledger, which then has their outcomes. A call that may have had
    effects runs again only if its tool is repeatable. Records with the same ids from another turn do not count
    (``CallRecord.is_of``).

    ``on_start`` is called when a call starts or continues with an answer. Raises LeaseLost.
    """
    batch = _Batch(dispatcher, calls, scope, on_start, on_done, turn)
    if since is not None:
        await batch.catch_up(since)
    await batch.advance()
    complete = all(item.executed is not None for item in calls)
    if complete:
        await _run_later(calls)
    return complete


async def _run_later(calls: Sequence[BatchCall]) -> None:
    scheduled = [current for item in calls for current in item.later]
    for item in calls:
        item.later = []
    await run_later(scheduled)


async def run_calls(
    dispatcher: Dispatcher,
    calls: Sequence[ToolCall],
    scope: CallScope,
    *,
    on_start: OnStart = lambda call: None,
    on_done: OnDone = lambda executed: None,
) -> list[ExecutedCall]:
    """Run calls for a caller that does not return with answers: a parked call has a pending result."""
    items = [BatchCall(call) for call in calls]
    if not await run_batch(dispatcher, items, scope, on_start=on_start, on_done=on_done):
        await _run_later(items)
    return [item.executed or await _pending(item, scope) for item in items]


async def _pending(item: BatchCall, scope: CallScope) -> ExecutedCall:
    record = None if not item.tickets or scope.tickets is None else await scope.tickets.get(item.tickets[-1])
    if record is None:
        why = "not run: an earlier call of this turn waits for an answer; call it again afterwards"
        return _not_run(item.call, Denied(why))
    pending = ToolResult.suspended_with(item.call.name, record.ticket.message, record.ticket)
    return ExecutedCall(item.call, pending, ToolCallStatus.SUSPENDED)


class _Batch:
    def __init__(
        self,
        dispatcher: Dispatcher,
        calls: Sequence[BatchCall],
        scope: CallScope,
        on_start: OnStart,
        on_done: OnDone,
        turn: str,
    ) -> None:
        self.dispatcher = dispatcher
        self.calls = calls
        self.scope = scope
        self.on_start = on_start
        self.on_done = on_done
        self.turn = turn
        self.unsettled: list[BatchCall] = []
        """Calls before the current one that are parked or wait."""

    async def advance(self) -> None:
        stopped = ""
        for group in self._groups():
            todo = [item for item in group if item.executed is None]
            if self.scope.cancelled:
                stopped = INTERRUPTED
            if stopped:
                for item in todo:
                    await self._give_up(item, stopped)
            elif len(todo) == 1:
                await _in_task(self._whole(todo[0]), self.scope)
            elif todo:
                await self._together(todo)
            self._tell(todo)
            self.unsettled += [item for item in todo if item.executed is None]
            if not stopped and any(item.executed is not None and item.executed.end_run for item in group):
                stopped = ENDED
        if self.scope.cancelled:
            left = [item for item in self.calls if item.executed is None]
            for item in left:
                await self._give_up(item, INTERRUPTED)
            self._tell(left)

    def _tell(self, items: Sequence[BatchCall]) -> None:
        for item in items:
            if item.executed is not None:
                self.on_done(item.executed)

    def _groups(self) -> Iterator[list[BatchCall]]:
        for shared, group in groupby(self.calls, self._may_share):
            if shared:
                yield list(group)
            else:
                yield from ([item] for item in group)

    def _may_share(self, item: BatchCall) -> bool:
        entry = self.dispatcher.registry.get(item.call.name)
        return entry is not None and entry.parallel_safe and not entry.interactive

    # -- one call ------------------------------------------------------------------------------------------------

    def _begin(self, item: BatchCall, call: ToolCall, group: CallGroup | None = None) -> CallInProgress:
        current = self.dispatcher.begin(call, self.scope)
        current.turn, current.group, current.begun = self.turn, group, item.earlier is not None
        return current

    async def _whole(self, item: BatchCall) -> None:
        current = await self._gated(item)
        if current is not None:
            self._keep(item, current, await self.dispatcher.act(current))

    async def _together(self, items: Sequence[BatchCall]) -> None:
        group = CallGroup(self.scope)
        gated = [(item, await _in_task(self._gated(item, group), self.scope)) for item in items]
        ready = [(item, current) for item, current in gated if current is not None]
        tasks = [asyncio.create_task(_entered(self.dispatcher.act(current), self.scope)) for _item, current in ready]
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        for (item, current), executed in zip(ready, ended, strict=True):
            if isinstance(executed, BaseException):
                raise executed
            self._keep(item, current, executed)

    async def _gated(self, item: BatchCall, group: CallGroup | None = None) -> CallInProgress | None:
        """Return the call if it may run now, None if it is settled, parked or waits. ``group``: the state shared with other
        calls.
        """
        if item.tickets:
            return await self._taken_up_again(item, group)
        current = self._begin(item, item.call, group)
        ended = None
        if self.unsettled:
            ended = await self.dispatcher.prepare_only(current)
            current.trial = ended is None and await self._must_wait(current)
        if not current.trial:
            self.on_start(item.call)
        if ended is None:
            ended = await self.dispatcher.gate(current)
            if ended is None and current.trial:
                item.effects = tuple(current.ctx.effects)
                return None
            if current.trial:
                self.on_start(item.call)
        return self._after_gate(item, current, ended)

    def _after_gate(self, item: BatchCall, current: CallInProgress, ended: ExecutedCall | None) -> CallInProgress | None:
        if current.prepared:
            item.effects = tuple(current.ctx.effects)
        if ended is None:
            return current
        self._keep(item, current, ended)
        return None

    def _keep(self, item: BatchCall, current: CallInProgress, executed: ExecutedCall) -> None:
        if current.later:
            item.later.append(current)
        ticket = executed.result.suspension
        if executed.result.is_pending and ticket is not None and self.scope.suspends:
            item.tickets = (ticket.id,)
            return
        item.executed, item.tickets = executed, ()

    async def _must_wait(self, current: CallInProgress) -> bool:
        """Return whether an earlier call without a result must come first."""
        mine = Reach.of(current.plan.entry, current.ctx.effects)
        for other in self.unsettled:
            if other.effects is None:
                other.effects = await self.dispatcher.effects_of(other.call, self.scope)
            if must_wait(mine, Reach.of(self.dispatcher.registry.get(other.call.name), other.effects)):
                return True
        return False

    # -- parked calls --------------------------------------------------------------------------------------------

    async def _taken_up_again(self, item: BatchCall, group: CallGroup | None) -> CallInProgress | None:
        with self.scope.resuming(item.call.id) as claimed:  # otherwise Dispatcher.resume is handling it
            return await self._resumed(item, group) if claimed else None

    async def _resumed(self, item: BatchCall, group: CallGroup | None) -> CallInProgress | None:
        tickets = self.scope.tickets
        record = None if tickets is None else await tickets.get(item.tickets[-1])
        known = await self._known(item)
        if known is not None and self._take_recorded(item, known):
            return None
        if tickets is None or (record is not None and record.state == "pending" and self.scope.asker is None):
            return None
        call = item.call if record is None or record.ticket.call is None else record.ticket.call
        current = self._begin(item, call, group)
        current.opened = current.parked = known is None or not known.status.is_terminal
        current.own = {} if known is None else known.state
        if record is None or (record.state == "expired" and record.answer is None):
            why = LATE if record is not None else "its approval request no longer exists; call it again"
            self.on_start(call)
            denied = failed(call.name, Denied(why), inside=False)
            return self._after_gate(item, current, await self.dispatcher.end(current, denied))
        ended = None
        if self.unsettled and _has_effects(record):
            ended = await self.dispatcher.prepare_only(current)
            if ended is None and await self._must_wait(current):
                item.effects = tuple(current.ctx.effects)
                return None
        self.on_start(call)
        return self._after_gate(item, current, ended or await self.dispatcher.gate(current, (record.ticket, record.answer)))

    async def _give_up(self, item: BatchCall, why: str) -> None:
        """Settle a call without running it, and withdraw its tickets, so that a later answer runs nothing.

        The call is settled first: a process that lost the session then raises LeaseLost, and the tickets stay as they are.
        """
        error = Cancelled(why) if why == INTERRUPTED else Denied(why)
        known = await self._known(item) if item.tickets else item.earlier
        if known is None or not self._take_recorded(item, known):
            if known is not None and not known.status.is_terminal:
                current = self._begin(item, item.call)
                current.opened = current.parked = True
                item.executed = await self.dispatcher.end(current, failed(item.call.name, error, inside=False))
            else:
                item.executed = _not_run(item.call, error)
        if self.scope.tickets is not None:
            for ticket in item.tickets:
                answer = Answer(ticket, action="cancel", reason=f"{why}, before an answer", by=NO_USER, at=time.time())
                await self.scope.tickets.decide_ticket(answer, "expired")
        item.tickets = ()

    # -- after a process died ------------------------------------------------------------------------------------

    async def catch_up(self, since: float) -> None:
        """Take from the ledger the outcomes of calls that another process had started."""
        for item in self.calls:
            known = None if item.executed is not None else await self._known(item)
            if known is None or not (item.tickets or known.is_of(self.turn, since)):
                continue
            if self._is_repeatable(known):
                item.earlier = known
                continue
            if self._take_recorded(item, known):
                self.on_done(known_as(known))
            elif not item.tickets:
                await self._find_tickets(item, known)

    def _is_repeatable(self, known: CallRecord) -> bool:
        """Return whether the process ended during the call, and running the call twice has the same effect as running it once."""
        entry = self.dispatcher.registry.get(known.call.name)
        return entry is not None and entry.repeatable and _was_broken_off(known)

    async def _find_tickets(self, item: BatchCall, known: CallRecord) -> None:
        if self.scope.tickets is None:
            return
        found = await self.scope.tickets.of_call(known.session_id, item.call.id)
        if found and (known.status is ToolCallStatus.SUSPENDED or found[-1].state in ("approved", "denied")):
            item.tickets = (found[-1].ticket.id,)  # even if the call starts again: an answer that was given counts
            return
        for record in found:  # a call that starts again asks with a new ticket
            if record.state == "pending":
                reason = "its process ended before it was parked"
                answer = Answer(record.ticket.id, action="cancel", reason=reason, by=NO_USER, at=time.time())
                await self.scope.tickets.decide_ticket(answer, "expired")

    async def _known(self, item: BatchCall) -> CallRecord | None:
        ledger = self.scope.ledger
        return None if ledger is None else await ledger.get(self.scope.identity.session_id, item.call.id)

    def _take_recorded(self, item: BatchCall, known: CallRecord) -> bool:
        """Settle the call with the ledger's result. Return False for a call that may start, or start again."""
        if not known.status.is_terminal or known.result is None or _never_began(known):
            return False
        item.executed, item.tickets = known_as(known), ()
        return True


def known_as(known: CallRecord) -> ExecutedCall:
    """Return a recorded call as an executed one."""
    assert known.result is not None  # noqa: S101 - the caller checked
    return ExecutedCall(known.call, known.result, known.status, end_run=known.end_run)


def _never_began(known: CallRecord) -> bool:
    """Return whether ``Store.recover`` ended the call before its handler started, so that it had no effects."""
    failure = None if known.result is None else known.result.failure
    return (
        known.status is ToolCallStatus.FAILED
        and not known.handler_started
        and failure is not None
        and failure.kind == "Cancelled"
    )


def _was_broken_off(known: CallRecord) -> bool:
    """Return whether ``Store.recover`` ended the call after its handler had started."""
    failure = None if known.result is None else known.result.failure
    ended = known.status is ToolCallStatus.FAILED and known.handler_started
    return ended and failure is not None and failure.kind == "Cancelled"


def _has_effects(record: TicketRecord) -> bool:
    """Return whether the call may still run: False if the answer to this ticket denies it, or is itself the result."""
    if record.answer is None:
        return True
    return not is_refusal(record.answer) and record.ticket.resume_mode != "use_as_result"


def _not_run(call: ToolCall, error: ToolError) -> ExecutedCall:
    status = ToolCallStatus.CANCELLED if isinstance(error, Cancelled) else ToolCallStatus.FAILED
    return ExecutedCall(call, failed(call.name, error, inside=False), status)


async def _in_task(step: Coroutine[Any, Any, R], scope: CallScope) -> R:
    return await asyncio.create_task(_entered(step, scope))


async def _entered(step: Coroutine[Any, Any, R], scope: CallScope) -> R:
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - runs as a task
    scope.running.add(task)
    try:
        return await step
    finally:
        scope.running.discard(task)
