"""Escape text for a terminal, so that it can't move the cursor, or hide or reorder what the user reads."""

from __future__ import annotations

import unicodedata

from tools.judge.characters import spelled, written

_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_BREAKS = frozenset("\u2028\u2029")


def exact(text: str) -> str:
    """Return the text on one line with all invisible and confusable characters escaped: for text that the user approves."""
    return spelled(text)


def tame(text: str) -> str:
    """Return the text for output, with escaped control characters, except newline and tab, and escaped reordering marks."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(written(char) if _acts(char) else char for char in text)


def one_line(text: str, limit: int = 200) -> str:
    """Return ``text`` without line breaks, shortened to ``limit`` characters."""
    flat = tame(" ".join(text.split()))
    return flat if len(flat) <= limit else f"{flat[: limit - 1]}…"


def _acts(char: str) -> bool:
    if char in "\n\t":
        return False
    return unicodedata.category(char) in ("Cc", "Cs") or char in _BIDI or char in _BREAKS
