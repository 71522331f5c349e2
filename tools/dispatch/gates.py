"""Decide whether a call may run: ask every gate, and the user if a gate requires it. Every failure denies the call."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Iterator
from typing import TypeGuard

from toolcrib.contract.dataclass import replace
from toolcrib.contract.decision import Block, Decision, SetResult, Suspend, strongest
from toolcrib.contract.errors import Cancelled, Denied
from toolcrib.contract.store import TicketRecord, TicketState
from toolcrib.contract.types import RELAYS, Answer, SuspendTicket, ToolCallStatus, ToolResult
from tools.dispatch.answers import is_refusal, misfit, why_not
from tools.dispatch.gate_threads import PluginCutOff, call_in_worker
from tools.dispatch.hooks import APPROVAL, Hook
from tools.dispatch.json_results import failed
from tools.dispatch.progress import LIMIT, CallInProgress
from tools.dispatch.scope import CallScope
from tools.dispatch.threads import in_own_thread

_log = logging.getLogger(__name__)
NO_USER = "nobody"
"""Stored as the author of an answer that no user gave."""
ROUNDS = 6
"""Number of times that one call may be suspended before it is blocked."""
_UNHEARD: Iterator[object] = iter(())


async def decide(current: CallInProgress, answers: list[tuple[Hook, object]] | None = None) -> ToolResult | None:
    """Return None if the call may run, else its result. ``answers``: the gates' first answers, if already known."""
    for _ in range(ROUNDS):
        answers = await ask_gates(current) if answers is None else answers
        decision, answers = await _weigh(current, answers), None
        match decision:
            case None:
                return None
            case SetResult(result):
                return result
            case Block(reason, end_run):
                current.end_run = end_run
                return failed(current.call.name, Denied(reason), inside=False)
            case Suspend(ticket):
                stopped = await suspend(current, ticket)
                if stopped is not None:
                    return stopped
    raise Denied("the call was suspended too often without a decision")


async def foresee(current: CallInProgress) -> Decision | None:
    """Return the gates' decision on a prepared call, None if it may run. No user is asked."""
    return await _weigh(current, await ask_gates(current))


async def suspend(current: CallInProgress, ticket: SuspendTicket, *, relays: bool = False) -> ToolResult | None:
    """Ask for an answer and apply it. Return None if the call continues, else its result.

    To continue, the caller asks the gates, or runs the handler, again. ``relays``: keep ``SuspendTicket.relays``. Tickets of
    gates and plugins' tools lose it, because they may not pass on another session's ticket.
    """
    scope = current.scope
    parameters = ticket.parameters if relays else {name: value for name, value in ticket.parameters.items() if name != RELAYS}
    ticket = replace(ticket, call=current.call, parameters=parameters)
    waits = scope.asker is not None or scope.suspends
    if waits:
        await current.open()
        if scope.tickets is not None:
            await scope.tickets.put(_record(ticket, scope))
    if scope.asker is None and scope.suspends:
        return _parked(current, ticket)
    if waits:
        await current.wait(_parked(current, ticket))
    answer = await _ask(current, ticket)
    if answer is None:
        return _parked(current, ticket)
    if waits:
        await current.move(ToolCallStatus.RESUMING)
    return await _heard(current, ticket, answer)


def _parked(current: CallInProgress, ticket: SuspendTicket) -> ToolResult:
    return ToolResult.suspended_with(current.call.name, ticket.message, ticket)


def _record(ticket: SuspendTicket, scope: CallScope) -> TicketRecord:
    now, limits = time.time(), scope.limits
    parks = scope.suspends
    lasts, reminds = (limits.park_seconds, limits.remind_seconds) if parks else (limits.answer_seconds, None)
    return TicketRecord(
        ticket,
        scope.identity.session_id,
        at=now,
        expires_at=None if lasts is None else now + lasts,
        remind_at=None if reminds is None else now + reminds,
    )


async def go_on(current: CallInProgress, ticket: SuspendTicket, answer: Answer | None) -> ToolResult | None:
    """Continue a suspended call with the answer to its ticket. Earlier answers to the same call stay valid.

    Returns the same as ``decide``. If ``answer`` is None, the user is asked now about the same ticket.
    """
    ctx, tickets = current.ctx, current.scope.tickets
    records = () if tickets is None else await tickets.of_call(current.scope.identity.session_id, current.call.id)
    if answer is None and (answer := await _ask(current, ticket)) is None:
        return _parked(current, ticket)
    for record in records:
        if record.answer is None or record.ticket.id == ticket.id:
            continue
        ctx.answers = {**ctx.answers, record.ticket.id: (record.ticket.binds, record.answer)}
        if record.ticket.resume_mode == "pass_to_tool":
            ctx.resume_input = record.answer.payload
    await current.wake()
    stopped = await _heard(current, ticket, answer)
    return stopped if stopped is not None else await decide(current)


