"""Find the part of a file that differs from a given text only in characters that look alike or are invisible, and name these
characters.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from tools.files.differing import changes
from tools.files.line_ends import lf
from tools.judge.characters import is_hidden

_MOST_CHARS = 4000
"""Maximum length of a text whose characters are compared."""
_NAMED = 3
"""Maximum number of differences to name, and of characters in each."""
_QUOTES_AND_SIGNS = {
    **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u00b4\u02bc\u2035", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb\u2036", '"'),
    **dict.fromkeys("\u2212\u2043\u2500", "-"),
    **dict(
        zip(
            "\u0430\u0441\u0435\u043e\u0440\u0445\u0443\u0456\u0458\u0455\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425",
            "aceopxyijsABEKMHOPCTX",
            strict=True,
        )
    ),
}


class _Plain(dict[int, str]):
    """The plain form of characters, computed at first use, for ``str.translate``."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        self[code] = plain = char if code < 0x80 else "".join(map(_plain, unicodedata.normalize("NFKD", char)))
        return plain


def _plain(char: str) -> str:
    if char in _QUOTES_AND_SIGNS:
        return _QUOTES_AND_SIGNS[char]
    kind = unicodedata.category(char)
    if kind in ("Zs", "Pd"):
        return " " if kind == "Zs" else "-"
    return "" if is_hidden(char) else char


_PLAIN = _Plain()


def look_alike(lines: Sequence[str], old: Sequence[str], what: str) -> str:
    """Return a sentence that names the characters that differ between ``old`` and the first text that looks like it.

    Returns "" if no text looks like it.
    """
    text, wanted = [lf(line) for line in lines], lf("".join(old)).removesuffix("\n")
    whole = "".join(line if line.isascii() else line.translate(_PLAIN) for line in text)
    plain = wanted.translate(_PLAIN)
    at = whole.find(plain) if plain.strip() else -1
    if at < 0:
        return ""
    index, at = whole.count("\n", 0, at), at - (whole.rfind("\n", 0, at) + 1)
    here = "".join(text[index : index + 1 + plain.count("\n")])
    origins = [origin for origin, char in enumerate(here[:_MOST_CHARS]) for _ in char.translate(_PLAIN)]
    if at + len(plain) > len(origins):
        return f"Line {index + 1} begins a text that looks alike, with other characters."
    begin = origins[at]
    named = [
        f"line {index + 1 + here.count(chr(10), 0, begin + a1)}, column {begin + a1 - here.rfind(chr(10), 0, begin + a1)} "
        f"of the file has {_names(here[begin + a1 : begin + a2])}, {what} has {_names(wanted[b1:b2])}"
        for kind, a1, a2, b1, b2 in changes(here[begin : origins[at + len(plain) - 1] + 1], wanted)
        if kind != "equal"
    ]
    if not named:
        return ""
    more = f"; and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return f"It differs from a text that looks alike: {'; '.join(named[:_NAMED])}{more}. Send the characters of the file."


def _names(chars: str) -> str:
    return " ".join(f"U+{ord(char):04X} ({unicodedata.name(char, 'no name')})" for char in chars[:_NAMED]) or "nothing"
