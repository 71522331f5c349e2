"""Other programs on the chat's terminal: the user's editor and pager, and code that prints while the screen is painted."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from toolcrib.contract.errors import ToolcribError

EDITORS = ("VISUAL", "EDITOR")
"""Variables that name the user's editor."""


@contextmanager
def deaf_to_interrupts() -> Iterator[None]:
    """Leave Ctrl-C to the program that uses the terminal."""
    import signal

    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def words_of(names: Sequence[str], default: str) -> list[str]:
    """Return the command in the first of these variables that is set, or ``default``. Raises ToolcribError for invalid quotes."""
    import shlex

    name = next((one for one in names if os.environ.get(one)), "")
    try:
        return shlex.split(os.environ.get(name) or default)
    except ValueError as error:
        raise ToolcribError(f"{name} is {os.environ[name]!r}, which is not a command: {error}") from None


def edited_by_person(text: str) -> str | None:
    """Return the text after the user has edited it, or None if the editor failed."""
    import subprocess
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory(prefix="toolcrib-draft-") as folder:
        file = Path(folder) / "draft.md"
        file.write_text(text, encoding="utf-8")
        try:
            if subprocess.run([*words_of(EDITORS, "vi"), str(file)], check=False).returncode:
                return None
            return file.read_text(encoding="utf-8", errors="replace").rstrip("\n")
        except (OSError, ToolcribError):
            return None


@contextmanager
def written_by(take: Callable[[str], None]) -> Iterator[None]:
    """Within the block, pass lines printed to standard output or standard error to ``take``."""
    import io

    class Printed(io.TextIOBase):
        """Replaces an output stream. It claims to be a terminal, like the stream that it replaces."""

        encoding = "utf-8"

        def __init__(self) -> None:
            self._rest = ""

        def write(self, text: str) -> int:
            *lines, self._rest = (self._rest + text).split("\n")
            for line in lines:
                take(line)
            return len(text)

        def writable(self) -> bool:
            return True

        def isatty(self) -> bool:
            return True

        def fileno(self) -> int:
            return sys.__stdout__.fileno() if sys.__stdout__ is not None else 1

    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = Printed(), Printed()
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def pager_of_person() -> list[str] | None:
    """Return the command that shows long texts, or None if there is none."""
    import shutil

    try:
        words = words_of(("PAGER",), "less")
    except ToolcribError:
        return None
    return words if words and shutil.which(words[0]) else None


def paged(pager: list[str], text: str) -> None:
    """Show a text in the pager until the user leaves it."""
    import subprocess

    with contextlib.suppress(OSError):
        subprocess.run(pager, input=text.encode("utf-8", "replace"), check=False)


def show_paged(text: str) -> None:
    """Print a text, which must be safe for a terminal; at a terminal, show it in the pager."""
    from agent.cli.terminal import is_interactive

    pager = pager_of_person() if is_interactive() else None
    if pager is None:
        print(text, end="")
    else:
        paged(pager, text)
