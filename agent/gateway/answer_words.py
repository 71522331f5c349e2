"""Answers to approval requests, as buttons and messages express them."""

from __future__ import annotations

from collections.abc import Mapping

from toolcrib.contract.types import Json

YES, SESSION, NO = "y", "s", "n"
ANSWERS: Mapping[str, Mapping[str, Json]] = {
    YES: {"approved": True, "scope": "once"},
    SESSION: {"approved": True, "scope": "session"},
    NO: {"approved": False},
}
"""Answers by the letters of their buttons."""
WORDS = {
    word: ANSWERS[choice]
    for choice, words in {YES: ("1", "yes", "y"), SESSION: ("2",), NO: ("3", "no", "n")}.items()
    for word in words
}
"""Answers by the words that express them."""
