"""The steps of a run, one after another: ask the model, run its calls, park, or end.

Each step is stored completely, with the records that it adds to the transcript, or not at all. Steps have numbers, so a step that
is repeated after a crash adds nothing twice. All state of a run is in its RunState and in the ledger.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent.conversation.answers import adopt_answers
from agent.conversation.asking import ask_model, interruptible, new_stream, text_id
from agent.conversation.limits import AnswerUnfit, CostCapReached, MaxTurnsReached, RunError, Stopped
from agent.conversation.partial import INTERRUPTED, PartialReply
from agent.conversation.progress import check_progress
from agent.conversation.room import ContextRoom
from agent.conversation.state import CallState, RunState
from agent.conversation.transcript import DELEGATE, OURS, Record, begun_since, results_record, source_of, turn_record, user_record
from agent.delegates import CHARGED
from agent.events import Emit, ImageMade, TicketOpened, ToolFinished, ToolStarted, TurnFinished, TurnStarted
from agent.model_choice.list_prices import estimate_source, list_prices
from agent.providers.abilities import prices_of, steer
from toolcrib.contract.context import Principal
from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import ConfigError, ContextTooLong, ProviderError
from toolcrib.contract.image import Image
from toolcrib.contract.session import ExecutedCall, ProviderSession, ProviderTurn
from toolcrib.contract.store import InboxItem
from toolcrib.contract.types import ToolCall, ToolCallStatus

if TYPE_CHECKING:
    from agent.conversation.core import SessionCore
    from toolcrib.contract.session import TokenPrices
    from tools.dispatch.batch import BatchCall

FINAL_ANSWER = "You have reached the maximum number of turns. Please provide your final answer now."
"""Request for a final answer, worded as the specification requires (000-41)."""


class Steps:
    """Performs the steps of one session's runs. ``emit`` receives all events, and must not raise."""

    def __init__(self, session: SessionCore, emit: Emit) -> None:
        self._session = session
        self._emit = emit
        self._room = ContextRoom(session, emit)
        self._turn: ProviderTurn | None = None
        """The reply whose calls are running; None if another process, or an earlier Steps of this process, received it."""
        self._told_state: Mapping[str, Any] | None = None
        """The session's state when the last results were recorded; None if this object recorded none."""

    async def advance(self, state: RunState) -> RunState:
        """Perform the next step and return the new state. A parked run without answers stays unchanged.

        Raises ProviderError if the model can't be asked, StoreFailed, and LeaseLost. A run that reaches a limit ends: the new
        state has the error.
        """
        match state.phase:
            case "asking":
                return await self._ask(state)
            case "calling" | "parked":
                return await self._run_calls(state)
            case _:
                return state

    async def begin(self, state: RunState, text: str, item: InboxItem) -> RunState:
        """Record ``text`` and the images of ``item`` as the message that the run answers, and remove the item from the inbox."""
        images = [Image.from_json(image) for image in item.images]
        record = user_record(text, images, state.principal, via=self._session.via, source=source_of(item))
        state = state.next(first=self._session.transcript.count)
        state = await self._keep(state, [record], taken=state.items)
        self._session.tell_model(text, images)
        return state

    async def run_calls_only(self, state: RunState) -> RunState:
        """Run the answered calls of a parked run, and leave the run parked: the next call of ``advance`` continues it."""
        calls = await self._rebuilt(state)
        await self._batch(calls, state.turn_id)
        return await self._park(state, calls)

    # -- asking --------------------------------------------------------------------------------------------------

    async def _ask(self, state: RunState) -> RunState:
        session = self._session
        state = await self._steered(state)
        if session.scope.cancelled:
            return await self._keep(state.ended("interrupted"))
        if not state.last and not state.mends and state.turn >= state.limits.max_turns:
            more = await self._more_turns(state)
            if more is None:
                return await self._keep(state.ended("interrupted"))
            if not more:
                return await self._ask_last(state)
            state = await self._keep(state.next(limits=replace(state.limits, max_turns=state.turn + more)))
        await session.provider()
        roomy = await self._room.kept(state)
        if roomy is None:
            return await self._keep(state.ended("interrupted"))
        state, provider = roomy, await session.provider()
        await self._check_priced(state, provider)
        number, stream = state.turn + 1, new_stream()
        self._emit(TurnStarted(number))
        held = state.last or state.mends
        if state.schema is not None or held:
            # with tools, some servers would apply the schema to the calls, too
            steer(provider, "none" if held else "auto", state.schema if held or not session.names else None)
        partial = PartialReply(session, state, self._emit)
        partial.begin()
        try:
            turn = await ask_model(session, provider, stream, state.limits, partial)
        except ProviderError as error:
            await partial.end()
            if partial.has_begun:
                await self._keep(partial.state.next(), [partial.failed(error)])
            elif isinstance(error, ContextTooLong):
                return await self._room.refused(partial.state, error)
            raise
        finally:
            await partial.end()
            if state.schema is not None or held:
                steer(provider)
        state = partial.state
        if turn is None:
            ended = state.ended("interrupted", partial.text, turn=number, finish="")
            return await self._keep(ended, [partial.record(INTERRUPTED)])
        return await self._answered(state, turn, provider, stream)

    async def _more_turns(self, state: RunState) -> int | None:
        """Return how many more turns the run gets, 0 for none; None if the user interrupted."""
        scope, ask = self._session.scope, self._session.link.more_turns
        if ask is None:
            return 0
        more = await interruptible(scope, ask(state.turn))
        return None if scope.cancelled else more

    async def _ask_last(self, state: RunState) -> RunState:
        """Ask for a final answer (000-41) or end the run with an error (004-6), as ``on_max_turns`` requires."""
        limits = state.limits
        if limits.on_max_turns == "error":
            words = f"no answer after {limits.max_turns} turns; raise max_turns if the task needs more, or ask for less"
            return await self._keep(state.failed_with(MaxTurnsReached(words)))
        state = await self._keep(state.next(last=True), [user_record(FINAL_ANSWER, source=OURS)])
        self._session.tell_model(FINAL_ANSWER)
        return state

    async def _steered(self, state: RunState) -> RunState:
        """Pass steering messages to the model while the run is under way. An interrupting message interrupts the run."""
        if self._session.scope.cancelled:
            return state
        waiting: Sequence[InboxItem] = await self._session.store.inbox.waiting(state.session_id)
        if any(map(state.ends_for, waiting)):
            self._session.scope.interrupt()  # another process stored the message
            return state
        steering = [item for item in waiting if item.mode == "steer" and Principal.from_json(item.principal) == state.principal]
        if not steering:
            return state
        images = [[Image.from_json(image) for image in item.images] for item in steering]
        records = [
            user_record(item.text, shown, state.principal, source=source_of(item))
            for item, shown in zip(steering, images, strict=True)
        ]
        taken = [item.id for item in steering]
        for item in steering:
            if source_of(item) == DELEGATE:
                from agent.delegates.budget import charge

                state = charge(state, item.options)
        state = await self._keep(state.next(items=(*state.items, *taken)), records, taken=taken)
        for item, shown in zip(steering, images, strict=True):
            self._session.tell_model(item.text, shown)
        return state

    async def _answered(self, state: RunState, turn: ProviderTurn, provider: ProviderSession, stream: str) -> RunState:
        self._room.answered()
        number, without_calls = state.turn + 1, state.last or state.mends
        prices = await self._prices(state, provider)
        cost = prices.cost(turn.usage) if prices is not None and turn.usage else None
        after, fault = self._counted(state, turn, prices, cost)
        wire, via, turn_id = self._session.wire, self._session.via, after.turn_id
        known: Mapping[str, Any] = {"wire": wire, "via": via, "cost": cost, "estimated": estimate_source(prices)}
        record = turn_record(turn, turn_id=turn_id, without_calls=without_calls, **known)
        if fault is None and turn.tool_calls and not without_calls:
            self._turn = turn
            self._session.link.requested(turn_id, turn)
            batch = tuple(CallState(call) for call in turn.tool_calls)
            after = await self._keep(after.next(phase="calling", batch=batch, text=turn.assistant_text), [record])
        elif fault is not None:
            after = await self._keep(after.failed_with(fault), [turn_record(turn, without_calls=True, **known)])
        else:
            after = await self._finish(after, turn, "max_turns" if state.last else "done", record)
        for image in turn.images:
            self._emit(ImageMade(image, text_id(stream)))
        self._emit(TurnFinished(number, turn.assistant_text, len(turn.tool_calls), turn.usage, turn.finish))
        return after

    async def _finish(self, state: RunState, turn: ProviderTurn, stopped: Stopped, record: Record) -> RunState:
        """End the run with an answer. If the answer does not match the run's schema, ask the model once more."""
        text = turn.assistant_text
        if state.schema is None:
            data = None if isinstance(turn.value, str) else turn.value
            return await self._keep(state.ended(stopped, text, data=data), [record])
        from agent.conversation.structured import AGAIN, AnswerCheck

        try:
            data = AnswerCheck(state.schema).read(text, turn.value)
        except ValueError as error:
            if state.mends:
                unfit = AnswerUnfit(f"the answer does not match the schema, even after a retry: {error}", text)
                return await self._keep(state.failed_with(unfit), [record])
            again = AGAIN.format(why=error)
            records = [record, user_record(again, source=OURS)]
            state = await self._keep(state.next(phase="asking", mends=True, last=False), records)
            self._session.tell_model(again)
            return state
        return await self._keep(state.ended(stopped, text, data=data), [record])

    def _counted(
        self, state: RunState, turn: ProviderTurn, prices: TokenPrices | None, cost: float | None
    ) -> tuple[RunState, RunError | None]:
        """Return the state with this reply's tokens and cost added, and an error if max_cost is set but the cost is unknown."""
        usage: Counter[str] = Counter(state.usage)
        usage.update(turn.usage)
        state = replace(state, turn=state.turn + 1, usage=dict(usage), finish=turn.finish)
        if prices is None:
            return state, None
        if state.limits.max_cost is not None and not turn.usage and (prices.input or prices.output):
            words = "the server does not count tokens, so max_cost can't be enforced; set max_cost to null, or use another server"
            return state, CostCapReached(words)
        estimated = estimate_source(prices) if cost is not None else ""
        return replace(state, cost=state.cost + (cost or 0.0), estimated=max(state.estimated, estimated)), None

    async def _prices(self, state: RunState, provider: ProviderSession) -> TokenPrices | None:
        """Return the prices of the current model: its own, the configured ones, or list prices; None if all are unknown."""
        return prices_of(provider) or state.limits.prices or await list_prices(self._session.via)

    async def _check_priced(self, state: RunState, provider: ProviderSession) -> None:
        """Raise ConfigError if a connected model has no price that max_cost could be enforced with."""
        if state.limits.max_cost is not None and self._session.via and await self._prices(state, provider) is None:
            raise ConfigError(f"no price of {self._session.model} is known, so max_cost can't be enforced; set model.prices")

    # -- calling -------------------------------------------------------------------------------------------------

    async def _run_calls(self, state: RunState) -> RunState:
        session = self._session
        if state.phase == "parked":
            await adopt_answers(session.store, session.id)
        if session.mode.follows:
            await session.mode.refresh()
        calls = await self._rebuilt(state)
        if not await self._batch(calls, state.turn_id):
            return await self._park(state, calls)
        executed = [one.executed for one in calls if one.executed is not None]
        return await self._settled(state, executed)

    async def _batch(self, calls: Sequence[BatchCall], turn_id: str) -> bool:
        """Run each call as far as possible. Return True if all calls have their results."""
        from tools.dispatch.batch import run_batch

        session, since = self._session, None
        if self._turn is None:  # another process or Steps received the reply; its calls may have begun
            turn = await session.transcript.unanswered()
            if turn is not None:
                turn_id, since = turn.get("turn", ""), begun_since(turn)  # older versions stored no turn ids
        return await run_batch(
            session.dispatcher, calls, session.scope, on_start=self._started, on_done=self._finished, turn=turn_id, since=since
        )

    async def _rebuilt(self, state: RunState) -> list[BatchCall]:
        """Return the batch for run_batch, with the results that the ledger has."""
        from tools.dispatch.batch import BatchCall

        ledger, found = self._session.store.ledger, []
        for one in state.batch:
            executed = None
            if (
                one.settled
                and (known := await ledger.get(state.session_id, one.call.id)) is not None
                and known.result is not None
                and known.is_of(state.turn_id, 0.0)
            ):
                executed = ExecutedCall(known.call, known.result, known.status, end_run=one.end_run)
            found.append(BatchCall(one.call, executed, one.tickets))
        return found

    async def _park(self, state: RunState, calls: Sequence[BatchCall]) -> RunState:
        """Store the settled calls and the tickets. The transcript stays unchanged until all calls are settled."""
        batch = tuple(map(_state_of, calls))
        if state.phase == "parked" and batch == state.batch:
            return state
        from agent.conversation.parked_shell import portable_shell

        before = {ticket for one in state.batch for ticket in one.tickets}
        shell = await portable_shell(self._session.scope, state.shell)
        state = await self._keep(state.next(phase="parked", batch=batch, shell=shell))
        for one in batch:
            for ticket in one.tickets:
                if ticket not in before:
                    self._emit(TicketOpened(ticket, one.call))
        return state

    async def _settled(self, state: RunState, executed: Sequence[ExecutedCall]) -> RunState:
        scope, provider_turn = self._session.scope, self._turn
        if provider_turn is None:
            provider_turn = await self._session.link.turn_of(state.turn_id, [one.call for one in state.batch])
        await self._session.delegates.settled(state.turn_id, state.batch)
        record = results_record(executed, {} if scope.state is self._told_state else scope.state)
        texts = [str(one["text"]) for one in record["results"]]
        after, fault = check_progress(
            self._session.single_requests.charged(_charged(state, executed)), executed, texts, self._session.polls
        )
        if scope.cancelled:
            after = after.ended("interrupted", state.text)
        elif any(one.end_run for one in executed):
            after = after.ended("ended", state.text)
        elif fault is not None:
            after = after.failed_with(fault)
        else:
            after = after.next(phase="asking", batch=(), shell=None)
        after = await self._keep(after, [record])
        self._turn, self._told_state = None, scope.state
        await self._session.hand_over(provider_turn, executed)
        return after

    def _started(self, call: ToolCall) -> None:
        self._session.reports.begin(call.id)
        display = self._session.display(call.name)
        self._emit(ToolStarted(call, display.emoji, display))

    def _finished(self, executed: ExecutedCall) -> None:
        self._session.reports.end(executed.call.id)
        display = self._session.display(executed.call.name)
        self._emit(ToolFinished(executed, display.emoji, display))

    async def _keep(self, state: RunState, messages: Sequence[Record] = (), taken: Sequence[int] = ()) -> RunState:
        """Store the step. If it was stored before a crash, return the stored state."""
        state = await self._session.keep(state, messages, taken)
        self._room.added(messages)
        return state


def _state_of(one: BatchCall) -> CallState:
    if one.executed is not None:
        return CallState(one.executed.call, one.executed.status, (), one.executed.end_run)
    return CallState(one.call, ToolCallStatus.SUSPENDED if one.tickets else ToolCallStatus.NEW, tuple(one.tickets))


def _charged(state: RunState, executed: Sequence[ExecutedCall]) -> RunState:
    """Return the state plus the usage of these calls: of delegates, and of models that summarised search results."""
    if all(one.call.name not in CHARGED for one in executed):
        return state
    from agent.delegates.budget import charged

    return charged(state, executed)
