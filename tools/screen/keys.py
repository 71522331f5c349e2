"""The bytes that a terminal sends for a named key."""

from __future__ import annotations

from collections.abc import Mapping

from toolcrib.contract.regex import Regex
from toolcrib.contract.suggest import near

_PLAIN: Mapping[str, str] = {"Enter": "\r", "Tab": "\t", "Escape": "\x1b", "Space": " ", "Backspace": "\x7f"}
_LETTERS: Mapping[str, str] = {
    "Up": "A", "Down": "B", "Right": "C", "Left": "D", "End": "F", "Home": "H", "F1": "P", "F2": "Q", "F3": "R", "F4": "S",
}  # fmt: skip
_NUMBERS: Mapping[str, int] = {
    "Insert": 2, "Delete": 3, "PageUp": 5, "PageDown": 6, "F5": 15, "F6": 17, "F7": 18, "F8": 19, "F9": 20, "F10": 21, "F11": 23,
    "F12": 24,
}  # fmt: skip
_ALIASES: Mapping[str, str] = {
    "return": "Enter", "esc": "Escape", "bspace": "Backspace", "del": "Delete", "ins": "Insert", "pgup": "PageUp",
    "pgdn": "PageDown", "npage": "PageDown", "ppage": "PageUp", "ic": "Insert", "dc": "Delete", "kpenter": "Enter",
}  # fmt: skip
KEYS = (*_PLAIN, *_LETTERS, *_NUMBERS)
"""Names of keys; before them C-, M- and S- stand for Ctrl, Alt and Shift. A single character is its own name."""
_MODIFIED = Regex(r"((?:[CMS]-)*)(.+)", 16)  # with DOTALL


class UnknownKeyError(ValueError):
    """A key has no such name; the message has similar names."""


def key_bytes(name: str, *, application_cursor: bool = False) -> bytes:
    """Return the bytes of a key such as "C-c", "M-x", "Up", "F5", "S-Tab" or "C-Up".

    ``application_cursor``: the program asked for the other form of cursor keys. Upper and lower case count only in characters.
    """
    found = _MODIFIED.fullmatch(name)
    if not found or not name.isprintable():
        raise UnknownKeyError("A key needs a printable name, such as Enter or C-c.")
    held, base = set(found[1][::2]), found[2]
    alt = "\x1b" if "M" in held else ""
    if len(base) == 1:
        text = alt + (_control(name, base) if "C" in held else base.upper() if "S" in held else base)
        return text.encode("utf-8", "replace")
    known = {key.lower(): key for key in KEYS}
    key = _ALIASES.get(base.lower()) or known.get(base.lower())
    if key is None:
        similar = near(base.lower(), [*known, *_ALIASES], most=3, cutoff=0.5)
        names = dict.fromkeys(_ALIASES.get(one) or known[one] for one in similar)
        raise UnknownKeyError(f"No key is named {name!r}. {'Similar' if names else 'Keys'}: {', '.join(names or KEYS)}.")
    modifiers = 1 + ("S" in held) + 2 * ("M" in held) + 4 * ("C" in held)
    if key in _PLAIN:
        special = {"S-Tab": "\x1b[Z", "C-Space": "\0", "C-Backspace": "\b"}
        plain = next((text for keys, text in special.items() if keys[2:] == key and keys[0] in held), _PLAIN[key])
        return (alt + plain).encode()
    if key in _NUMBERS:
        return f"\x1b[{_NUMBERS[key]}{f';{modifiers}' if modifiers > 1 else ''}~".encode()
    if modifiers > 1:
        return f"\x1b[1;{modifiers}{_LETTERS[key]}".encode()
    return f"\x1b{'O' if application_cursor or key[0] == 'F' else '['}{_LETTERS[key]}".encode()


def _control(name: str, base: str) -> str:
    if base == "?":
        return "\x7f"
    code = {"/": "_", " ": "@"}.get(base, base).upper()
    if not "@" <= code <= "_":
        raise UnknownKeyError(f"A terminal has no bytes for {name!r}: Ctrl combines with a letter, Space, or one of @[\\]^_/?.")
    return chr(ord(code) & 0x1F)
