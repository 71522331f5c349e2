"""Hide secrets on a screen, where a row's end or the mark of the cursor may divide them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

Redact: TypeAlias = Callable[[str], str]
"""Returns a text without secrets."""


def without_secrets(lines: Sequence[str], columns: int, redact: Redact) -> list[str]:
    """Return lines without secrets. One that a terminal of so many columns wrapped is hidden in the first of its lines; the
    others are then empty.
    """
    found, start = list(lines), 0
    while start < len(lines):
        end = start + 1
        while end < len(lines) and _is_full(lines[end - 1], columns):
            end += 1
        text = "".join(lines[start:end])
        if (hidden := redact(text)) != text:
            found[start:end] = [hidden, *[""] * (end - start - 1)]
        start = end
    return found


def _is_full(line: str, columns: int) -> bool:
    return len(line) + sum(char > "\u2e7f" for char in line) >= columns  # those take two cells
