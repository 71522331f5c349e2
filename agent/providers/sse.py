"""Reads server-sent events from bytes as they arrive.

No available reader is safe enough: httpx's ``iter_lines`` (which httpx-sse used in the versions that we allow) also splits at
U+2028, U+2029 and U+0085, which JSON text may contain; httpx-sse's own decoder is private, imports httpx, holds an event back
while its last line ends in CR, loses the last event of a stream without a final empty line, and has no limits. The tests
compare this reader with httpx-sse.
"""

from __future__ import annotations

import codecs
import re
from typing import TypeAlias

from toolcrib.contract.errors import StreamBroken
from toolcrib.contract.regex import Regex

SseEvent: TypeAlias = tuple[str, str]
"""(event name, "" if the server gave none; data)."""

_NAMED = Regex(r"^event: (.*)\ndata: (.*)\n\n", re.MULTILINE)
_END = Regex(rb"\n\r?\n")
MAX_EVENT = 64 * 1024 * 1024
"""Maximum number of characters in one event, so that events do not fill the memory. An image from a model is one event."""


class SseReader:
    """A reader: ``feed`` it bytes cut anywhere, and get the completed events; ``close`` it at the end of the stream.

    Lines end in LF, CR or CRLF and in nothing else. Bytes that are not UTF-8 become U+FFFD. The cost is linear in the bytes,
    however they are cut. Raises StreamBroken for an event of more than ``max_event`` characters.
    """

    def __init__(self, max_event: int = MAX_EVENT) -> None:
        self._max = max_event
        self._held = bytearray()  # the bytes of an unfinished event that looks usual so far
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._split_character = False
        self._begun = False
        self._clean = True  # nothing is held back
        self._after_cr = False
        self._line: list[str] = []  # pieces of an unfinished line
        self._data: list[str] = []  # lines of an unfinished event
        self._event = ""
        self._line_size = 0
        self._data_size = 0

    def feed(self, chunk: bytes) -> list[SseEvent]:
        if not self._clean:
            return self._cut(chunk) if self._held else self._to_end(chunk)
        try:
            text = chunk.decode()
        except UnicodeDecodeError:
            return self._cut(chunk)
        # The fast path for one event of one data line, with or without a name: many servers flush each event.
        if len(text) > self._max:
            return self._cut(chunk)
        if text[:7] == "event: ":
            name, found, data = text[7:-2].partition("\ndata: ")
            if found and text[-2:] == "\n\n" and "\n" not in data and "\n" not in name and "\r" not in text:
                return [(name, data)]
        elif text[:6] == "data: ":
            data = text[6:-2] if text[-2:] == "\n\n" else text[6:-4] if text[-4:] == "\r\n\r\n" else "\n"
            if "\n" not in data and "\r" not in data:
                return [("", data)]
        return self._cut(chunk)

    def _to_end(self, chunk: bytes) -> list[SseEvent]:
        """Read the rest of an event by the slow path, and the bytes after it by the fast one."""
        found = _END.search(chunk)
        if found is None:
            return self._feed(chunk)
        events = self._feed(chunk[: found.end()])
        return events + self.feed(chunk[found.end() :]) if found.end() < len(chunk) else events

    def _usual(self, chunk: bytes) -> list[SseEvent] | None:
        """Return the events if the chunk has only whole events of one data line each, the usual case; else None."""
        try:
            text = chunk.decode()
        except UnicodeDecodeError:
            return None
        if len(text) > self._max:
            return None
        if text[:6] == "data: ":
            end = "\r\n\r\n" if text[-2:] == "\r\n" else "\n\n"
            if not text.endswith(end):
                return None
            found = text[6 : -len(end)].split(f"{end}data: ")
            events = [("", data) for data in found if "\n" not in data and "\r" not in data]
            return events if len(events) == len(found) else None
        if text[:7] == "event: " and text[-2:] == "\n\n" and "\r" not in text:
            named: list[SseEvent] = _NAMED.findall(text)
            if text.count("\n") == 3 * len(named):
                return named
        return None

    def _cut(self, chunk: bytes) -> list[SseEvent]:
        """Return the events of a chunk that ends anywhere: the usual ones by the fast path, the rest by the slow one."""
        end = chunk.rfind(b"\n\r\n") + 3 if b"\r" in chunk else chunk.rfind(b"\n\n") + 2
        end = end if end > 2 else 0
        rest = chunk[end:]
        size = len(rest) if end else len(rest) + len(self._held)
        # The held bytes must contain no event end: no "\n\n", no CR, and none across the seam.
        unclear = b"\r" in rest or b"\n\n" in rest or (self._held and chunk[:1] in (b"\n", b"\r"))
        if not unclear and size <= self._max:
            events = self._usual(b"".join((self._held, chunk[:end]))) if end else []
            if events is not None:
                if end:
                    self._held.clear()
                self._held += rest
                self._clean = not self._held
                return events
        chunk = b"".join((self._held, chunk))
        self._held.clear()
        return self._feed(chunk)

    def _feed(self, chunk: bytes) -> list[SseEvent]:
        text = self._decode(chunk)
        events: list[SseEvent] = []
        if "\r" in text or self._after_cr:
            text = self._unify(text)
        if "\n" in text:
            self._read(text, events)
        elif text:
            self._hold(text)
        self._clean = not (self._line or self._data or self._event or self._after_cr or self._split_character)
        return events

    def close(self) -> list[SseEvent]:
        """Return the event that the stream's end completes: some servers omit the last empty line."""
        events = self._feed(bytes(self._held)) if self._held else []
        rest = self._decoder.decode(b"", True)
        self._split_character = False
        self._read(rest + "\n\n", events)
        self._held.clear()
        self._line, self._data, self._event, self._clean = [], [], "", True
        self._line_size = self._data_size = 0
        return events

    def _decode(self, chunk: bytes) -> str:
        text = None
        if not self._split_character:
            try:
                text = chunk.decode()
            except UnicodeDecodeError:
                text = None
        if text is None:
            text = self._decoder.decode(chunk)
            self._split_character = bool(self._decoder.getstate()[0])
        if text and not self._begun:
            self._begun = True
            text = text.removeprefix("\ufeff")
        return text

    def _unify(self, text: str) -> str:
        """Replace CR and CRLF by LF. A CR ends a line at once; an LF that follows it in the next chunk is dropped."""
        if not text:
            return text
        if self._after_cr and text[0] == "\n":
            text = text[1:]
            self._after_cr = False
            if not text:
                return text
        self._after_cr = text[-1] == "\r"
        return text.replace("\r\n", "\n").replace("\r", "\n")

    def _read(self, text: str, events: list[SseEvent]) -> None:
        lines = text.split("\n")
        rest = lines.pop()
        for line in lines:
            if self._line:
                self._line.append(line)
                line = "".join(self._line)
                self._line, self._line_size = [], 0
            if line:
                self._take(line)
            else:
                self._end(events)
        if rest:
            self._hold(rest)

    def _hold(self, text: str) -> None:
        self._line.append(text)
        self._line_size += len(text)
        self._check()

    def _end(self, events: list[SseEvent]) -> None:
        if self._data:
            events.append((self._event, "\n".join(self._data)))
            self._data = []
        self._event, self._data_size = "", 0

    def _take(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
            self._data_size += len(value) + 1  # an empty line of data counts too
            self._check()
        elif name == "event":
            self._event = value

    def _check(self) -> None:
        if self._line_size + self._data_size > self._max:
            raise StreamBroken(f"the server sent one event of more than {self._max} characters; it does not speak this protocol")
