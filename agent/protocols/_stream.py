"""Reads streamed replies in one pass: text, thinking and calls. How a reply is cut into pieces makes no difference (X-10)."""

from __future__ import annotations

import re
from collections.abc import Callable

from agent.protocols import _bare, _fences
from agent.protocols._block_steps import BlockReader
from agent.protocols._fences import Follows, ProtocolFence
from agent.protocols._left import calls_in_thinking, lost_at_end, lost_calls, lost_in_block
from agent.protocols._made import CUT_OFF, Definitions, cut_short, faulty
from agent.protocols._marks import SpokenMarks, marks_of
from agent.protocols._reply import ReplyBuilder
from agent.protocols._start import Beginning
from agent.protocols._thoughts import HALF_TAG, Thoughts
from toolcrib.contract.dataclass import replace
from toolcrib.contract.session import ParsedReply, StreamEvent, TextReader, Thinking
from toolcrib.contract.types import ToolCall

_CALL_YET = re.compile(r"<[|\uff5c]|<\W?[a-z]{3,}|\]<\]|\[TOO")
"""Beginnings of a partial mark that people do not end a sentence with."""
_CALL_MESSAGE = re.compile(r"[\w.:/-]{0,100}(?P<mark><\|content_invoke_tool_json\|>)")
_CALL_MESSAGE_YET = re.compile(r"[\w.:/-]{0,100}(?:<(?:\|[a-z_]{0,24}\|?)?)?")
_SLICE = 4096
"""A longer piece is read in slices of this size, because each mark in it makes a copy of the unread rest."""


