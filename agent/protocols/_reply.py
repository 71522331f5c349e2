"""Builds a reply: its text, thinking and calls, and the part of them that may be shown already."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import StringIO

from agent.protocols._code import CodeState
from agent.protocols._ends import holds_arguments, stray_end, without_strays
from agent.protocols._fences import Follows
from agent.protocols._made import UNREADABLE, faulty
from agent.protocols._quotes import SENTENCE_ENDS, ends_example
from agent.protocols._sentences import LOOKED_BACK, covers, is_half
from toolcrib.contract.session import StreamEvent, Thinking
from toolcrib.contract.types import ToolCall

_NOT_ALONE = "a call is inside a sentence, so it was not run; write it on its own lines"
_ALONE = "there is text after a call, as after an example, so it was not run; end the reply with the call"
_SHOWN = (
    "a call is in a block quote, or follows words that forbid it or introduce an example, so it was not run; to call, end the"
    " reply with the call, after a blank line and without such words"
)
_BEHIND = "an earlier call in the reply has no clear end and may contain this one, so it was not run; call again"
_STRAY = "{} follows the calls and ends an argument that was not begun, so the calls' ends are not clear; none was run"
_LOOKED_BACK = 80
_INTRODUCES = (":", "\uff1a", "->", "=>", "\u2192", "\u21d2", "|")
"""Ends of text before a call: if text follows the call too, it may be an example."""


@dataclass(frozen=True, slots=True)
class _Unsure:
    """Calls that run unless the following text prevents it.

    ``raw`` is their text in the reply, with the blanks before it; ``ended``: no unfinished sentence precedes them on their line.
    ``amid``: they are within a sentence.
    """

    rank: int
    calls: Sequence[ToolCall]
    raw: str
    follows: Follows
    ended: bool
    amid: bool


class ReplyBuilder:
    """Builds the events of one reply.

    If the prompt may have opened the thinking (``maybe``), nothing is shown until that is clear: text shown as the answer stays
    the answer. ``one_variant``: among calls in tags of several ranks, only the lowest rank counts (000-21).
    """

    def __init__(self, thinking: Thinking, *, one_variant: bool) -> None:
        self.code = CodeState()
        self.blank = True
        """True while there is no text."""
        self.calls: list[tuple[int, ToolCall]] = []
        self.faults: list[str] = []
        self.doubtful: list[ToolCall] = []
        """Faulty calls in place of calls that were shown as text."""
        self._unsure: list[_Unsure] = []
        self._shows = False  # a call that was introduced is an example, so others may be examples too
        self._in_refused = False  # on the line of a call that is part of a sentence
        self._gap = ""  # undecided text after the last of the unsure calls, mostly blanks
        self._unclear = False  # a call has no clear end: later calls may be part of it
        self._called_at = -1  # position of the first call in the text
        self.lost = ""
        """The end of a call whose beginning was not seen."""
        self._tail = ""  # the last characters shown since the last call
        self.thought = False
        self.thought_calls: list[ToolCall] = []
        """Calls at the end of thinking that the prompt had opened."""
        self.mused = ""
        """The last characters of the thinking."""
        self._one_variant = one_variant
        self._held = thinking == "maybe"
        self._unlikely = thinking == "unlikely"
        self._events: list[StreamEvent] = []
        self._content = StringIO()
        self._reasoning = StringIO()
        self._spaces: list[str] = []  # blanks that are shown once text follows

    @property
    def content(self) -> str:
        return self._content.getvalue()

    @property
    def unstrayed(self) -> str:
        """Return the text, without unmatched closing marks after the calls."""
        at = self._called_at if self._called_at >= 0 else len(self.content)
        return self.content[:at] + without_strays(self.content[at:])

    @property
    def reasoning(self) -> str:
        return self._reasoning.getvalue()

    @property
    def next_thinking(self) -> Thinking:
        """Return the thinking state for the next reply: a prompt that opens the thinking does so each time."""
        return "maybe" if self.thought or (self.blank and not self.called) else "unlikely"

    @property
    def called(self) -> bool:
        return bool(self.calls or self._unsure)

    def flush(self, *, final: bool = False) -> list[StreamEvent]:
        """Return the events that may be shown by now; all of them at the end."""
        if self._held and not final:
            return []
        events, self._events = self._events, []
        return events

    def show(self, text: str) -> None:
        if self._unsure and text:
            if not self._decide(text):
                return
            text, self._gap = self._gap + text, ""
        self._show(text)

    def _show(self, text: str) -> None:
        if not text:
            return
        self.code.feed(text)
        self._in_refused = self._in_refused and "\n" not in text
        if self.blank:
            text = text.lstrip()
        bare = text.rstrip()
        if not bare:
            if text:
                self._spaces.append(text)
            return
        shown = "".join(self._spaces) + bare
        self.blank, self._spaces = False, [text[len(bare) :]]
        self._content.write(shown)
        self._tail = (self._tail + shown)[-LOOKED_BACK:]
        self._events.append(StreamEvent("assistant_delta", shown))

    def _decide(self, text: str, *, final: bool = False) -> bool:
        """Decide about waiting calls by the text after them; return False if the text decides nothing yet."""
        whole = self._gap + text
        words = whole.lstrip()
        quoted = ends_example(words) if words else None
        if quoted is None and not (final and words):
            self._gap = whole
            return False
        gap = whole[: len(whole) - len(words)]
        line = "\n" not in gap and not self._unsure[-1].raw.endswith("\n")
        strict = any(one.follows == "nothing" for one in self._unsure)
        amid = words[0].islower() and any(one.amid for one in self._unsure)
        if quoted or strict or amid or (line and self._goes_on(words[0], apart=bool(gap))):
            self._refuse(link=words[0] == "(" and line)
        else:
            self.add_waiting_calls()
        return True

    def _goes_on(self, first: str, *, apart: bool) -> bool:
        """Return whether text that begins with ``first`` continues the sentence around the calls."""
        if first.isupper() and not apart:
            return False
        if first == "<" or first.isupper() or (not first.isascii() and not first.islower()):
            return not all(one.ended for one in self._unsure)
        return True

    def _refuse(self, *, link: bool, fault: str = "") -> None:
        """Show waiting calls as text; the model gets a fault, unless the text is a Markdown link."""
        unsure, self._unsure = self._unsure, []
        for one in unsure:
            why = fault or (_ALONE if one.follows == "nothing" else _NOT_ALONE)
            if not (link and one.raw.lstrip().startswith("[")):
                self.doubtful += [call if call.fault else faulty(call.name, one.raw, why) for call in one.calls]
            self._shows = self._shows or one.follows == "nothing"
            self._show(one.raw)
        self._in_refused = True

    def close(self) -> None:
        """Handle the end of the reply."""
        if self._unsure and self._decide("", final=True):
            gap, self._gap = self._gap, ""
            self._show(gap)
        self.add_waiting_calls()
        if self._called_at >= 0 and (end := stray_end(self.content[self._called_at :])):
            self.calls = [(rank, call if call.fault else _refused(call, _STRAY.format(end))) for rank, call in self.calls]

    def add_waiting_calls(self) -> None:
        """Accept the calls that waited for the text after them."""
        unsure, self._unsure = self._unsure, []
        for one in unsure:
            self._add(one.rank, one.calls)
        if unsure and self._gap:
            gap, self._gap = self._gap, ""
            self._show(gap)

    def end_call(self, mark: str) -> None:
        """Handle the end of a call that was not begun: if the text before it looks like one, a call was lost."""
        if self.called and not without_strays(self._tail).strip():
            return  # it follows a call
        if self._tail.endswith(("}", "]", ")", ">")):
            self.lost = mark

    def muse(self, text: str) -> None:
        if text:
            self.add_waiting_calls()
            self._reasoning.write(text)
            self.mused = (self.mused + text)[-_LOOKED_BACK:]
            self._events.append(StreamEvent("thinking_delta", text))

    def add(
        self, rank: int, calls: Sequence[ToolCall], raw: str = "", follows: Follows = "lines", *, tagged: bool = False
    ) -> None:
        """Add calls. If ``raw``, their text in the reply, is given, they wait for the text after them.

        ``tagged``: their arguments are between tags. If such a call can't be read, it may end later than it seems, so no call
        after it in the reply runs.
        """
        calls = list(self._clear(calls, tagged=tagged))
        if self._called_at < 0 and calls:
            self._called_at = self._content.tell()
        before, self._tail = self._tail, ""
        if not raw or not calls:
            self.add_waiting_calls()
            self._add(rank, calls)
            return
        tail, half = before.rstrip("*_"), before != "" and is_half(before, "".join(self._spaces))
        if self.code.may_be_code or (tail and (half or tail.endswith(_INTRODUCES) or self.code.titled)):
            follows = "nothing"
        line = self.code.last.rstrip()
        ended = not line or line.endswith(SENTENCE_ENDS)
        begun = self.code.begins_line or (self.code.in_sentence and " " in tail)
        amid = begun and tail != "" and not tail.endswith(SENTENCE_ENDS)
        self._unsure.append(_Unsure(rank, calls, self._gap + raw, follows, ended, amid))
        self._gap = ""
        shown = covers(before) or self.code.in_lazy_quote
        if shown or self._shows or self._in_refused:
            self._shows = self._shows or shown
            self._refuse(link=False, fault=_SHOWN if shown else "")

    def _clear(self, calls: Sequence[ToolCall], *, tagged: bool) -> Iterator[ToolCall]:
        """Yield the calls; those after one without a clear end get a fault."""
        for call in calls:
            yield _refused(call, _BEHIND) if self._unclear and call.fault is None else call
            if tagged and call.fault is not None and holds_arguments(str(call.args.get(UNREADABLE))):
                self._unclear = True

    def _add(self, rank: int, calls: Sequence[ToolCall]) -> None:
        for call in calls:
            self.calls.append((rank, call))
            if call.fault is None:
                text = json.dumps(call.args, ensure_ascii=False)
                self._events.append(StreamEvent("tool_call_delta", text, call.id, call.name))

    def more(self, events: Sequence[StreamEvent]) -> None:
        """Add events of another reader."""
        self._events += events

    def think(self) -> None:
        """Begin thinking, after which stray ends of thinking are ignored."""
        self.add_waiting_calls()
        self.thought = True
        self.mused = ""
        self._held = False

    def end_thinking(self) -> None:
        """Handle the end of thinking that the prompt had opened.

        Calls in the thinking do not run (000-19), except calls at its very end if the reply has nothing else.
        """
        if self.thought:
            return
        self.think()
        self.doubtful = []
        self._unclear, self._called_at = False, -1
        self.code.interrupt()
        self.faults += [f"the call of {call.name or 'a tool'} is in the thinking, so it was not run" for _, call in self.calls]
        whole = not self._content.tell() or self._content.getvalue().endswith((*SENTENCE_ENDS, ":"))
        self.thought_calls = [call for _, call in self.calls] if whole and not self._tail.strip() else []
        self.calls = []
        if self._unlikely:
            return  # the user has seen the thinking as text
        text = self._content.getvalue()
        self._content, self._events, self._spaces, self.blank, self.lost = StringIO(), [], [], True, ""
        self.muse(text)

    def ranked(self) -> list[ToolCall]:
        """Return the calls; if several tag variants occur, only those of the lowest rank with a call (000-21)."""
        ranks = {rank for rank, call in self.calls if call.fault is None}
        if len(ranks) < 2 or not self._one_variant:
            return [call for _, call in self.calls]
        best = min(ranks)
        for rank, call in self.calls:
            if call.fault is None and rank != best:
                self.faults.append(f"the call of {call.name} has other tags than the rest, so it was not run")
        return [call for rank, call in self.calls if call.fault is not None or rank == best]


def _refused(call: ToolCall, fault: str) -> ToolCall:
    """Return a readable call as a faulty one that must not run."""
    return faulty(call.name, json.dumps(call.args, ensure_ascii=False), fault)
