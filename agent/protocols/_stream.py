"""Reads streamed replies and separates text, thinking and calls. One pass, with the same result at any cut (X-10)."""

from __future__ import annotations

import re
from collections.abc import Callable

from agent.protocols import _bare, _fences
from agent.protocols._blocks import CutBlock, without_end
from agent.protocols._fences import Follows, ProtocolFence
from agent.protocols._left import lost_calls
from agent.protocols._made import CUT_OFF, Definitions, faulty
from agent.protocols._marks import SpokenMarks, marks_of
from agent.protocols._reply import ReplyBuilder
from agent.protocols._scan import Cut, JsonScanner, Scanner
from agent.protocols._start import Beginning, Pending
from agent.protocols._thoughts import HALF_TAG, Thoughts
from toolcrib.contract.dataclass import replace
from toolcrib.contract.session import ParsedReply, StreamEvent, TextReader, Thinking

_CHAINED_YET = re.compile(r"[\s,;]{0,20}(?:[A-Za-z_][\w.:/-]{0,100}\s{0,20}(?:\[[^{\n]{0,60})?\{?)?")
_SLICE = 4096
"""A longer piece is read in slices of this size: the unread rest is moved with every call."""


class StreamReader:
    """Reader of one reply. ``bare``: a reply may also begin with calls without tags.

    ``one_variant``: see ReplyBuilder. ``whole`` makes the reader that takes over if the reply is the JSON protocol's.
    ``fault_code`` is the reply's error if a call can't be read. ``nested``: the text is a part of a reply. ``harmony``: the
    model may write harmony's messages on any line, not only as its whole reply.
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
        harmony: bool = False,
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
        self._addressed = self._headed = self._in_sentence = self._in_parts = False
        self._answers, self._answered = False, 0  # in an answer that is the text so far; its end
        self._spoken = SpokenMarks(self._marks, harmony=harmony)
        self._pending: list[Pending] = []
        self._lead = ""  # blanks that the block began with
        self._fence: ProtocolFence | None = None
        self._scanner: Scanner | None = None
        self._step: Callable[[bool], bool] = self._in_text
        self._header_mark = ""
        self._thoughts: Thoughts | None = None
        if thinking == "open":
            self._think(tuple(self._marks.thinking.values()), skip=tuple(self._marks.thinking))

    # -- the interface -------------------------------------------------------------------------------------------

    def feed(self, text: str) -> list[StreamEvent]:
        """Return the events that can be shown by now."""
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
        reply.close()
        reasoning = reply.reasoning
        if (other := self._handed_over()) is not None:
            whole = other.finish(truncated=truncated)
            events = (*reply.flush(final=True), *whole.events)
            return replace(whole, reasoning=(reasoning + whole.reasoning).strip(), events=events)
        content = reply.content
        if not (self._nested or truncated):
            nothing = reply.blank and not (reply.calls or reply.faults)
            thinking = reasoning if self._step == self._in_thinking or nothing else ""
            found = reply.doubtful
            if not (found or self._headed):
                found = lost_calls(content[self._answered :], thinking, self._beginning, self._inner, reply.lost)
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
        """Return a reader for a part of the reply in a code block."""
        fences = tuple(self._marks.fences.values())
        return StreamReader(fences, self._known, thinking="closed", bare=True, nested=True)

    # -- text ----------------------------------------------------------------------------------------------------

    def _in_text(self, final: bool) -> bool:
        reply = self._reply
        if reply.blank and not self._addressed and (more := self._begin(final)) is not None:
            return more
        tokens = self._marks.addressed if self._addressed else self._marks.parts if self._in_parts else self._marks.tokens
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
        if final and not (held >= HALF_TAG and self._is_cut_off(rest[-held:])):
            held = 0
        reply.show(rest[: len(rest) - held])
        self._buffer = "" if final else rest[len(rest) - held :]
        return False

    def _is_cut_off(self, mark: str) -> bool:
        """Return whether a partial mark at the end of the reply is a cut-off tag, not text."""
        whole = mark.endswith("|>") and mark.count("<") == 1
        return mark[0] in "<][" and (self._truncated or whole) and not self._reply.code.spoken

    def _begin(self, final: bool) -> bool | None:
        """Return None if ordinary text follows, else whether there is more to do."""
        lead = self._buffer.lstrip()
        self._reply.show(self._buffer[: len(self._buffer) - len(lead)])  # shows nothing: the text has not begun
        self._buffer = lead
        found = self._beginning.recognize(lead, called=self._reply.called, final=final)
        if found is None or found == "wait":
            return None if found is None else False
        if found == "protocol" and self._whole is not None:
            self._other = self._whole()
            self._reply.more(self._other.feed(lead))
            self._buffer = ""
            return False
        if found == "text":
            self._buffer, self._in_parts = lead[self._beginning.skipped :], True
            return True
        if found == "header":
            self._header_mark, self._step = "", self._in_header
            return True
        assert isinstance(found, ProtocolFence)  # noqa: S101 - recognize() returns nothing else
        self._enter(found, lead)
        return True

    def _enter(self, fence: ProtocolFence, lead: str) -> None:
        """Begin a block without tags; one with an opening is a call only if nothing else follows."""
        self._fence, self._buffer = fence, lead[self._beginning.skipped :]
        self._scanner = fence.scanner(self._buffer)
        self._step = self._in_pending if fence.opener else self._in_block

    def _in_part(self, final: bool) -> bool:
        """Read functionary's part of a reply, behind text: it is for a tool, or text again."""
        lead = f"{_fences.PART}{self._buffer}"
        found = self._beginning.part(lead, final=final)
        if found == "wait":
            return False
        self._step = self._in_text
        if isinstance(found, ProtocolFence):
            self._enter(found, lead)
        elif found == "text":
            self._buffer = lead[self._beginning.skipped :]
        else:
            self._reply.show(_fences.PART)
        return True

    def _open(self, mark: str) -> None:
        self._in_sentence = self._reply.code.in_sentence
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
        elif mark == _fences.PART:
            self._step = self._in_part
        elif mark in _fences.ANSWERS:
            self._addressed, self._answers = True, self._reply.blank
        elif mark in _fences.ANSWERS.values():
            self._answered = len(self._reply.content) if self._answers else 0
            self._addressed = self._answers = False
        elif mark in _fences.TURN_ENDS:
            self._addressed = self._addressed and mark not in _fences.BODY_ENDS
            self._reply.code.interrupt()
        elif mark in _fences.CALL_ENDS:
            self._reply.end_call(mark)
        elif mark in _fences.OTHER_TURNS:
            self._step = self._after_turn

    def _after_turn(self, final: bool) -> bool:
        """Drop text that the model makes up for others after its turn."""
        self._buffer = ""
        return False

    # -- thinking ------------------------------------------------------------------------------------------------

    def _think(self, until: tuple[str, ...], *, peek: tuple[str, ...] = (), skip: tuple[str, ...] = ()) -> None:
        self._thoughts = Thoughts(self._spoken, until, peek=peek, skip=skip)
        self._reply.think()
        self._step = self._in_thinking

    def _in_thinking(self, final: bool) -> bool:
        assert self._thoughts is not None  # noqa: S101 - set together with this step
        self._buffer, ended = self._thoughts.read(self._buffer, self._reply, final=final)
        if ended:
            self._step = self._in_text
        return ended

    def _in_header(self, final: bool) -> bool:
        """Read harmony's header ``<|channel|>analysis to=functions.name <|constrain|>json<|message|>``, up to the body."""
        at, whole = _bare.header_end(self._buffer, marked=bool(self._header_mark)) or (-1, False)
        if at < 0 and not final:
            return False
        at = len(self._buffer) if at < 0 else at
        text, self._buffer = self._buffer[:at], self._buffer[at:]
        if not whole:
            return self._half_header(text)
        self._buffer = self._buffer[len(_fences.HEADER_END) :]
        channel, recipient = _bare.header(text)
        self._addressed = False
        self._reply.add_waiting_calls()
        if tool := _bare.tool_of(recipient):
            opener = f"{self._header_mark}{text}{_fences.HEADER_END}"
            follows: Follows = "lines" if self._spoken.harmony else "nothing"
            self._fence = ProtocolFence(opener, _fences.BODY_ENDS, read=_bare.arguments_of(tool), follows=follows)
            self._scanner = JsonScanner(_fences.BODY_ENDS, peek=_fences.HEADERS)
            self._step = self._in_block
        elif recipient == "self" or (channel == "analysis" and recipient in ("", "assistant")):
            self._think(_fences.BODY_ENDS, peek=_fences.HEADERS)
        else:
            self._addressed = bool(recipient) or channel in ("final", "commentary")
            self._step = self._in_text
        self._headed = self._spoken.harmony = True
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
        assert self._scanner is not None  # noqa: S101 - set together with this step
        text, self._buffer = self._buffer, ""
        cut = self._scanner.feed(text, final=final)
        if cut is not None:
            self._buffer, self._step = cut.rest, self._in_text
        return cut

    def _in_block(self, final: bool) -> bool:
        fence = self._fence
        assert fence is not None  # noqa: S101 - set together with this step
        if self._scanner is None:
            if not fence.keep:
                start = self._buffer.lstrip()
                self._lead += self._buffer[: len(self._buffer) - len(start)]
                self._buffer = start
            head = (fence.keep + self._buffer).lstrip()
            if not (final or fence.decided(head)):
                return False
            self._scanner = fence.scanner(head[: fence.decides])
            self._buffer = fence.keep + self._buffer
        cut = self._cut(final)
        if cut is None:
            return False
        if fence.opener == "":
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
        """Find another call right behind one: Mistral's models omit the token before it."""
        assert self._fence is not None  # noqa: S101 - the previous call's fence
        assert self._fence.chained is not None  # noqa: S101 - only a chained fence gets here
        match = self._fence.chained.match(self._buffer)
        if match is None and not final and _CHAINED_YET.fullmatch(self._buffer):
            return False
        if match is not None:
            self._buffer = self._buffer[match.end() :]
        self._step = self._in_text if match is None else self._in_block
        return True

    def _take(self, cut: Cut, fence: ProtocolFence) -> None:
        block = CutBlock(fence, cut, self._lead, self._scanner, in_sentence=self._in_sentence, truncated=self._truncated)
        taken = block.take(self._known)
        self._reply.show(taken.shown)
        self._buffer = taken.rest + self._buffer
        if taken.calls:
            self._reply.add(fence.rank, taken.calls, taken.raw, fence.follows, tagged=taken.tagged)

    def _take_bare(self, cut: Cut, fence: ProtocolFence) -> None:
        listed = None if cut.closed else without_end(cut.body, self._scanner, truncated=self._truncated)
        body, closed = (cut.body, cut.closed) if listed is None else (listed, True)
        calls = _bare.calls_of(body, self._known, closed=closed)
        if calls and closed and _bare.is_shown(body, calls):
            self._reply.show(body)
            self._reply.doubtful += calls
        elif calls:
            self._reply.add(fence.rank, calls, body if closed else "", _bare.may_follow(body))
        else:
            self._beginning.bare = False
            self._reply.show(body)

    # -- calls that depend on the rest of the reply --------------------------------------------------------------

    def _in_pending(self, final: bool) -> bool:
        fence = self._fence
        assert fence is not None  # noqa: S101 - set together with this step
        if (cut := self._cut(final)) is None:
            return False
        end = fence.closers[0] if cut.closed and fence.closers else ""
        self._pending.append(Pending(fence, cut.body, fence.opener + cut.body + end, closed=cut.closed))
        self._scanner, self._step = None, self._after_pending
        return True

    def _after_pending(self, final: bool) -> bool:
        """Accept a code block, or a name with arguments, as a call if only more of them follow."""
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
        self._reply.doubtful += [call for some in calls for call in some if call.fault is not None and call.name in self._known]
