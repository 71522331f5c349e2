"""Replies read whole, by characters and by sevens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent.protocols import find_protocol
from agent.protocols._made import CUT_REPLY
from toolcrib.contract.session import ParsedReply


def read_whole(
    tools: Sequence[Mapping[str, Any]], text: str, name: str = "auto", *, thinking: Any = "maybe", truncated: bool = False
) -> ParsedReply:
    """Return the reply, which is the same for each way of cutting it; the text that was shown is its content."""
    replies = []
    for size in (len(text), 1, 7):
        reader = find_protocol(name).reader(tools, thinking=thinking)
        events = [event for at in range(0, len(text), size) for event in reader.feed(text[at : at + size])]
        reply = reader.finish(truncated=truncated)
        shown = "".join(event.text for event in (*events, *reply.events) if event.kind == "assistant_delta")
        assert shown == reply.content
        replies.append(reply)
    seen = [(reply.content, reply.reasoning, ran(reply), list(reply.faults)) for reply in replies]
    assert seen[0] == seen[1] == seen[2]
    return replies[0]


def ran(reply: ParsedReply) -> list[Any]:
    return [(call.name, call.args) for call in reply.calls if call.fault is None]


def whole_calls(reply: ParsedReply) -> list[Any]:
    """Return the calls that would run if the reply was whole: those of a cut-off reply have a fault."""
    return [(call.name, call.args) for call in reply.calls if call.fault in (None, CUT_REPLY)]


def has_fault(reply: ParsedReply) -> bool:
    return any(call.fault is not None for call in reply.calls)
