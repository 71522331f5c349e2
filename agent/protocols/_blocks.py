"""Blocks that were cut out of a reply: calls, or text that only looks like calls.

Some lack their closing tag: servers cut replies at such tags, and models forget them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.protocols import _bare
from agent.protocols._code import EMPTY_ELEMENT
from agent.protocols._ends import without_strays
from agent.protocols._fences import ProtocolFence
from agent.protocols._left import speaks
from agent.protocols._made import CUT_OFF, Definitions, faulty
from agent.protocols._scan import Cut, JsonScanner, Scanner, TagScanner, tokens_of
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.types import ToolCall

_VALUE_END = re.compile(r"</?[\w|]*(?:arg_value|tool_sep)(?::[\w-]+)?>\s*\Z")
"""End of an argument or of a tool's name. Another argument may follow, so this does not show that the call is complete."""
_WHOLE_END = re.compile(r"(?<!param>)(?<!parameter>)(?<!arg_key>)(?<=[\]}):>])\s*\Z")

_CALL_END = re.compile(r"(?:[}\])]|</[^<>\s]*?(?:function|invoke)>)\s*\Z")


class Taken(NamedTuple):
    """Result of a block: text to show, its calls and their text in the reply, and the rest, to be read as text.

    ``tagged``: the calls' arguments are between tags.
    """

    shown: str = ""
    calls: Sequence[ToolCall] = ()
    raw: str = ""
    rest: str = ""
    tagged: bool = False


@dataclass(frozen=True, slots=True)
class CutBlock:
    """A block. ``lead``: the blanks after its opening. ``in_sentence``: an unfinished sentence precedes it on its line."""

    fence: ProtocolFence
    cut: Cut
    lead: str
    scanner: Scanner | None
    in_sentence: bool
    truncated: bool

    @property
    def opener(self) -> str:
        return self.fence.opener.removesuffix(self.fence.keep) + self.lead

    def take(self, known: Definitions) -> Taken:
        """Return the calls or the text of the block."""
        fence = self.fence
        if (markup := EMPTY_ELEMENT.match(self.cut.body)) and fence.keep:
            return Taken(shown=self.opener + markup[0], rest=self.cut.body[markup.end() :] + self.cut.mark)
        if fence.is_line and not self.truncated:
            cut = self.cut._replace(body=_bare.without_turn_ends(self.cut.body), closed=True)
        else:
            cut = self.cut
        body, readable = cut.body, cut.closed or fence.soft or fence.is_line
        calls = self._read(body, fence.tail if cut.closed else "", known) if readable else []
        if self._is_text(body, calls, known, closed=cut.closed):
            return Taken(shown=self.opener + body + cut.mark)
        if not cut.closed:
            return self._open(known)
        if fence.loose and (value := _bare.leading_value(body)) is not None:
            return Taken(calls=fence.read(value[0], known), raw=self.opener + value[0], rest=value[1] + cut.mark)
        if not body.strip() and cut.rest.startswith(fence.opener):
            return Taken()  # some models write an opening twice
        tagged = isinstance(self.scanner, TagScanner)
        return Taken(calls=calls, raw=self.opener + body + cut.mark, tagged=tagged)

    def _read(self, body: str, tail: str, known: Definitions) -> Sequence[ToolCall]:
        """Return the calls in the body. If some can't be read, try again without unmatched closing marks after a call's end."""
        calls = self.fence.read(body + tail, known)
        if any(call.fault is not None for call in calls) and _CALL_END.search(bare := without_strays(body)):
            again = self.fence.read(bare + tail, known)
            return again if again and all(call.fault is None for call in again) else calls
        return calls

    def _is_text(self, body: str, calls: Sequence[ToolCall], known: Definitions, *, closed: bool) -> bool:
        if self.fence.is_line and not calls:
            return True
        if self.fence.soft and not closed and self.fence.where and _bare.name_in(body) in known:
            return False  # it was cut off
        if self.fence.soft:
            return not _bare.meant(calls, known)
        lost = bool(calls) and all(call.fault is not None for call in calls)
        return closed and lost and (self._is_spoken(body) or _bare.is_pattern(body))

    def _is_spoken(self, body: str) -> bool:
        return self.in_sentence and speaks(self.lead + body)

    def _open(self, known: Definitions) -> Taken:
        body = self.cut.body
        if self._is_spoken(body):
            return Taken(shown=self.opener, rest=body)
        text = _bare.without_turn_ends(body[: len(body) - tokens_of(self.fence.closers).held(body)])
        rest = ""
        if (listed := without_end(text, self.scanner, truncated=self.truncated)) is not None:
            text = listed
        elif self.fence.loose and not self.truncated and (value := _bare.leading_value(text)) is not None:
            text, rest = value
        calls = self._read(text, "", known) if not self.truncated and _WHOLE_END.search(text) else []
        if not calls or (not self.cut.complete and any(_is_part(call, text, known) for call in calls)):
            calls = [faulty(_bare.name_in(text), text, CUT_OFF)]
        return Taken(calls=calls, raw=self.opener + text, rest=rest)


def _is_part(call: ToolCall, text: str, known: Definitions) -> bool:
    """Return whether a call may be incomplete."""
    if call.fault is not None or known.lacks(call.name, call.args):
        return True
    return _VALUE_END.search(text) is not None and known.takes_more(call.name, call.args)


def without_end(body: str, scanner: Scanner | None, *, truncated: bool) -> str | None:
    """Return a list of calls with its missing closing bracket added; None if more than the bracket is missing."""
    if truncated or not isinstance(scanner, JsonScanner) or not scanner.open_list:
        return None
    return body.rstrip().rstrip(",") + "]"
