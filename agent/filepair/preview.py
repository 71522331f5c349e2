"""A call's arguments while they arrive: the strings at the top level of a JSON object, readable before it is complete."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Literal, TypeAlias

from toolcrib.contract.regex import Regex

_OUTSIDE = Regex(r'["{}\[\]:,]')
_INSIDE = Regex(r'["\\]')
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_HEX = Regex(r"[0-9a-fA-F]{0,4}")
_OPENED, _CLOSED = ("{", "["), ("}", "]")

_Expects: TypeAlias = Literal["object", "key", "colon", "value", "comma", "nothing"]


class PartialText:
    """The part of a string value that has arrived. ``length`` counts characters; ``done``: its closing quote arrived."""

    __slots__ = ("_parts", "done", "length")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self.length = 0
        self.done = False

    @property
    def text(self) -> str:
        """The text so far, never with half an escape or half a character. Later texts begin with this one."""
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0] if self._parts else ""

    def add(self, piece: str) -> None:
        if piece:
            self._parts.append(piece)
            self.length += len(piece)


class ArgumentReader:
    """A reader of arguments: ``feed`` it the text in any pieces, then ``get`` the strings of the wanted keys.

    Only the object's own keys count: the same words inside a string or a nested object are ignored. For a repeated key, the
    later value counts, as in JSON. Reading stops at text that is not a JSON object (``broken``); values read before are kept.
    The cost is linear in the length of the text, however it is split.
    """

    def __init__(self, keys: Collection[str]) -> None:
        self._keys = frozenset(keys)
        self._found: dict[str, PartialText] = {}
        self._expects: _Expects = "object"
        self._depth = 0
        self._string: PartialText | None = None  # the string or key that is being read
        self._in_key = False
        self._in_string = False
        self._key = ""
        self._held = ""  # half an escape
        self._half = ""  # half a character between two pieces
        self.broken = False

    @property
    def complete(self) -> bool:
        """True once the object was closed."""
        return self._expects == "nothing" and not self.broken

    def get(self, key: str) -> PartialText | None:
        """Return the string under ``key``; None until its opening quote arrives, or if the value is not a string."""
        return self._found.get(key)

    def feed(self, text: str) -> None:
        text, self._half = self._half + text, ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        if not text.isascii():
            text = _whole(text)
        text, self._held = self._held + text, ""
        at = 0
        while at < len(text) and self._expects != "nothing":
            at = self._inside(text, at) if self._in_string else self._outside(text, at)

    # -- between strings -----------------------------------------------------------------------------------------

    def _outside(self, text: str, at: int) -> int:
        found = _OUTSIDE.search(text, at)
        end = len(text) if found is None else found.start()
        if self._depth <= 1 and self._expects != "value" and not _is_blank(text, at, end):
            return self._break(text)
        if found is None:
            return end
        mark = found[0]
        fits = self._nested(mark) if self._depth > 1 else self._top(mark)
        return end + 1 if fits else self._break(text)

    def _nested(self, mark: str) -> bool:
        if mark == '"':
            self._open(None)
        elif mark in _OPENED:
            self._depth += 1
        elif mark in _CLOSED:
            self._depth -= 1
            if self._depth == 1:
                self._expects = "comma"
        return True

    def _top(self, mark: str) -> bool:
        match self._expects, mark:
            case "object", "{":
                self._depth, self._expects = 1, "key"
            case "key", '"':
                self._in_key = True
                self._open(PartialText())
            case "colon", ":":
                self._expects = "value"
            case "value", '"':
                self._open(PartialText() if self._key in self._keys else None)
                if self._string is not None:
                    self._found[self._key] = self._string
            case "value", "{" | "[":
                self._depth = 2
            case (("value" | "comma"), ","):
                self._expects = "key"
            case (("key" | "value" | "comma"), "}"):
                self._depth, self._expects = 0, "nothing"
            case _:
                return False
        return True

    def _break(self, text: str) -> int:
        self.broken, self._expects = True, "nothing"
        return len(text)

    # -- in a string ---------------------------------------------------------------------------------------------

    def _open(self, string: PartialText | None) -> None:
        self._string, self._in_string = string, True

    def _inside(self, text: str, at: int) -> int:
        found = _INSIDE.search(text, at)
        end = len(text) if found is None else found.start()
        if self._string is not None:
            self._string.add(text[at:end])
        if found is None:
            return end
        if found[0] == '"':
            self._close()
            return end + 1
        return self._escape(text, end)

    def _close(self) -> None:
        string, self._string, self._in_string = self._string, None, False
        if self._in_key and string is not None:
            self._in_key, self._key, self._expects = False, string.text, "colon"
            self._found.pop(self._key, None)
            return
        if string is not None:
            string.done = True
        if self._depth == 1:
            self._expects = "comma"

    def _escape(self, text: str, at: int) -> int:
        """Read the escape at ``at``; an incomplete one is held back."""
        read = _read_escape(text, at)
        if read is None:
            self._held = text[at:]
            return len(text)
        character, end = read
        if not character:
            return self._break(text)
        if self._string is not None:
            self._string.add(character)
        return end


def _read_escape(text: str, at: int) -> tuple[str, int] | None:
    """Return the character and its end, None if more must arrive, and ("", at) for an invalid escape."""
    kind = text[at + 1 : at + 2]
    if not kind:
        return None
    if kind != "u":
        return (_ESCAPES[kind], at + 2) if kind in _ESCAPES else ("", at)
    code = _hex(text, at + 2)
    if not isinstance(code, int):
        return code if code is None else ("", at)
    end = at + 6
    if not 0xD800 <= code <= 0xDBFF:
        return "\ufffd" if 0xDC00 <= code <= 0xDFFF else chr(code), end
    follows = text[end : end + 2]
    if follows != "\\u":
        return None if follows in ("", "\\") else ("\ufffd", end)
    low = _hex(text, end + 2)
    if low is None:
        return None
    if isinstance(low, int) and 0xDC00 <= low <= 0xDFFF:
        return chr(0x10000 + ((code - 0xD800) << 10) + low - 0xDC00), end + 6
    return "\ufffd", end


def _hex(text: str, at: int) -> int | str | None:
    """Return four hexadecimal digits as a number, "" for invalid ones, None if more must arrive."""
    digits = _HEX.match(text, at)
    found = digits[0] if digits else ""
    if len(found) == 4:
        return int(found, 16)
    return None if at + len(found) == len(text) else ""


def _is_blank(text: str, start: int, end: int) -> bool:
    return start == end or not text[start:end].strip(" \t\r\n")


def _whole(text: str) -> str:
    """Return text with surrogate pairs joined; a lone surrogate becomes U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


