"""A reader of replies as they come: it tells text, thinking and calls apart. One pass, the same at any cut (X-10)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from agent.protocols import _bare, _fences
from agent.protocols._fences import ProtocolFence
from agent.protocols._left import lost_calls
from agent.protocols._made import CUT_OFF, Definitions, faulty
from agent.protocols._marks import SpokenMarks, marks_of
from agent.protocols._open import open_calls, without_end
from agent.protocols._reply import ReplyBuilder
from agent.protocols._scan import Cut, JsonScanner, Scanner, Tokens, tokens_of
from agent.protocols._start import Beginning, Pending
from toolcrib import StreamEvent
from toolcrib._session import ParsedReply, TextReader, Thinking

_CHAINED_YET = re.compile(r"[\s,;]{0,20}(?:[A-Za-z_][\w.:/-]{0,100}\s{0,20}(?:\[[^{\n]{0,60})?\{?)?")
_SLICE = 4096
"""A longer piece is read in such slices: what is still to be read is moved with every call."""

_HALF_TAG = 3
"""Length from which the beginning of a tag at the very end counts as a tag that was cut off."""


class StreamReader:
    """``bare``: calls may also stand there without any tag, as the beginning of the reply.

    ``one_variant``: see ReplyBuilder. ``whole`` makes the reader that takes over where the reply turns out to be the JSON
    protocol's. ``fault_code`` is the reply's error where a call can't be read. ``nested``: the text is a part of a reply.
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
        nested: bool = False,
    ) -> None:
        self._known, self._fault_code, self._nested = known, fault_code, nested
        self._whole, self._bare = whole, bare
        self._other: TextReader | None = None
        self._marks = marks_of(fences, stray=thinking in ("maybe", "unlikely"))
        self._beginning = Beginning(
            known, self._marks.tokens, self._marks.fences, bare=bare, protocol=whole is not None, nested=nested
        )
        self._buffer = ""
        self._reply = ReplyBuilder(thinking, one_variant=one_variant)
        self._truncated = False
        self._addressed = self._headed = self._alone = False
        self._spoken = SpokenMarks(self._marks)
        self._pending: list[Pending] = []
        self._lead = ""  # blanks that the block began with
        self._fence: ProtocolFence | None = None
        self._scanner: Scanner | None = None
        self._step: Callable[[bool], bool] = self._in_text
        self._header_mark = ""
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
                return [*self._reply.flush(), *other.feed(text[at:])]
            self._buffer += text[at : at + _SLICE]
            while self._step(False):
                pass
        return self._reply.flush()

    def finish(self, *, truncated: bool = False) -> ParsedReply:
        self._truncated = truncated
        while self._handed_over() is None and self._step(True):
            pass
        reply = self._reply
        reply.settle()
        reasoning = reply.reasoning
        if (other := self._handed_over()) is not None:
            whole = other.finish(truncated=truncated)
            events = (*reply.flush(final=True), *whole.events)
            return replace(whole, reasoning=(reasoning + whole.reasoning).strip(), events=events)
        content = reply.content
        if not (self._nested or truncated or self._headed):
            nothing = reply.blank and not (reply.calls or reply.faults)
            thinking = reasoning if self._step == self._in_thinking or nothing else ""
            found = reply.doubtful or lost_calls(content, thinking, self._beginning, self._inner, reply.lost)
            reply.add(0, found)
            if not reply.calls and reply.blank:
                reply.add(0, [faulty("", reasoning, fault) for fault in reply.faults])
        calls = reply.ranked()
        faults = [*reply.faults, *(call.fault for call in calls if call.fault is not None)]
        error = self._fault_code if any(call.fault is not None for call in calls) else ""
        shown, following = reply.flush(final=True), "maybe" if truncated else reply.next_thinking
        return ParsedReply(content, reasoning.strip(), calls, faults, shown, error, next_thinking=following)

    def _handed_over(self) -> TextReader | None:
        return self._other

    def _inner(self) -> StreamReader:
        """Return a reader for a part of the reply that stands in a code block."""
        fences = tuple(self._marks.fences.values())
        return StreamReader(fences, self._known, thinking="closed", bare=True, nested=True)

    # -- text ----------------------------------------------------------------------------------------------------

    def _in_text(self, final: bool) -> bool:
        reply = self._reply
        if reply.blank and not self._addressed and (more := self._begin(final)) is not None:
            return more
        tokens = self._marks.addressed if self._addressed else self._marks.tokens
        buffer, at = self._buffer, 0
        while match := tokens.pattern.search(buffer, at):
            reply.show(buffer[at : match.start()])
            at = match.end()
            stands = self._spoken.stands(match[0], reply.code, buffer[at:], blank=reply.blank, final=final)
            if stands is None:
                self._buffer = buffer[match.start() :]
                return False
            if stands:
                self._buffer = buffer[at:]
                self._open(match[0])
                return True
            reply.show(match[0])
        rest = buffer[at:]
        held = tokens.held(rest)
        if final and (held < _HALF_TAG or rest[-held] not in "<][" or reply.code.spoken):
            held = 0
        reply.show(rest[: len(rest) - held])
        self._buffer = "" if final else rest[len(rest) - held :]
        return False

    def _begin(self, final: bool) -> bool | None:
        """Return None where the text goes on as text, else whether there is more to do."""
        lead = self._buffer.lstrip()
        self._reply.show(self._buffer[: len(self._buffer) - len(lead)])  # nothing is shown of it: the text has not begun
        self._buffer = lead
        found = self._beginning.look(lead, called=self._reply.called, final=final)
        if found is None or found == "wait":
            return None if found is None else False
        if found == "protocol" and self._whole is not None:
            self._other = self._whole()
            self._reply.more(self._other.feed(lead))
            self._buffer = ""
            return False
        if found == "header":
            self._header_mark, self._step = "", self._in_header
            return True
        assert isinstance(found, ProtocolFence)  # noqa: S101 - the rest of what look() returns
        self._enter(found, lead)
        return True

    def _enter(self, fence: ProtocolFence, lead: str) -> None:
        """Begin a block that has no tags; one with an opening is a call only if nothing else follows."""
        self._fence, self._buffer = fence, lead[self._beginning.skipped :]
        self._scanner = fence.scanner(self._buffer)
        self._step = self._in_pending if fence.opener else self._in_block

    def _open(self, mark: str) -> None:
        self._alone = self._reply.code.begins_line
        if mark in self._marks.fences and not self._addressed:
            self._fence, self._scanner, self._step = self._marks.fences[mark], None, self._in_block
        elif mark in self._marks.thinking:
            skip = (_fences.THOUGHT_LABEL,) if mark == "<|channel>" else ()
            self._think((self._marks.thinking[mark],), skip=skip)
        elif mark in self._marks.stray:
            self._reply.end_thinking()
            self._beginning.bare = self._bare
        elif mark in _fences.HEADERS:
            self._header_mark, self._step = mark, self._in_header
        elif mark in _fences.TURN_ENDS:
            self._addressed = self._addressed and mark not in _fences.BODY_ENDS
            self._reply.code.interrupt()
        elif mark in _fences.CALL_ENDS:
            self._reply.end_call(mark)
        elif mark in _fences.OTHER_TURNS:
            self._step = self._after_turn

    def _after_turn(self, final: bool) -> bool:
        """Leave out what the model makes up after its turn, as if others had written it."""
        self._buffer = ""
        return False

    # -- thinking ------------------------------------------------------------------------------------------------

    def _think(self, until: tuple[str, ...], *, peek: tuple[str, ...] = (), skip: tuple[str, ...] = ()) -> None:
        self._until, self._peek, self._skip = tokens_of((*until, *peek)), peek, skip
        self._reply.think()
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
            self._reply.muse(buffer[: len(buffer) - held])
            rest = buffer[len(buffer) - held :]
            if final and held < _HALF_TAG:
                self._reply.muse(rest)
            self._buffer = "" if final else rest
            return False
        self._reply.muse(buffer[: match.start()])
        self._buffer = buffer[match.start() if match[0] in self._peek else match.end() :]
        self._step = self._in_text
        return True

    def _in_header(self, final: bool) -> bool:
        """Harmony: ``<|channel|>analysis to=functions.name <|constrain|>json<|message|>``. The recipient decides what follows."""
        at, whole = _bare.header_end(self._buffer, marked=bool(self._header_mark)) or (-1, False)
        if at < 0 and not final:
            return False
        at = len(self._buffer) if at < 0 else at
        text, self._buffer = self._buffer[:at], self._buffer[at:]
        if not whole:
            return self._half_header(text)
        self._buffer = self._buffer[len(_fences.HEADER_END) :]
        channel, recipient = _bare.header(text)
        self._headed, self._addressed = True, False
        if tool := _bare.tool_of(recipient):
            self._fence = ProtocolFence("", _fences.BODY_ENDS, read=_bare.arguments_of(tool))
            self._scanner = JsonScanner(_fences.BODY_ENDS, peek=_fences.HEADERS)
            self._step = self._in_block
        elif recipient == "self" or (channel == "analysis" and recipient in ("", "assistant")):
            self._think(_fences.BODY_ENDS, peek=_fences.HEADERS)
        else:
            self._addressed = bool(recipient) or channel in ("final", "commentary")
            self._step = self._in_text
        return True

    def _half_header(self, text: str) -> bool:
        tool = _bare.tool_of(_bare.header(text)[1]) if self._header_mark or "<|" in text else ""
        if tool:
            self._reply.add(0, [faulty(tool, self._header_mark + text, CUT_OFF)])
        elif self._buffer or not self._header_mark:
            self._reply.show(text)
        self._step = self._in_text
        return bool(self._buffer)

    # -- calls ---------------------------------------------------------------------------------------------------

    def _cut(self, final: bool) -> Cut | None:
        assert self._scanner is not None  # noqa: S101 - set by whoever made this the step
        text, self._buffer = self._buffer, ""
        cut = self._scanner.feed(text, final=final)
        if cut is not None:
            self._buffer, self._step = cut.rest, self._in_text
        return cut

    def _in_block(self, final: bool) -> bool:
        fence = self._fence
        assert fence is not None  # noqa: S101 - set by whoever made this the step
        if self._scanner is None:
            if not fence.keep:
                start = self._buffer.lstrip()
                self._lead += self._buffer[: len(self._buffer) - len(start)]
                self._buffer = start
            head = (fence.keep + self._buffer).lstrip()
            if len(head) < fence.decides and not final:
                return False
            self._scanner = fence.scanner(head[: fence.decides])
            self._buffer = fence.keep + self._buffer
        cut = self._cut(final)
        if cut is None:
            return False
        if fence.opener == "" and fence.scan == "value":
            self._take_bare(cut, fence)
        else:
            self._take(cut, fence)
        self._lead = ""
        self._reply.code.interrupt()
        if fence.chained is not None and cut.closed:
            self._step = self._in_chain
        else:
            self._fence = None
        self._scanner = None
        return True

    def _in_chain(self, final: bool) -> bool:
        """Look for another call behind one: Mistral's models leave the token before it out."""
        assert self._fence is not None  # noqa: S101 - the fence of the call before
        assert self._fence.chained is not None  # noqa: S101 - only such a fence comes here
        match = self._fence.chained.match(self._buffer)
        if match is None and not final and _CHAINED_YET.fullmatch(self._buffer):
            return False
        if match is not None:
            self._buffer = self._buffer[match.end() :]
        self._step = self._in_text if match is None else self._in_block
        return True

    def _take(self, cut: Cut, fence: ProtocolFence) -> None:
        body = cut.body
        calls = fence.read(body + fence.tail if cut.closed else body, self._known) if cut.closed or fence.soft else []
        lost = bool(calls) and all(call.fault is not None for call in calls)
        if _fences.is_prose(body, fence, self._known):
            self._reply.show(body + cut.mark)
        elif (lost and cut.closed and _bare.is_pattern(body)) or (fence.soft and not _bare.meant(calls, self._known)):
            end = fence.closers[0] if cut.closed and fence.closers else ""
            self._reply.show(fence.opener.removesuffix(fence.keep) + body + end)
        elif not cut.closed:
            text = _bare.without_turn_ends(body[: len(body) - tokens_of(fence.closers).held(body)])
            calls, self._buffer = open_calls(text, cut, fence, self._scanner, self._known, truncated=self._truncated)
            self._reply.add(fence.rank, calls)
        elif body.strip() or not fence.opener or not cut.rest.startswith(fence.opener):  # models write an opening twice
            sure = not fence.opener or fence.where == "line"
            raw = "" if sure else fence.opener.removesuffix(fence.keep) + self._lead + body + cut.mark
            self._reply.add(fence.rank, calls, raw, "anything" if fence.loose and self._alone else "lines")

    def _take_bare(self, cut: Cut, fence: ProtocolFence) -> None:
        listed = None if cut.closed else without_end(cut.body, self._scanner, truncated=self._truncated)
        body, closed = (cut.body, cut.closed) if listed is None else (listed, True)
        calls = _bare.calls_of(body, self._known, closed=closed)
        if calls and closed and _bare.is_data(body, calls):
            self._reply.show(body)
            self._reply.doubtful += calls
        elif calls:
            self._reply.add(fence.rank, calls, body if closed else "", _bare.may_follow(body))
        else:
            self._beginning.bare = False
            self._reply.show(body)

    # -- calls that only the rest of the reply makes calls -------------------------------------------------------

    def _in_pending(self, final: bool) -> bool:
        fence = self._fence
        assert fence is not None  # noqa: S101 - set by whoever made this the step
        if (cut := self._cut(final)) is None:
            return False
        end = fence.closers[0] if cut.closed and fence.closers else ""
        self._pending.append(Pending(fence, cut.body, fence.opener + cut.body + end, closed=cut.closed))
        self._scanner, self._step = None, self._after_pending
        return True

    def _after_pending(self, final: bool) -> bool:
        """A code block, or a name and its arguments, is a call where nothing but more of them follows."""
        lead = self._buffer.lstrip()
        tokens = self._marks.tokens
        match = tokens.pattern.match(lead)
        if match is not None and match[0] in _fences.TURN_ENDS:
            self._buffer = lead[match.end() :]
            return True
        if not final and (not lead or tokens.held(lead) == len(lead)):
            return False
        found = self._beginning.look_on(lead, self._pending[-1], final=final) if lead else None
        if found == "wait":
            return False
        if isinstance(found, ProtocolFence):
            gap = self._buffer[: len(self._buffer) - len(lead)]
            self._pending[-1] = replace(self._pending[-1], raw=self._pending[-1].raw + gap)
            self._enter(found, lead)
            return True
        self._settle(as_calls=not lead and not self._truncated)
        return True

    def _settle(self, *, as_calls: bool) -> None:
        pending, self._pending, self._step = self._pending, [], self._in_text
        calls = [one.calls(self._known, self._inner) for one in pending] if as_calls else []
        if calls and all(calls) and all(call.fault is None for some in calls for call in some):
            for some in calls:
                self._reply.add(0, some)
            return
        self._beginning.bare = False
        for one in pending:
            self._reply.show(one.raw)
