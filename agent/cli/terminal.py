"""The user's own terminal: ask questions and read answers. Piped input is not a user."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from agent.cli.escape import one_line
from agent.cli.screen.tty import typed_so_far
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import ToolcribError

if TYPE_CHECKING:
    from pathlib import Path

_USUAL_SIZE = (80, 24)
"""Columns and rows of a terminal that does not report its size."""


@dataclass(slots=True)
class Terminal:
    """The user's terminal. ``output`` is a terminal too: stdout in a chat, else stderr or /dev/tty, so that results can be piped.
    ``input`` defaults to standard input.
    """

    output: TextIO
    input: TextIO | None = None
    lines_only: bool = False
    """True if no row may be redrawn, for example with a screen reader."""
    kept: Callable[[str], None] | None = None
    """Called with text typed before a question appeared, which answers nothing; if None, the text is discarded."""
    _session: Any = None
    _keyboard: Any = None
    _row: bool = False
    """True while a row is shown that the next row replaces."""

    @property
    def size(self) -> tuple[int, int]:
        """Return the screen's current columns and rows."""
        return _size_of(self.output) or _USUAL_SIZE

    @property
    def reads_keys(self) -> bool:
        """Return whether a row can be redrawn."""
        return not self.lines_only and os.environ.get("TERM", "dumb") not in ("", "dumb")

    def show(self, text: str) -> None:
        """Show lines; they replace a row of keys."""
        print(f"{self._over()}{text}", file=self.output, flush=True)

    def _over(self) -> str:
        """Return the sequence that erases the row of keys."""
        row, self._row = self._row, False
        return "\r\x1b[K" if row else ""

    async def read_key(self, row: Callable[[int], str], letters: str = "", at_once: str = "") -> str:
        """Show the row and return one key; see KeyReader. No pause is needed before a row that replaces another one."""
        from agent.cli.keypress import SingleKeys

        if self._keyboard is None:
            self._keyboard = SingleKeys(self.input or sys.stdin)
        is_new = not self._row
        if is_new:
            self._set_aside()
        print(f"{self._over()}{row(self.size[0])}", end="", file=self.output, flush=True)
        self._row = True
        try:
            if is_new:
                await self._keyboard.wait_for_quiet()
            return str(await self._keyboard.press())
        except (EOFError, KeyboardInterrupt):
            self._row = False
            print(file=self.output, flush=True)
            raise

    async def read_line(self, prompt: str, *, stays: bool = True) -> str:
        """Read a line, edited in place; it stays on the screen, regardless of ``stays``. Raises EOFError for Ctrl-D and
        KeyboardInterrupt for Ctrl-C.

        Text typed before the prompt appeared does not answer it: see ``kept``.
        """
        print(self._over(), end="", file=self.output, flush=True)
        self._set_aside()
        if self._session is None:
            self._session = self._new_session()
        answer: str = await self._session.prompt_async(prompt, handle_sigint=False)
        return answer

    async def read_hidden(self, prompt: str) -> str:
        """Read a line that is shown as stars and enters no history. Raises the same errors as ``read_line``."""
        print(self._over(), end="", file=self.output, flush=True)
        self._set_aside()
        answer: str = await self._new_session().prompt_async(prompt, is_password=True, handle_sigint=False)
        return answer

    def _new_session(self) -> Any:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.input import create_input
        from prompt_toolkit.output import create_output

        own = create_input(self.input or sys.stdin), create_output(self.output)
        return PromptSession(input=own[0], output=own[1], enable_suspend=True)

    def _set_aside(self) -> None:
        """Remove text typed before a question appeared; ``kept`` receives it."""
        keys = self.input or sys.stdin
        if self.kept is not None and (typed := typed_so_far(keys.fileno())):
            self.kept(typed)
        forget_what_was_typed(keys)


def columns_of(output: TextIO) -> int:
    """Return the width for breaking lines: the terminal's width, or no limit for a file or a pipe."""
    size = _size_of(output)
    return sys.maxsize if size is None else size[0]


def _size_of(output: TextIO) -> tuple[int, int] | None:
    try:
        columns, rows = os.get_terminal_size(output.fileno())
    except (OSError, ValueError):
        return None
    return (columns, rows) if columns > 0 and rows > 0 else None


def find_terminal(*, lines_only: bool = False) -> Terminal | None:
    """Return the terminal; None if no user can be asked: standard input is not a terminal, or none can be written to."""
    if not is_terminal(sys.stdin):
        return None
    if is_terminal(sys.stderr):
        return Terminal(sys.stderr, lines_only=lines_only)
    try:
        tty = open("/dev/tty", "w", encoding="utf-8", errors="backslashreplace")  # noqa: PTH123, SIM115 - open until the process ends
        return Terminal(tty, lines_only=lines_only)
    except OSError:
        return None


@contextlib.contextmanager
def controlling_terminal(folders: Sequence[Path] = ()) -> Iterator[Terminal]:
    """Yield the terminal that this process belongs to, even if its input and output are redirected. Raises ToolcribError if
    there is none, or if the process is in the background, without a user. Also raises if a session's command started this
    process, because the command may have opened the terminal: see ``is_below_any`` and, for ``folders``, ``is_below``.
    """
    from agent.policy.self_protection import is_below, is_below_any

    if is_below_any() or is_below(folders):
        raise ToolcribError("this needs a user at a terminal, not a terminal that a session's command opened")
    try:
        descriptor = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        raise ToolcribError("this needs a user at a terminal, and there is none here") from None
    try:
        foreground = os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:  # the terminal was just closed
        foreground = False
    with (
        open(descriptor, encoding="utf-8", errors="replace", closefd=False) as keys,
        open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as screen,  # noqa: PTH123 - a descriptor
    ):
        if not foreground:
            raise ToolcribError("this needs a user at a terminal, but the process runs in the background")
        yield Terminal(screen, keys)


def is_interactive() -> bool:
    """Return whether standard input and standard output are both terminals."""
    return is_terminal(sys.stdin) and is_terminal(sys.stdout)


def confirm_by_word(question: str) -> bool:
    """Return True only for a typed ``yes`` or ``y``, and never in a process that a session's command started."""
    from agent.policy.self_protection import is_below_any

    forget_what_was_typed(sys.stdin)
    try:
        return not is_below_any() and input(f"{one_line(question)} Type yes or no: ").strip().lower() in ("yes", "y")
    except EOFError:
        return False


def agreed(question: str, about: Sequence[object], *, yes: bool) -> bool:
    """Ask for confirmation, unless ``yes`` or nothing is affected. Raises ToolcribError if no user can be asked."""
    if yes or not about:
        return True
    if not is_interactive():
        raise ToolcribError(f"{question} No user can be asked here: add --yes")
    return confirm_by_word(question)


def confirmed(terminal: Terminal, question: str) -> bool:
    """Ask at a terminal. Return True only for a typed ``yes`` or ``y``."""
    from tools.dispatch.bridge import run_async

    try:
        return run_async(terminal.read_line(f"{one_line(question)} Type yes or no: ")).strip().lower() in ("yes", "y")
    except (EOFError, KeyboardInterrupt):
        return False


def forget_what_was_typed(keys: TextIO) -> None:
    """Discard keys typed before the user could see the question."""
    import termios

    with contextlib.suppress(termios.error):  # a terminal that was just closed then reads as EOF
        termios.tcflush(keys.fileno(), termios.TCIFLUSH)


def is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and not stream.closed and stream.isatty()
