"""Run a program in a terminal (PTY): drain its output, keep its screen, and type into it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable

from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import EnvironmentFailed, ExecutionFailed
from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.regex import Regex
from toolcrib.contract.terminal import TerminalProcess, TerminalSize
from tools.output_text import without_escapes
from tools.screen.terminal import CURSOR_MARK, HIGHLIGHT_MARKS, ScreenCursor, TerminalScreen
from tools.terminals.reader import beside, run_beside
from tools.terminals.secrets import Redact, without_secrets
from tools.terminals.typed import TypedLine, Typing, typing

_HISTORY = 2_000
_MOST_OWED = 1 << 14
"""Bytes of answers to a program's questions that wait for it to read them. Later answers are dropped."""
_PIECE = 1 << 14
"""Bytes that are interpreted at once."""
_TYPES = 10.0
"""Seconds that a program may take to read what is typed."""
_KEPT = 1 << 18
"""Bytes of output since the last look that are searched for a pattern, at least. The search of more would take long."""
_CONTROLS = Regex(r"[\x00-\x08\x0b-\x1f\x7f]+")
_WRAPPED = 4
"""Lines above the screen whose end may be the beginning of a secret on it."""
HELD = "the user types in this terminal: wait until they give it back"
CHANGED = "nothing was typed: the program asked its terminal a question, or the user or another call typed something; call again"
_TYPED = "the user typed here since your last look, and may have left an unfinished line"
MOST_LINES = 200
"""Lines above the screen that one look returns at most."""


class ScreenLook(NamedTuple):
    """The screen as a model reads it. ``text`` is the whole screen, or only the changed rows, each after its number.

    ``above``: lines that left the screen at its top since the last look. ``omitted``: how many such lines are left out.
    """

    text: str
    is_whole: bool
    above: str
    omitted: int


class TerminalView(NamedTuple):
    """The screen as it is painted for a user. ``rows`` contain printable text and SGR sequences alone.

    ``application_cursor`` and ``paste``: modes that change what keys send. ``typist``: who types, if that is known.
    """

    rows: tuple[str, ...]
    columns: int
    cursor: ScreenCursor
    application_cursor: bool
    paste: bool
    typist: str = ""


