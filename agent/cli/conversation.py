"""A chat: lines in, events out. It does not know how lines are typed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar, cast

from agent.cli.escape import one_line, tame
from agent.cli.faults import explained
from agent.cli.oneshot import Fan
from agent.cli.opening import BrokenOffMessage, ChatOpening
from agent.cli.trace import Tracer
from agent.cli.view import View, went_on
from agent.cli.words import PLAN_HINT
from agent.context.instructions import describe_files
from agent.conversation.state import RunResult
from agent.conversation.transcript import source_of
from agent.events import SessionBusy, TextDelta, ToolFinished, ToolStarted
from agent.later import MOST_NOTE, later_note
from agent.model_choice.connecting import own_choice
from agent.model_choice.models import ModelChoice, find_endpoint
from agent.protocols.command import parse_command
from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import ContextTooLong, LeaseLost, ToolcribError
from toolcrib.contract.image import Image
from toolcrib.contract.types import ToolCall

if TYPE_CHECKING:
    from agent.cli.beside import Beside
    from agent.cli.itemreader import ItemReader
    from agent.cli.livescreen import LiveScreen
    from agent.cli.liveview import LiveView
    from agent.cli.render import Screen
    from agent.conversation.session import Session
    from agent.events import Event
    from toolcrib.contract.session import ExecutedCall

Written = TypeVar("Written")
KEPT = "The session continues; /help lists the commands."


class Conversation:
    """A chat in one session at a time, with the model that answers and the screen that shows events. Call ``open`` before
    ``say``.
    """

    def __init__(
        self,
        opening: ChatOpening,
        choice: ModelChoice,
        screen: Screen | LiveScreen,
        view: LiveView | None = None,
        *,
        obey: Callable[[Conversation, str], Awaitable[bool]],
    ) -> None:
        self.opening = opening
        self._obey = obey
        """Runs a line that begins with a slash, and returns False if the user wants to leave."""
        self.choice = choice
        """The model that answers; /model and a resumed session change it."""
        self.named = choice
        """The model that the user named when the chat began."""
        self.screen = screen
        self.failed = False
        """True if the last run of a model failed."""
        self.images: list[Image] = []
        """Images for the next message to a model."""
        self.beside: list[Beside] = []
        """Context for the next message to a model."""
        self._steering: dict[str, tuple[str, list[Beside], list[Image]]] = {}
        """Final text of a steering message -> its typed text, and the context and images attached before the message."""
        self.edited_plan = ("", "")
        """A plan of the model, and the user's version of it; see agent.cli.planning."""
        self.cost: float | None = None
        """Cost of this chat's runs, if prices are known."""
        self.estimated = False
        """True if list prices were used for a part of the cost."""
        self.reader: ItemReader | None = None
        """Prints items in full that were shown shortened; None if nothing is shortened."""
        self.on_processes: Callable[[], None] = lambda: None
        """Called, from any thread, when the number of the session's background processes has changed."""
        self._view = view or View(cast("Screen", screen), thinking=opening.crib.config.display.thinking)
        self._session: Session | None = None
        self._tracer: Tracer | None = None
        self._told = ""
        self._told_full = self._told_near = False

    # -- sessions ------------------------------------------------------------------------------------------------

    @property
    def session(self) -> Session:
        """The open session."""
        assert self._session is not None, "open it first"  # noqa: S101 - a fault of the program, not of the user
        return self._session

    @property
    def model(self) -> str:
        """The model's name; empty if the user types the calls."""
        return "" if self._session is None else self._session.model

    async def open(
        self, *, resume: str = "", latest: bool = False, backend: str = "", mode: str = "", choice: ModelChoice | None = None
    ) -> None:
        """Open another session and connect its model, then close the previous session. Raises ToolcribError."""
        choice = choice or (self.named if resume or latest else self.choice)
        session = await self.opening.session(choice, resume=resume, latest=latest, backend=backend, mode=mode)
        try:
            await self._connect(session, choice)
        except BaseException:
            await session.close()
            raise
        old, self._session = self._session, session
        session.on_processes = lambda: self.on_processes()
        if old is not None:
            await self._end(old)

    async def switch(self, choice: ModelChoice) -> None:
        """Connect another model, of any provider, to the session. Raises ToolcribError, and then keeps the previous model."""
        await self._connect(self.session, choice)

    async def set_mode(self, name: str) -> str:
        """Switch the session's mode, and return its name. Raises ToolcribError, also in a process that a session's command
        started: only a user may switch.
        """
        from agent.policy.self_protection import refuse_below_any

        refuse_below_any("/mode")
        return await self.writing(lambda: self.session.mode.switch(name))

    async def writing(self, work: Callable[[], Awaitable[Written]]) -> Written:
        """Run ``work``, which writes to the session. If another process took the lease, reacquire it and retry once."""
        try:
            return await work()
        except LeaseLost:
            async with self.session.holding.held(lambda: self._view(SessionBusy(self.session.id))):
                return await work()

    async def next_mode(self) -> str:
        """Switch to the next mode (after plan, ``approval.mode`` if that is cautious, else default). Raises as ``set_mode``."""
        from tools.approval.modes import mode_after

        return await self.set_mode(mode_after(self.session.mode.now, self.session.config.approval.mode))

    async def _connect(self, session: Session, choice: ModelChoice) -> None:
        choice = await own_choice(session, choice)
        await session.connect(choice, allows_manual=True)
        self.choice = choice
        self._name_instructions(session)
        if self.opening.trace:
            self._tracer = Tracer(session)
            await self._tracer.set_up(session.prompt.text() if session.model else "", session.model)

    def _name_instructions(self, session: Session) -> None:
        """Print the names of the instruction files that the prompt contains, unless the same names were printed last."""
        files = describe_files(session.prompt.surroundings.files) if session.model else ""
        if files and files != self._told:
            self.screen.print_note(one_line(files))
            self._told = files

    def has_server(self) -> bool:
        """Return True if a model server is named or configured."""
        return find_endpoint(self.opening.crib.config, self.choice) is not None

    def interrupt(self) -> None:
        """Interrupt the current run, from a signal handler. The session stays open."""
        if self._session is not None:
            self._session.interrupt()

    async def close(self) -> None:
        """Close the open session."""
        if self._session is not None:
            await self._end(self._session)

    async def _end(self, session: Session) -> None:
        try:
            note = await later_note(session)
        finally:
            await session.close()
        if note:
            self.screen.print_note(one_line(note, MOST_NOTE))

    # -- lines ---------------------------------------------------------------------------------------------------

    async def say(self, line: str, typed: str | None = None) -> bool:
        """Run a line. Return False if the user wants to leave. ``typed`` is the typed part if the rest was pasted: only files
        named in this part are attached.
        """
        line = line.strip()
        if line in ("exit", "quit") and self.screen.interactive:  # not a message: users know these words from other programs
            line = "/quit"
        if line.startswith("/") and "/" not in line.split(maxsplit=1)[0][1:]:  # a message may begin with a path
            return await self._obey(self, line)
        if (line if typed is None else typed.strip()).startswith("!"):
            await self._own_command(line)
            return True
        call = parse_command(line, self.session.names) if self.model else None
        if call is not None and call.name in self.session.names:
            await self.call(call)
        elif line:
            await self._message(line, line if typed is None else typed)
        return True

    async def send(self, text: str) -> None:
        """Send a message whose text the user did not type: it names no files, and is no command."""
        await self._run(text)

    async def _message(self, line: str, typed: str) -> None:
        """Send a message with the files that it names. If the user cancels, put the typed text back into the input line."""
        if self.model:
            try:
                line = await self._with_files(line, typed)
            except BrokenOffMessage as error:
                self.screen.print_note(str(error))
                if self.reader is not None:
                    self.reader.put_back(typed)
                return
        await self._run(line)

    async def _own_command(self, line: str) -> None:
        from agent.cli.own_command import run_line

        try:
            await run_line(self.session, line, self.screen, self.show, self.beside)
        except ToolcribError as error:
            self.screen.fault(f"✗ {explained(error)}")

    def show(self, event: Event) -> None:
        """Show an event of the user's own call or command in full."""
        self._view.brief = False
        self._view(event)

    def show_again(self, executed: ExecutedCall) -> None:
        """Show a call of a resumed session as it ended."""
        self._view.brief = True
        self._view.show_again(executed, self.session.display(executed.call.name))

    def show_reply(self, text: str) -> None:
        """Show a reply of a resumed session, formatted as before."""
        self._view.brief = True
        self._view(TextDelta(text))
        self._view.end()

    async def _with_files(self, line: str, typed: str) -> str:
        """Return the message with its context. Images among the files that it names are added to ``images``."""
        line = line.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        if "@" in typed and self.screen.interactive:
            from agent.cli.attaching import attach

            done = await attach(self.session, typed, self.opening.confirm)
            for note in done.notes:
                self.screen.print_note(note)
            for fault in done.faults:
                self.screen.fault(f"✗ {fault}")
            for image in done.images:
                self.screen.draw(image)
            self.images += done.images
            self.beside += done.parts
        if self.beside:
            from agent.cli.beside import with_beside

            line = with_beside(line, self.beside)
            self.beside.clear()
        return line

    async def call(self, call: ToolCall) -> None:
        """Run a call that the user typed. The model does not see it."""
        session = self.session
        session.scope.clear_interrupt()
        session.watch = self._view
        try:
            await session.calls(
                [call],
                on_start=lambda one: self.show(ToolStarted(one, session.emoji(one.name), session.display(one.name))),
                on_done=lambda one: self.show(ToolFinished(one, session.emoji(one.call.name), session.display(one.call.name))),
            )
        except ToolcribError as error:
            self._view.end()
            self._tell(error)

    async def go_on(self) -> None:
        """Continue a run that was parked, or whose process ended during a question. The chat asks the user its open questions."""
        if await self.session.waits_for_answers():
            await self._watch(lambda watch: self.session.advance(watch))

    async def steer(self, text: str, typed: str | None = None) -> None:
        """Deliver a message to the current run, with the next results of its calls. ``typed``: as in ``say``."""
        typed = text if typed is None else typed
        before = typed, list(self.beside), list(self.images)
        text = await self._with_files(text, typed)
        images, self.images = tuple(self.images), []
        self._steering[text] = before
        if self._tracer is not None:
            self._tracer.said(text, images)
        await self.session.say(text, images, mode="steer")

    async def answer_waiting(self) -> None:
        """Answer messages of the user that arrived after their run had ended. Delegates' results wait for the user's next
        message, because an answer to them would cost money that the user did not ask to spend.
        """
        self._steering.clear()
        waiting = await self.session.store.inbox.waiting(self.session.id) if self.model else ()
        if not all(map(source_of, waiting)) and not await self.session.waits_for_answers():
            await self._watch(lambda watch: self.session.advance(watch))

    async def take_back(self) -> list[str]:
        """Remove undelivered steering messages from the inbox, and return them as typed. Delegates' messages stay."""
        waiting = await self.session.store.inbox.waiting(self.session.id)
        mine = [item for item in waiting if item.mode == "steer" and not source_of(item)]
        await self.session.store.inbox.drop([item.id for item in mine])
        texts = []
        for item in mine:
            typed, beside, images = self._steering.pop(item.text, (item.text, [], []))
            self.beside += beside
            self.images += images
            texts.append(typed)
        self._steering.clear()
        return texts

    async def _run(self, line: str) -> None:
        session, limits = self.session, self.opening.limits
        manual, self._told_full = not self.model, False
        await self._offer_room(line)
        if manual:  # a typed call takes two turns: the call, and an empty reply after it
            limits = replace(limits, max_turns=max(2, limits.max_turns), repeats=1_000, repairs=1_000, max_tokens=None)
        images = () if manual else tuple(self.images)
        if self._tracer is not None:
            self._tracer.said(line, images)
        self.images = self.images[len(images) :]
        await self._watch(lambda watch: session.ask(line, images, limits=limits, emit=watch))

    async def _watch(self, work: Callable[[Fan], Awaitable[RunResult | None]]) -> None:
        """Show the events of a run, and how it ended."""
        manual = not self.model
        self._view.brief = not manual
        self.failed = False
        fan = Fan([self._view, *([self._tracer] if self._tracer else [])], self.interrupt)
        try:
            result = await work(fan)
        except ToolcribError as error:
            self._view.end()
            self._tell(error)
        else:
            self._view.end()
            if result is not None and result.cost is not None:
                self.cost = (self.cost or 0.0) + result.cost
                self.estimated = self.estimated or bool(result.estimated)
            await self._offer_room()
            if not manual and result is not None:
                empty = result.stopped == "done" and not result.text.strip() and not result.images
                self.failed = result.stopped == "parked"
                self._explain("empty" if empty else result.stopped)
                if result.stopped == "done" and not empty and self.session.mode.now == "plan":
                    self.screen.print_note(PLAN_HINT)
        if fan.broken is not None:
            raise fan.broken

    async def _offer_room(self, text: str = "") -> None:
        """Print a note when the session with ``text`` exceeds what the model can read, once per run. Print another note when
        automatic compression is near, once before each compression.
        """
        if self.model and not self._told_full:
            from agent.cli.room import offer, room_left, soon_compressed

            if (full := await room_left(self.session, text)) is not None:
                self._told_full = True
                self.screen.print_note(offer(full))
            elif not text:
                near = await soon_compressed(self.session)
                if near is not None and not self._told_near:
                    self.screen.print_note(near)
                self._told_near = near is not None

    def _tell(self, error: ToolcribError) -> None:
        self.failed = True
        if self._tracer is not None:
            self._tracer.failed(error)
        if isinstance(error, ContextTooLong):
            from agent.cli.room import offer

            self.screen.fault(f"✗ {tame(str(error))}")
            if not self._told_full:  # compression, if enabled, was tried already
                may = not self.session.config.compression.enabled
                self.screen.print_note(offer("the session is too long for the model", compress=may))
            return
        self.screen.fault(f"✗ {explained(error)}")
        self.screen.print_note(KEPT)

    def _explain(self, stopped: str) -> None:
        words = {
            "empty": "the model's answer is empty",
            "interrupted": f"interrupted; the session is kept{went_on(self.session)}",
            "max_turns": "the run used all its turns (max_turns); to resume, type `continue`",
            "ended": "a gate ended the run; the session is kept",
            "parked": "a call waits for an answer (`toolcrib approvals`); your messages wait until then",
        }
        if stopped in words:
            self.screen.print_note(words[stopped])
