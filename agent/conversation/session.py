"""Session: send messages, continue and interrupt runs, answer tickets, and run calls by hand."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent.conversation.core import SessionCore, WorkspaceShare
from agent.conversation.driving import Driver
from agent.conversation.limits import RunLimits
from toolcrib.contract.context import Principal
from toolcrib.contract.deprecated import old_name
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.image import Image
from toolcrib.contract.session import ExecutedCall
from toolcrib.contract.store import Fence, InboxItem, InboxMode, Settled, Store
from toolcrib.contract.types import Answer, ToolCall
from tools.dispatch.bridge import run_async
from tools.dispatch.scope import CallScope

if TYPE_CHECKING:
    from agent.backends import Backend
    from agent.conversation.state import RunResult
    from agent.events import Emit
    from agent.explaining import Explanation
    from agent.model_choice.models import ModelChoice
    from toolcrib.contract.session import ProviderSession


class Session(SessionCore):
    """A session as interfaces use it; SessionCore has its state."""

    def __init__(
        self,
        scope: CallScope,
        names: Sequence[str],
        backend: Backend,
        share: WorkspaceShare,
        *,
        store: Store,
        fence: Fence,
        owner: str,
    ) -> None:
        super().__init__(scope, names, backend, share, store=store, fence=fence, owner=owner, open_model=self._open_model)
        self._driver = Driver(self)

    # -- messages and calls --------------------------------------------------------------------------------------

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
        """Store a message in the session's inbox, for ``advance`` to answer. Return None if its ``key`` is already known.

        While a run is under way, a ``queue`` message waits for its end, a ``steer`` message reaches the model with the next
        results, and an ``interrupt`` message ends the run first. If another process drives the session, that process ends the
        run: at once if it hosts the session, otherwise at the run's next turn. Only an ``interrupt`` message from the local user
        ends another user's run; all other messages wait until that run ends. The run that answers the
        message, its tickets and grants belong to ``principal``.
        """
        options: dict[str, Any] = {} if schema is None else {"schema": dict(schema)}
        options |= {} if limits is None else {"limits": limits.to_json()}
        who = (principal or self.opened_for.principal).to_json()
        shown = [image.to_json() for image in images]
        item = InboxItem(self.id, text, mode, key, who, shown, options, time.time())
        kept = await self.store.inbox.put(item)
        if kept is not None:
            if mode == "interrupt":
                self.interrupt_for(kept)
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
        """Send a message, and work until it is answered or a run is parked. Several messages are answered in order.

        ``said`` is called once the message is stored: from then on another process can answer it.

        Raises RunError, ProviderError, ConfigError, StoreFailed, and LeaseLost if another process took over the session. Raises
        ToolcribError if a tool, asker or listener of this session's own run calls it. The session remains usable after all of
        them.
        """
        if self.turnstile.is_entered_here and (mode == "queue" or asyncio.current_task() in self.scope.running):
            raise ToolcribError(
                "ask was called from within a run of the same session, which would wait for itself; return from the tool or"
                " callback first, queue the message with Session.say, or ask another Agent"
            )
        if not self.turnstile.is_taken:
            self.scope.clear_interrupt()  # before the first await: a later interrupt is for this run
        if schema is not None:
            from agent.conversation.structured import AnswerCheck

            check = AnswerCheck(schema)
            text, schema = check.request(text), check.schema
        saying = asyncio.ensure_future(self.say(text, images, mode=mode, key=key, schema=schema, limits=limits))
        try:
            item = await asyncio.shield(saying)
            said()
        except BaseException:  # the caller is gone, so the message must not be answered later
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
        """Continue the unfinished run, if there is one, then answer the messages in the inbox.

        Return the result of the last run, or None if there was nothing to do.

        ``done`` receives the outcome of each run. A run of a dead process continues from its last complete step. ``calls_only``
        runs the answered calls of a parked run and leaves the rest to the next caller. Raises what ``ask`` raises.
        """
        return await self._driver.advance(emit, done, calls_only=calls_only)

    async def answer(self, answer: Answer, approver: Principal | None = None) -> Settled:
        """Record an answer to a ticket, from any process; ``advance`` acts on it. Raises what record_answer raises."""
        from agent.conversation.answers import record_answer

        return await record_answer(self.store, answer, approver)

    def interrupt_for(self, item: InboxItem) -> None:
        """End the current run if this message may interrupt it (see RunState.ends_for). Does nothing if no run is under way."""
        self._driver.interrupt_for(item)

    heed = old_name(interrupt_for, "heed")

    def interrupt(self, begins: str = "") -> None:
        """End the current work. The run with the id ``begins`` also ends, as soon as ``advance`` begins or continues it.

        The session remains usable. Any thread and any signal handler may call this.
        """
        self._driver.ends.add(begins)
        self.scope.interrupt()

    def stop(self) -> None:
        """End the current work, and begin nothing more: messages stay in the inbox for the next process.

        Any thread may call this.
        """
        self.begin_nothing()
        self.scope.interrupt()

    def begin_nothing(self) -> None:
        """Begin no more runs, as after ``stop``; the current run continues to its end."""
        self._driver.is_stopped = True

    def begin_again(self) -> None:
        """Begin runs again after ``begin_nothing``."""
        self._driver.is_stopped = False

    async def waits_for_answers(self) -> bool:
        """Return True if the current run waits for an answer: it is parked, or one of its calls is suspended."""
        return await self._driver.waits()

    async def end_unfinished(self) -> RunResult | None:
        """End a parked or otherwise unfinished run. Return its result, or None if there is no such run.

        The run's tickets expire, and the model reads that the remaining calls were interrupted.
        """
        return await self._driver.end_unfinished()

    give_up = old_name(end_unfinished, "give_up")

    async def acall(self, call: ToolCall) -> ExecutedCall:
        """Run one call by hand; see ``calls``."""
        return (await self.calls([call]))[0]

    async def calls(
        self,
        calls: Sequence[ToolCall],
        on_start: Callable[[ToolCall], None] = lambda call: None,
        on_done: Callable[[ExecutedCall], None] = lambda executed: None,
    ) -> list[ExecutedCall]:
        """Run calls that a user makes by hand, in the same way as a turn's calls. The model does not see them."""
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
                await self.mode.refresh()
            return await run_calls(self.dispatcher, calls, self.scope, on_start=began, on_done=ended)

    def call(self, name: str, args: Any) -> ExecutedCall:
        """Run one call by hand, from sync code."""
        return run_async(self.acall(ToolCall(ToolCall.new_id(), name, args)))

    async def explain(self, command: str, cwd: str = "") -> Explanation:
        """Return the gate's verdict on a command with the session's current shell, files and grants. The command does not run."""
        from agent.explaining import explain

        return await explain(self.dispatcher, self.scope, command, cwd)

    # -- the model -----------------------------------------------------------------------------------------------

    async def connect(self, choice: ModelChoice, *, instructions: str = "", allows_manual: bool = False) -> None:
        """Choose the model, and open the conversation with it. Raises ConfigError and ProviderError."""
        self.link.instructions, self.link.allows_manual = instructions, allows_manual
        await self.transcript.reload_if_changed()
        await self.link.switch(choice)

    async def _open_model(self, choice: ModelChoice | None) -> ProviderSession:
        from agent.model_choice.connecting import connect
        from agent.model_choice.models import ModelChoice

        link = self.link
        return await connect(self, choice or ModelChoice(), instructions=link.instructions, allows_manual=link.allows_manual)

    # -- records -------------------------------------------------------------------------------------------------

    async def records(self) -> Sequence[Mapping[str, Any]]:
        """Return the whole conversation, oldest first."""
        return await self.transcript.records()

    # -- closing -------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """End the session's delegates, and close its connections and environment."""
        try:
            await self.delegates.close()
            if self._title is not None:
                await self._title.close()
            await self.link.close()
            if self._started:
                self._started = False
                await self.call_hook("on_session_end")
        finally:
            await self.scope.close()
            if self.process_server is not None:
                await self.process_server.close()
            self.is_open = False

    async def leave(self) -> None:
        """Stop using an idle session as if this process had been killed: its background processes stay."""
        self.is_open = False
        if self.process_server is not None:
            await self.process_server.leave()
        await self.scope.leave()

    def close_sync(self) -> None:
        """Close the session from sync code."""
        run_async(self.close())
