"""A terminal of a session on the user's whole window: painted, typed into with the first key, and left with Ctrl-]."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from agent.background.attached import ANOTHER, NO_ONE, YOU
from agent.cli.escape import one_line
from agent.cli.screen import tty
from agent.cli.screen.cells import shortened, width
from agent.first_ended import first_ended
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.regex import Regex
from toolcrib.contract.terminal import TerminalSize

if TYPE_CHECKING:
    from agent.background.attached import LocalAttached
    from agent.background.remote_attached import RemoteAttached
    from agent.cli.screen.themes import Theme
    from tools.terminals.terminal import TerminalView

    Attached: TypeAlias = LocalAttached | RemoteAttached

_LEAVES = b"\x1d"
_SMALLEST = TerminalSize(20, 5)
_LOOK = 0.1
_WORDS = {
    NO_ONE: "watching, typing takes over · Ctrl-] leaves",
    YOU: "you type · Ctrl-] gives it back",
    ANOTHER: "another window types · Ctrl-] leaves",
}
_BEGIN, _END = "\x1b[?1049h\x1b[?7l", "\x1b[m\x1b[999;1H\x1b[K\x1b[?2004l\x1b[?1l\x1b[?7h\x1b[?25h\x1b[?1049l"
_FRAME, _FRAME_END = "\x1b[?2026h\x1b[?25l", "\x1b[?2026l"
_PARTS = Regex(r"\x1b\[([\d;]*)m|([^\x00-\x1f\x7f-\x9f])")
_COLOURS = Regex(r"\b(?:[345]8;(?:5;\d+|2;\d+;\d+;\d+)|[34]\d|9[0-7]|10[0-7]);")
"""Parameters of SGR for colours; others are attributes, such as bold and reverse."""


def cut_row(row: str, columns: int, *, colours: bool) -> tuple[str, int]:
    """Return the part of a row that fits, and its width. It contains nothing but printable text and SGR sequences."""
    parts, used, styled = list[str](), 0, False
    for one in _PARTS.finditer(row):
        if one[2] is None:
            style = one[1] if colours else _COLOURS.sub("", f"{one[1]};").rstrip(";")
            parts.append(f"\x1b[{style}m")
            styled = True
        elif (used := used + width(one[2])) > columns:
            used -= width(one[2])
            break
        else:
            parts.append(one[2])
    return "".join(parts) + "\x1b[m" * styled, used


class AttachedScreen:
    """The window with an attached terminal. Its last row shows who types, in the chat's colours."""

    def __init__(self, name: str, theme: Theme, window: TerminalSize, asks: Callable[[], bool]) -> None:
        self._name, self._theme = one_line(name), theme
        self._asks, self._asked = asks, False
        self._painted: list[str] = []
        self.window = window
        self._view: TerminalView | None = None

    @property
    def room(self) -> TerminalSize:
        """The part of the window that the terminal may use."""
        return TerminalSize(max(self.window.columns, _SMALLEST.columns), max(self.window.rows, _SMALLEST.rows) - 1)

    @property
    def is_typing(self) -> bool:
        """True while this user has the terminal."""
        return self._view is not None and self._view.typist == YOU

    def fit(self, window: TerminalSize) -> None:
        """Paint everything in a window of this size."""
        self.window, self._painted = window, []
        if self._view is not None:
            self.paint(self._view)

    def look_for_requests(self) -> None:
        """Show whether an approval request waits, and ring the bell for a new one."""
        if self._asks() != self._asked:
            self._asked = not self._asked
            if self._asked:
                tty.write("\a")
            if self._view is not None:
                self.paint(self._view)

    def paint(self, view: TerminalView) -> None:
        """Paint the rows that changed. A terminal larger than the window is shown around its cursor."""
        self._view = view
        columns, room = self.window.columns, self.window.rows - 1
        top = max(0, view.cursor.row - room + 1)
        colours = self._theme.name != "none"
        rows = [cut_row(row, columns, colours=colours) for row in view.rows[top : top + room]]
        lines = [row + "\x1b[K" * (used < columns) for row, used in rows]
        lines += ["\x1b[K"] * (room - len(lines)) + [self._last_row(view, columns)]
        self._painted = self._painted or ["\0"] * len(lines)
        changed = [(at, line) for at, line in enumerate(lines) if self._painted[at] != line]
        self._painted = lines
        row, column, visible = view.cursor
        shown = visible and column < columns and row - top < room
        place = f"\x1b[{row - top + 1};{column + 1}H\x1b[?25h" if shown else ""
        painted = "".join(f"\x1b[{at + 1};1H{line}" for at, line in changed)
        keys = f"\x1b[?1{'hl'[not view.application_cursor]}\x1b[?2004{'hl'[not view.paste]}"
        tty.write(f"{_FRAME}{painted}{keys}{place}{_FRAME_END}")

    def _last_row(self, view: TerminalView, columns: int) -> str:
        cut = " · larger than this window" * (len(view.rows) >= self.window.rows or view.columns > columns)
        asks = "an approval request waits · " * self._asked
        return self._status(f"{asks}{_WORDS[view.typist]}{cut}", columns, is_ours=view.typist == YOU or self._asked)

    def _status(self, words: str, columns: int, *, is_ours: bool) -> str:
        text = shortened(f"{self._name} · {words}", columns)
        return f"{self._theme.begin('said' if is_ours else 'dim')}{text}\x1b[m" + "\x1b[K" * (width(text) < columns)

    def show_status(self, words: str) -> None:
        """Show these words in the last row."""
        tty.write(f"\x1b[{self.window.rows};1H{self._status(words, self.window.columns, is_ours=True)}")


