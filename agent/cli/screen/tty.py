"""The terminal below the chat's screen: its size, what is written to it, and its mode, which nothing may leave changed."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping

_USUAL_SIZE = (80, 24)
_MOST_LINES = 1_000


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


def told_within(environment: Mapping[str, str] = os.environ) -> float:
    """Return the seconds that a new size may take to come here, and what is written before to get there.

    tmux waits 0.25 s before it tells of another size, and longer where it has much to do; over a network it is a round trip.
    """
    if environment.get("TMUX") or environment.get("STY"):
        return 1.0
    return 0.25 if environment.get("SSH_TTY") or environment.get("SSH_CONNECTION") else 0.02


def typed_before(descriptor: int) -> str | None:
    """Take the lines that were typed while the terminal was not yet ours, and gave whole lines; the last may not be ended.

    An end of input among them is a Ctrl-D. Return None for what is no such terminal.
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
            return None  # it went away, or is none: whoever reads it next is told
    return b"".join(lines).decode("utf-8", "replace")


def typed_since(descriptor: int) -> str:
    """Take what came behind that until the terminal gave each key. Only where it does so now.

    An end of input is a zero byte then.
    """
    import select

    with contextlib.suppress(OSError, ValueError):
        if select.select([descriptor], [], [], 0)[0]:
            return os.read(descriptor, 65_536).replace(b"\0", b"\x04").decode("utf-8", "replace")
    return ""


def typed_so_far(descriptor: int) -> str:
    """Take what was typed while the terminal gave whole lines, the line that is not ended too."""
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
