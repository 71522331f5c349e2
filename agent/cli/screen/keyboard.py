"""The chat's keyboard: prompt_toolkit edits the draft, and draws nothing. Output and questions don't change the draft."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from agent.cli.screen.application import application, taken_over
from agent.cli.screen.bindings import bindings, picker_bindings
from agent.cli.screen.cells import Row
from agent.cli.screen.draft import DraftRows, Pastes, draft_rows, offered_rows
from agent.cli.screen.external_programs import deaf_to_interrupts, edited_by_person
from agent.cli.screen.key_receivers import Hands
from agent.cli.screen.list_picker import ListPicker
from agent.cli.screen.onekey import OneKey, onekey_bindings
from agent.cli.screen.open_question import OpenQuestion
from agent.cli.screen.typing_pause import TypingPause

if TYPE_CHECKING:
    from prompt_toolkit.completion import Completer
    from prompt_toolkit.history import History
    from prompt_toolkit.input import Input
    from prompt_toolkit.key_binding import KeyBindings

_PASTE_ON, _PASTE_OFF = "\x1b[?2004h", "\x1b[?2004l"


class Keyboard:
    """Reads keys: ``run`` reads until ``stop``. ``history`` stores what was sent, ``completer`` completes the draft, ``bound``
    maps actions to keys. ``vi``: see ``application``.
    """

    def __init__(
        self,
        hands: Hands,
        write: Callable[[str], None],
        *,
        history: History,
        completer: Completer | None = None,
        keys: Input | None = None,
        bound: Mapping[str, Sequence[str]],
        vi: bool = False,
    ) -> None:
        from prompt_toolkit.buffer import Buffer

        self._hands = hands
        self._write = write
        self.pastes = Pastes()
        self.is_aside = False
        """True while another program has the terminal."""
        self.draft = Buffer(multiline=True, history=history, completer=completer, complete_while_typing=False)
        self.answer = Buffer(multiline=False)
        self._asked: OpenQuestion | None = None
        self.pause = TypingPause(self.draft, self._typed, self._came_early)
        self.hint = ""
        """A hint about the last key if it had no visible effect; valid until the next key."""
        made = [
            self._bindings(bound),
            onekey_bindings(lambda: self.choosing, self.pastes.collapse, self.rub_out),
            picker_bindings(lambda: self.picker, self._moved),
        ]
        self.answer.on_text_changed += lambda _: self._searched()
        self._app, self._windows = application(self.draft, self.answer, hands, keys, made, self._pressed, vi=vi)

    def _bindings(self, bound: Mapping[str, Sequence[str]]) -> KeyBindings:
        acts: Mapping[str, Callable[[], object]] = {
            "send": self.enter,
            "newline": self.newline,
            "steer": self.steer,
            "edit": self.edit,
            "paste_image": self._hands.paste_image,
            "next_mode": self._hands.next_mode,
            "clear": self._hands.cleared,
            "take_back": self.take_back,
            "suspend": self.suspend,
            "interrupt": self.interrupt,
            "break_off": self.break_off,
            "leave": self.end_of_input,
        }
        return bindings(acts, bound, self.paste, is_asked=lambda: self.is_asked, can_take_back=lambda: self.can_take_back)

    def _pressed(self) -> None:
        self.pause.pressed()
        self.hint = ""

    # -- start and end -------------------------------------------------------------------------------------------

    async def run(self, begun: Callable[[], None]) -> None:
        """Read keys until ``stop``. ``begun`` is called when the terminal is ready. Raises the exception passed to ``stop``."""

        def ready() -> None:
            self._write(_PASTE_ON)
            self.draft.load_history_if_not_yet_loaded()
            begun()

        try:
            with taken_over(self._app.input):
                await self._app.run_async(pre_run=ready, handle_sigint=False)
        finally:
            self._write(_PASTE_OFF)

    def stop(self, error: BaseException | None = None) -> None:
        """End ``run``."""
        if self._app.is_running and not self._app.is_done:
            self._app.exit(exception=error) if error is not None else self._app.exit()

    @asynccontextmanager
    async def aside(self) -> AsyncIterator[None]:
        """Restore the terminal's original state for another program, and take the terminal back when the block ends."""
        from prompt_toolkit.application.current import set_app
        from prompt_toolkit.application.run_in_terminal import in_terminal

        with self._hands.away(), set_app(self._app), deaf_to_interrupts():
            async with in_terminal():
                self.is_aside = True
                self._write(_PASTE_OFF)
                try:
                    yield
                finally:
                    self._write(_PASTE_ON)
                    self.is_aside = False

    @property
    def vi_command(self) -> bool:
        """True while keys are commands of vi."""
        from prompt_toolkit.enums import EditingMode
        from prompt_toolkit.key_binding.vi_state import InputMode

        return self._app.editing_mode == EditingMode.VI and self._app.vi_state.input_mode == InputMode.NAVIGATION

    @property
    def is_asked(self) -> bool:
        """True while a question waits for its answer."""
        return self._asked is not None

    # -- questions -----------------------------------------------------------------------------------------------

    async def read_line(self, prompt: str, *, quiet: bool, settled: Callable[[], None] = lambda: None) -> str:
        """Return the line that answers a question. With ``quiet``, keys belong to the draft until the user pauses; then
        ``settled`` is called.

        Raises EOFError for Ctrl-D and KeyboardInterrupt for Ctrl-C.
        """
        return await self._ask(OpenQuestion(prompt), quiet=quiet, settled=settled)

    async def read_key(
        self,
        rows: Callable[[int], Sequence[Row]],
        title: Callable[[], str],
        letters: str,
        at_once: str,
        *,
        quiet: bool,
        settled: Callable[[], None] = lambda: None,
    ) -> str:
        """Return the key that chooses, see OneKey, while ``rows`` are shown below the title; other text enters the draft.
        ``quiet`` and ``settled``: as in ``read_line``.
        """
        choosing = OneKey(letters, at_once, self._answered, self._typed)
        try:
            return await self._ask(OpenQuestion(choices=rows, title=title, choosing=choosing), quiet=quiet, settled=settled)
        finally:
            choosing.end()

    async def pick(self, picker: ListPicker) -> str | None:
        """Return the value of the item that the user picks, or None if they leave the list. A draft waits unchanged."""
        try:
            await self._ask(OpenQuestion("> ", title=lambda: picker.title, picker=picker), quiet=bool(self.draft.text))
        except (EOFError, KeyboardInterrupt):
            return None
        return None if picker.chosen is None else picker.chosen.value

    @property
    def picker(self) -> ListPicker | None:
        """Return the open list, or None if no list is open."""
        return None if self._asked is None else self._asked.picker

    @property
    def title(self) -> str:
        """Return the title of the open question, "" if it has none."""
        return "" if self._asked is None else self._asked.title()

    def _moved(self, key: str) -> None:
        if self.picker is not None:
            self.picker.move(key)
            self._hands.changed(whole=False)

    def _searched(self) -> None:
        if self.picker is not None:
            self.picker.search(self.answer.text)

    @property
    def choosing(self) -> OneKey | None:
        """Return the receiver of keys while a single key chooses, or None at other times."""
        return self.pause.early if self._asked is None else self._asked.choosing

    def _typed(self, text: str) -> None:
        if self._asked is not None:  # set before the text is inserted, which paints at once
            self.hint = "a question waits: what you type is kept for later, a letter alone answers"
        if text:
            self.draft.insert_text(text)
        self._hands.changed(whole=False)

    def rub_out(self) -> None:
        """Handle Backspace while a key chooses: it edits the draft."""
        self.draft.delete_before_cursor()
        self._hands.changed(whole=False)

    async def _ask(self, asked: OpenQuestion, *, quiet: bool, settled: Callable[[], None] = lambda: None) -> str:
        if quiet:
            await self.pause.wait(asked.letters)
        settled()
        self.answer.reset()
        self._app.vi_state.reset()
        self._asked = asked
        self._app.layout.focus(self._windows[1])
        self._hands.changed(whole=True)
        try:
            line = await asked.line
        finally:
            self._asked = None
            self._app.layout.focus(self._windows[0])
            asyncio.get_running_loop().call_soon(self._shown_anew)  # later: the next question may follow at once
        if isinstance(line, str):
            return line
        raise line

    def _shown_anew(self) -> None:
        self._hands.changed(whole=True)

    def _came_early(self, letter: str) -> None:
        self.hint = f"{letter!r} came before this question could be read: press it again"
        self._hands.changed(whole=False)

    # -- the draft -----------------------------------------------------------------------------------------------

    def put_back(self, text: str) -> None:
        """Insert a text before the current draft."""
        there = self.draft.text
        self.draft.text = f"{text}\n{there}" if there else text
        self.draft.cursor_position = len(self.draft.text)
        self._hands.changed(whole=False)

    def rows(self, columns: int) -> DraftRows:
        """Return the rows of the input line."""
        if self._asked is not None:
            return self._asked.rows(self.draft, self.answer, columns, self._hands.height)
        if self._app.layout.is_searching:
            control = self._app.layout.search_target_buffer_control
            wanted = self._app.layout.current_buffer
            if control is not None and wanted is not None:
                state = control.search_state
                state.text = wanted.text
                found = self.draft.document_for_search(state)
                return draft_rows(found.text, found.cursor_position, columns, prompt=f"search {wanted.text!r} > ")
        return draft_rows(self.draft.text, self.draft.cursor_position, columns)

    def offers(self, columns: int) -> list[Row]:
        """Return the rows of the current completions."""
        state = self.draft.complete_state
        return [] if self._asked is not None or state is None else offered_rows(state, columns)

    # -- keys ----------------------------------------------------------------------------------------------------

    def enter(self) -> None:
        """Answer the question or send the draft, or replace a backslash before the cursor by a line break."""
        if self._asked is not None:
            if self.picker is None or self.picker.chosen is not None:
                self._answered(self.answer.text)
        elif self._hands.is_settling:
            return
        elif self.draft.text[: self.draft.cursor_position].endswith("\\"):
            self.draft.delete_before_cursor()
            self.draft.insert_text("\n")
        else:
            self._send(steers=False)

    def newline(self) -> None:
        """Begin another line of the draft."""
        if self.pause.early is not None:
            self.pause.early.text("\n")
        elif self.choosing is None:
            (self.answer if self._asked is not None else self.draft).insert_text(" " if self._asked is not None else "\n")

    def steer(self) -> None:
        """Send the draft to the current run."""
        if self._asked is None:
            self._send(steers=True)

    @property
    def can_take_back(self) -> bool:
        """True if the draft is empty and a queued message can return to it."""
        return not self.draft.text and self._hands.has_queued

    def take_back(self) -> None:
        """Put the last queued message back into the draft."""
        self.put_back(self._hands.take_back())

    def _send(self, *, steers: bool) -> None:
        draft = self.draft.text
        text = self.pastes.expand(draft)
        if not text.strip():
            return
        self._forget(text)
        self._hands.sent(draft, steers=steers)

    def _forget(self, text: str) -> None:
        """Empty the draft, and store its text in the history."""
        self.draft.history.append_string(text)
        self.draft.reset()
        self._app.vi_state.reset()
        self.draft.load_history_if_not_yet_loaded()

    def paste(self, text: str) -> None:
        """Insert a paste; an answer receives only the first line, unsent."""
        if self._asked is not None:
            self.answer.insert_text(text.replace("\r", "\n").split("\n")[0])
        else:
            at_word = self.draft.document.char_before_cursor
            if not self.draft.text.startswith(("/", "!")) and (dropped := self._hands.pasted(text)) != text:
                self.draft.insert_text(dropped if not at_word or at_word.isspace() else f" {dropped}")
            else:
                self.draft.insert_text(self.pastes.collapse(text))

    def interrupt(self) -> None:
        """Handle Ctrl-C: deny a question, or end a search; otherwise ``hands`` interrupt the run, or discard the draft."""
        if self._asked is not None:
            self._answered(KeyboardInterrupt)
        elif self._app.layout.is_searching:
            from prompt_toolkit.search import stop_search

            stop_search()
        else:
            self._hands.interrupted()

    def break_off(self) -> None:
        """Handle Escape: deny a question, close the completions, or interrupt the run; the draft stays."""
        if self._asked is not None:
            self._answered(KeyboardInterrupt)
        elif self.draft.complete_state is not None:
            self.draft.cancel_completion()
        else:
            self._hands.broken_off()

    def discard(self) -> bool:
        """Move the draft to the history. Return False if it is empty."""
        if not self.draft.text:
            return False
        self._forget(self.pastes.expand(self.draft.text))
        return True

    def end_of_input(self) -> None:
        """Handle Ctrl-D: decline a question, delete a character, or leave."""
        if self._asked is not None:
            self._answered(EOFError)
        elif self.draft.text:
            self.draft.delete()
        else:
            self._hands.left()

    def _answered(self, line: str | type[BaseException]) -> None:
        if self._asked is not None and not self._asked.line.done():
            self.pause.answered()
            self._asked.line.set_result(line)

    async def edit(self) -> None:
        """Open the draft in $VISUAL or $EDITOR."""
        edited = await self.edited(self.pastes.expand(self.draft.text))
        if edited is not None:
            self.draft.text = edited
            self.draft.cursor_position = len(edited)
        self._hands.changed(whole=True)

    async def edited(self, text: str) -> str | None:
        """Return the text after the user has edited it, or None if the editor failed."""
        async with self.aside():
            return await asyncio.get_running_loop().run_in_executor(None, edited_by_person, text)

    async def suspend(self) -> None:
        """Handle Ctrl-Z: suspend, if a shell can resume the process."""
        import signal

        if os.getsid(0) == os.getpid():  # no shell could resume it
            return
        async with self.aside():
            os.kill(0, signal.SIGTSTP)
        self._hands.changed(whole=True)
