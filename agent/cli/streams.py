"""The standard streams: a closed one is replaced, and no character makes the output fail or breaks JSON."""

from __future__ import annotations

import codecs
import io
import os
import sys
from typing import TextIO

_ESCAPES = "toolcrib.escapes"
"""Name of the error handler that writes a character as a JSON escape."""


def prepare_streams() -> None:
    """Make both output streams usable, in any locale and even if the caller closed them.

    A descriptor that the caller closed must not be left free: the next file to be opened would receive our output.
    """
    codecs.register_error(_ESCAPES, _escaped)
    if None in (sys.stdin, sys.stdout, sys.stderr):
        _occupy_descriptors()
        sys.stdout = _to_nowhere() if sys.stdout is None else sys.stdout
        sys.stderr = _to_nowhere() if sys.stderr is None else sys.stderr
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ESCAPES)


def print_json_as_ascii() -> None:
    """Escape all characters outside ASCII on standard output, unless it is UTF-8: JSON in another encoding is not valid."""
    out = sys.stdout
    if isinstance(out, io.TextIOWrapper) and codecs.lookup(out.encoding).name != "utf-8":
        out.reconfigure(encoding="ascii", errors=_ESCAPES)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """Return JSON escapes for the characters that can't be encoded, both in JSON and in plain text."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2)), error.end


def _occupy_descriptors() -> None:
    """Open /dev/null at each of the descriptors 0 to 2 that is closed."""
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(opened, True)
    os.close(opened)


def _to_nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 - open to the end; avoids importing pathlib
