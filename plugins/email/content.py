"""Content of a mail: its text without quotations, its files, and their positions. A mail may be crafted to overload us."""

from __future__ import annotations

import base64
import binascii
import quopri
from collections.abc import Iterator
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import Message
from email.parser import BytesParser

from plugins.email.markup import text_of_html
from toolcrib.contract.regex import Regex

_TEXT = 200_000
"""Number of bytes of a text that are read."""
_LINES, _PARTS, _MULTIPARTS, _FIELD, _DEPTH = 600_000, 2_000, 60, 4_000, 20
_RETURNS = Regex(rb"\r\n?")
_FIELDS = Regex(rb"^content-(?:type|disposition)[^\n]*(?:\n[ \t][^\n]*)*", 2 | 8)
_QUOTE = Regex(r"[ \t]*>")
_ATTRIBUTION = Regex(r"[^\n]{0,300}(?:wrote|schrieb[^\n]{0,100}|a écrit|escribió|ha scritto|schreef[^\n]{0,100})\s*:\s*\Z")
_BEGINS = Regex(r"(?:On|Am|Le|El|Il|Op) ")
_CUT = Regex(
    r"-- ?\Z|-{2,}\s*(?:Original Message|Forwarded message|Ursprüngliche Nachricht|Message d'origine)\s*-{2,}\s*\Z|_{20,}\s*\Z", 2
)


class Unreadable(ValueError):
    """A mail that is not read, with the reason."""


def parsed(raw: bytes) -> Message:
    """Return a parsed mail. Raises Unreadable for one that would take much time or memory."""
    raw = _RETURNS.sub(b"\n", raw)
    if raw.count(b"\n") > _LINES or raw.count(b"\n--") > _PARTS * 2 or raw.lower().count(b"multipart/") > _MULTIPARTS:
        raise Unreadable("it has too many lines or parts")
    if any(len(match[0]) > _FIELD for match in _FIELDS.finditer(raw)):
        raise Unreadable("it has a field that is too long")
    try:
        return BytesParser().parsebytes(raw)
    except RecursionError as error:
        raise Unreadable("its parts are nested too deeply") from error


def leaves(mail: Message) -> Iterator[tuple[str, Message]]:
    """Yield the parts that have content, each with its IMAP section number. A mail inside a mail is one part, a file."""
    yield from _leaves(mail, "", 0)


def _leaves(mail: Message, number: str, depth: int) -> Iterator[tuple[str, Message]]:
    children = mail.get_payload()
    if mail.get_content_maintype() != "multipart" or not isinstance(children, list):
        yield number or "1", mail
    elif depth < _DEPTH:
        for place, child in enumerate(children, 1):
            if isinstance(child, Message):
                yield from _leaves(child, f"{number}.{place}" if number else str(place), depth + 1)


def is_file(part: Message) -> bool:
    """Return whether a part is a file rather than the mail's text."""
    return part.get_content_disposition() == "attachment" or bool(name_of(part)) or part.get_content_maintype() != "text"


def name_of(part: Message) -> str:
    """Return the file name of a part: "" for none, "file" for an unreadable one."""
    try:
        return decoded(part.get_filename() or "")[:200]
    except (ValueError, LookupError, HeaderParseError):
        return "file"


def text_of(mail: Message) -> str:
    """Return the author's text: the plain text, else that of the HTML, without quotations and signature; all of it if nothing
    else is left.
    """
    texts: dict[str, list[str]] = {"plain": [], "html": []}
    for _, part in leaves(mail):
        kind = part.get_content_subtype() if not is_file(part) else ""
        if kind in texts:
            texts[kind].append(_words(part))
    plain = "\n".join(texts["plain"]).strip()
    whole = plain or "\n".join(map(text_of_html, texts["html"])).strip()
    return without_quotes(whole) or whole


def without_quotes(text: str) -> str:
    """Return a text without quoted lines and their attribution line, without a signature, and without a mail quoted whole
    below.
    """
    kept: list[str] = []
    for line in text.split("\n"):
        if _CUT.match(line):
            break
        if not _QUOTE.match(line):
            kept.append(line)
            continue
        while kept and not kept[-1].strip():
            kept.pop()
        if kept and _ATTRIBUTION.match(kept[-1]):
            is_folded = len(kept) > 1 and _BEGINS.match(kept[-2]) and not _BEGINS.match(kept[-1])
            del kept[-2 if is_folded else -1 :]
    return "\n".join(line.rstrip() for line in kept).strip()


def _words(part: Message) -> str:
    """Return the text of a part, even if its charset is wrong or unknown."""
    data = decoded_bytes(str(part.get_payload()).encode("utf-8", "surrogateescape")[: _TEXT * 2], encoding_of(part))[:_TEXT]
    try:
        return data.decode(str(part.get_content_charset("utf-8"))[:40], "replace").replace("\r\n", "\n")
    except (LookupError, ValueError):
        return data.decode("utf-8", "replace")


def encoding_of(part: Message) -> str:
    """Return the transfer encoding of a part, in lower case."""
    return str(part.get("content-transfer-encoding", "")).strip().lower()[:20]


def decoded_bytes(data: bytes, encoding: str) -> bytes:
    """Return the decoded data, or the data itself if it can't be decoded."""
    if encoding == "quoted-printable":
        return quopri.decodestring(data)
    if encoding != "base64":
        return data
    clean = Regex(rb"[^A-Za-z0-9+/]").sub(b"", data)
    try:
        return base64.b64decode(clean + b"=" * (-len(clean) % 4))
    except binascii.Error:
        return base64.b64decode(clean[: len(clean) // 4 * 4])


def decoded(text: str) -> str:
    """Return the text of a field, decoded. Never raises for a bad charset."""
    found = []
    try:
        for words, charset in decode_header(text[:2_000]):
            found.append(words if isinstance(words, str) else words.decode((charset or "ascii")[:40], "replace"))
    except (LookupError, ValueError, HeaderParseError):
        return text[:2_000].encode("ascii", "replace").decode()
    return " ".join("".join(found).split()).encode("utf-8", "replace").decode()
