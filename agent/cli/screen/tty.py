"""The terminal below the chat's screen: its size, output to it, and its mode, which must be restored after every change."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping

_USUAL_SIZE = (80, 24)
_MOST_LINES = 1_000


@contextlib.contextmanager
def terminal_restored() -> Iterator[None]:
    """Restore the terminal's mode after the block: a tool must not leave it changed."""
    import termios

    try:
        before = termios.tcgetattr(sys.stdin)
    except (termios.error, ValueError, OSError):  # standard input is no terminal
        yield
        return
    try:
        yield
    finally:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def write(text: str) -> None:
    """Write to the terminal. Ignore the error of a closed terminal: the reader of its input notices that it is closed."""
    out = sys.__stdout__
    if out is not None:
        with contextlib.suppress(OSError):
            out.buffer.write(text.encode(out.encoding, "replace"))
            out.buffer.flush()


def size() -> tuple[int, int]:
    """Return the terminal's columns and rows, or defaults if it does not report them."""
    try:
        columns, rows = os.get_terminal_size(1)
    except OSError:
        return _USUAL_SIZE
    return (columns, rows) if columns > 0 and rows > 0 else _USUAL_SIZE


def told_within(environment: Mapping[str, str] = os.environ) -> float:
    """Return the seconds that the terminal's new size may take to arrive here; output may take as long to reach the terminal.

    tmux reports a new size after 0.25 s, and later when busy; a network adds a round trip.
    """
    if environment.get("TMUX") or environment.get("STY"):
        return 1.0
    return 0.25 if environment.get("SSH_TTY") or environment.get("SSH_CONNECTION") else 0.02


def typed_before(descriptor: int) -> str | None:
    """Read what was typed so far in a terminal that is still in line mode; its last line may be incomplete. An end of input
    becomes Ctrl-D.

    Return None if the descriptor is closed, is no terminal, or is a terminal in another mode.
    """
    import select
    import termios

    lines: list[bytes] = []
    try:
        if not termios.tcgetattr(descriptor)[3] & termios.ICANON:
            return None
        while select.select([descriptor], [], [], 0)[0] and len(lines) < _MOST_LINES:
            lines.append(os.read(descriptor, 4096) or b"\x04")
            if lines[-1] == b"\x04":
                break
    except (termios.error, OSError, ValueError):
        if not lines:
            return None  # closed, or no terminal: the next reader gets the error
    return b"".join(lines).decode("utf-8", "replace")


def typed_since(descriptor: int) -> str:
    """Read what was typed after ``typed_before`` and before raw mode began. Call it in raw mode.

    A Ctrl-D that was typed before raw mode began is read as a zero byte.
    """
    import select

    with contextlib.suppress(OSError, ValueError):
        if select.select([descriptor], [], [], 0)[0]:
            return os.read(descriptor, 65_536).replace(b"\0", b"\x04").decode("utf-8", "replace")
    return ""


def typed_so_far(descriptor: int) -> str:
    """Read what was typed in line mode, including the incomplete line. Return "" if the terminal is in another mode."""
    import termios

    lines = typed_before(descriptor)
    if lines is None:
        return ""
    with contextlib.suppress(termios.error, OSError):
        before = termios.tcgetattr(descriptor)
        now = [*before[:3], before[3] & ~termios.ICANON, *before[4:6], [*before[6]]]
        now[6][termios.VMIN] = now[6][termios.VTIME] = 0
        termios.tcsetattr(descriptor, termios.TCSANOW, now)
        try:
            lines += typed_since(descriptor)
        finally:
            termios.tcsetattr(descriptor, termios.TCSANOW, before)
    return lines