STEP = 40
"""Minimum characters that a preview grows by."""
_SHARE = 50


class GrowingText:
    """Decides when a preview is worth sending: the first text at once, then after each 40 or more new characters.

    A preview has the whole text so far. A long text must grow by a fiftieth before it is sent again, so that the total of all
    previews stays linear in the length of the text.
    """

    def __init__(self) -> None:
        self._source: PartialText | None = None
        self._ended = False
        self.sent = ""

    def next(self, source: PartialText | None) -> str | None:
        """Return the preview to send now, or None. It always begins with the one sent before."""
        if self._ended or source is None or source.length < self._wanted():
            return None
        text = source.text
        if self._source is not source and not text.startswith(self.sent):
            self._ended = True  # the value restarted with other text: the code is shown when the call ends
            return None
        self._source, self.sent = source, text
        return text

    def _wanted(self) -> int:
        length = len(self.sent)
        return length + max(STEP, length // _SHARE) if length else 1


def shortened(text: str, limit: int = 200) -> str:
    """Return text cut to at most ``limit`` characters, with three dots at the end if it was cut."""
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def summary(args: object, limit: int = 200) -> dict[str, object]:
    """Return arguments as an event shows them: the same keys, with long texts and nested values shortened."""
    if not isinstance(args, dict):
        return {"preview": shortened(str(args), limit)}
    return {str(key): _short(value, limit) for key, value in args.items()}


def _short(value: object, limit: int) -> object:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return shortened(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str), limit)