class StreamReader(BlockReader):
    """Reader of one reply. ``bare``: a reply may also begin with calls without tags.

    ``one_variant``: see ReplyBuilder. ``whole`` makes the reader that takes over if the reply is the JSON protocol's.
    ``fault_code`` is the reply's error if a call can't be read. ``nested``: the text is a part of a reply. ``native``: the
    server reads calls and thinking, so only a call at the end of the reply counts, and all other text stays as it is.
    ``harmony``: the model may write harmony's messages on any line, not only as its whole reply.
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
        native: bool = False,
        harmony: bool = False,
    ) -> None:
        marks = marks_of(fences, stray=thinking in ("maybe", "unlikely"), native=native)
        beginning = Beginning(known, marks.tokens, marks.fences, bare=bare, protocol=whole is not None, nested=nested or native)
        super().__init__(known, marks, ReplyBuilder(thinking, one_variant=one_variant), beginning)
        self._fault_code, self._nested, self._native = fault_code, nested, native
        self._whole, self._bare = whole, bare
        self._other: TextReader | None = None
        self._addressed = self._headed = self._in_parts = False
        self._answers, self._answered = False, 0  # whether an answer began the text; the end of that answer
        self._spoken = SpokenMarks(self._marks, harmony=harmony)
        self._header_mark = ""
        self._thoughts: Thoughts | None = None
        if thinking == "open":
            ends = (*self._marks.thinking.values(), *_fences.THINKING_ENDS)
            self._think(ends, skip=tuple(self._marks.thinking), stems=(_fences.THINK_ENDS_SUFFIXED,))

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
        if self._native:
            self._add_native(content)
        elif not (self._nested or truncated):
            nothing = reply.blank and not (reply.calls or reply.faults)
            thinking = reasoning if self._step == self._in_thinking or nothing else ""
            found = reply.doubtful or self._thought_calls()
            if not (found or self._headed):
                text = reply.unstrayed[self._answered :]
                found = lost_calls(text, thinking, self._beginning, self._inner, reply.lost)
            reply.add(0, self._known.fitted(found, unwrap=False))
            if not reply.calls and reply.blank:
                reply.add(0, [faulty("", reasoning, fault) for fault in reply.faults])
        calls = reply.ranked()
        error = self._fault_code if any(call.fault is not None for call in calls) else ""
        calls = cut_short(calls) if truncated else calls
        faults = [*reply.faults, *(call.fault for call in calls if call.fault is not None)]
        shown, following = reply.flush(final=True), "maybe" if truncated else reply.next_thinking
        return ParsedReply(content, reasoning.strip(), calls, faults, shown, error, next_thinking=following)

    def _thought_calls(self) -> list[ToolCall]:
        """Return the calls at the end of closed thinking, if the reply has nothing else."""
        reply = self._reply
        if not reply.blank or reply.calls or self._step != self._in_text:
            return []
        found = reply.thought_calls or calls_in_thinking(reply.reasoning, self._known, self._inner)
        if not found or any(call.fault is not None or call.name not in self._known for call in found):
            return []
        reply.faults.clear()  # they report these calls
        return found

    def _add_native(self, content: str) -> None:
        """Add a fault for a call at the end of the text that can't be read; calls that are shown as examples are text."""
        reply = self._reply
        if not (reply.calls or any(call.name for call in reply.doubtful) or self._truncated):
            found = lost_at_end(content, self._known) or lost_in_block(content, self._beginning, self._inner, labelled=True)
            reply.add(0, self._known.fitted(found, unwrap=False))

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
        if final and held:
            held = self._cut_off(rest[-held:])
        reply.show(rest[: len(rest) - held])
        self._buffer = "" if final else rest[len(rest) - held :]
        return False

    def _cut_off(self, mark: str) -> int:
        """Return how much of a partial mark at the end of the reply is a cut-off tag, not text; report it if it begins a call."""
        whole = mark.endswith("|>") and mark.count("<") == 1
        calls = _CALL_YET.match(mark) is not None and self._marks.may_begin_call(mark)
        calls = calls and not self._reply.code.in_sentence
        if len(mark) < HALF_TAG or mark[0] not in "<][" or self._reply.code.spoken or not (self._truncated or whole or calls):
            return 0
        if calls and not self._truncated:
            self._reply.add(0, [faulty("", mark, f"the reply ends within the mark of a call; {CUT_OFF}")])
        return len(mark)

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

    def _in_part(self, final: bool) -> bool:
        """Read the next part of functionary's reply, after some text: a call of a tool, or more text."""
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

    def _in_model_turn(self, final: bool) -> bool:
        """Begin Inkling's call, whose JSON repeats the name before it; the mark of any other message is dropped."""
        match = _CALL_MESSAGE.match(self._buffer)
        if match is None and not final and _CALL_MESSAGE_YET.fullmatch(self._buffer):
            return False
        self._step = self._in_text
        if match is not None and (fence := self._marks.fence(match["mark"])) is not None:
            self._fence, self._scanner = replace(fence, opener=f"{_fences.MODEL_TURN}{match[0]}"), None
            self._buffer, self._step = self._buffer[match.end() :], self._in_block
        return True

    def _open(self, mark: str) -> None:
        self._in_sentence = self._reply.code.in_sentence
        fence, end_of_thinking = self._marks.fence(mark), self._marks.end_of_thinking(mark)
        if fence is not None and not self._addressed:
            self._fence, self._scanner, self._step = fence, None, self._in_block
        elif end_of_thinking:
            skip = (_fences.THOUGHT_LABEL,) if mark == "<|channel>" else ()
            self._think((end_of_thinking,), skip=skip)
        elif self._marks.is_stray(mark):
            self._reply.end_thinking()
            self._beginning.bare = self._bare
        elif mark in _fences.HEADERS:
            self._header_mark, self._step = mark, self._in_header
        elif mark == _fences.PART:
            self._step = self._in_part
        elif mark == _fences.MODEL_TURN:
            self._step = self._in_model_turn
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
        """Drop the turns of others that the model invents after its own."""
        self._buffer = ""
        return False

    # -- thinking ------------------------------------------------------------------------------------------------

    def _think(self, until: tuple[str, ...], **marks: tuple[str, ...]) -> None:
        self._thoughts = Thoughts(self._spoken, until, **marks)
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
            read = _bare.arguments_of(tool, empty=text.rstrip().endswith("xml"))
            self._fence = ProtocolFence(opener, _fences.BODY_ENDS, read=read, scan="message", follows=follows, decides=1)
            self._scanner, self._step = None, self._in_block
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
