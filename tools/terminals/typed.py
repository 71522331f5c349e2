"""The text that was typed into a terminal, gathered into lines, so that each line is judged as the program will get it."""

from __future__ import annotations

from collections.abc import Sequence

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import InvalidArguments
from toolcrib.contract.regex import Regex
from tools.screen.keys import UnknownKeyError, key_bytes

TEXT = "text:"
"""Begins an element of keys that is typed as it is, also if it is the name of a key."""
ENTER, INTERRUPT, END = "Enter", "C-c", "C-d"
_LONGEST_LINE = 1_000
"""Bytes of a line. A terminal cuts lines of more than 4,095 (on some systems 1,024) bytes, which would change their meaning."""
_KNOWN: dict[bytes, str] = {b"\r": ENTER, b"\n": ENTER, b"\x03": INTERRUPT, b"\x04": END}
_MODIFIED = Regex(r"(?:[CMS]-)+.+|F\d+")
_ELSEWHERE = Regex(r"(?i)(?:ctrl|control|alt|meta|shift|cmd)[-+ ]\S+|<.+>")
"""Names of keys in other notations, which must not be typed as text."""


@dataclass(frozen=True, slots=True)
class TypedLine:
    """Text typed so far: ``written`` are all finished lines, None if one of them is unknown; ``pending`` is the unfinished
    line; ``certain`` is False if keys changed that line in a way that only the program knows.
    """

    written: str | None = ""
    pending: str = ""
    certain: bool = True


@dataclass(frozen=True, slots=True)
class Typing:
    """Keys to press. ``text``: the unfinished line and what they type, completed by a line feed, because a program need not wait
    for Enter. ``certain``: the program gets this text. ``after``: what was typed when they were pressed.
    """

    keys: tuple[str, ...]
    text: str
    certain: bool
    after: TypedLine

    @property
    def only_ends(self) -> bool:
        """True if the keys only interrupt the program or end its input."""
        ends = (INTERRUPT, END) if self.certain and not self.text else (INTERRUPT,)
        return all(key in ends for key in self.keys)

    def data(self, *, application_cursor: bool) -> bytes:
        """Return the bytes to send."""
        return b"".join(
            key[len(TEXT) :].encode("utf-8", "replace")
            if key.startswith(TEXT)
            else key_bytes(key, application_cursor=application_cursor)
            for key in self.keys
        )


def keys_of(given: Sequence[str]) -> tuple[str, ...]:
    """Return keys in one form: names of keys, and texts that begin with ``text:``. Raises InvalidArguments."""
    keys: list[str] = []
    for one in given:
        name = _name(one)
        keys += [name] if name else _typed(one.removeprefix(TEXT))
    return tuple(keys)


def lines_of(text: str) -> tuple[str, ...]:
    """Return the keys that type whole lines. Raises InvalidArguments."""
    return tuple(_typed(text if text.endswith("\n") else f"{text}\n"))


def _name(given: str) -> str:
    """Return the name of a key, or "" for text. Raises InvalidArguments for a key that does not exist."""
    if given.startswith(TEXT) or (len(given) == 1 and given not in "\r\n\t"):
        return ""
    if _ELSEWHERE.fullmatch(given):
        raise InvalidArguments(f"keys: write such a key as C-c or M-x. To type it as text: {TEXT}{given}")
    if given[:1].islower():  # a word, such as end or del
        return ""
    try:
        data = key_bytes(given)
    except UnknownKeyError as error:
        if _MODIFIED.fullmatch(given):
            raise InvalidArguments(f"keys: {error} To type it as text: {TEXT}{given}") from error
        return ""
    text = data.decode("utf-8", "replace")
    return _KNOWN.get(data) or (f"{TEXT}{text}" if text.isprintable() else given)


def _typed(text: str) -> list[str]:
    """Return the keys that type a text: Enter for each line break, Tab for each tab."""
    keys, piece = list[str](), ""
    for char in text.replace("\r\n", "\n").replace("\r", "\n"):
        if char not in "\n\t":
            if ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0:
                raise InvalidArguments(f"the text contains the control character {char!r}: press it as a key")
            piece += char
            continue
        keys += [f"{TEXT}{piece}"] if piece else []
        keys, piece = [*keys, ENTER if char == "\n" else "Tab"], ""
    return [*keys, f"{TEXT}{piece}"] if piece else keys


def typing(before: TypedLine, keys: Sequence[str]) -> Typing:
    """Return what pressing these keys types after ``before``.

    C-c and C-d count as certain at the beginning of a line only: a program may keep what was typed before them. Raises
    InvalidArguments for a line that a terminal may cut.
    """
    written, pending, certain = before.written, before.pending, before.certain
    done, everything = "", True
    if INTERRUPT in keys[:-1] and not {*keys[keys.index(INTERRUPT) :]} <= {INTERRUPT, END}:
        raise InvalidArguments("keys: press C-c in a call of its own; a program may lose a part of the keys after it")
    for key in keys:
        if key.startswith(TEXT):
            pending += key[len(TEXT) :]
            everything = everything and certain
        elif key == ENTER:
            everything = everything and certain
            written = f"{written}{pending}\n" if certain and written is not None else None
            done, pending, certain = f"{done}{pending}\n", "", True
        elif key == INTERRUPT:
            written = None if written else written  # C-c may stop a line in the middle, and discards unread lines
            certain = certain and not pending
        elif key == END and not pending and certain:
            continue
        else:
            certain = everything = False
    text = f"{done}{pending}\n" if pending else done
    if any(len(line.encode("utf-8", "replace")) > _LONGEST_LINE for line in text.split("\n")):
        raise InvalidArguments(f"a line is longer than {_LONGEST_LINE:,} bytes: write it to a file, and use that")
    return Typing(tuple(keys), text, everything, TypedLine(written, pending, certain))
