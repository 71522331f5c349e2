"""A reply as it is put together: its text, thinking and calls, and what of them may be shown already."""

from __future__ import annotations

import json
from collections.abc import Sequence
from io import StringIO

from agent.protocols._code import CodeState
from toolcrib import StreamEvent, ToolCall
from toolcrib._session import Thinking


class ReplyBuilder:
    """Where the prompt may have opened the thinking (``maybe``), nothing is shown before that is known: what a person has seen
    as the answer stays the answer.

    ``one_variant``: of calls in tags of several ranks, those of the lowest count (000-21).
    """

    def __init__(self, thinking: Thinking, *, one_variant: bool) -> None:
        self.code = CodeState()
        self.blank = True
        """No text yet."""
        self.calls: list[tuple[int, ToolCall]] = []
        self.faults: list[str] = []
        self.lost = ""
        """The end of a call whose beginning was not seen."""
        self._shown_last = ""  # since the last call
        self.thought = False
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
    def reasoning(self) -> str:
        return self._reasoning.getvalue()

    @property
    def next_thinking(self) -> Thinking:
        """Return what a whole reply tells of the next one: a prompt that opens the thinking does so each time."""
        return "maybe" if self.thought or (self.blank and not self.calls) else "unlikely"

    def flush(self, *, final: bool = False) -> list[StreamEvent]:
        """Return the events that may be shown by now; all of them at the end."""
        if self._held and not final:
            return []
        events, self._events = self._events, []
        return events

    def show(self, text: str) -> None:
        if not text:
            return
        self.code.feed(text)
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
        self._shown_last = shown[-1]
        self._events.append(StreamEvent("assistant_delta", shown))

    def end_call(self, mark: str) -> None:
        """Take note of an end of a call that was not begun: if the text before it looks like one, it is lost."""
        if self._shown_last and self._shown_last in "}])>":
            self.lost = mark

    def muse(self, text: str) -> None:
        if text:
            self._reasoning.write(text)
            self._events.append(StreamEvent("thinking_delta", text))

    def add(self, rank: int, calls: Sequence[ToolCall]) -> None:
        self._shown_last = ""
        for call in calls:
            self.calls.append((rank, call))
            if call.fault is None:
                text = json.dumps(call.args, ensure_ascii=False)
                self._events.append(StreamEvent("tool_call_delta", text, call.id, call.name))

    def more(self, events: Sequence[StreamEvent]) -> None:
        """Add what another reader found."""
        self._events += events

    def think(self) -> None:
        """Take note that the reply has thinking of its own: no stray end of thinking is believed from here on."""
        self.thought = True
        self._held = False

    def end_thinking(self) -> None:
        """Take note of an end of thinking without its beginning: the prompt had opened it, and no call in it runs (000-19)."""
        if self.thought:
            return
        self.think()
        self.code.interrupt()
        self.faults += [
            f"the call of {call.name or 'a tool'} stands in the thinking, so it was not run" for _, call in self.calls
        ]
        self.calls = []
        if self._unlikely:
            return  # a person has seen it as text
        text = self._content.getvalue()
        self._content, self._events, self._spaces, self.blank, self.lost = StringIO(), [], [], True, ""
        self.muse(text)

    def ranked(self) -> list[ToolCall]:
        """The calls; where there are variants of the tags, those of the first that gave one (000-21)."""
        ranks = {rank for rank, call in self.calls if call.fault is None}
        if len(ranks) < 2 or not self._one_variant:
            return [call for _, call in self.calls]
        best = min(ranks)
        for rank, call in self.calls:
            if call.fault is None and rank != best:
                self.faults.append(f"the call of {call.name} is written in other tags than the rest, so it was not run")
        return [call for rank, call in self.calls if call.fault is not None or rank == best]