class SessionTerminal:
    """A program in a terminal. Safe to use from any thread and event loop.

    ``on_end`` is called with the exit code, in the readers' thread. ``typed`` is what the model typed.
    """

    def __init__(self, process: TerminalProcess, size: TerminalSize, on_end: Callable[[int | None], Awaitable[None]]) -> None:
        self._process, self._on_end = process, on_end
        self._lock = threading.Lock()
        self._owed = bytearray()
        self._screen = TerminalScreen(size.columns, size.rows, history=_HISTORY, answer=self._owe)
        self._mark = self._screen.mark()
        self._is_seen = False
        self.typed = TypedLine()
        self.device = ""
        """The path of the terminal device in the environment."""
        self.pid = 0
        """The number of its first process in the environment."""
        self.printed = self.seen = 0
        """Numbers of bytes that it printed: in all, and until the last look."""
        self._recent = bytearray()
        self.changed = time.monotonic()
        """When it last printed something."""
        self.code: int | None = None
        self.ended_at: float | None = None
        self._paying: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()
        self._listeners: list[Callable[[], None]] = []
        self._user: object = None
        self._is_users = False
        """True if a user typed since the model's last look."""
        run_beside(self._drain())

    @property
    def runs(self) -> bool:
        """False once the program has ended and all that it printed is on the screen."""
        return self.ended_at is None

    # -- reading it --------------------------------------------------------------------------------------------------

    async def _drain(self) -> None:
        code = None
        try:
            while (chunk := await self._process.read()) is not None:
                for at in range(0, len(chunk[1]), _PIECE):
                    piece = chunk[1][at : at + _PIECE]
                    with self._lock:
                        self._screen.feed(piece)
                        self.printed += len(piece)
                        self._recent += piece
                        if len(self._recent) > 2 * _KEPT:
                            del self._recent[:-_KEPT]
                        self.changed = time.monotonic()
                    self._notify()
                    if self._owed and self._paying is None:
                        self._paying = asyncio.create_task(self._pay())
                    await asyncio.sleep(0)  # others are read, and typed into, between two pieces of a flood
            code = await self._process.wait()
            await self._process.kill()  # and its processes that are left in the terminal
        except (OSError, EnvironmentFailed):  # the environment is lost
            code = None
        finally:
            self.code, self.ended_at = code, time.time()
            if self._paying is not None:
                self._paying.cancel()
            self._notify()
        with contextlib.suppress(OSError, EnvironmentFailed):
            if code is None:
                await self._process.kill()  # if the environment can be reached again
            await self._on_end(code)

    def _owe(self, answer: bytes) -> None:
        if len(self._owed) < _MOST_OWED:
            self._owed += answer

    async def _pay(self) -> None:
        """Send the answers, beside the reader: a program that prints before it reads must not stop both."""
        try:
            while self._owed:
                async with self._writing:
                    with self._lock:
                        answers, self._owed = bytes(self._owed), bytearray()
                        self.typed = replace(self.typed, certain=False)  # a shell takes them for keys
                    await self._process.write(answers)
        except (OSError, EnvironmentFailed):
            return
        finally:
            self._paying = None

    # -- the screen --------------------------------------------------------------------------------------------------

    def screen(self, redact: Redact) -> str:
        """Return the screen as text, with the cursor marked."""
        with self._lock:
            return "\n".join(self._rows(redact)).rstrip("\n")

    def _rows(self, redact: Redact) -> list[str]:
        """Return the rows without secrets. A row with a secret has no marks, which could divide it."""
        lines, marked = self._screen.lines, self._screen.text(around=HIGHLIGHT_MARKS).split("\n")
        before = self._screen.history[-_WRAPPED:]
        safe = without_secrets([*before, *lines], self._screen.size[0], redact)[len(before) :]
        marked += [""] * (len(lines) - len(marked))
        return [row if one == line else one for line, one, row in zip(lines, safe, marked, strict=True)]

    def text(self, redact: Redact) -> str:
        """Return the lines above the screen, and the screen."""
        with self._lock:
            lines = [*self._screen.history, *self._screen.lines]
            return "\n".join(without_secrets(lines, self._screen.size[0], redact)).strip("\n")

    def look(self, redact: Redact, *, whole: bool) -> ScreenLook:
        """Return the whole screen, or what changed since the last look."""
        with self._lock:
            screen = self._screen
            changes, rows, columns = screen.changes(self._mark), self._rows(redact), screen.size[0]
            used = len(screen.text().split("\n"))
            whole = whole or not self._is_seen or len(changes.rows) * 2 > used
            self._mark, self._is_seen, self._is_users = screen.mark(), True, False
            self.seen, self._recent = self.printed, bytearray()
            cursor, first = screen.cursor, screen.lines[:1]
        above = without_secrets([*changes.scrolled[-MOST_LINES:], *first], columns, redact)[: -len(first)]
        omitted = changes.lost + len(changes.scrolled) - len(above)
        if whole:
            return ScreenLook("\n".join(rows[:used]), True, "\n".join(above), omitted)
        shown = sorted({*changes.rows, *([cursor.row] if cursor.visible else [])})
        return ScreenLook("\n".join(f"{at + 1}: {rows[at]}" for at in shown), False, "\n".join(above), omitted)

    def news(self, begin: int) -> tuple[str, int]:
        """Return the lines that it printed from byte ``begin`` on, then the screen; and the number of bytes before the unfinished
        line. This does not count as a look. Of a flood, only the last lines are kept.
        """
        with self._lock:
            printed, said = self.printed, bytes(self._recent)
            screen = self._screen.text("")
        said = said[max(0, begin - (printed - len(said))) :]
        end = max(said.rfind(b"\n"), said.rfind(b"\r")) + 1
        lines = without_escapes(said[:end].decode(errors="replace")).replace("\r\n", "\n").replace("\r", "\n")
        return f"{_CONTROLS.sub('', lines)}\n{screen}", printed - (len(said) - end)

    @property
    def quiet(self) -> float:
        """Seconds without output."""
        return time.monotonic() - self.changed

    def row(self) -> str:
        """Return the text of the cursor's row before the cursor."""
        with self._lock:
            row = self._screen.text().split("\n")[self._screen.cursor.row :]
        return row[0].partition(CURSOR_MARK)[0] if row and CURSOR_MARK in row[0] else ""

    @property
    def ends_at_cursor(self) -> bool:
        """True if the cursor is visible, after text in its row, and no text follows it."""
        with self._lock:
            last = self._screen.text().rpartition("\n")[2]
        return last.endswith(CURSOR_MARK) and last.strip() != CURSOR_MARK

    # -- using it ----------------------------------------------------------------------------------------------------

    async def press(self, judged: Typing) -> None:
        """Press keys. Raises ExecutionFailed if the program has ended or does not read, while a user types, or if the keys would
        type something else now.
        """
        try:
            async with asyncio.timeout(_TYPES):
                await beside(self._type(judged))
        except TimeoutError:
            raise ExecutionFailed("the program does not read its input: part of the keys may still reach it") from None
        except BrokenPipeError:
            raise ExecutionFailed("nothing was typed: the program has ended") from None

    async def _type(self, judged: Typing) -> None:
        async with self._writing:
            with self._lock:
                if self.is_held:
                    raise ExecutionFailed(f"nothing was typed: {HELD}")
                now = typing(self.typed, judged.keys)
                if now != judged and not now.only_ends:
                    raise ExecutionFailed(CHANGED)
                data = now.data(application_cursor=self._screen.modes.application_cursor)
                self.typed = now.after  # also if it fails, because a part may have been read
            await self._process.write(data)

    def interrupt_lines(self) -> None:
        """Record that a signal may have stopped a line in the middle."""
        self.typed = replace(self.typed, written=self.typed.written and None)

    async def resize(self, size: TerminalSize) -> None:
        """Change the size of the terminal and its screen."""
        with self._lock:
            self._screen.resize(size.columns, size.rows)
        await beside(self._process.resize(size))

    # -- a user at it ------------------------------------------------------------------------------------------------

    @property
    def size(self) -> TerminalSize:
        """The size of the terminal."""
        with self._lock:
            return TerminalSize(*self._screen.size)

    @property
    def is_held(self) -> bool:
        """True while a user types in it: the model may not."""
        return self._user is not None

    @property
    def note(self) -> str:
        """A note for the model about a user at this terminal, "" for none."""
        return HELD if self.is_held else _TYPED if self._is_users else ""

    def view(self) -> TerminalView:
        """Return the screen to paint for a user."""
        with self._lock:
            screen = self._screen
            rows, modes = tuple(screen.rows_as_sgr()), screen.modes
            return TerminalView(rows, screen.size[0], screen.cursor, modes.application_cursor, modes.bracketed_paste)

    def listen(self, heard: Callable[[], None]) -> Callable[[], None]:
        """Call ``heard``, from any thread, when the screen or the user at it may have changed, and at the end. Return a function
        that stops this.
        """
        self._listeners.append(heard)
        return lambda: self._listeners.remove(heard)

    def _notify(self) -> None:
        for heard in [*self._listeners]:
            heard()

    def hold(self, user: object) -> bool:
        """Give the terminal to a user. Return False if another one has it."""
        with self._lock:
            if self._user not in (None, user):
                return False
            self._user = user
        self._notify()
        return True

    def release(self, user: object) -> None:
        """Give the terminal back to the model, if this user has it. What the current line contains is unknown now."""
        with self._lock:
            if self._user is not user:
                return
            self._user, self._is_users, self.typed = None, True, TypedLine(None, "", certain=False)
        self._notify()

    async def type_bytes(self, data: bytes) -> None:
        """Type what the user types, who sees whether the program reads it."""
        with contextlib.suppress(TimeoutError, OSError, EnvironmentFailed):
            async with asyncio.timeout(_TYPES):
                await beside(self._process.write(data))

    async def end(self) -> None:
        """End the program and all that it left in the terminal."""
        await beside(self._process.kill())
