"""Reading of a block of calls, whatever its tags: the content says which dialect it is (X-9)."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator

from agent.protocols import _python
from agent.protocols._made import Definitions, between, faulty, from_json, made, typed
from agent.protocols.repair import read_json
from toolcrib import ToolCall

_NAME = r"[A-Za-z_][\w.:/-]*"
_COLON = re.compile(rf"(?:call)?:\s*({_NAME})\s*(\{{.*\}})", re.DOTALL)
_QUOTED = re.compile(r'<\|"\|>|<escape>')
_NAMED_JSON = re.compile(rf"({_NAME})\s*(\{{.*\}})", re.DOTALL)
_BARE_NAME = re.compile(_NAME)
_NS = r"(?:\uff5cDSML\uff5c|[A-Za-z]\w*:)?"
_VALUE_NAME = r"""(?:"(?P<dq>[^"<>]*)"|'(?P<sq>[^'<>]*)'|(?P<bare>[^\s"'<>][^"'<>\n]*))"""
_OPEN = re.compile(rf"<{_NS}(?:function|invoke)\s*(?:=\s*|name\s*=\s*){_VALUE_NAME}\s*>?")
_EMPTY_OPEN = re.compile(r"<function\s*name\s*=\s*(?=<function)")
_CLOSE = re.compile(rf"\s*</{_NS}(?:function|invoke)>\s*")
_PARAM = re.compile(
    rf"\s*<{_NS}param(?:eter)?(?:\s*=\s*|(?P<before>[^<>=]*(?:=[^<>=]*?)?)\bname\s*=\s*|name\s*=\s*)"
    rf"{_VALUE_NAME}(?P<after>[^>\n]*)(?:>|(?=\n))"
)
_PARAM_END = re.compile(rf"</{_NS}param(?:eter)?>")
_CDATA = re.compile(r"\s*<!\[CDATA\[(.*)\]\]>\s*", re.DOTALL)
_ARG = re.compile(
    r"\s*<(?P<ns>longcat_)?arg_key>(?P<key>.*?)</(?P=ns)?(?:longcat_)?arg_key>\s*"
    r"<(?:longcat_)?arg_value>(?P<value>.*?)</(?:longcat_)?arg_value>",
    re.DOTALL,
)
_ARG_HEAD = re.compile(rf"\s*({_NAME})\s*(?=<(?:longcat_)?arg_key>)")


def read_body(body: str, known: Definitions) -> list[ToolCall]:
    """The calls of a block; always at least one, with a fault where it is not readable."""
    text = body.strip()
    head = text[:1]
    if head and head in "{[":
        return list(_json_or_python(text))
    if head == "<":
        return read_xml(text, known)
    if text.startswith(("call:", ":")) and (match := _COLON.match(text)) and match.end() == len(text):
        return [read_colon(match[1], match[2], text)]
    if match := _ARG_HEAD.match(text):
        return [read_arg_keys(match[1], text, match.end(), known)]
    if _python.BEGINS.match(text):
        return _python.read_python(text)
    if match := _NAMED_JSON.fullmatch(text):
        return [_named(match[1], match[2], text)]
    if text in known and _BARE_NAME.fullmatch(text):
        return [ToolCall(ToolCall.new_id(), text, {})]
    return [faulty("", body, 'a call is written as {"name": "tool_name", "args": {...}}')]


def _json_or_python(text: str) -> Iterator[ToolCall]:
    try:
        value = read_json(text)
    except ValueError as error:
        if text[0] == "[" and _python.BEGINS.match(text):
            yield from _python.read_python(text)
        elif several := _sequence(text):
            for one in several:
                yield from from_json(one, text)
        else:
            name = re.search(r'["\']?name["\']?\s*:\s*["\']([^"\'\\]+)["\']', text[:200])
            yield faulty(name[1] if name else "", text, f"it is not valid JSON ({error}); send one JSON object")
        return
    if value == []:
        yield faulty("", text, "the list of calls is empty")
    yield from from_json(value, text)


def _sequence(text: str) -> list[object]:
    """JSON objects one after the other; empty where it is anything else."""
    found: list[object] = []
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return []
        found.append(value)
        at = between(text, at)
    return found


def read_colon(name: str, braces: str, raw: str) -> ToolCall:
    """``call:name{...}``: the braces are the arguments; strings may stand between ``<|"|>`` (000-22 to 000-25)."""
    parts = _QUOTED.split(braces)
    if len(parts) % 2 == 0:
        return faulty(name, raw, "a string has no end")
    text = "".join(json.dumps(part) if place % 2 else part for place, part in enumerate(parts))
    return _named(name, text, raw)