async def show_terminal(
    attached: Attached, name: str, theme: Theme, is_over: asyncio.Event, asks: Callable[[], bool] = lambda: False
) -> str:
    """Show a terminal until the user leaves it, it ends, or ``is_over`` is set. Return what happened. Raises ToolcribError if the
    window is too small. The user's own terminal is then as before. ``asks`` returns whether an approval request waits.
    """
    screen = AttachedScreen(name, theme, TerminalSize(*tty.size()), asks)
    try:
        if screen.window.columns < _SMALLEST.columns or screen.window.rows < _SMALLEST.rows:
            raise ToolcribError(f"the window is too small: {_SMALLEST.columns} columns and {_SMALLEST.rows} rows are needed")
        return f"{name} {await _show_until_left(attached, screen, is_over)}"
    finally:
        await attached.close()


async def _show_until_left(attached: Attached, screen: AttachedScreen, is_over: asyncio.Event) -> str:
    with _raw_mode() as keys:
        works = (_show(attached, screen), _type(attached, screen, keys), is_over.wait(), _fit(attached, screen))
        has_ended, *_ = await first_ended(*works)
        was_typing = screen.is_typing
        if has_ended and was_typing:
            screen.show_status(f"{attached.end} · Ctrl-] returns")
            await first_ended(_drop(keys), is_over.wait())
    return attached.end if has_ended else f"continues{'; you gave it back' * was_typing}"


async def _drop(keys: asyncio.Queue[bytes]) -> None:
    """Drop what the user types for a program that has ended, until Ctrl-]: it may be a password, and would reach the chat."""
    while (data := await keys.get()) and _LEAVES not in data:
        pass


async def _show(attached: Attached, screen: AttachedScreen) -> None:
    while (view := await attached.next()) is not None:
        screen.paint(view)


async def _fit(attached: Attached, screen: AttachedScreen) -> None:
    while True:
        await asyncio.sleep(_LOOK)
        screen.look_for_requests()
        if (now := TerminalSize(*tty.size())) != screen.window:
            screen.fit(now)
            if screen.is_typing:
                await attached.resize(screen.room)


async def _type(attached: Attached, screen: AttachedScreen, keys: asyncio.Queue[bytes]) -> None:
    """Type what the user types, until Ctrl-] or the end of input."""
    while data := await keys.get():
        typed, leaves, _ = data.partition(_LEAVES)
        if typed:
            await attached.type(typed, screen.room)
        if leaves:
            return


@contextlib.contextmanager
def _raw_mode() -> Iterator[asyncio.Queue[bytes]]:
    """Take over the user's terminal. Yield the bytes that are typed, b"" at the end of input. Keys pressed before and after the
    block count for neither program.
    """
    import termios
    import tty as modes

    loop, fd = asyncio.get_running_loop(), sys.stdin.fileno()
    keys: asyncio.Queue[bytes] = asyncio.Queue()

    def read() -> None:
        try:
            data = os.read(fd, 65_536)
        except OSError:  # hung up
            data = b""
        keys.put_nowait(data)
        if not data:
            loop.remove_reader(fd)

    before = termios.tcgetattr(fd)
    try:
        modes.setraw(fd, termios.TCSAFLUSH)
        tty.write(_BEGIN)
        loop.add_reader(fd, read)
        yield keys
    finally:
        loop.remove_reader(fd)
        tty.write(_END)
        with contextlib.suppress(termios.error):
            termios.tcsetattr(fd, termios.TCSAFLUSH, before)
