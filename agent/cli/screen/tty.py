"""The terminal below the chat's screen: its size, what is written to it, and its mode, which nothing may leave changed."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

_USUAL_SIZE = (80, 24)


@contextlib.contextmanager
def terminal_restored() -> Iterator[None]:
    """Put the terminal's mode back: a tool may not leave it in another than it found it in."""
    import termios

    try:
        before = termios.tcgetattr(sys.stdin)
    except (termios.error, ValueError, OSError):  # keys that come from elsewhere
        yield
        return
    try:
        yield
    finally:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def write(text: str) -> None:
    """Write to the terminal. One that went away is told by its end of input."""
    out = sys.__stdout__
    if out is not None:
        with contextlib.suppress(OSError):
            out.buffer.write(text.encode(out.encoding, "replace"))
            out.buffer.flush()


def size() -> tuple[int, int]:
    """Return the terminal's columns and rows, the usual ones where it does not tell."""
    try:
        columns, rows = os.get_terminal_size(1)
    except OSError:
        return _USUAL_SIZE
    return (columns, rows) if columns > 0 and rows > 0 else _USUAL_SIZE
