"""The chat at a terminal: reads keys, draws frames, and gives the conversation one line after another. No input is lost."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from agent.cli.drafts import BETWEEN, KeptDraft
from agent.cli.escape import one_line, tame
from agent.cli.footer import footer
from agent.cli.liveview import LiveView
from agent.cli.notifying import notifier
from agent.cli.presses import Presses
from agent.cli.questions import Questions
from agent.cli.screen import tty
from agent.cli.screen.cells import Row, folded, shortened
from agent.cli.screen.draft import DraftRows
from agent.cli.screen.external_programs import paged, pager_of_person, written_by
from agent.cli.screen.frame import Board
from agent.cli.screen.input_frame import InputFrame
from agent.cli.screen.keyboard import Keyboard
from agent.cli.screen.list_picker import ListPicker, PickItem
from agent.cli.screen.painter import Painter
from agent.cli.screen.themes import theme_for
from agent.cli.signals import interrupting
from agent.cli.steering import Steering, has_its_turn
from agent.cli.words import AT_ONCE
from agent.config import key_label, key_table
from toolcrib.contract.errors import ToolcribError

if TYPE_CHECKING:
    from prompt_toolkit.completion import Completer
    from prompt_toolkit.history import History
    from prompt_toolkit.input import Input

    from agent.cli.attached_screen import Attached
    from agent.cli.conversation import Conversation
    from agent.config._model import DisplayConfig

_TICK = 0.1
_LONG_DRAFT = 5_000
"""Minimum length in characters of a restored draft that is shown as a label."""
_LONG = 40
"""Minimum number of lines of a text that /show opens in the pager."""


class InteractiveChat:
    """The chat at a terminal. It is created before the session, because the session asks through its ``questions``; ``run``
    runs the chat.
    """

    def __init__(
        self,
        display: DisplayConfig,
        history: History,
        keys: Input | None = None,
        *,
        drafts: KeptDraft | None = None,
        notify: Sequence[str] = (),
    ) -> None:
        theme = theme_for(display.theme, display.color)
        self.board = Board(Painter(tty.write, tty.size, theme, tty.told_within()), self)
        self.view = LiveView(self.board, markdown=display.markdown, thinking=display.thinking)
        bound = {action: pressed for action, pressed, _ in key_table(display.keys)}
        self._color = display.color
        self._steers = key_label(next(iter(display.keys.steer), ""))
        completer, vi = _late_completer(self), display.editing_mode == "vi"
        self.keyboard = Keyboard(self, tty.write, history=history, completer=completer, keys=keys, bound=bound, vi=vi)
        self.completer: Completer | None = None
        notifies = notifier(display.notify, notify, tty.write)
        self.questions = Questions(self.board, self.view, self.keyboard, display.bell, self._declined, notifies)
        self._conversation: Conversation | None = None
        self._queue: deque[str] = deque()
        """Messages that wait for their turn. A label stands for each large paste in them."""
        self._came, self._is_ended = asyncio.Event(), asyncio.Event()
        self.is_working = True
        """True while something runs, and initially. A line that is sent in this time waits for its turn."""
        self._leaving = False
        self._presses = Presses()
        self._counted = ""
        self._steering = Steering(self.view, self.keyboard)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._kept = drafts or KeptDraft(None)

    @property
    def conversation(self) -> Conversation:
        """The chat's conversation, available once ``run`` has begun."""
        assert self._conversation is not None, "run it first"  # noqa: S101 - a fault of the program, not of the user
        return self._conversation

    # -- the chat ------------------------------------------------------------------------------------------------

    async def run(self, conversation: Conversation, begin: Callable[[], Awaitable[None]]) -> None:
        """Await ``begin``, then chat until the user leaves.

        Raises Ended, and KeyboardInterrupt if the user leaves a run that hangs.
        """
        self._conversation, self._loop = conversation, asyncio.get_running_loop()
        conversation.reader, conversation.on_processes = self, self._recount
        work = asyncio.create_task(self._work(begin))
        work.add_done_callback(self._ended)
        keeping = asyncio.create_task(self._keep_draft())
        try:
            with interrupting(self._signalled), written_by(self._printed):
                try:
                    await self.keyboard.run(self.board.begin)
                except EOFError:  # the terminal was closed
                    conversation.interrupt()
                finally:
                    self._leaving = True
                    if self.is_working and not isinstance(sys.exception(), KeyboardInterrupt):
                        await asyncio.wait([work])  # it was interrupted
                    self.view.finish()
                    self.board.end()
        finally:
            work.cancel()
            keeping.cancel()
            self._kept.keep_now(conversation.session.id, self._unsent())
        if work.done() and not work.cancelled() and (error := work.exception()) is not None:
            raise error

    async def _keep_draft(self) -> None:
        while True:
            await asyncio.sleep(BETWEEN)
            await self._kept.keep(self.conversation.session.id, self._unsent())

    def _unsent(self) -> str:
        """Return the unsent input: the messages that wait for their turn, and the draft."""
        return "\n".join(self.keyboard.pastes.expand(text) for text in (*self._queue, self.keyboard.draft.text) if text)

    def put_back(self, typed: str) -> None:
        self.keyboard.put_back(typed)

    def restore_draft(self) -> None:
        """Restore the draft that an ended process of this session left unsent."""
        if text := self._kept.read(self.conversation.session.id):
            self.keyboard.put_back(self.keyboard.pastes.collapse(text) if len(text) > _LONG_DRAFT else text)
            self.view.screen.print_note("your unsent text is back")

    def _ended(self, work: asyncio.Task[None]) -> None:
        self.keyboard.stop()

    async def _work(self, begin: Callable[[], Awaitable[None]]) -> None:
        async with self._at_work():
            await begin()
        while not self._leaving:
            await self._came.wait()
            self._came.clear()
            while self._queue:
                line = self._queue.popleft()
                self.view.said(line)
                async with self._at_work():
                    going_on = await self.conversation.say(self.keyboard.pastes.expand(line), line)
                    await self._steering.end(self.conversation, interrupted=self._presses.is_interrupted)
                if not going_on or self._leaving:
                    return

    @contextlib.asynccontextmanager
    async def _at_work(self) -> Any:
        self.is_working, self.view.idle = True, False
        self._presses.begin()
        ticking = asyncio.create_task(self._tick())
        try:
            with tty.terminal_restored():
                yield
        finally:
            ticking.cancel()
            self.is_working, self.view.idle = False, True
            self.view.finish()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            if self.view.is_moving:
                self.board.changed()

    def _signalled(self) -> None:
        """Interrupt the current run, from a signal handler. Ctrl-C is a key here, so SIGINT comes from another process."""
        if self._conversation is not None:
            self._conversation.interrupt()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._is_ended.set)
            self._loop.call_soon_threadsafe(self.keyboard.stop)

    def _printed(self, line: str) -> None:
        """Show a line that some code printed, from any thread."""
        if self._loop is None or threading.current_thread() is threading.main_thread():
            self.view.screen.text(line)
        else:
            self._loop.call_soon_threadsafe(self.view.screen.text, line)

    def _recount(self) -> None:
        """Show the number of background processes again. Callable from any thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the chat has ended
                self._loop.call_soon_threadsafe(self.board.changed)

    # -- actions of the user ---------------------------------------------------------------------------------------

    def sent(self, text: str, *, steers: bool) -> None:
        text = text.strip("\n")
        if steers and self.is_working and self.conversation.model and not has_its_turn(text, self.conversation.session.names):
            self._steering.beside(self._steering.steer(self.conversation, text))
        elif self.is_working and text.split()[0] in AT_ONCE:
            self.view.said(text)
            self._steering.beside(self.conversation.say(text))
        else:
            self._queue.append(text)
            self._came.set()
        self.board.changed()

    def interrupted(self) -> None:
        working = self.is_working
        match self._presses.at_work() if working else self._presses.idle(self.keyboard.discard):
            case "interrupt":
                self.conversation.interrupt()
                if self._queue:
                    self.keyboard.put_back("\n".join(self._queue))
                    self._queue.clear()
            case "ask":
                session = self.conversation.session
                ended = ["the delegates"] * bool(session.delegates.at_work) + ["the processes"] * bool(session.running_processes)
                what = f" and ends {' and '.join(ended)}" if ended else ", as Ctrl-D does"
                self.view.screen.print_note(f"Ctrl-C again leaves{what}")
            case "leave":
                self.keyboard.stop(KeyboardInterrupt() if working else None)
        self.board.changed()

    def broken_off(self) -> None:
        if self.is_working:
            self.interrupted()

    def _declined(self) -> None:
        """Interrupt the current run, if any, because Ctrl-C denied a request. The draft stays."""
        self.broken_off()
        if not self.is_working:
            self.view.screen.print_note("  denied")

    def pasted(self, text: str) -> str:
        from agent.cli.images import as_mentions

        return as_mentions(text) if self.conversation.model else text

    async def paste_image(self) -> None:
        from agent.cli.clipboard import paste_image

        await paste_image(self.conversation)

    @property
    def has_queued(self) -> bool:
        return bool(self._queue)

    def take_back(self) -> str:
        self.board.changed()
        return self._queue.pop()

    def left(self) -> None:
        if self.is_working:
            self.view.screen.print_note("a run is in progress: Ctrl-C interrupts it")
        elif self.conversation.session.works_in_background:
            self.sent("/exit", steers=False)  # the command asks before it ends delegates and processes
        else:
            self.keyboard.stop()

    def changed(self, *, whole: bool) -> None:
        if not self.keyboard.is_aside:
            self.board.frame() if whole else self.board.keyed()

    def cleared(self) -> None:
        self.board.clear()

    @property
    def height(self) -> int:
        return self.board.rows

    @property
    def is_settling(self) -> bool:
        """True while a question waits until the user stops typing. Enter sends nothing then: it may be meant for the question."""
        return self.questions.settles

    def next_mode(self) -> None:
        """Switch the session to the next mode; after the strictest mode comes the first one."""
        self._steering.beside(self._switch_mode())

    async def _switch_mode(self) -> None:
        try:
            await self.conversation.next_mode()  # the last row shows it
        except ToolcribError as error:
            self.view.screen.fault(f"✗ {one_line(str(error))}")
        self.board.changed()

    def away(self) -> contextlib.AbstractContextManager[None]:
        return self.board.aside()

    # -- rows ----------------------------------------------------------------------------------------------------

    def above(self, columns: int) -> Sequence[Row]:
        rows = self.view.rows(columns)
        for text in self._queue if self.is_working else ():
            rows.append((("  queued: ", "dim"), (shortened(one_line(text, 400), columns - 10), "dim")))
        hint = self.keyboard.hint
        if self.questions.settles and self.keyboard.pause.is_typing:
            hint = "an approval request waits: stop typing to answer it"
        if hint and self.questions.stands:
            rows += [(("  ", ""), *row) for row in folded(((hint, "warn"),), columns - 2)]
        return rows

    def typed(self, columns: int) -> DraftRows:
        frame = self._frame(columns)
        return frame.around(self.keyboard.rows(frame.room))

    def below(self, columns: int) -> Sequence[Row]:
        frame = self._frame(columns)
        return [*frame.beside(self.keyboard.offers(frame.room)), frame.last(self._status(columns - 2))]

    def _frame(self, columns: int) -> InputFrame:
        asks = self.keyboard.is_asked and self.keyboard.picker is None
        return InputFrame(columns, self.board.rows, asks=asks, title=self.keyboard.title)

    def _status(self, room: int) -> str:
        if self._conversation is None:
            return ""
        session = self._conversation.session
        if session.id != self._counted:  # the count of tokens belonged to another session
            self._counted, self.view.usage = session.id, {}
        usage = self.view.usage
        steers = f", {self._steers} steers" if self._steers and self._conversation.model else ""
        asked = "Ctrl-C denies and interrupts" if self.is_working else "Ctrl-C denies"
        asked = "type to search, arrows move, Enter picks, Esc leaves" if self.keyboard.picker is not None else asked
        keys = asked if self.questions.stands else f"Ctrl-C interrupts{steers}" if self.is_working else "/help"
        keys = f"vi commands, {keys}" if self.keyboard.vi_command else keys
        return footer(self._conversation, usage.get("input", 0) + usage.get("output", 0), keys, room)

    def switch_theme(self, name: str) -> str:
        from agent.cli.theming import switch_theme

        return switch_theme(self.board, name, self._color)

    # -- items in full -------------------------------------------------------------------------------------------

    async def show(self, number: int | None) -> None:
        """Show an item in full, by default the last one. A long item is shown in the pager. Raises ToolcribError."""
        items = self.view.items
        if number is None and not items:
            raise ToolcribError("nothing to show yet: a call gets its #N when it ends")
        number = max(items) if number is None else number
        if number not in items:
            known = f"the items are {min(items)} to {max(items)}" if items else "there are no items yet"
            raise ToolcribError(f"there is no item {number}; {known}")
        await self.read(items[number].whole, items[number].diff)

    def number_of(self, call_id: str) -> int | None:
        """Return the number of the newest call with that id, or None if it was not shown."""
        return self.view.numbers.get(call_id)

    async def pick(self, items: Sequence[PickItem], title: str, current: str = "") -> str | None:
        """Return the value of the item that the user picks from a list, or None if they leave it."""
        return await self.questions.pick(ListPicker(items, title, current))

    async def edited(self, text: str) -> str | None:
        return await self.keyboard.edited(text)

    async def show_terminal(self, attached: Attached, name: str) -> str:
        from agent.cli.attached_screen import show_terminal

        async with self.keyboard.aside():
            return await show_terminal(attached, name, self.board.painter.theme, self._is_ended, lambda: self.questions.stands)

    async def read(self, whole: str, diff: str = "") -> None:
        """Show a text and a diff, in the pager if they are long."""
        lines = whole.count("\n") + diff.count("\n")
        if lines < _LONG or (pager := pager_of_person()) is None:
            self.view.screen.text(whole.rstrip("\n"))
            if diff:
                self.view.screen.diff(diff)
            return
        whole = f"{whole}{tame(diff)}"
        async with self.keyboard.aside():
            await asyncio.get_running_loop().run_in_executor(None, paged, pager, whole)


def _late_completer(chat: InteractiveChat) -> Completer:
    """Return a completer that uses the chat's completer, which is set later."""
    from prompt_toolkit.completion import DummyCompleter, DynamicCompleter

    return DynamicCompleter(lambda: chat.completer or DummyCompleter())
