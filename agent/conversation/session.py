"""Session: the calls it may make, its environment, and the one way in: say, answer, interrupt, advance."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent.conversation.driving import Driver
from agent.conversation.holding import Holding
from agent.conversation.limits import RunLimits
from agent.conversation.link import ModelLink
from agent.conversation.modes import SessionMode
from agent.conversation.prompting import SessionPrompt
from agent.conversation.remembered import read_state
from agent.conversation.transcript import Record, Transcript
from agent.conversation.turnstile import Turnstile
from agent.plugin_host.run_hooks import tell
from toolcrib.contract.context import Principal, RunIdentity
from toolcrib.contract.environment import Restable
from toolcrib.contract.image import Image
from toolcrib.contract.session import ExecutedCall, ProviderTurn
from toolcrib.contract.store import Fence, InboxItem, InboxMode, SessionInfo, Settled, Store
from toolcrib.contract.types import Answer, ToolCall
from tools.approval.policy import Policy
from tools.dispatch.bridge import run_async
from tools.dispatch.scope import CallScope

if TYPE_CHECKING:
    from agent.backends import Backend
    from agent.conversation.asking import Emit
    from agent.conversation.state import RunResult, RunState
    from agent.conversation.titling import TitleDraft
    from agent.delegates.delegates import Delegates
    from agent.explaining import Explanation
    from agent.model_choice.models import ModelChoice
    from agent.reports import Reports
    from agent.workspace import Workspace
    from toolcrib.contract.session import ProviderSession
    from tools.dispatch.pipeline import Dispatcher


class Session:
    """Recorded in ``store``. ``names`` are the tools that it is granted.

    ``here`` is its workspace, by whose configuration and providers its model is chosen. ``store`` is fenced by ``fence``: what
    this process writes counts only as long as no other has taken the session over. ``owner`` names this process.
    """

    def __init__(
        self,
        scope: CallScope,
        names: Sequence[str],
        backend: Backend,
        *,
        store: Store,
        fence: Fence,
        owner: str,
        here: Workspace,
        limits: RunLimits | None = None,
    ) -> None:
        self.scope = scope
        self.names = list(names)
        self.backend = backend
        self.store = store
        self.config = here.config
        self.providers = here.providers
        self._here = here
        self.limits = limits or RunLimits.of(here.config)
        self.transcript = Transcript(store, scope.identity.session_id)
        self.link = ModelLink(self)
        self.prompt = SessionPrompt(self)
        self.turnstile = Turnstile()
        self.mode = SessionMode(scope, store)
        self.holding = Holding(store, scope.identity.session_id, fence, scope.interrupt, owner)
        self.wire = "manual"
        self.via: dict[str, Any] = {}
        """The provider, model and base_url of what answers; empty where a person types the calls."""
        self.watch: Emit = lambda event: None
        """Told of what happens in runs and within calls."""
        self.outfit: Callable[[Principal], None] | None = None
        """Fits the session out for a run of this principal: its tools, and what the approval gate goes by."""
        self.on_state: Callable[[Mapping[str, Any]], None] = lambda state: None
        """Told of the session's state where it was read anew: this process begins with it, or another one changed it."""
        self.before: Callable[[], Awaitable[None]] | None = None
        """Awaited before anything happens in the session: the process's plugins are started."""
        self.delegates: Delegates
        self.reports: Reports
        """Takes what calls report of their work, and tells ``watch``."""
        self.run: RunState | None = None
        """The run that went last, as of its last step."""
        self.opened_for = scope.identity
        """Whose session it is; a run may be somebody else's."""
        self._started, self._driver = False, Driver(self)
        self._title: TitleDraft | None = None

    # -- the way in ----------------------------------------------------------------------------------------------

    async def say(
        self,
        text: str,
        images: Sequence[Image] = (),
        *,
        mode: InboxMode = "queue",
        key: str = "",
        principal: Principal | None = None,
        schema: Mapping[str, Any] | None = None,
        limits: RunLimits | None = None,
    ) -> InboxItem | None:
        """Put a message into the session's inbox, for good; ``advance`` answers it. None where its ``key`` is known already.

        While a run is under way, ``queue`` waits for its end, ``steer`` is handed to the model with the next results, and
        ``interrupt`` ends the run first; in another process where that hosts the session, else at the run's next turn. A run of
        somebody else is ended by the local person alone: it goes on, and the message waits for its end.
        The run, its tickets and grants are the principal's.
        """
        options: dict[str, Any] = {} if schema is None else {"schema": dict(schema)}
        options |= {} if limits is None else {"limits": limits.to_json()}
        who = (principal or self.opened_for.principal).to_json()
        shown = [image.to_json() for image in images]
        item = InboxItem(self.id, text, mode, key, who, shown, options, time.time())
        kept = await self.store.inbox.put(item)
        if kept is not None:
            if mode == "interrupt":
                self.heed(kept)
            from agent.conversation.answers import topic_of

            await self.store.signals.send(topic_of(self.id))
        return kept

    async def ask(
        self,
        text: str,
        images: Sequence[Image] = (),
        *,
        mode: InboxMode = "queue",
        key: str = "",
        schema: Mapping[str, Any] | None = None,
        limits: RunLimits | None = None,
        emit: Emit | None = None,
        said: Callable[[], None] = lambda: None,
    ) -> RunResult:
        """Say something, and go on until it is answered, or waits for somebody. Several at once are answered in order.

        ``said`` is called once the message is stored: from then on another process can go on with it.

        Raises RunError, ProviderError and ConfigError kinds, StoreFailed, and LeaseLost where another process took the session
        over; the session can go on after them.
        """
        if not self.turnstile.is_taken:
            self.scope.clear_interrupt()  # before anything is awaited: an interrupt from here on is for this run
        if schema is not None:
            from agent.conversation.structured import AnswerCheck

            check = AnswerCheck(schema)
            text, schema = check.request(text), check.schema
        saying = asyncio.ensure_future(self.say(text, images, mode=mode, key=key, schema=schema, limits=limits))
        try:
            item = await asyncio.shield(saying)
            said()
        except BaseException:  # what nobody waits for any more must not be answered later
            item = await saying
            if item is not None:
                await self.store.inbox.drop([item.id])
            raise
        return await self._driver.answer(item, emit)

    async def advance(
        self,
        emit: Emit | None = None,
        *,
        calls_only: bool = False,
        done: Callable[[RunResult | Exception], None] = lambda outcome: None,
    ) -> RunResult | None:
        """Go on with the run that has not ended, then with what waits in the inbox; return the result of the last run, None where
        there was nothing to do. ``done`` is told what each of them came to.

        A run that an ended process left is continued from its last whole step. ``calls_only`` runs what was answered of a parked
        run, and leaves the rest to the next. Raises as ``ask``.
        """
        return await self._driver.advance(emit, done, calls_only=calls_only)

    async def answer(self, answer: Answer, approver: Principal | None = None) -> Settled:
        """Record an answer to a ticket, from any process; ``advance`` acts on it. Raises as agent.conversation.answers."""
        from agent.conversation.answers import record_answer

        return await record_answer(self.store, answer, approver)

    def heed(self, item: InboxItem) -> None:
        """End what runs now for this message, if it may: see RunState.ends_for. Nothing where no run is under way."""
        self._driver.heed(item)

    def interrupt(self, begins: str = "") -> None:
        """End what runs now, from any thread or a signal handler, and the run of this id as it begins; the session goes on."""
        self._driver.ends.add(begins)
        self.scope.interrupt()

    def stop(self) -> None:
        """End what runs now, and begin nothing more: messages stay in the inbox, for the next process. From any thread."""
        self.begin_nothing()
        self.scope.interrupt()

    def begin_nothing(self) -> None:
        """Begin nothing more, as ``stop``; what runs now goes on to its end."""
        self._driver.is_stopped = True

    async def waits_for_answers(self) -> bool:
        """Return True if a run of this session is parked, or its process ended while somebody was asked."""
        return await self._driver.waits()

    async def give_up(self) -> RunResult | None:
        """End a run that is parked: its tickets expire, and the model reads that nobody agreed."""
        return await self._driver.give_up()

    async def acall(self, call: ToolCall) -> ExecutedCall:
        """Run one call as ``calls`` does."""
        return (await self.calls([call]))[0]

    async def calls(
        self,
        calls: Sequence[ToolCall],
        on_start: Callable[[ToolCall], None] = lambda call: None,
        on_done: Callable[[ExecutedCall], None] = lambda executed: None,
    ) -> list[ExecutedCall]:
        """Run calls that a person made by hand, as those of a turn are run; the model does not hear of them."""
        from tools.dispatch.batch import run_calls

        await self.start()
        if self.scope.undo is not None:
            self.scope.undo.turn = 0

        def began(call: ToolCall) -> None:
            on_start(call)
            self.reports.begin(call.id)

        def ended(executed: ExecutedCall) -> None:
            self.reports.end(executed.call.id)
            on_done(executed)

        async with self.holding.held(self.busy) as fresh:
            if fresh:
                self.forget_origins()
                await self.mode.look()
            return await run_calls(self.dispatcher, calls, self.scope, on_start=began, on_done=ended)

    @property
    def dispatcher(self) -> Dispatcher:
        """Dispatcher of the session's calls; it is made with the first of the process."""
        return self._here.dispatcher

    def call(self, name: str, args: Any) -> ExecutedCall:
        """Run one call by hand, from sync code."""
        return run_async(self.acall(ToolCall(ToolCall.new_id(), name, args)))

    async def explain(self, command: str, cwd: str = "") -> Explanation:
        """Return what the gate would say of a command now, by this session's shell, files and grants. Nothing is run."""
        from agent.explaining import explain

        return await explain(self.dispatcher, self.scope, command, cwd)

    def busy(self) -> None:
        """Tell whoever watches that another process is at work on the session."""
        from agent.events import SessionBusy

        self.watch(SessionBusy(self.id))

    # -- its model -----------------------------------------------------------------------------------------------

    async def connect(self, choice: ModelChoice, *, instructions: str = "", allows_manual: bool = False) -> None:
        """Say which model answers, and open the conversation with it. Raises ConfigError, and ProviderError kinds."""
        self.link.instructions, self.link.allows_manual = instructions, allows_manual
        await self.transcript.look()
        await self.link.switch(choice)

    @property
    def model(self) -> str:
        """The name of the model that answers; "" where a person types the calls, or none was connected yet."""
        return self.link.name

    async def provider(self) -> ProviderSession:
        """Return the provider session, opened if needed."""
        return await self.link.opened()

    def tell_model(self, text: str, images: Sequence[Image] = ()) -> None:
        """Say something to the model without a run."""
        self.link.tell(text, images)

    async def hand_over(self, turn: ProviderTurn | None, executed: Sequence[ExecutedCall]) -> None:
        """Hand a turn and its results to the provider session."""
        await self.link.hand_over(turn, executed)

    async def note_model(self, via: Mapping[str, str], *, for_good: bool) -> None:
        """Record which model the session talks to; ``for_good`` means that it is asked again when the session is resumed."""
        known = await self.transcript.info()
        stored = None if known is None or not for_good or known.via == via else via
        model = via.get("model")
        if stored is not None or (model is not None and known is not None and known.model != model):
            await self.store.sessions.update(self.id, model=model, via=stored)

    # -- what is remembered --------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The session's id."""
        return self.scope.identity.session_id

    @property
    def identity(self) -> RunIdentity:
        """The identity of the session's runs."""
        return self.scope.identity

    async def info(self) -> SessionInfo | None:
        """Return what the store says of this session."""
        return await self.transcript.info()

    async def records(self) -> Sequence[Mapping[str, Any]]:
        """Return the whole conversation, oldest first."""
        return await self.transcript.records()

    async def look(self) -> None:
        """Read anew what another process may have changed: the count of records, the session's state and mode."""
        await self.mode.look()
        await read_state(self.store, self.scope, self.transcript)
        self.on_state(self.scope.state)

    def forget_origins(self) -> None:
        """Have the origins of files read anew: another process may have downloaded some while it held the session."""
        if isinstance(self.scope.policy, Policy):
            self.scope.policy.files.forget(self.id)

    async def keep(self, state: RunState, messages: Sequence[Record] = (), taken: Sequence[int] = ()) -> RunState:
        """Store a step of a run. One that is stored already stays as it is, and is returned as it was stored."""
        messages = self.transcript.marked(messages)
        if await self.store.runs.commit(state.record(), messages=messages, taken=taken):
            self.transcript.added(messages)
            if messages and messages[0]["role"] == "assistant" and "broken" not in messages[0]:
                self.link.took(len(messages))
            if state.first == 0 and state.stopped == "done" and self.config.sessions.titles == "model":
                from agent.conversation.titling import TitleDraft

                self._title = TitleDraft(self, state.text)
        else:
            known = await self.store.runs.get(state.id)
            await self.transcript.look()
            state = state if known is None else type(state).of(known)
        self.run = state
        return state

    # -- where it runs -------------------------------------------------------------------------------------------

    @property
    def definitions(self) -> list[Any]:
        """The schemas that a model is shown; shared and read-only."""
        return self._here.definitions(self.names, self.backend)

    def emoji(self, name: str) -> str:
        """Return the tool's emoji, "" where it has none."""
        entry = self._here.registry.get(name)
        return entry.emoji if entry is not None else ""

    # -- its life ------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Tell the plugins that the session begins, before the first thing that happens in it; later calls do nothing."""
        if self.before is not None:
            await self.before()
        if not self._started:
            self._started = True
            await self.tell("on_session_start")

    async def tell(self, hook: str, **values: Any) -> None:
        """Tell the plugins of the run; see agent.plugin_host.run_hooks."""
        await tell(self._here.hooks, hook, self.scope, identity=self.identity, **values)

    async def rest(self) -> None:
        """Give back the connection to the model, and shells in which nothing runs. The next call continues as before."""
        await self.link.rest()
        environment = self.scope.opened
        if environment is not None and isinstance(environment, Restable):
            await environment.rest()

    async def close(self) -> None:
        """End the session's delegates, and close its connections and environment."""
        try:
            await self.delegates.close()
            if self._title is not None:
                await self._title.close()
            await self.link.close()
            if self._started:
                self._started = False
                await self.tell("on_session_end")
        finally:
            await self.scope.close()

    def close_sync(self) -> None:
        """Close the session from sync code."""
        run_async(self.close())
