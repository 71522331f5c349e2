"""Calls without tags: a reply that begins with JSON or with ``[name(...)]``, and harmony's messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal

from agent.protocols._bodies import read_body
from agent.protocols._fences import BODY_ENDS, HEADER_END, OTHER_TURNS, TURN_ENDS
from agent.protocols._made import CUT_OFF, Definitions, faulty, is_data, is_record, looks_called, made
from agent.protocols._python import BEGINS, read_python
from agent.protocols._scan import JsonScanner, tokens_of
from agent.protocols.repair import read_json
from toolcrib.contract.dataclass import replace
from toolcrib.contract.types import ToolCall

DECIDES = 64
"""Number of leading characters that show whether text without tags may be a call."""

_JSON_CALL = re.compile(
    r"""\[?\s*\{\s*["']?(?:name|arguments|args|parameters|type|function|tool|tool_name|tool_calls?|function_call|tool_call_id|id|role|content)["']?\s*:"""
)
_PROTOCOL = re.compile(r'\{\s*"(?:thought|action|final)"\s*:')
_NAME = re.compile(
    r"""["']?(?:tool_)?name["']?\s*[:=]\s*["']([^"'\\<>]{1,100})["']|<function=([^<>\s]{1,100})|^\s*(?:call)?:?\s*([\w.-]{1,100})\s*[{(<]"""
)
_HAS_ARGUMENTS = re.compile(r"""["'](?:arguments|args|parameters)["']\s*:""")
_DOTS = re.compile(r"\A\s*(?:\.\.\.|\u2026)\s*\Z|\{\s*(?:\.\.\.|\u2026)\s*\}")
_RECORD = "it has fields besides those of a call, like a record of a call, so it was not run; send only its name and arguments"
_ENDS = (*TURN_ENDS, *OTHER_TURNS)
_HEADER_STOPS = tokens_of((HEADER_END, *BODY_ENDS, "<|start|>")).pattern
_LINE_STOPS = tokens_of((HEADER_END, *BODY_ENDS, "<|start|>", "\n")).pattern
_HEADER_LIMIT, _LONGEST_STOP = 400, 20
_TO = re.compile(r"(?<!\w)to=([^\s<]+)")
_CALLS = re.compile(r"<(?P<tag>[\w:]*(?:function_calls|tool_calls?))>(?P<body>.*)</(?P=tag)>", re.DOTALL)
_INVOKE = re.compile(r"<[\w:]*(?:invoke|function)\b")
_PEOPLE = frozenset(("", "user", "self", "assistant", "all"))


def kind_of(start: str) -> Literal["calls", "protocol", ""]:
    """Return the likely kind of a reply by its beginning, "" for ordinary text."""
    if _PROTOCOL.match(start):
        return "protocol"
    return "calls" if _JSON_CALL.match(start) or (start[0] == "[" and BEGINS.match(start)) else ""


def calls_of(body: str, known: Definitions, *, closed: bool) -> list[ToolCall]:
    """Return the calls in ``body``; none if it is an answer that merely looks like calls.

    JSON that may be a record of a call gives faulty calls, and its text is shown to the user (see is_shown).
    """
    if body[0] == "[" and BEGINS.match(body):
        return _python_calls(body, known, closed=closed)
    try:
        value = read_json(body)
    except ValueError:
        return _unreadable(body, known, closed=closed)
    if not looks_called(value, known) or is_data(value, known):
        return []
    calls = read_body(body, known)
    if closed and is_record(value) and all(call.fault is None for call in calls):
        return [faulty(call.name, body, _RECORD) for call in calls]
    return calls


def may_follow(body: str) -> Literal["lines", "nothing"]:
    """Return which text may follow calls without tags: none after JSON, other lines after Python syntax."""
    return "lines" if body[0] == "[" and BEGINS.match(body) else "nothing"


def is_shown(body: str, calls: Sequence[ToolCall]) -> bool:
    """Return whether the JSON may be meant for the user: it lacks arguments, or has more fields than a call."""
    if may_follow(body) != "nothing" or any(call.fault is None for call in calls):
        return False
    return not _HAS_ARGUMENTS.search(body) or any(str(call.fault).startswith(_RECORD) for call in calls)


def _python_calls(body: str, known: Definitions, *, closed: bool) -> list[ToolCall]:
    calls = read_python(body) if closed else [faulty(name_in(body[1:]), body, CUT_OFF)]
    if known and any(call.name not in known for call in calls if call.name):
        return []
    if not known and any(call.fault is not None for call in calls):
        return []  # a list, but not of calls
    return calls


def _unreadable(body: str, known: Definitions, *, closed: bool) -> list[ToolCall]:
    name = name_in(body)
    if not name or (name not in known if known else not _HAS_ARGUMENTS.search(body)):
        return []
    return read_body(body, known) if closed else [faulty(name, body, CUT_OFF)]


def name_in(body: str) -> str:
    """Return the tool that a broken call seems to name; "" if unknown."""
    match = _NAME.search(body[:400])
    return (match[1] or match[2] or match[3]).strip() if match else ""


def is_pattern(body: str) -> bool:
    """Return whether a block only shows the form of calls, with dots for their content."""
    return _DOTS.search(body) is not None


def meant(calls: Sequence[ToolCall], known: Definitions) -> bool:
    """Return whether the text is meant as calls: all name known tools, or, if no tools are known, none has a fault."""
    return all(call.name in known if known else call.fault is None for call in calls)


def without_turn_ends(body: str) -> str:
    """Return ``body`` without end-of-turn tokens at its end."""
    while (text := body.rstrip()).endswith(_ENDS):
        body = text[: -len(next(end for end in _ENDS if text.endswith(end)))]
    return body


def leading_value(body: str) -> tuple[str, str] | None:
    """Return the JSON value at the beginning of a text, and the rest; None without a value, or if nothing or JSON follows it."""
    if body.lstrip()[:1] not in ("{", "["):
        return None
    cut = JsonScanner((), at_value=True).feed(body)
    return (cut.body, cut.rest) if cut is not None and cut.rest.strip(" \t\r\n;")[:1] not in ("", "{", "[") else None


def header_end(text: str, *, marked: bool) -> tuple[int, bool] | None:
    """Return the end of a harmony header, and whether it is complete; None if more text is needed.

    The end of a message, the start of another, or too many characters end the header as incomplete. If no mark precedes the
    header (not ``marked``), the end of its line ends it too.
    """
    match = (_HEADER_STOPS if marked else _LINE_STOPS).search(text, 0, _HEADER_LIMIT + _LONGEST_STOP)
    if match is not None and match.start() <= _HEADER_LIMIT:
        return match.start(), match[0] == HEADER_END
    return (_HEADER_LIMIT, False) if len(text) >= _HEADER_LIMIT + _LONGEST_STOP else None


def header(text: str) -> tuple[str, str]:
    """Return the channel and the recipient (on either side of the channel) of a harmony header, "" if missing."""
    words = text.rpartition("<|channel|>")[2].split()
    recipients = _TO.findall(text)
    return words[0] if words else "", recipients[-1] if recipients else ""


def tool_of(recipient: str) -> str:
    """Return the tool that a recipient names; "" for people and for the model itself."""
    return "" if recipient in _PEOPLE else recipient.removeprefix("functions.")


def _tagged_arguments(name: str, text: str, known: Definitions) -> list[ToolCall]:
    """Return the calls of Muse or Beam: a message to a tool, with ``invoke`` elements or only the tool's parameters in it."""
    if match := _CALLS.fullmatch(text):
        text = match["body"].strip()
    calls = read_body(text if _INVOKE.match(text) else f'<invoke name="{name}">{text}</invoke>', known)
    calls = [replace(call, name=known.own(call.name)) for call in calls]
    if any(call.name != name for call in calls if call.fault is None):
        return [faulty(name, text, f"the message is to {name}, but the call in it is for another tool")]
    return calls


def arguments_of(tool: str, *, empty: bool = False) -> Callable[[str, Definitions], list[ToolCall]]:
    """Return a reader for a block that contains only the arguments of ``tool``, as JSON or between tags.

    ``empty``: a block without text is a call without arguments.
    """

    def read(body: str, known: Definitions) -> list[ToolCall]:
        name = known.own(tool)
        if (tagged := body.strip())[:1] == "<":
            return _tagged_arguments(name, tagged, known)
        if empty and not tagged and not known.lacks(name, {}):
            return [ToolCall(ToolCall.new_id(), name, {})]
        try:
            return [made(name, read_json(body), body)]
        except ValueError as error:
            return [faulty(name, body, f"the arguments are not valid JSON ({error}); send one JSON object")]

    return read
