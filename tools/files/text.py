"""Convert a file's bytes to text and back without loss: byte order mark, encoding and line ends are kept."""

from __future__ import annotations

import codecs

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import InvalidArguments

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_MAGIC = (
    (b"\x89PNG", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF8", "GIF image"),
    (b"%PDF", "PDF document"),
    (b"PK\x03\x04", "ZIP archive"),
    (b"\x1f\x8b", "gzip archive"),
    (b"\x7fELF", "ELF program"),
    (b"SQLite format 3", "SQLite database"),
)
_ORDINARY = frozenset(b"\t\n\r\f\b\x1b")


@dataclass(frozen=True, slots=True)
class Text:
    """A decoded file. ``mark``: its byte order mark, which is not part of ``text``."""

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""

    def encode(self, text: str) -> bytes:
        """Encode a text in this file's encoding. Raises InvalidArguments for a character that the encoding lacks."""
        try:
            return self.mark + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            bad = text[error.start]
            raise InvalidArguments(
                f"the file is {self.encoding}, which can't encode {bad!r} (U+{ord(bad):04X}); leave that character out"
            ) from None


def decode(data: bytes, *, cut: bool = False) -> Text | None:
    """Return the text of ``data``, or None for a binary file. ``cut``: the file continues, so its last character may be partial.

    A text without a byte order mark that is not UTF-8 is read as Latin-1, which keeps every byte.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            text = _try(data[len(mark) :], encoding, cut=cut)
            if text is not None:
                return Text(text, encoding, mark)
    if b"\0" in data[:8192]:
        return None
    text = _try(data, "utf-8", cut=cut)
    if text is not None:
        return Text(text)
    sample = data[:8192]
    control = sum(byte < 32 and byte not in _ORDINARY for byte in sample)
    return None if control * 10 > len(sample) else Text(data.decode("latin-1"), "latin-1")


def _try(data: bytes, encoding: str, *, cut: bool) -> str | None:
    try:
        return codecs.getincrementaldecoder(encoding)().decode(data, final=not cut)
    except UnicodeDecodeError:
        return None


def describe(path: str, data: bytes) -> str:
    """Guess the type of a binary file, as text."""
    for magic, name in _MAGIC:
        if data.startswith(magic):
            return name
    import mimetypes

    return mimetypes.guess_type(path)[0] or "binary data"


def split_lines(text: str) -> list[str]:
    """Return the lines of ``text`` with their ends. Only a line feed ends a line, as for grep and sed. No character is lost."""
    lines = text.split("\n")
    last = lines.pop()
    return [f"{line}\n" for line in lines] + ([last] if last else [])


def count_lines(text: str) -> int:
    return text.count("\n") + (1 if text and not text.endswith("\n") else 0)


def clip(line: str, width: int) -> str:
    return line if len(line) <= width else f"{line[:width]}... [{len(line) - width} more characters]"
