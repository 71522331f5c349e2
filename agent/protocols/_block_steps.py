"""Reads the blocks of calls in a streamed reply: the steps of StreamReader from the beginning of a call to its end."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable

from agent.protocols import _bare, _fences
from agent.protocols._blocks import CutBlock, without_end
from agent.protocols._fences import ProtocolFence
from agent.protocols._made import Definitions
from agent.protocols._marks import Marks
from agent.protocols._reply import ReplyBuilder
from agent.protocols._scan import Cut, Scanner
from agent.protocols._start import Beginning, Pending
from toolcrib.contract.dataclass import replace
from toolcrib.contract.session import TextReader

_CHAINED_YET = re.compile(r"[\s,;]{0,20}(?:[A-Za-z_][\w.:/-]{0,100}\s{0,20}(?:\[[^{\n]{0,60})?\{?)?")


_RULE = re.compile(r"\s*\{\s*[\w-]+\s*(?::[^{}]*;|[\w-]+\s*\})")
"""Braces as in a style sheet or a configuration file. Calls have no such braces."""


class BlockReader(ABC):
    """The steps that read blocks. ``_step`` is the current step; ``StreamReader`` adds the steps that read text."""

    def __init__(self, known: Definitions, marks: Marks, reply: ReplyBuilder, beginning: Beginning) -> None:
        self._known, self._marks, self._reply, self._beginning = known, marks, reply, beginning
        self._buffer = ""
        self._truncated = self._in_sentence = False
        self._pending: list[Pending] = []
        self._lead = ""  # blanks that the block began with
        self._fence: ProtocolFence | None = None
        self._scanner: Scanner | None = None
        self._step: Callable[[bool], bool] = self._in_text

    @abstractmethod
    def _in_text(self, final: bool) -> bool:
        """Read text up to the next mark; return whether there is more to do."""

    @abstractmethod
    def _inner(self) -> TextReader:
        """Return a reader for a part of the reply."""

    def _enter(self, fence: ProtocolFence, lead: str) -> None:
        """Begin a block without tags. If a code fence or a tool's name opens it, it is a call only if nothing else follows."""
        self._fence, self._buffer = fence, lead[self._beginning.skipped :]
        self._scanner = fence.scanner(self._buffer)
        self._step = self._in_pending if fence.opener else self._in_block

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
        """Look for another call right after the previous one: Mistral's models omit the token between them."""
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
            braces = cut.body.lstrip().startswith(("call:", ":"))  # Gemma's braces are the arguments (000-25)
            calls = self._known.fitted(taken.calls, unwrap=not braces)
            self._reply.add(fence.rank, calls, taken.raw, fence.follows, tagged=taken.tagged)

    def _take_bare(self, cut: Cut, fence: ProtocolFence) -> None:
        listed = None if cut.closed else without_end(cut.body, self._scanner, truncated=self._truncated)
        body, closed = (cut.body, cut.closed) if listed is None else (listed, True)
        calls = self._known.fitted(_bare.calls_of(body, self._known, closed=closed))
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
        """Accept code blocks, or names with arguments, as calls if only more of them follow until the reply ends."""
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
                self._reply.add(0, self._known.fitted(some))
            return
        self._beginning.bare = False
        for one in pending:
            self._reply.show(one.raw)
        self._reply.doubtful += [
            call
            for one, some in zip(pending, calls, strict=False)
            for call in some
            if call.fault is not None and call.name in self._known and not _RULE.match(one.body)
        ]
