"""Characters that a user can't see or may confuse with others: one table for the judge and for prompts.

A prompt escapes every character that ``is_hidden`` or ``look_alikes`` reports: an unneeded escape does no harm there. The judge
asks about fewer characters: ``unseen`` leaves out those of ordinary text, such as a joiner in an emoji or a Persian word, a
variation selector after its character, and a non-breaking space in French prose.
"""

from __future__ import annotations

import functools
import unicodedata

from toolcrib.contract.regex import Regex

_SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_TAGS = "\U000e0020-\U000e007f"
_JOINERS = "\u034f\u17b4\u17b5\u180b-\u180f\u200c\u200d"
"""Characters that change the shape of the character before them, in emoji and in scripts outside ASCII."""
_FILLERS = "\u115f\u1160\u3164\uffa0\u2065\ufff0-\ufff8\U000e0000-\U000e001f\U000e0080-\U000e00ff\U000e01f0-\U000e0fff\U0001d159"
"""Characters that are blank in any text."""
_BLANK_BRAILLE = "\u2800"
_CONTROLS = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffc"
    "\ud800-\udfff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
)
_SPACES = "\xa0\u1680\u2000-\u200a\u202f\u205f\u3000"

_DRAWN_AS_NOTHING = Regex(f"[{_SELECTORS}{_TAGS}{_JOINERS}{_FILLERS}{_BLANK_BRAILLE}]")
"""Invisible characters that Python may call printable. ``str.isprintable`` is false for all other invisible ones: controls,
formats, other spaces, surrogates, private and unassigned characters.
"""
_CONTROL = Regex("[\x00-\x08\x0b-\x1f\x7f]")
_BRAILLE = Regex("[\u2801-\u28ff]")
_UNSEEN = Regex(
    f"[{_CONTROLS}{_FILLERS}]"
    rf"|(?<![^\x00-\x7f])(?!(?<=[0-9#*])\ufe0f\u20e3)[{_JOINERS}{_SELECTORS}]"
    f"|(?<![\U0001f3f4{_TAGS}])[{_TAGS}]"
    rf"|(?<=[!-~])[{_SPACES}](?=[-/~*|&<>]|\.\.?/)"
)
"""The alternatives, in order: characters that are suspect anywhere; joiners and selectors that do not follow a character outside
ASCII, except in keycap emoji; tags outside a flag; spaces between a word and an operator of the shell.
"""
_LATIN = ("LATIN ",)
_RELATED = ("CYRILLIC ", "GREEK ", "COPTIC ", "CHEROKEE ", "ARMENIAN ", "LISU ", "DESERET ", "OSAGE ")
"""Prefixes of the Unicode names of letters, for scripts with some letters that look Latin."""
_TWINS = frozenset(
    "\u0430\u0441\u0435\u043e\u0440\u0445\u0443\u0455\u0456\u0458\u04bb\u0501\u051b\u051d\u04cf"
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0405\u0406\u0408\u04ba\u051a\u051c\u04c0"
    "\u03bf\u03f2\u03f3\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7"
)
"""Cyrillic and Greek letters that look exactly like a Latin one."""
_ODD_LATIN = frozenset("\u0251\u0261\u1d04\u1d0f\u1d1c\u1d20\u1d21\u1d22")
"""Phonetic Latin letters that look like plain ones."""
_SIGNS = frozenset("\u037e\u2010\u2011\u2012\u2013\u2212\u2215\u2044\u29f8\u2571\u2024\u223c\u2223\u01c0\u02cb\ufe63")
"""Characters that look like a shell's punctuation: ``;``, ``-``, ``/``, ``.``, ``~``, ``|`` and a backquote."""
_TOUCHING = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789./~-_$")
_WORD = Regex(r"[^\W\d_]+")
_FOREIGN = Regex("[^\x00-\x7f]")
_KNOWN = 4_096
"""Number of characters whose kind is cached. Few texts use more different ones."""
_RIGHT_TO_LEFT = frozenset({"R", "AL"})


@functools.lru_cache(_KNOWN)
def is_hidden(char: str) -> bool:
    """Return True for a character that a screen does not show: blank, invisible or control. A newline is one, a space is not."""
    return not char.isprintable() or _DRAWN_AS_NOTHING.match(char) is not None


def unseen(text: str) -> str:
    """Return the first character that hides a part of a command from its reader; "" if there is none."""
    if text.isascii():
        match = _CONTROL.search(text)
    else:
        match = _UNSEEN.search(text)
        if match is None and _BLANK_BRAILLE in text and _BRAILLE.search(text) is None:  # a drawing has other Braille as well
            return _BLANK_BRAILLE
    return "" if match is None else match[0]


