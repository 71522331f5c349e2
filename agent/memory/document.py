"""A memory document: Markdown whose list items are notes, each with its date and session."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.regex import Regex

_SOURCE = Regex(r"[ \t]*<!-- (?P<date>\d{4}-\d\d-\d\d)(?: (?P<session>[^\s<>]{1,64}))? -->[ \t]*\Z")
_ITEM = Regex(r"[-*][ \t]+(?=\S)")
_CONTINUED = Regex(r"(?: {2,}|\t)(?=\S)")
_SHOWN = 80
_FEWEST, _ROOM = 20, 20
"""A document may have 20 notes, or one for each 20 characters of its limit if those are more."""


@dataclass(frozen=True, slots=True)
class MemoryNote:
    """A note. ``date`` (2026-01-31) and ``session`` (the beginning of its id) are its source, "" if unknown."""

    text: str
    date: str = ""
    session: str = ""

    @property
    def short(self) -> str:
        """The note on one line, cut if it is long."""
        line = " ".join(self.text.split())
        return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"

    def written(self) -> str:
        """Return the note as a list item, with its source in a comment."""
        source = " ".join(filter(None, (self.date, self.session)))
        indented = "\n  ".join(self.text.splitlines())
        return f"- {indented} <!-- {source} -->" if self.date else f"- {indented}"


@dataclass(frozen=True, slots=True)
class DocumentPart:
    """A part of a document: a note, or a line between notes. ``raw`` is its text in the file."""

    raw: str
    note: MemoryNote | None = None


@dataclass(frozen=True, slots=True)
class MemoryDocument:
    """A document's parts in order. Changes return a new document; unchanged parts keep their bytes."""

    parts: Sequence[DocumentPart] = ()

    @classmethod
    def parse(cls, text: str) -> MemoryDocument:
        """Parse a document from text. Every text is valid: a line that is not a list item is text between notes.

        Windows line breaks count as line breaks; a byte order mark is ignored.
        """
        return cls(tuple(_parts(text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n"))))

    @property
    def notes(self) -> Sequence[MemoryNote]:
        """The notes, in order."""
        return [part.note for part in self.parts if part.note is not None]

    @property
    def size(self) -> int:
        """The number of characters that count towards the limit: notes and other lines, without sources, title and blanks."""
        return sum(len(part.note.text if part.note is not None else _said(part.raw)) for part in self.parts)

    def text(self) -> str:
        """Return the document's text, with a line break at the end."""
        whole = "\n".join(part.raw for part in self.parts).rstrip("\n")
        return f"{whole}\n" if whole else ""

    def holding(self, text: str) -> Sequence[MemoryNote]:
        """Return the notes that contain a text; if a note equals the text, only that note."""
        found = [note for note in self.notes if text in note.text]
        return [note for note in found if note.text == text][:1] or found

    def with_note(self, note: MemoryNote, title: str) -> MemoryDocument:
        """Return the document with one more note at the end; an empty document begins with ``title``."""
        parts = list(self.parts)
        while parts and not parts[-1].raw.strip():
            parts.pop()
        if not parts:
            parts.append(DocumentPart(f"# {title}"))
        if parts[-1].note is None:
            parts.append(DocumentPart(""))
        return MemoryDocument((*parts, DocumentPart(note.written(), note)))

    def replacing(self, old: MemoryNote, new: MemoryNote | None) -> MemoryDocument:
        """Return the document with the note ``old`` replaced, or removed if ``new`` is None."""
        at = next(number for number, part in enumerate(self.parts) if part.note is old)
        put = () if new is None else (DocumentPart(new.written(), new),)
        return MemoryDocument((*self.parts[:at], *put, *self.parts[at + 1 :]))

    def without(self, notes: Iterable[MemoryNote]) -> MemoryDocument:
        """Return the document without these notes."""
        gone = {id(note) for note in notes}
        return MemoryDocument(tuple(part for part in self.parts if part.note is None or id(part.note) not in gone))


def most_notes(max_chars: int) -> int:
    """Return how many notes a document with a limit of ``max_chars`` may have."""
    return max(_FEWEST, max_chars // _ROOM)


def note_of(text: str, session: str = "") -> MemoryNote:
    """Return a note with today's date, without blanks around its lines, and without blank lines, which would end the note."""
    lines = [line.strip() for line in text.strip().splitlines()]
    return MemoryNote("\n".join(filter(None, lines)), time.strftime("%Y-%m-%d"), session)


def _parts(lines: Sequence[str]) -> Iterator[DocumentPart]:
    item: list[str] = []
    for line in lines:
        if item and _CONTINUED.match(line):
            item.append(line)
            continue
        if item:
            yield _item(item)
            item = []
        if _ITEM.match(line):
            item = [line]
        else:
            yield DocumentPart(line)
    if item:
        yield _item(item)


def _item(lines: Sequence[str]) -> DocumentPart:
    raw = "\n".join(lines)
    match = _ITEM.match(lines[0])
    assert match is not None  # noqa: S101 - _parts only collects lines that match
    told = "\n".join([lines[0][match.end() :], *(line.strip() for line in lines[1:])])
    source = _SOURCE.search(told)
    if source is None:
        return DocumentPart(raw, MemoryNote(told.strip()))
    return DocumentPart(raw, MemoryNote(told[: source.start()].strip(), source["date"], source["session"] or ""))


def _said(line: str) -> str:
    """Return the text of a line between notes; "" for the title."""
    return "" if line.startswith("# ") else line.strip()
