"""Conversion of texts to lines of IRC and back, without colours and control characters."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator

from toolcrib.chat import Outbound, without_controls
from toolcrib.contract.regex import Regex
from toolcrib.platforms import Markup, shown

_PLAIN = Markup(
    bold="*{}*", italic="_{}_", strike="~{}~", code="`{}`", quote=lambda text: "\n".join(f"> {one}" for one in text.split("\n"))
)
_CODES = Regex("\x03(?:\\d{1,2}(?:,\\d{1,2})?)?|\x04(?:[0-9a-fA-F]{6}(?:,[0-9a-fA-F]{6})?)?|[\x00-\x1f\x7f]")
_MARKS = Regex(r"(?:> ?)+")
_WHISPER = "\u2060"


def lines_of(out: Outbound, most: int, nicks: Collection[str]) -> list[str]:
    """Return a message as lines of at most ``most`` bytes, cut between words if possible. Unless the text is plain, put an
    invisible joiner into each of the channel's ``nicks`` that it contains, so that clients do not notify these users.
    """
    text = without_controls(out.text) if out.is_plain else quiet(shown(out.text, _PLAIN), nicks)
    lines = [line.replace("\t", "    ").rstrip() for line in text.split("\n")]
    return [piece for line in lines if line.strip() for piece in _pieces(line, most, is_plain=out.is_plain)]


def _pieces(line: str, most: int, *, is_plain: bool) -> Iterator[str]:
    """Yield a line in pieces. Each piece of a quoted line begins with ``>``, or later ones would look like our own words."""
    found = None if is_plain else _MARKS.match(line)
    marks = found[0][: most // 4] if found is not None else ""
    yield from (f"{marks}{piece}" for piece in _cut(line[len(marks) :], most - len(marks)))


def _cut(line: str, most: int) -> Iterator[str]:
    data = line.encode("utf-8", "replace")
    while len(data) > most:
        at = most
        while data[at] & 0xC0 == 0x80:  # never cut inside a character
            at -= 1
        blank = data.rfind(b" ", most // 2, at + 1)
        at = blank if blank > 0 else at
        yield data[:at].decode()
        data = data[at:].removeprefix(b" ")
    yield data.decode()


def quiet(text: str, nicks: Collection[str]) -> str:
    """Return a text with an invisible joiner inside each nick, so that clients do not notify its user."""
    names = sorted((re.escape(one) for one in nicks if len(one) > 1), key=len, reverse=True)
    if not names:
        return text
    return re.sub(
        rf"(?<!\w)(?:{'|'.join(names)})(?!\w)", lambda found: found[0][0] + _WHISPER + found[0][1:], text, flags=re.IGNORECASE
    )


def text_of(line: str) -> str:
    """Return a user's text without formatting codes and control characters."""
    return without_controls(_CODES.sub("", line)).strip()


def id_of(key: str) -> str:
    """Return an id for the message of ours with this key, because IRC gives it none."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def fold(name: str) -> str:
    """Return a form of a nick or a channel's name that is the same for all names that IRC treats as equal."""
    return name.lower().translate(str.maketrans("[]\\^", "{}|~"))