def look_alikes(text: str) -> frozenset[int]:
    """Return the positions of characters that look like ASCII but are not.

    Letters of another script count if a word mixes them with Latin ones, or if all letters of a word look Latin and no other word
    of the text shows that its script is in use. Compatibility forms (fullwidth, mathematical) always count, signs such as a dash
    only next to an ASCII letter, digit or sign.
    """
    if text.isascii():
        return frozenset()
    found = {one.start() for one in _FOREIGN.finditer(text) if _is_styled(one[0]) or _is_sign(text, one.start())}
    words = [one for one in _WORD.finditer(text) if not one[0].isascii()]
    kinds = {word: _kind_of(word) for word in {one[0] for one in words}}
    suspect = {"mixed"} if "foreign" in kinds.values() else {"mixed", "twin"}
    for one in words:
        if kinds[one[0]] in suspect:
            found.update(at for at, char in enumerate(one[0], one.start()) if _related(char))
    return frozenset(found)


def _kind_of(word: str) -> str:
    """Return the kind of a word. ``mixed``: letters of a related script among Latin ones. ``twin``: all look Latin, but none is.

    ``foreign``: a word of a related script that does not look Latin.
    """
    related = [char for char in word if _related(char)]
    if not related:
        return ""
    if any(map(_is_latin, word)):
        return "mixed"
    if all(char in _TWINS for char in word):
        return "twin"
    return "foreign" if any(char not in _TWINS for char in related) else ""


def runs_backwards(text: str) -> bool:
    """Return True if a screen may draw parts of the text from right to left."""
    return not text.isascii() and any(unicodedata.bidirectional(char) in _RIGHT_TO_LEFT for char in set(text))


def stacked(text: str) -> frozenset[int]:
    """Return the positions of combining marks that do not follow a letter or digit, and of the fourth and later marks in a row.

    Piled marks reach into other lines.
    """
    if text.isascii():
        return frozenset()
    found, pile, before = set(), 0, -2
    for one in _FOREIGN.finditer(text):
        at = one.start()
        if unicodedata.category(one[0]) not in ("Mn", "Me", "Mc"):
            continue
        pile = pile + 1 if at == before + 1 else 1 if text[at - 1 : at].isalnum() else _MOST_MARKS + 1
        before = at
        if pile > _MOST_MARKS:
            found.add(at)
    return frozenset(found)


_MOST_MARKS = 3


@functools.lru_cache(_KNOWN)
def _is_latin(char: str) -> bool:
    return (char.isascii() and char.isalpha()) or unicodedata.name(char, "").startswith(_LATIN)


@functools.lru_cache(_KNOWN)
def _related(char: str) -> bool:
    return char > "\x7f" and unicodedata.name(char, "").startswith(_RELATED)


@functools.lru_cache(_KNOWN)
def _is_styled(char: str) -> bool:
    """Return True for a letter, digit or sign that is an ASCII one in another style."""
    kind = unicodedata.category(char)
    if kind in ("No", "Lm") or char in "\xaa\xba":  # superscripts, as in m²
        return False
    if char in _ODD_LATIN:
        return True
    plain = unicodedata.normalize("NFKC", char)
    return len(plain) == 1 and "!" <= plain <= "~" and char not in "\u2024\u037e"


def _is_sign(text: str, at: int) -> bool:
    """Return whether the character at ``at`` looks like shell punctuation next to an ASCII letter, digit or punctuation."""
    if text[at] not in _SIGNS:
        return False
    return text[at - 1 : at] in _TOUCHING or text[at + 1 : at + 2] in _TOUCHING


def spelled(text: str, keep: str = "") -> str:
    """Return the text on one line, with hidden, look-alike and stacked characters escaped as ``^X``, ``\\n``, ``\\xNN`` or
    ``\\uNNNN``.

    Hidden characters in ``keep`` are not escaped.
    """
    if text.isascii() and text.isprintable():
        return text
    marked = look_alikes(text) | stacked(text)
    return "".join(
        written(char) if at in marked or (is_hidden(char) and char not in keep) else char for at, char in enumerate(text)
    )


def written(char: str) -> str:
    """Return a character as it is written in ASCII: ``^X`` for a control character, ``\\n`` for a newline, else its number."""
    code = ord(char)
    if code < 0x20 or code == 0x7F:
        return "\\n" if char == "\n" else f"^{chr(code ^ 0x40)}"
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
