"""Finds a call that a model wrote as text at the end of a streamed reply, though the server supports native calls."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from agent.providers._calls import UNREADABLE
from toolcrib.contract.dataclass import replace
from toolcrib.contract.regex import Regex
from toolcrib.contract.session import OnEvent, ParsedReply, ProviderTurn, StreamEvent, TextReader
from toolcrib.contract.types import ToolCall

_log = logging.getLogger(__name__)
_WORD = Regex(r"(?:^|\s)[A-Za-z]{2,}(?:\s|$)")
"""A word of prose. After the mark of a call that no tool's name follows, it shows that the text only mentions the mark."""
_CALL_END = Regex(r"\n</(?:\w+:)?(?:tool_(?:calls?|result|response)|function_calls?|param(?:eter)?|arg_value)>\Z")
NOT_TEXT = "it was written as text, but tools are called by the API's own tool calls; make such a call"
_GOOD_ENDS = ("stop", "tool_calls", "")


class TextCallWatch:
    """An OnEvent that forwards a reply's events, except text that may be a call. ``finish`` decides about that text."""

    def __init__(self, tools: Sequence[Mapping[str, Any]], on_event: OnEvent) -> None:
        self._tools, self._on_event = tools, on_event
        self._text: list[str] = []
        """The text so far, until ``_read`` creates the reader."""
        self._reader: TextReader | None = None
        self._has_calls = False  # native calls, so that all text is an answer
        self._unread = ""  # text that the reader did not show yet
        self._ahead = 0  # number of blanks at the beginning of ``_unread`` that were shown
        self._due = ""  # text that the reader showed while it held back more; emitted with the next piece
        self._lead = ""  # blanks at the beginning of the text, which the reader drops
        self._shown = 0  # characters of the text that were shown, without ``_lead``
        self._parted = False  # the reader has left text out

    def __call__(self, event: StreamEvent) -> None:
        text = event.text
        if event.kind != "assistant_delta":
            if event.kind == "tool_call_delta" and not self._has_calls:
                self._has_calls = True
                self.release()
            self._on_event(event)
        elif self._reader is not None and not self._has_calls:
            self._feed(text)
        elif not self._has_calls and ("<" in text or "[" in text or "{" in text):
            self._read(text)
        else:  # no call begins without these characters; the module of the reader takes long to load
            self._text.append(text)
            self._on_event(event)

    def _read(self, text: str) -> None:
        """Create the reader, and feed it the text that was already shown, and ``text``."""
        from agent.protocols._dialects import native_reader

        before = "".join(self._text).lstrip()
        self._text.clear()
        self._reader = native_reader(self._tools)
        read = "".join(event.text for event in self._reader.feed(before) if event.kind == "assistant_delta")
        self._parted = not before.startswith(read)
        self._unread = before[len(read) :]
        self._ahead, self._shown = len(self._unread), len(before)
        if not before:
            bare = text.lstrip()
            self._lead, text = text[: len(text) - len(bare)], bare
        self._feed(text)

    def _feed(self, text: str) -> None:
        assert self._reader is not None  # noqa: S101 - set before
        self._emit("")
        self._unread += text
        for event in self._reader.feed(text):
            if event.kind != "assistant_delta" or self._parted:
                continue
            if not self._unread.startswith(event.text):
                self._parted = True
                continue
            count = len(event.text)
            self._due += self._unread[:count][self._ahead :]
            self._unread, self._ahead = self._unread[count:], max(0, self._ahead - count)
        rest = self._unread[self._ahead :]
        if not self._parted and not rest.strip():
            self._ahead = len(self._unread)
            self._emit(rest)

    def _emit(self, rest: str) -> None:
        text, self._due = self._due + rest, ""
        if text:
            self._shown += len(text)
            self._on_event(StreamEvent("assistant_delta", self._lead + text))
            self._lead = ""

    def finish(self, turn: ProviderTurn) -> ParsedReply | None:
        """Return the reply with the calls in its text; None if the text is an answer. Then call ``accept`` or ``release``."""
        if self._reader is None or turn.tool_calls or turn.finish not in _GOOD_ENDS:
            return None
        reply = self._reader.finish()
        if not reply.calls:
            return None
        from agent.protocols._ends import without_strays

        bare = without_strays(reply.content)
        text = turn.assistant_text.rstrip().removesuffix(reply.content[len(bare) :].strip()).rstrip()
        return replace(reply, content=bare) if self._ends_with_call(text, replace(reply, content=bare)) else None

    def _ends_with_call(self, text: str, reply: ParsedReply) -> bool:
        """Return whether the text ends with the calls.

        If some are unreadable, return instead whether they name a tool or contain no word of prose, or whether the text ends
        with the closing tag of an argument or a call.
        """
        faulty = [call for call in reply.calls if call.fault is not None]
        if not faulty:
            last = reply.content.rstrip().rpartition("\n")[2]
            return not last or not text.endswith(last)
        raw = " ".join(f"{call.name} {call.args.get(UNREADABLE, '')}" for call in faulty)
        names = [str((tool.get("function") or tool).get("name")) for tool in self._tools]
        return not _WORD.search(raw.strip()) or any(name in raw for name in names) or _CALL_END.search(text) is not None

    def accept(self, reply: ParsedReply) -> None:
        """Show the rest of the text before the calls, and the calls."""
        if rest := reply.content[self._shown :]:
            self._on_event(StreamEvent("assistant_delta", rest))
        for event in reply.events:
            if event.kind == "tool_call_delta":
                self._on_event(event)

    def release(self) -> None:
        """Show the text that was held back, as an answer."""
        rest, self._unread = self._unread[self._ahead :], ""
        self._ahead = 0
        self._emit(rest)


def advise(server: str, model: str, *, read: bool) -> None:
    """Log that a model wrote a call as text, and how to avoid that."""
    how = "toolcrib read it" if read else "toolcrib could not read it and reported that to the model"
    text = "%s wrote a tool call as text, which %s did not recognize; %s. If that happens often, use --provider text"
    _log.warning(text, model, server, how)


def reported(call: ToolCall) -> ToolCall:
    """Return the call. If it is unreadable, its fault also asks for the API's own tool calls."""
    return call if call.fault is None else replace(call, fault=f"{NOT_TEXT}. {call.fault}")
