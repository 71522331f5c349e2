"""Input lines of ``toolcrib console``: from a prompt that is edited in place, or plain ones."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import stat
import sys
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from plugins.console.place import LINE_BYTES, next_line

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

SECRET = "Passphrase (not shown): "  # noqa: S105 - the prompt for it


class ConsoleInterrupted(Exception):
    """The user pressed Ctrl-C at the prompt."""


def has_prompt() -> bool:
    """Return whether a user types at a terminal that can redraw a line."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb")


class PlainLines:
    """Lines from a pipe, from a file, or from a terminal that can't redraw a line."""

    def __init__(self) -> None:
        self._reader: asyncio.StreamReader | None = None

    async def next_line(self) -> bytes | None:
        """Return the next line, b"" at the end, or None for a line that is too long."""
        if self._reader is not None:
            return await next_line(self._reader)
        self._reader = await _standard_input()
        first = await next_line(self._reader)
        return first and first.removeprefix(codecs.BOM_UTF8)

    async def secret(self) -> bytes | None:
        """Ask for the passphrase without echo, and return it."""
        with _without_echo():
            sys.stdout.write(SECRET)
            sys.stdout.flush()
            given = await self.next_line()
        sys.stdout.write("\n")
        return given


class PromptLines:
    """Lines from a prompt below the output. ``label`` returns the text of the prompt."""

    def __init__(self, label: Callable[[], str]) -> None:
        self._label = label

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Print all output above the prompt until the block ends."""
        os.environ["PROMPT_TOOLKIT_NO_CPR"] = "1"  # a terminal that does not answer would delay all output
        from prompt_toolkit.patch_stdout import patch_stdout

        with patch_stdout():
            yield

    @cached_property
    def _session(self) -> PromptSession[str]:
        from prompt_toolkit import PromptSession

        return PromptSession(
            self._label,
            erase_when_done=True,
            reserve_space_for_menu=0,
            enable_suspend=True,
            interrupt_exception=ConsoleInterrupted,
        )

    def redraw(self) -> None:
        """Draw the prompt again, because its text has changed."""
        self._session.app.invalidate()

    async def next_line(self) -> bytes:
        """Return the next line, or b"" at the end."""
        try:
            return (await self._session.prompt_async()).encode("utf-8", "replace") + b"\n"
        except EOFError:
            return b""

    async def secret(self) -> bytes:
        """Ask for the passphrase without showing it, and return it; b"" for none."""
        from prompt_toolkit import PromptSession
        from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput

        class Hidden(Processor):
            """Shows nothing, not even the length."""

            def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
                return Transformation([], lambda at: 0, lambda at: 0)

        asking: PromptSession[str] = PromptSession(
            SECRET, reserve_space_for_menu=0, input_processors=[Hidden()], interrupt_exception=ConsoleInterrupted
        )
        try:
            return (await asking.prompt_async()).encode("utf-8", "replace") + b"\n"
        except EOFError:
            return b""


async def _standard_input() -> asyncio.StreamReader:
    """Return a reader of the typed input. An event loop can't wait for a file or /dev/null; these are read whole."""
    lines = asyncio.StreamReader(limit=LINE_BYTES)
    kind = os.fstat(sys.stdin.fileno()).st_mode
    if sys.stdin.isatty() or stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind):
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    else:
        lines.feed_data(await asyncio.to_thread(sys.stdin.buffer.read))
        lines.feed_eof()
    return lines


@contextlib.contextmanager
def _without_echo() -> Iterator[None]:
    """Turn off the terminal's echo."""
    import termios

    before = termios.tcgetattr(sys.stdin)
    hidden = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
    termios.tcsetattr(sys.stdin, termios.TCSAFLUSH, hidden)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSAFLUSH, before)