async def ask_gates(current: CallInProgress) -> list[tuple[Hook, object]]:
    """Return the gates' first answers, as ``first_answers`` does. A worker thread calls plugins' synchronous gates first."""
    hooks, args = current.plan.hooks.in_worker, (current.call, current.plan.entry, current.ctx)
    heard = await call_in_worker(hooks, args, current.scope.limits.gate_seconds, inline=current.inline)
    return first_answers(current, iter(heard))


def first_answers(current: CallInProgress, heard: Iterator[object] = _UNHEARD) -> list[tuple[Hook, object]]:
    """Return each gate's immediate answer, or its awaitable or exception. An empty list means that no gate objects.

    A separate coroutine weighs the answers; most calls need none, because gates seldom object. ``heard`` has the answers from a
    worker thread; a gate whose answer is missing there counts as failed.
    """
    answers: list[tuple[Hook, object]] = []
    for gate in current.plan.hooks.of("tool_gate"):
        try:
            answer = next(heard) if gate.in_worker else gate.call(current.call, current.plan.entry, current.ctx)
        except BaseException as error:
            answer = error
        if answer is not None:
            answers.append((gate, answer))
    return answers


async def _weigh(current: CallInProgress, answers: list[tuple[Hook, object]]) -> Decision | None:
    said: list[tuple[str, Decision]] = []
    try:
        for gate, answer in answers:
            decision = await _settled(current, gate, answer)
            if _is_sound(decision):
                said.append((gate.plugin, decision))
            elif decision is not None:
                said.append((gate.plugin, Block(f"the gate {gate.plugin!r} returned {_misshape(decision)}")))
    finally:
        for _, answer in answers:
            if inspect.iscoroutine(answer):  # a coroutine that was not awaited because of an interrupt
                answer.close()
    return strongest(said) if said else None


async def _settled(current: CallInProgress, gate: Hook, answer: object) -> object:
    """Return the gate's final decision. A gate that is late or raises blocks the call."""
    seconds, begun = current.scope.limits.gate_seconds, time.monotonic()
    try:
        if isinstance(answer, BaseException):
            raise answer
        decision = await current.await_value(answer, seconds)
        if gate.plugin != APPROVAL and time.monotonic() - begun > seconds:  # the gate blocked the loop, and thus the timer
            raise TimeoutError(LIMIT)
        return decision
    except TimeoutError:
        _log.error("the gate %r did not answer on %s; the call is denied", gate.plugin, current.call.name)
        return Block(f"the plugin {gate.plugin!r} did not answer within {seconds:g} s, so the call is denied")
    except PluginCutOff as error:
        _log.error("%s was denied: %s", current.call.name, error)
        return Block(str(error))
    except BaseException as error:
        current.let_pass(error)
        current.log_failure(error, "the gate %r failed on %s; the call is denied", gate.plugin, current.call.name)
        return Block(f"the gate {gate.plugin!r} failed ({type(error).__name__}: {error}), so the call is not run")


def _is_sound(decision: object) -> TypeGuard[Decision]:
    """Return True if ``decision`` is well-formed: a plugin may return anything."""
    match decision:
        case SetResult(result):
            return isinstance(result, ToolResult)
        case Suspend(ticket):
            return isinstance(ticket, SuspendTicket)
        case _:
            return isinstance(decision, Block)


def _misshape(decision: object) -> str:
    match decision:
        case SetResult(inner):
            return f"SetResult with {type(inner).__name__} instead of a ToolResult"
        case Suspend(inner):
            return f"Suspend with {type(inner).__name__} instead of a SuspendTicket"
        case _:
            return f"{type(decision).__name__}, not SetResult, Suspend, Block or None"