def _named(name: str, text: str, raw: str) -> ToolCall:
    try:
        return made(name, read_json(text), raw)
    except ValueError as error:
        return faulty(name, raw, f"the arguments are not valid JSON ({error}); send one JSON object")


def read_arg_keys(name: str, text: str, at: int, known: Definitions) -> ToolCall:
    """GLM: the name, then pairs of arg_key and arg_value."""
    args: dict[str, object] = {}
    while match := _ARG.match(text, at):
        key = match["key"].strip()
        if key in args:
            return faulty(name, text, f"the argument {key} stands there twice")
        args[key] = typed(match["value"], known.schema(name, key))
        at = match.end()
    if text[at:].strip():
        return faulty(name, text, "an arg_key or arg_value is not closed")
    return ToolCall(ToolCall.new_id(), name, args)


def read_xml(text: str, known: Definitions) -> list[ToolCall]:
    """Qwen3-Coder, MiniMax, DeepSeek DSML, MiniCPM, Step, Seed: functions or invokes with parameters."""
    calls: list[ToolCall] = []
    text, at = text.strip(), 0
    while at < len(text):
        if empty := _EMPTY_OPEN.match(text, at):
            at = empty.end()
        match = _OPEN.match(text, at)
        if match is None:
            if calls and (end := _CLOSE.match(text, at)):
                at = end.end()
                continue
            return [
                *calls,
                faulty("", text[at:], "a call is written as <function=tool_name><parameter=key>value</parameter></function>"),
            ]
        call, at = _function(match, text, known)
        calls.append(call)
        at = between(text, at)
    return calls


def _function(head: re.Match[str], text: str, known: Definitions) -> tuple[ToolCall, int]:
    """(the call, where it ends); the whole rest belongs to a call that can't be read."""
    name = _found(head)
    args: dict[str, object] = {}
    at = head.end()
    while match := _PARAM.match(text, at):
        end = _PARAM_END.search(text, match.end())
        key = _found(match)
        if end is None:
            return faulty(name, text[head.start() :], f"the parameter {key} is not closed"), len(text)
        if key in args:
            return faulty(name, text[head.start() :], f"the parameter {key} stands there twice"), len(text)
        args[key] = _parameter(match, end.start(), name, key, known)
        at = end.end()
    end = _CLOSE.match(text, at)
    if end is None:
        return faulty(name, text[head.start() :], "there is text between its parameters, or it is not closed"), len(text)
    raw = "" if name.strip() else text[head.start() : end.end()]  # made() needs it only for a call without a name
    return made(name, args, raw), end.end()


def _parameter(match: re.Match[str], end: int, name: str, key: str, known: Definitions) -> object:
    """The value between its opening tag, which is ``match``, and ``end``."""
    text, start = match.string, match.end()
    if cdata := _CDATA.fullmatch(text, start, end):
        value = cdata[1]
    elif text.startswith("\n", start, end):
        value = text[start + 1 : end - text.endswith("\n", start + 1, end)]
    else:
        value = text[start:end]
    marks = f"{match['before'] or ''}{match['after']}"
    if 'string="true"' in marks or 'type="string"' in marks:
        return value
    return typed(value, known.schema(name, key))


def _found(match: re.Match[str]) -> str:
    return html.unescape((match["dq"] if match["dq"] is not None else match["sq"] or match["bare"] or "").strip())
