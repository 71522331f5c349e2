"""The wizard's user: questions with a default, hidden answers, and a progress line for slow work."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence
from textwrap import fill
from types import TracebackType
from typing import Generic, Self, TypeVar

from agent.cli.escape import one_line, tame
from agent.cli.terminal import Terminal, columns_of
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import ToolcribError
from tools.dispatch.bridge import run_async

T = TypeVar("T")
STOPPED = "nothing was written"
_TICK = 1.0


class UnansweredError(ToolcribError):
    """Raised if no user can be asked and no flag gives the answer. The message names a flag."""


@dataclass(frozen=True, slots=True)
class Option(Generic[T]):
    """An answer that can be chosen by number."""

    label: str
    value: T


class Person:
    """Asks the user. ``terminal`` is None if no user can or may be asked: then a question takes its default, or raises.

    ``lines_only``: no line is redrawn, for example for a screen reader.
    """

    def __init__(self, terminal: Terminal | None, *, lines_only: bool = False) -> None:
        self._terminal = terminal
        self._lines_only = lines_only

    @property
    def is_there(self) -> bool:
        """Return whether a user can be asked."""
        return self._terminal is not None

    def print_text(self, text: str, mark: str = "") -> None:
        """Print a text, broken between words at the terminal's width."""
        columns = max(columns_of(sys.stdout) - 1, 20)
        for line in text.splitlines():
            shown = tame(f"{mark}{line}")
            if len(shown) > columns:
                shown = fill(shown, columns, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
            print(shown, flush=True)

    def waits(self, what: str) -> Sign:
        """Return a progress line for slow work."""
        return Sign(what, lines_only=self._lines_only)

    def choose(self, question: str, options: Sequence[Option[T]], default: int | None, flag: str) -> T:
        """Return the value of the option that the user chose by number; Enter chooses the default. Raises UnansweredError if no
        user can be asked and there is no default; the error contains ``flag``, which says how to answer by a flag.
        """
        at = self._chosen(question, [one.label for one in options], default, flag, "")
        return options[int(at)].value  # a number, since no other text may be typed

    def choose_or_type(
        self, question: str, options: Sequence[Option[T]], default: int | None, flag: str, *, free: str
    ) -> Option[T] | str:
        """Return an option, or the text typed instead; ``free`` describes the text that may be typed. Raises the same errors as
        ``choose``.
        """
        at = self._chosen(question, [one.label for one in options], default, flag, free)
        return at if isinstance(at, str) else options[at]

    def _chosen(self, question: str, labels: Sequence[str], default: int | None, flag: str, free: str) -> int | str:
        if self._terminal is None:
            if default is None:
                names = ", ".join(one_line(label, 60) for label in labels[:10])
                raise UnansweredError(f"{question} No user can be asked here: {flag}{f' (choices: {names})' if names else ''}")
            return default
        self.print_text(question)
        for number, label in enumerate(labels, 1):
            self.print_text(f"  {number}  {one_line(label, 110)}")
        hint = f" [{default + 1}]" if default is not None else ""
        while True:
            word = self._typed(f"  a number{f', or {free}' if free else ''}{hint} > ", flag)
            if not word and default is not None:
                return default
            if word.isascii() and word.isdecimal() and 1 <= int(word[:6]) <= len(labels):
                return int(word[:6]) - 1
            if word and free and not word.isdecimal():
                return word
            self.print_text(f"  type a number from 1 to {len(labels)}{f', or {free}' if free else ''}; Ctrl-C cancels, {STOPPED}")

    def line(self, prompt: str, flag: str) -> str:
        """Return a line that is not empty. Raises UnansweredError if no user can be asked."""
        while not (word := self._typed(f"  {prompt} > ", flag)):
            continue
        return word

    def hidden(self, prompt: str, flag: str) -> str:
        """Return a line typed without echo, "" for Enter alone. Raises UnansweredError if no user can be asked."""
        return self._typed(f"  {prompt} > ", flag, hidden=True)

    def _typed(self, prompt: str, flag: str, *, hidden: bool = False) -> str:
        if self._terminal is None:
            raise UnansweredError(f"{prompt.strip(' >')}: no user can be asked here: {flag}")
        read = self._terminal.read_hidden if hidden else self._terminal.read_line
        try:
            return run_async(read(prompt)).strip()
        except (EOFError, KeyboardInterrupt) as error:
            stop = KeyboardInterrupt()
            stop.add_note(STOPPED)
            raise stop from error


class Sign:
    """A progress line on stderr while a ``with`` block runs; at a terminal it counts the seconds."""

    def __init__(self, what: str, *, lines_only: bool = False) -> None:
        self._what = one_line(what, 100)
        self._lines_only = lines_only or os.environ.get("TERM", "dumb") in ("dumb", "unknown", "")
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty() and not self._lines_only:
            self._thread = threading.Thread(target=self._count, daemon=True)
            self._thread.start()
        else:
            print(f"{self._what} ...", file=sys.stderr, flush=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _count(self) -> None:
        began = time.monotonic()
        while True:
            line = f"{self._what} ... {int(time.monotonic() - began)} s; Ctrl-C cancels"
            print(f"\r\x1b[K{line[: max(_columns() - 1, 1)]}", end="", file=sys.stderr, flush=True)
            if self._ended.wait(_TICK):
                return


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
