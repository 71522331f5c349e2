"""Queries on long texts that are not indexed: whether a text matches, and where."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from agent.store.search.words import Query, Term, folded, like, words_of

_ASIDE = 100
"""Number of characters around a match that are checked: a word or name ends within them."""
_PLACES, _MOST_WORDS = 2_000, 8
"""Maximum number of matches of one term that are checked, and of its words in the pattern."""


def place_in(text: str, query: Query) -> int | None:
    """Return the position of the first match, or None for a text that does not match the whole query."""
    lower = text.lower() if text.isascii() else folded(text)
    first: int | None = None
    for either in query.every:
        found = next((place for term in either if (place := _place(term, text, lower)) is not None), None)
        if found is None:
            return None
        first = found if first is None else first
    return None if any(_place(term, text, lower) is not None for term in query.none) else first


def _place(term: Term, text: str, lower: str) -> int | None:
    if not all(word in lower for word in term.words):
        return None
    pattern = re.compile(r"[\W_]*".join("".join(map(like, word)) for word in term.spelled[:_MOST_WORDS]), re.IGNORECASE)
    for match in islice(pattern.finditer(text), _PLACES):
        begin = max(0, match.start() - _ASIDE)
        if _has(term, words_of(text[begin : match.end() + _ASIDE])):
            return match.start()
    return None


def _has(term: Term, words: Sequence[str]) -> bool:
    *first, last = term.words
    return any(
        (words[at + len(first)].startswith(last) if term.begins else words[at + len(first)] == last)
        and [*words[at : at + len(first)]] == first
        for at in range(len(words) - len(first))
    )
