"""A reader of replies as they come: it tells text, thinking and calls apart. One pass, the same at any cut (X-10)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from io import StringIO

from agent.protocols import _bare, _fences
from agent.protocols._fences import DECIDES, ProtocolFence
from agent.protocols._made import CUT_OFF, Definitions, faulty
from agent.protocols._scan import Cut, JsonScanner, Scanner, Tokens, tokens_of
from toolcrib import StreamEvent, ToolCall
from toolcrib._session import ParsedReply, TextReader, Thinking

_HEADER_LIMIT = 400
_WHOLE_ENDS = ("</function>", "</invoke>", "</\uff5cDSML\uff5cinvoke>", "</atem:invoke>", "<\uff5ctool_call_end\uff5c>")
_SLICE = 4096
"""A longer piece is read in such slices: what is still to be read is moved with every call."""

_HALF_TAG = 3
"""Length from which the beginning of a tag at the very end counts as a tag that was cut off."""


class _Marks:
    """Marks that a reader looks for in text."""

    def __init__(self, fences: tuple[ProtocolFence, ...], *, stray: bool) -> None:
        self.fences = {fence.opener: fence for fence in fences}
        self.thinking = dict(_fences.THINKING)
        self.stray = frozenset(self.thinking.values()) - {"<channel|>"} if stray else frozenset()
        more = (*_fences.HEADERS, _fences.TO_USER, _fences.TO_SELF, *_fences.DROPPED)
        self.tokens = Tokens((*self.fences, *self.thinking, *self.stray, *more))


@lru_cache(maxsize=64)
def _marks_of(fences: tuple[ProtocolFence, ...], *, stray: bool) -> _Marks:
    return _Marks(fences, stray=stray)


class StreamReader:
    """``bare``: calls may also stand there without any tag, as the beginning of the reply.

    ``one_variant``: of calls in tags of several ranks, those of the lowest count (000-21). ``whole`` makes the reader that takes
    over where the reply turns out to be the JSON protocol's. ``fault_code`` is the reply's error where a call can't be read.
    """

    def __init__(
        self,
        fences: tuple[ProtocolFence, ...],
        known: Definitions,
        *,
        thinking: Thinking = "maybe",
        bare: bool = False,
        one_variant: bool = False,
        whole: Callable[[], TextReader] | None = None,
        fault_code: str = "",
    ) -> None:
        self._known, self._fault_code = known, fault_code
        self._whole, self._one_variant = whole, one_variant
        self._other: TextReader | None = None
        self._bare = bare
        self._marks = _marks_of(fences, stray=thinking == "maybe")
        self._buffer = ""
        self._events: list[StreamEvent] = []
        self._content = StringIO()
        self._reasoning = StringIO()
        self._calls: list[tuple[int, ToolCall]] = []
        self._faults: list[str] = []
        self._spaces: list[str] = []  # blanks that are shown once text follows
        self._blank = True  # no text yet
        self._last = "\n"  # the character before the buffer
        self._truncated = False
        self._thought = False
        self._fence: ProtocolFence | None = None
        self._scanner: Scanner | None = None
        self._step: Callable[[bool], bool] = self._in_text
        self._skip: tuple[str, ...] = ()
        self._until: Tokens = tokens_of(())
        self._peek: tuple[str, ...] = ()
        if thinking == "open":
            self._think(tuple(self._marks.thinking.values()), skip=tuple(self._marks.thinking))

    # -- the interface -------------------------------------------------------------------------------------------

    def feed(self, text: str) -> list[StreamEvent]:
        """Return what can be shown by now."""
        for at in range(0, len(text), _SLICE):
            if (other := self._handed_over()) is not None:
                return [*self._flush(), *other.feed(text[at:])]
            self._buffer += text[at : at + _SLICE]
            while self._step(False):
                pass
        return self._flush()

    def finish(self, *, truncated: bool = False) -> ParsedReply:
        self._truncated = truncated
        while self._handed_over() is None and self._step(True):
            pass
        reasoning = self._reasoning.getvalue()
        if (other := self._handed_over()) is not None:
            reply = other.finish(truncated=truncated)
            events = (*self._flush(), *reply.events)
            return replace(reply, reasoning=(reasoning + reply.reasoning).strip(), events=events)
        calls = self._ranked()
        faults = [*self._faults, *(call.fault for call in calls if call.fault is not None)]
        error = self._fault_code if any(call.fault is not None for call in calls) else ""
        return ParsedReply(self._content.getvalue(), reasoning.strip(), calls, faults, self._flush(), error)

    def _handed_over(self) -> TextReader | None:
        return self._other

    def _flush(self) -> list[StreamEvent]:
        events, self._events = self._events, []
        return events

    def _ranked(self) -> list[ToolCall]:
        """The calls; where there are variants of the tags, those of the first that gave one (000-21)."""
        ranks = {rank for rank, call in self._calls if call.fault is None}
        if len(ranks) < 2 or not self._one_variant:
            return [call for _, call in self._calls]
        best = min(ranks)
        for rank, call in self._calls:
            if call.fault is None and rank != best:
                self._faults.append(f"the call of {call.name} is written in other tags than the rest, so it was not run")
        return [call for rank, call in self._calls if call.fault is not None or rank == best]

    # -- text ----------------------------------------------------------------------------------------------------

    def _in_text(self, final: bool) -> bool:
        if self._bare and self._blank and (wait := self._bare_start(final)) is not None:
            return wait
        buffer, at = self._buffer, 0
        while match := self._marks.tokens.pattern.search(buffer, at):
            mark, start, end = match[0], match.start(), match.end()
            if self._stands(mark, buffer, start):
                self._show(buffer[:start])
                self._buffer = buffer[end:]
                self._last = ""
                self._open(mark)
                return True
            at = end
        held = self._marks.tokens.held(buffer[at:])
        if final and (held < _HALF_TAG or buffer[-held] not in "<]["):
            held = 0
        self._show(buffer[: len(buffer) - held])
        self._buffer = "" if final else buffer[len(buffer) - held :]
        return False

    def _stands(self, mark: str, buffer: str, start: int) -> bool:
        """Return whether a mark counts at its position; one in a code span is only spoken of."""
        before = buffer[start - 1] if start else self._last
        fence = self._marks.fences.get(mark)
        where = fence.where if fence else ("start" if mark in (_fences.TO_USER, _fences.TO_SELF) else "")
        if where == "start":
            return self._blank and not buffer[:start].strip()
        if where == "line":
            return before in ("\n", "")
        return before != "`"

    def _open(self, mark: str) -> None:
        if mark in self._marks.fences:
            self._fence, self._scanner, self._step = self._marks.fences[mark], None, self._in_block
        elif mark in self._marks.thinking:
            skip = (_fences.THOUGHT_LABEL,) if mark == "<|channel>" else ()
            self._think((self._marks.thinking[mark],), skip=skip)
        elif mark in self._marks.stray:
            self._was_thinking()
        elif mark in _fences.HEADERS:
            self._step = self._in_header
        elif mark == _fences.TO_SELF:
            self._think(_fences.BODY_ENDS, peek=_fences.HEADERS)

    def _was_thinking(self) -> None:
        """An end of thinking without its beginning: the prompt had opened it, and nothing in it is to be run (000-19)."""
        if self._thought:
            return
        self._thought = True
        self._reasoning = self._content
        self._faults += [
            f"the call of {call.name or 'a tool'} stands in the thinking, so it was not run" for _, call in self._calls
        ]
        self._content, self._calls, self._spaces, self._blank = StringIO(), [], [], True

    def _show(self, text: str) -> None:
        if not text:
            return
        self._last = text[-1]
        if self._blank:
            text = text.lstrip()
        bare = text.rstrip()
        if not bare:
            if text:
                self._spaces.append(text)
            return
        shown = "".join(self._spaces) + bare
        self._blank, self._spaces = False, [text[len(bare) :]]
        self._content.write(shown)
        self._events.append(StreamEvent("assistant_delta", shown))

    # -- thinking ------------------------------------------------------------------------------------------------

    def _think(self, until: tuple[str, ...], *, peek: tuple[str, ...] = (), skip: tuple[str, ...] = ()) -> None:
        self._until, self._peek, self._skip = tokens_of((*until, *peek)), peek, skip
        self._thought = True
        self._step = self._in_thinking

    def _in_thinking(self, final: bool) -> bool:
        if self._skip:
            start = self._buffer = self._buffer.lstrip()
            found = next((one for one in self._skip if start.startswith(one)), None)
            if found is not None:
                self._buffer = start[len(found) :]
            elif not final and any(one.startswith(start) for one in self._skip):
                return False
            self._skip = ()
        buffer = self._buffer
        match = self._until.pattern.search(buffer)
        if match is None:
            held = self._until.held(buffer)
            self._muse(buffer[: len(buffer) - held])
            rest = buffer[len(buffer) - held :]
            if final and held < _HALF_TAG:
                self._muse(rest)
            self._buffer = "" if final else rest
            return False
        self._muse(buffer[: match.start()])
        self._buffer = buffer[match.start() if match[0] in self._peek else match.end() :]
        self._step = self._in_text
        return True

    def _muse(self, text: str) -> None:
        if text:
            self._reasoning.write(text)
            self._events.append(StreamEvent("thinking_delta", text))

    def _in_header(self, final: bool) -> bool:
        """Harmony: ``<|channel|>analysis to=functions.name <|constrain|>json<|message|>``."""
        end = self._buffer.find(_fences.HEADER_END)
        if end < 0 and len(self._buffer) <= _HEADER_LIMIT:
            if final:
                self._buffer = ""
            return False
        if end < 0:
            self._step = self._in_text
            self._show(self._buffer[:_HEADER_LIMIT])
            self._buffer = self._buffer[_HEADER_LIMIT:]
            return True
        header, self._buffer = self._buffer[:end], self._buffer[end + len(_fences.HEADER_END) :]
        channel, tool, to_self = _bare.header(header)
        if tool:
            self._fence = ProtocolFence("", _fences.BODY_ENDS, read=_bare.arguments_of(tool))
            self._scanner = JsonScanner(_fences.BODY_ENDS, peek=_fences.HEADERS)
            self._step = self._in_block
        elif channel == "analysis" or to_self:
            self._think(_fences.BODY_ENDS, peek=_fences.HEADERS)
        else:
            self._step = self._in_text
        return True

    # -- calls ---------------------------------------------------------------------------------------------------

    def _in_block(self, final: bool) -> bool:
        fence = self._fence
        assert fence is not None  # noqa: S101 - set by whoever made this the step
        if self._scanner is None and not fence.keep:
            self._buffer = self._buffer.lstrip()
        text = self._buffer
        if self._scanner is None:
            head = (fence.keep + text).lstrip()
            if len(head) < DECIDES and not final:
                return False
            self._scanner = fence.scanner(head)
            text = fence.keep + text
        self._buffer = ""
        cut = self._scanner.feed(text, final=final)
        if cut is None:
            return False
        self._buffer, self._step, self._last = cut.rest, self._in_text, ""
        if fence.where == "line":
            self._last = "\n"
        if fence.opener == "" and fence.scan == "value":
            self._take_bare(cut, fence)
        else:
            self._take(cut, fence)
        self._fence = self._scanner = None
        return True

    def _take(self, cut: Cut, fence: ProtocolFence) -> None:
        body = cut.body
        if fence.soft and not _bare.reads_well(fence, body, self._known):
            end = fence.closers[0] if cut.closed and fence.closers else ""
            self._show(fence.opener.removesuffix(fence.keep) + body + end)
            return
        if not cut.closed:
            body = body[: len(body) - tokens_of(fence.closers).held(body)]
            if isinstance(self._scanner, JsonScanner) and self._scanner.open_list and not self._truncated:
                body = body.rstrip().rstrip(",") + "]"
            elif not self._is_whole(body, cut, fence):
                self._add(fence, [faulty(_bare.name_in(body), body, CUT_OFF)])
                return
        elif fence.tail:
            body += fence.tail
        self._add(fence, fence.read(body, self._known))

    def _is_whole(self, body: str, cut: Cut, fence: ProtocolFence) -> bool:
        """Return whether a block without its closing tag holds its calls completely: servers cut replies at such tags."""
        if fence.where == "line" and not self._truncated:
            return True
        return not self._truncated and (cut.complete or body.rstrip().endswith(_WHOLE_ENDS))

    def _add(self, fence: ProtocolFence, calls: Sequence[ToolCall]) -> None:
        for call in calls:
            self._calls.append((fence.rank, call))
            if call.fault is None:
                text = json.dumps(call.args, ensure_ascii=False)
                self._events.append(StreamEvent("tool_call_delta", text, call.id, call.name))

    # -- calls without tags --------------------------------------------------------------------------------------

    def _bare_start(self, final: bool) -> bool | None:
        """Return None where the text goes on as text, else whether there is more to do."""
        lead = self._buffer.lstrip()
        self._show(self._buffer[: len(self._buffer) - len(lead)])  # nothing is shown of it: the text has not begun
        self._buffer = lead
        start = lead.lstrip(" \t\r\n,;") if self._calls else lead
        if len(lead) - len(start) > _bare.DECIDES:
            self._bare = False
            return None
        if not start and not final:
            return False
        if start[:1] not in ("{", "["):
            if start and self._marks.tokens.held(start) != len(start) and not self._marks.tokens.pattern.match(start):
                self._bare = False
            return None
        if len(start) < _bare.DECIDES and not final:
            return False
        kind = _bare.kind_of(start[: _bare.DECIDES])
        if kind == "protocol" and self._whole is not None and not self._calls:
            self._other = self._whole()
            self._events += self._other.feed(start)
            self._buffer = ""
            return False
        if kind != "calls":
            self._bare = self._marks.tokens.pattern.match(start) is not None
            return None
        self._fence, self._buffer = ProtocolFence("", scan="value"), start
        self._scanner, self._step = self._fence.scanner(start), self._in_block
        return True

    def _take_bare(self, cut: Cut, fence: ProtocolFence) -> None:
        body = cut.body
        if not cut.closed and isinstance(self._scanner, JsonScanner) and self._scanner.open_list and not self._truncated:
            body = body.rstrip().rstrip(",") + "]"
            cut = cut._replace(closed=True)
        calls = _bare.calls_of(body, self._known, closed=cut.closed)
        if calls:
            self._add(fence, calls)
        else:
            self._bare = False
            self._show(body)
