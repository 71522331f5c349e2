"""Invisible characters in a note: a reader does not see them, but a model does, so they can hide whole sentences.

Only characters that writing needs are allowed: one joiner within a word of a joining script or within an emoji; one selector for
the style of an emoji; the tags of three flags; one wide or no-break space between two words.
"""

from __future__ import annotations

import functools
import unicodedata

from toolcrib.contract.regex import Regex
from tools.judge.characters import written

_IGNORABLE = Regex(
    "[\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0"
    "\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Unicode's Default_Ignorable_Code_Point, from DerivedCoreProperties.txt: invisible in every font."""
_BLANK = frozenset("\u2800\U0001d159\ufffc")
"""Characters that are drawn blank but are not spaces."""
_KINDS = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
_SPACES = frozenset("\xa0\u2009\u202f\u3000")
"""Spaces of ordinary writing: in numbers and quotations, and between words of Chinese and Japanese."""
_FLAGS = frozenset(
    f"\U0001f3f4{''.join(chr(0xE0000 + ord(char)) for char in name)}\U000e007f" for name in ("gbeng", "gbsct", "gbwls")
)
_FLAG_CHARS = 7
_JOINERS = "\u200c\u200d"
_SELECTORS = "\ufe0e\ufe0f"
_MONGOLIAN = "\u180b\u180c\u180d\u180e\u180f"
_KEYCAP = "\u20e3"
_DRAWN = frozenset({"So", "Sm", "Po", "Pd", "Cn"})
"""Categories of characters that are drawn as emoji. Cn means unassigned, as the newest emoji are in older Unicode tables."""
_JOINING = frozenset(
    {
        *("ARABIC", "SYRIAC", "MONGOLIAN", "NKO", "DEVANAGARI", "BENGALI", "GURMUKHI", "GUJARATI", "ORIYA", "TAMIL", "TELUGU"),
        *("KANNADA", "MALAYALAM", "SINHALA", "KHMER", "MYANMAR", "TIBETAN"),
    }
)
"""Scripts whose letters change their shape at a joiner, by the first word of a character's name."""
_VIRAMA = 9
_KNOWN = 4_096


def unseen_in(text: str) -> frozenset[int]:
    """Return the positions of invisible characters. Newlines and tabs are allowed."""
    if text.isprintable() and text.isascii():
        return frozenset()
    return frozenset(at for at, char in enumerate(text) if _is_unseen(char) and not _is_needed(text, at))


def revealed(text: str) -> str:
    """Return the text with invisible characters escaped, such as ``\\u200b``."""
    found = unseen_in(text)
    return "".join(written(char) if at in found else char for at, char in enumerate(text)) if found else text


def without_unseen(text: str) -> str:
    """Return the text without any ignorable character, needed or not."""
    return text if text.isascii() else _IGNORABLE.sub("", text)


@functools.lru_cache(_KNOWN)
def script_of(char: str) -> str:
    """Return the first word of a character's name, which is its script for letters: LATIN, CYRILLIC; "" without a name."""
    return unicodedata.name(char, "").partition(" ")[0]


@functools.lru_cache(_KNOWN)
def _is_unseen(char: str) -> bool:
    if char in "\n\t ":
        return False
    kind = unicodedata.category(char)
    return kind in _KINDS or kind == "Zs" or char in _BLANK or _IGNORABLE.match(char) is not None or ord(char) & 0xFFFE == 0xFFFE


def _is_needed(text: str, at: int) -> bool:
    char, before, after = text[at], text[at - 1] if at else "", text[at + 1 : at + 2]
    if char in _SPACES:
        return bool(before and after) and not before.isspace() and not after.isspace()
    if char in _SELECTORS:
        return _has_shapes(before, after)
    if char in _MONGOLIAN:
        return bool(before) and script_of(before) == "MONGOLIAN" and before not in _MONGOLIAN
    if "\U000e0020" <= char <= "\U000e007f":
        begin = text.rfind("\U0001f3f4", max(0, at - _FLAG_CHARS + 1), at)
        return begin >= 0 and text[begin : begin + _FLAG_CHARS] in _FLAGS
    return bool(char in _JOINERS and before and after) and _joins(text, at)


def _has_shapes(before: str, after: str) -> bool:
    """Return True if the character before a selector has an emoji style and a text style."""
    if not before or before == "\u200d":
        return False
    if before in "0123456789#*":
        return after == _KEYCAP
    return before in "\u2139\u24c2" or (not before.isascii() and unicodedata.category(before) in _DRAWN)


def _joins(text: str, at: int) -> bool:
    before, after = text[at - 1], text[at + 1]
    if script_of(before) in _JOINING and unicodedata.category(before)[0] in "LM":
        if text[at] == "\u200d" and unicodedata.combining(before) == _VIRAMA:
            return not _is_unseen(after)
        return script_of(after) == script_of(before) and unicodedata.category(after)[0] in "LM" and not _is_unseen(after)
    if text[at] != "\u200d" or unicodedata.category(after) not in _DRAWN or after.isascii():
        return False
    if before in _SELECTORS:
        before = text[at - 2 : at - 1]
    return (
        bool(before)
        and (unicodedata.category(before) in _DRAWN or "\U0001f3fb" <= before <= "\U0001f3ff")
        and not before.isascii()
    )
