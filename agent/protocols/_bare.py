"""Calls that stand there without tags: a reply that begins with JSON or with ``[name(...)]``, and harmony's messages."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from agent.protocols._bodies import read_body
from agent.protocols._fences import ProtocolFence
from agent.protocols._made import CUT_OFF, Definitions, faulty, looks_called, made
from agent.protocols._python import BEGINS, read_python
from agent.protocols.repair import read_json
from toolcrib import ToolCall

DECIDES = 64
"""Characters that decide whether text without tags may be a call."""

_JSON_CALL = re.compile(
    r"""\[?\s*\{\s*["']?(?:name|arguments|args|parameters|type|function|tool|tool_name|tool_call_id|id)["']?\s*:"""
)
_PROTOCOL = re.compile(r'\{\s*"(?:thought|action|final)"\s*:')
_NAME = re.compile(
    r"""["']?(?:tool_)?name["']?\s*[:=]\s*["']([^"'\\<>]{1,100})["']|<function=([^<>\s]{1,100})|^\s*(?:call)?:?\s*([\w.-]{1,100})\s*[{(<]"""
)
_HAS_ARGUMENTS = re.compile(r"""["'](?:arguments|args|parameters)["']\s*:""")
_TO = re.compile(r"to=([^\s<]+)")


def kind_of(start: str) -> Literal["calls", "protocol", ""]:
    """Guess the kind of a reply from its beginning."""
    if _PROTOCOL.match(start):
        return "protocol"
    return "calls" if _JSON_CALL.match(start) or (start[0] == "[" and BEGINS.match(start)) else ""


def calls_of(body: str, known: Definitions, *, closed: bool) -> list[ToolCall]:
    """The calls that ``body`` is; none where it is an answer that merely looks like one."""
    if body[0] == "[" and BEGINS.match(body):
        return _python_calls(body, known, closed=closed)
    try:
        value = read_json(body)
    except ValueError:
        return _unreadable(body, known, closed=closed)
    return read_body(body, known) if looks_called(value, known) else []


def _python_calls(body: str, known: Definitions, *, closed: bool) -> list[ToolCall]:
    calls = read_python(body) if closed else [faulty(name_in(body[1:]), body, CUT_OFF)]
    if known and any(call.name not in known for call in calls if call.name):
        return []
    if not known and any(call.fault is not None for call in calls):
        return []  # a list of anything
    return calls


def _unreadable(body: str, known: Definitions, *, closed: bool) -> list[ToolCall]:
    name = name_in(body)
    if not name or (name not in known if known else not _HAS_ARGUMENTS.search(body)):
        return []
    return read_body(body, known) if closed else [faulty(name, body, CUT_OFF)]


def name_in(body: str) -> str:
    """The tool that a broken call seems to name; "" where it is unknown."""
    match = _NAME.search(body[:400])
    return (match[1] or match[2] or match[3]).strip() if match else ""


def reads_well(fence: ProtocolFence, body: str, known: Definitions) -> bool:
    """Return whether the block holds calls of known tools only."""
    return all(call.fault is None and (not known or call.name in known) for call in fence.read(body, known))


def header(text: str) -> tuple[str, str, bool]:
    """(the channel, the tool that the message goes to or "", whether it goes to the model itself) of a harmony header."""
    last = text.rpartition("<|channel|>")[2]
    channel = last.split()[0] if last.split() else ""
    match = _TO.search(last) or re.search(r"to=(functions\.[^\s<]+)", text)
    to = match[1] if match else ""
    tool = to.removeprefix("functions.") if to not in ("", "user", "self", "assistant", "all") else ""
    return channel, tool, to == "self"


def arguments_of(tool: str) -> Callable[[str, Definitions], list[ToolCall]]:
    """A reader for a block that is only the arguments of ``tool``."""

    def read(body: str, known: Definitions) -> list[ToolCall]:
        try:
            return [made(tool, read_json(body), body)]
        except ValueError as error:
            return [faulty(tool, body, f"the arguments are not valid JSON ({error}); send one JSON object")]

    return read
