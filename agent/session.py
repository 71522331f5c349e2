"""One conversation: what it may call, where it runs, and what is remembered of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent.observers import tell
from agent.prompt import system_prompt
from agent.undo import news
from toolcrib import Answer, Cancelled, ExecutedCall, Image, ProviderTurn, RunIdentity, ToolCall, ToolCallStatus, ToolcribError
from toolcrib._store import CallRecord, SessionInfo, Store
from tools.clip import encode
from tools.dispatch.bridge import run_async
from tools.dispatch.faces import as_json, failed, images_of
from tools.dispatch.pipeline import Dispatcher
from tools.dispatch.scope import CallScope
from tools.dispatch.turn import run_turn

if TYPE_CHECKING:
    from agent.config import Config
    from agent.events import Event
    from agent.places import Place
    from agent.providers.factory import Plugins


_PAGE = 64
"""How many records are read at once."""


class Session:
    """Recorded in ``store``, its calls run by ``dispatcher``. ``names`` are the tools that it is granted.

    ``config`` and ``providers`` (those of plugins) are what its model is chosen by; see agent.models.
    """

    def __init__(
        self,
        scope: CallScope,
        names: Sequence[str],
        place: Place,
        *,
        store: Store,
        dispatcher: Dispatcher,
        config: Config,
        providers: Plugins,
    ) -> None:
        self.scope = scope
        self.names = list(names)
        self.place = place
        self.store = store
        self.config = config
        self.providers = providers
        self._dispatcher = dispatcher
        self.wire = "manual"
        self._started = False
        self.via: dict[str, Any] = {}
        """The provider, model and base_url of what answers; empty where a person types the calls."""
        self.watch: Callable[[Event], None] | None = None
        """Told of what happens within a call: an auxiliary model's answer about it."""
        self._unanswered = False
        self._count = 0
        self._news: list[int] = []

    def happened(self, event: Event) -> None:
        if self.watch is not None:
            self.watch(event)

    # -- what is remembered --------------------------------------------------------------------------------------

    def _remember(self, record: dict[str, Any]) -> None:
        self.store.sessions.append(self.identity.session_id, record)
        self._count += 1

    def with_news(self, text: str) -> str:
        """What the person says to a model, after what it has not heard of yet: changes that a person took back."""
        self.scope.begin_run(text)
        steps = self.store.changes.untold(self.identity.session_id)
        self._news = [step.id for step in steps]
        return "\n\n".join(part for part in (news(steps), text) if part)

    def say(self, text: str, images: Sequence[Image] = ()) -> None:
        """Record what the person said and showed. Calls of a turn that was broken off get their results before.

        Raises ToolcribError where something was said in this session that came not from here: two conversations would mix.
        """
        info = self.info
        if info is not None and info.messages != self._count:
            raise ToolcribError(
                f"another process went on with this session; resume {info.id[:12]} once more to read what was said there,"
                " or begin a new session"
            )
        if self._unanswered:
            self.repair()
        self._remember({"role": "user", "text": text, **_with(images)})
        if self.scope.undo is not None:
            self.scope.undo.turn = self._count
        if self._news:
            self.store.changes.told(self._news)
            self._news = []

    def record_turn(self, turn: ProviderTurn, *, without_calls: bool = False) -> None:
        """Record a reply, before anything of it runs. ``without_calls`` leaves its calls out: they will get no result."""
        record: dict[str, Any] = {
            "role": "assistant",
            "text": turn.assistant_text,
            "usage": dict(turn.usage),
            "model": turn.model,
            "at": time.time(),
            **_with(turn.images),
        }
        if self.via:
            record["via"] = self.via
        if not without_calls or not turn.tool_calls:
            record["calls"] = [_call_record(call) for call in turn.tool_calls]
            record["native"] = {"wire": self.wire, "message": turn.assistant_turn}
        self._remember(record)
        self._unanswered = bool(record.get("calls"))

    def record_results(self, executed: Sequence[ExecutedCall]) -> None:
        """Record what the model will read, before it is sent."""
        record: dict[str, Any] = {"role": "results", "results": [_result_record(one) for one in executed]}
        if self.scope.state:
            record["state"] = dict(self.scope.state)
        self._remember(record)
        self._unanswered = False

    def stored_state(self, name: str) -> Any:
        """A value of the session's state as a result record last carried it; None where none did."""
        for record in self._backwards():
            if name in record.get("state", {}):
                return record["state"][name]
        return None

    def repair(self) -> None:
        """After a process died: give every call of the last turn that has no result one, from the ledger where it is known.

        Raises ToolcribError where a process that lives is at work on that turn: its results are still to come.
        """
        self.store.recover(self.identity.session_id)
        info = self.info
        self._count = 0 if info is None else info.messages
        last = next(self._backwards(), {})
        if last.get("role") != "assistant" or not last.get("calls"):
            return
        self._check_elsewhere(last["calls"])
        at = float(last.get("at", 0.0))
        results = [self._known_result(call, at) for call in last["calls"]]
        self._remember({"role": "results", "results": results})
        self._unanswered = False

    def _check_elsewhere(self, calls: Sequence[Mapping[str, Any]]) -> None:
        session_id = self.identity.session_id
        for call in calls:
            if self.store.ledger.is_elsewhere(session_id, call["id"]):
                raise ToolcribError(
                    f"the session {session_id[:12]} is at work in another process ({call['name']} has not ended there);"
                    " wait until it has, or begin a new session"
                )

    def _known_result(self, call: Mapping[str, Any], since: float) -> dict[str, Any]:
        known = self.store.ledger.get(self.identity.session_id, call["id"])
        if known is not None and known.ended_at is not None and known.ended_at < since:
            known = None  # an earlier call: some servers give the same ids in every turn
        if known is not None and known.result is None:
            known = self._give_up(known)
        if known is None or known.result is None:
            text = encode(
                {"error": f"Error executing {call['name']}: interrupted before it ran; ask for it again if it is needed"}
            )
            return {"call_id": call["id"], "name": call["name"], "text": text, "is_error": True}
        return _result_record(ExecutedCall(known.call, known.result, known.status))

    def _give_up(self, known: CallRecord) -> CallRecord | None:
        """End a call that nobody will: its process died while it asked somebody, or its end could not be recorded.

        What the model is told stays true: an answer that comes late does not run the call, and its id is free again.
        """
        store, session_id, call = self.store, self.identity.session_id, known.call
        why = "it was broken off before it could run"
        if known.status is ToolCallStatus.SUSPENDED:
            why = "the process that asked about it ended before there was an answer"
        for ticket in store.tickets.of_call(session_id, call.id):
            store.tickets.settle(Answer(ticket.ticket.id, action="cancel", reason=why, by="nobody", at=time.time()), "expired")
        if known.status is ToolCallStatus.NEW:
            store.ledger.move(session_id, call.id, ToolCallStatus.RUNNING)
        not_run = f"not run: {why}; ask for it again if it is needed"
        words = "interrupted; it may have run, or still run" if known.handler_started else not_run
        result = failed(call.name, Cancelled(words), inside=known.handler_started)
        store.ledger.finish(session_id, call.id, ToolCallStatus.CANCELLED, result)
        return store.ledger.get(session_id, call.id)

    def talked_to(self) -> Mapping[str, Any]:
        """``via`` of the last answer, but for those of models that stood in for another; empty where it had none."""
        answers = (record for record in self._backwards() if record.get("role") == "assistant")
        return next((via for one in answers if not (via := one.get("via", {})).get("fallback")), {})

    def set_model(self, model: str) -> None:
        """Record which model the session talks to."""
        self.store.sessions.update(self.identity.session_id, model=model)

    @property
    def info(self) -> SessionInfo | None:
        """What the store says of this session; None until something was said in it."""
        return self.store.sessions.get(self.identity.session_id)

    def records(self) -> Sequence[Mapping[str, Any]]:
        """The whole conversation, oldest first."""
        return self.store.sessions.messages(self.identity.session_id)

    def each_record(self) -> Iterator[Mapping[str, Any]]:
        """The same, oldest first, read in pages: a long conversation is never whole in memory."""
        place = 0
        while page := self.store.sessions.messages(self.identity.session_id, offset=place, limit=_PAGE):
            yield from page
            place += len(page)

    def _backwards(self) -> Iterator[Mapping[str, Any]]:
        info = self.info
        end = 0 if info is None else info.messages
        while end > 0:
            start = max(0, end - _PAGE)
            yield from reversed(self.store.sessions.messages(self.identity.session_id, offset=start, limit=end - start))
            end = start

    # -- what runs -----------------------------------------------------------------------------------------------

    @property
    def identity(self) -> RunIdentity:
        return self.scope.identity

    @property
    def definitions(self) -> list[Any]:
        """The schemas that a model is shown; shared and read-only."""
        return self._dispatcher.registry.get_definitions(self.names)

    def system_prompt(self, instructions: str = "") -> str:
        """What a model is told before anything else. Opens the environment: raises EnvironmentFailed where it can't be had."""
        return system_prompt(self.scope.environment.cwd, instructions, self.place.told)

    def emoji(self, name: str) -> str:
        entry = self._dispatcher.registry.get(name)
        return entry.emoji if entry is not None else ""

    async def turn(
        self,
        calls: Sequence[ToolCall],
        on_start: Callable[[ToolCall], None] = lambda call: None,
        on_done: Callable[[ExecutedCall], None] = lambda executed: None,
    ) -> list[ExecutedCall]:
        """Run all calls of one turn; see tools.dispatch.turn."""
        await self.start()
        return await run_turn(self._dispatcher, calls, self.scope, on_start=on_start, on_done=on_done)

    def call(self, name: str, args: Any) -> ExecutedCall:
        """Run one call, from sync code."""
        return run_async(self._call(ToolCall(ToolCall.new_id(), name, args)))

    async def _call(self, call: ToolCall) -> ExecutedCall:
        await self.start()
        return await self._dispatcher.call(call, self.scope)

    async def start(self) -> None:
        """Tell the plugins that the session begins, before the first thing that happens in it; later calls do nothing."""
        if not self._started:
            self._started = True
            await self.tell("on_session_start")

    async def tell(self, hook: str, **values: Any) -> None:
        """Tell the plugins of the run; see agent.observers."""
        await tell(self._dispatcher.hooks, hook, self.scope, identity=self.identity, **values)

    def interrupt(self) -> None:
        """End what runs now, from any thread or a signal handler; the session goes on."""
        self.scope.interrupt()

    async def close(self) -> None:
        try:
            if self._started:
                self._started = False
                await self.tell("on_session_end")
        finally:
            await self.scope.close()

    def close_sync(self) -> None:
        run_async(self.close())


def _call_record(call: ToolCall) -> dict[str, Any]:
    record: dict[str, Any] = {"id": call.id, "name": call.name, "args": call.args}
    if call.fault is not None:
        record["fault"] = call.fault
    return record


def _result_record(executed: ExecutedCall) -> dict[str, Any]:
    call, result = executed.call, executed.result
    record = {"call_id": call.id, "name": call.name, "text": as_json(executed), "is_error": result.is_error}
    return {**record, **_with(images_of(executed))}


def _with(images: Sequence[Image]) -> dict[str, Any]:
    return {"images": [image.to_json() for image in images]} if images else {}