async def _ask(current: CallInProgress, ticket: SuspendTicket) -> Answer | None:
    """Ask for an answer now. Return None if the asker gives none and the call may wait for one.

    Return a denial if there is no asker, the user does not answer in time, asking fails, or the answer does not fit the ticket.
    """
    scope = current.scope
    if scope.asker is None:
        return _no(ticket, NO_USER, f"{ticket.message}: this needs a user's answer, but no user can be asked here")
    scope.asking.add(ticket.id)
    begun = time.perf_counter()
    try:
        answer = await _asked(current, ticket)
    except TimeoutError:
        answer = _no(ticket, NO_USER, f"no answer within {scope.limits.answer_seconds:g} s")
    except BaseException as error:
        await _withdraw(current, ticket, error)
        current.log_failure(error, "asking failed")
        answer = _no(ticket, NO_USER, f"the question could not be asked: {type(error).__name__}: {error}")
    finally:
        scope.asking.discard(ticket.id)
        current.started += time.perf_counter() - begun  # the user's time does not count as the call's
    if answer is None and scope.suspends:
        return None
    if not isinstance(answer, Answer):
        answer = _no(ticket, NO_USER, "no answer")
    elif answer.ticket_id != ticket.id:
        answer = _no(ticket, answer.by, "the answer was for another request")
    if wrong := misfit(ticket, answer):
        answer = _no(ticket, answer.by, f"the answer does not match the request: {wrong}")
    if scope.tickets is not None:
        is_no = is_refusal(answer)
        state: TicketState = "approved" if not is_no else "expired" if answer.by == NO_USER else "denied"
        if await scope.tickets.decide_ticket(answer, state) == "refused" and not is_no:
            record = await scope.tickets.get(ticket.id)
            first = None if record is None else record.answer  # the user answered elsewhere meanwhile
            answer = first or _no(ticket, answer.by, why_not(record))
    return answer


async def _withdraw(current: CallInProgress, ticket: SuspendTicket, error: BaseException) -> None:
    """If the error ends the call (Ctrl-C, an interrupt), withdraw the ticket, so that a later answer runs nothing.

    Raises such an error again. After GeneratorExit the ticket stays, because nothing can be awaited.
    """
    try:
        current.let_pass(error)
    except GeneratorExit:  # nothing can be awaited any more
        raise
    except BaseException:
        if current.scope.tickets is not None:
            await current.scope.tickets.decide_ticket(_no(ticket, NO_USER, "interrupted before there was an answer"), "expired")
        raise


async def _asked(current: CallInProgress, ticket: SuspendTicket) -> object:
    ctx = current.ctx
    asker = current.scope.asker
    assert asker is not None  # noqa: S101 - the caller checked
    given: object = (
        asker(ticket, ctx) if current.scope.asker_is_async or not current.offload else in_own_thread(asker, ticket, ctx)
    )
    if not inspect.isawaitable(given):
        return given
    return await current.await_value(_awaited(given), current.scope.limits.answer_seconds)


async def _awaited(given: object) -> object:
    while inspect.isawaitable(given):
        given = await given
    return given


async def _heard(current: CallInProgress, ticket: SuspendTicket, answer: Answer) -> ToolResult | None:
    plan, ctx = current.plan, current.ctx
    name = current.call.name
    for hook in plan.hooks.of("on_answer"):
        try:
            args = current.call, ticket, answer, ctx
            if hook.in_worker:
                [heard] = await call_in_worker([hook], args, current.scope.limits.gate_seconds, inline=current.inline)
            else:
                heard = hook.call(*args)
            if isinstance(heard, BaseException):
                raise heard
            if heard is not None:
                await current.await_value(heard, current.scope.limits.gate_seconds)
        except BaseException as error:
            current.let_pass(error)
            current.log_failure(error, "%r failed to handle the answer to %s", hook.plugin, name)
            return failed(
                name, Denied(f"{hook.plugin!r} failed to handle the answer ({error}), so the call is not run"), inside=False
            )
    if answer.action == "cancel":
        return failed(name, Cancelled(answer.reason or "cancelled by the user"), inside=False)
    if answer.denied and not ticket.relays:
        return failed(name, Denied(_refusal(answer)), inside=False)
    if ticket.resume_mode == "use_as_result":
        return ToolResult.success(name, answer.payload)
    if ticket.resume_mode == "pass_to_tool":
        ctx.resume_input = answer.payload
    ctx.answers = {**ctx.answers, ticket.id: (ticket.binds, answer)}
    await current.move(ToolCallStatus.RUNNING)
    return None


def _refusal(answer: Answer) -> str:
    """Return a denial's text for the model. It names the user, whose words alone could look like an error of the tool."""
    words = answer.payload.get("reason")
    if words and answer.by != NO_USER:
        return f"the user denied it: {words}"
    return str(words or answer.reason or "the user denied it, without a reason")


def _no(ticket: SuspendTicket, by: str, reason: str) -> Answer:
    """Return the dispatcher's own denial. Its reason is not in the payload, which holds a person's words."""
    return Answer(ticket.id, payload={"approved": False}, reason=reason, by=by, at=time.time())
