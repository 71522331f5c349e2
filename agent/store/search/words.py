"""Words of messages and of queries, and their positions in a text.

The words of an index are letters and digits. Scripts without blanks between words are split at every character: Chinese, Japanese
and Korean. ``readFile`` becomes three words: readfile, read, file. A query is split in the same way, and its words are searched
for as a phrase. So ``readFile`` is found both as a whole and by its parts.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.regex import Regex
from toolcrib.contract.search import SearchRefused

MOST_CHARS = 50_000
"""Maximum characters of a message that are indexed: from a longer text, four fifths at its beginning and one fifth at its end."""
SNIPPET_CHARS = 240
_LONGEST = 64
"""Maximum letters of a word that are indexed: encoded images and keys would otherwise fill the index."""
_BEFORE = 80
"""Maximum number of characters of a snippet before the match."""
_ASIDE = 40
"""Number of characters of a snippet that are reserved for the text around its matches."""
_MOST_MATCHES = 1_000
_MOST_TERMS = 32
_MARKED_WORDS = 32
"""Maximum number of words of a query that are marked in a hit: each costs a step at every word of the text."""

_CJK = (
    r"\u1100-\u11ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3130-\u318f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    r"\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_HUMP = Regex(r"([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])")
_CHARACTER = Regex(rf"[{_CJK}]")
_WORD = Regex(r"[^\W_]+")
_PART = Regex(r'(-?)"([^"]*)"(\*?)|(\S+)')


class Term(NamedTuple):
    """Consecutive words. ``begins``: the last one is the beginning of a word."""

    words: tuple[str, ...]
    begins: bool = False
    spelled: tuple[str, ...] = ()
    """The words without the parts of compound ones."""


class Query(NamedTuple):
    """A query: at least one term of each group in ``every``, and no term of ``none``."""

    every: tuple[tuple[Term, ...], ...]
    none: tuple[Term, ...] = ()

    @property
    def terms(self) -> Iterator[Term]:
        """The required terms."""
        return (term for either in self.every for term in either)


def parse(text: str) -> Query:
    """Parse a query. Raises SearchRefused if it has no word to search for, or too many."""
    every: list[list[Term]] = []
    none: list[Term] = []
    joins = False
    for match in _PART.finditer(text):
        minus, quoted, star, bare = match.groups()
        if bare == "OR":
            joins = bool(every)
            continue
        if bare is not None:
            minus, bare = ("-", bare[1:]) if bare[0] == "-" and len(bare) > 1 else ("", bare)
            quoted, star = bare.rstrip("*"), "*" if bare.endswith("*") else ""
        words = tuple(words_of(quoted))
        if not words:
            continue
        term = Term(words, bool(star), tuple(_plain_words(quoted)))
        if minus:
            none.append(term)
        elif joins:
            every[-1].append(term)
        else:
            every.append([term])
        joins = False
    if not every:
        raise SearchRefused(f"no word to search for in {text[:80]!r}")
    if len(none) + sum(map(len, every)) > _MOST_TERMS:
        raise SearchRefused(f"a query has at most {_MOST_TERMS} words; search for fewer")
    return Query(tuple(map(tuple, every)), tuple(none))


# -- searchable text ----------------------------------------------------------------------------------------------------


def searched(record: Mapping[str, Any]) -> str:
    """Return the searchable text of a record: messages, calls with their arguments, and results.

    A summary only repeats these, so it has none.
    """
    text = "" if record.get("role") == "compressed" else "\n".join(texts_of(record))
    if len(text) > MOST_CHARS:
        text = f"{text[: -MOST_CHARS // 5 + MOST_CHARS]}\n{text[-MOST_CHARS // 5 :]}"
    return text


def texts_of(record: Mapping[str, Any]) -> list[str]:
    """Return the complete texts of a record, in order."""
    texts = [str(record.get("text") or "")]
    for call in record.get("calls") or ():
        texts += [str(call.get("name", "")), *_strings(call.get("args"))]
    texts += [_told(str(result.get("text") or "")) for result in record.get("results") or ()]
    return [text for text in texts if text]


def _told(answer: str) -> str:
    """Return a tool's answer as readable text.

    In JSON a line break is a backslash and a letter, and the next word would begin with that letter.
    """
    if not answer.startswith(("{", "[", '"')):
        return answer
    try:
        return "\n".join(_lines(json.loads(answer)))
    except (ValueError, RecursionError):  # text that begins like JSON, or that was cut
        return answer


def _lines(value: object, name: str = "") -> Iterator[str]:
    """Yield a line for each value. The first value of an object is its subject and needs no name."""
    if isinstance(value, Mapping):
        for number, (key, inner) in enumerate(value.items()):
            yield from _lines(inner, key if number or name else "")
    elif isinstance(value, list):
        for inner in value:
            yield from _lines(inner, name)
    elif value is not None:
        text = value if isinstance(value, str) else json.dumps(value)
        yield f"{name}: {text}" if name else text


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _strings(inner)


def folded(text: str) -> str:
    """Return the text in lower case and without accents, for comparing words."""
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFKD", text.casefold())
    return unicodedata.normalize("NFC", "".join(char for char in apart if not unicodedata.combining(char)))


def words_of(text: str) -> list[str]:
    """Return the words of a text in comparable form."""
    return _plain_words(text if text.islower() else " ".join(_parted(_WORD.findall(text))))


def _parted(words: Iterable[str]) -> Iterator[str]:
    for word in words:
        yield word
        if len(word) <= _LONGEST and not word.islower() and " " in (parts := _HUMP.sub(r"\1\3 \2\4", word)):
            yield parts


def _plain_words(text: str) -> list[str]:
    if not text.isascii():
        text = _CHARACTER.sub(r" \g<0> ", text)
    return [word[:_LONGEST] for word in _WORD.findall(folded(text))]


# -- snippets -----------------------------------------------------------------------------------------------------------


class Snippet(NamedTuple):
    """A part of a text on one line, and the ranges of the matches in it."""

    text: str
    marks: tuple[tuple[int, int], ...]


def snippet(text: str, query: Query, most: int = SNIPPET_CHARS) -> Snippet:
    """Return the text around the place with the most matches close together, or its beginning if there is no match."""
    pattern = _pattern(query)
    start, end = _together(pattern, text, most - _ASIDE) or (0, 0)
    begin = max(0, start - min(_BEFORE, max(most - (end - start), _ASIDE) // 2))
    if begin:
        begin = text.find(" ", begin, begin + 20) + 1 or begin
    part = " ".join(text[begin : begin + 4 * most].split())
    shown = part[:most]
    lead, tail = "… " if begin else "", " …" if len(part) > most or begin + 4 * most < len(text) else ""
    marks = tuple((match.start() + len(lead), match.end() + len(lead)) for match in pattern.finditer(shown))
    return Snippet(f"{lead}{shown}{tail}", marks)


def _together(pattern: re.Pattern[str], text: str, room: int) -> tuple[int, int] | None:
    """Return the range of at most ``room`` characters with the most terms, the shortest if several; None if there is none."""
    best, place = (0, 0), None
    near: deque[re.Match[str]] = deque()
    counts: Counter[int | None] = Counter()
    for match in islice(pattern.finditer(text), _MOST_MATCHES):
        near.append(match)
        counts[match.lastindex] += 1
        while len(near) > 1 and (match.end() - near[0].start() > room or counts[near[0].lastindex] > 1):
            first = near.popleft().lastindex
            counts[first] -= 1
            if not counts[first]:
                del counts[first]
        span = match.end() - near[0].start()
        rank = len(counts), -span if len(counts) > 1 else 0  # with one term the first match wins
        if rank > best:
            best, place = rank, (near[0].start(), match.end())
        if len(counts) == pattern.groups and span <= sum(len(one[0]) + 1 for one in near):
            break  # adjacent
    return place


def _pattern(query: Query) -> re.Pattern[str]:
    """Return a pattern of the terms with a group for each; letters with accents match letters without."""
    terms = sorted(query.terms, key=lambda term: -sum(map(len, term.spelled)))
    most = max(_MARKED_WORDS // len(terms), 2)
    alternatives = [
        r"[\W_]*".join("".join(like(char) for char in word) for word in term.spelled[:most])
        + (r"[^\W_]*" if term.begins and len(term.spelled) <= most else r"(?![a-z])")
        for term in terms
    ]
    return re.compile("|".join(rf"((?<![^\W_])(?:{one})|(?:{one}))" for one in alternatives), re.IGNORECASE)


_ACCENTS: Mapping[str, str] = {
    "a": "àáâãäå",
    "c": "ç",
    "e": "èéêë",
    "i": "ìíîï",
    "n": "ñ",
    "o": "òóôõö",
    "u": "ùúûü",
    "y": "ýÿ",
    "s": "šß",
    "z": "ž",
}


def like(char: str) -> str:
    """Return a pattern that matches a letter with an accent and without."""
    return f"[{char}{_ACCENTS[char]}]" if char in _ACCENTS else re.escape(char)
