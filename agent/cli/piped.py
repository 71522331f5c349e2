"""Standard input of ``toolcrib run``: read piped or redirected text, and mark it for the model as separate from the task."""

from __future__ import annotations

import io
import os
import select
import stat
import sys
import time

from toolcrib.contract.errors import ToolcribError

LIMIT = 1 << 20
"""Maximum number of bytes that are read."""
_PATIENCE = 1.0
"""Seconds before a message says that the command waits for input."""
_PIECE = 1 << 16


def piped_descriptor() -> int | None:
    """Return the descriptor of standard input if it is a pipe or a regular file. Return None for a terminal, /dev/null, a socket
    or a closed input: no input is expected there.
    """
    try:
        descriptor = -1 if sys.stdin is None else sys.stdin.fileno()
        mode = os.fstat(descriptor).st_mode
    except (OSError, ValueError, io.UnsupportedOperation):
        return None
    return descriptor if stat.S_ISFIFO(mode) or stat.S_ISREG(mode) else None


def read_piped(descriptor: int, timeout: float | None = None) -> str:
    """Read standard input to its end; print a note if that takes more than a moment.

    Raises TimeoutError if it has not ended after ``timeout`` seconds, and ToolcribError if it is too large or not text.
    """
    begun, told, size = time.monotonic(), False, 0
    read: list[bytes] = []
    end = None if timeout is None else begun + timeout
    while True:
        now = time.monotonic()
        if end is not None and now >= end:
            raise TimeoutError
        pauses = [begun + _PATIENCE - now] if not told else []
        pauses += [] if end is None else [end - now]
        if not select.select([descriptor], [], [], max(0.0, min(pauses)) if pauses else None)[0]:
            if not told and time.monotonic() >= begun + _PATIENCE:
                told = True
                print("toolcrib: waiting for standard input to end; --no-stdin does not read it", file=sys.stderr, flush=True)
            continue
        piece = _piece(descriptor)
        if not piece:
            return as_text(b"".join(read))
        read.append(piece)
        size += len(piece)
        if size > LIMIT:
            raise ToolcribError(_TOO_LARGE)


_TOO_LARGE = (
    f"standard input is larger than {LIMIT >> 20} MiB; save it to a file and name the file in the task, or pipe in only a part "
    "(grep, head, tail)"
)


def _piece(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _PIECE)
    except OSError as error:
        raise ToolcribError(f"standard input cannot be read: {error.strerror or error}; to run without it: --no-stdin") from None


def as_text(data: bytes) -> str:
    """Return the input as text. Raises ToolcribError if it is too large or not text."""
    from tools.files.text import decode

    if len(data) > LIMIT:
        raise ToolcribError(_TOO_LARGE)
    text = decode(data)
    if text is None:
        raise ToolcribError(
            "standard input is not text; save it to a file and name the file in the task (for an image: --image FILE)"
        )
    return text.text


def with_input(task: str, text: str) -> str:
    """Return the message of a task with its input. The input can't imitate the end of its own part."""
    from agent.cli.beside import Beside, with_beside

    return with_beside(task, [Beside("standard-input", "was piped into this command", text)])
