"""Reads a block of calls, whatever its tags: the content determines the dialect (X-9)."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from agent.protocols import _python
from agent.protocols._colons import read_colons
from agent.protocols._ends import without_misspelt
from agent.protocols._keyed import begins_line, inside, misspelt, read_keyed
from agent.protocols._made import ANY, Definitions, between, faulty, from_json, made, takes_list, typed, unfenced
from agent.protocols.repair import DECODER, end_of_value, read_json
from toolcrib.contract.dataclass import replace
from toolcrib.contract.schema_view import SchemaView
from toolcrib.contract.types import ToolCall

_NAME = r"[A-Za-z_][\w.:/-]*"
_NAMED_JSON = re.compile(rf"({_NAME})\s*(?:<(?:ifm\|)?tool_sep(?::[\w-]+)?>\s*)?((?:```\w*\s*)?\{{.*\}}(?:\s*```)?)", re.DOTALL)
_BARE_NAME = re.compile(_NAME)
_NS = r"(?:[|\uff5c]{1,2}DSML[|\uff5c]{1,2} ?|[A-Za-z]\w*:)?"
_VALUE_NAME = r"""(?:"(?P<dq>[^"<>]*)"|'(?P<sq>[^'<>]*)'|(?P<bare>[^\s"'<>][^"'<>\n]*))"""
_OPEN = re.compile(rf"<{_NS}(?:function|invoke)\s*(?:=\s*|name\s*=\s*){_VALUE_NAME}\s*>?")
_EMPTY_OPEN = re.compile(r"<function\s*name\s*=\s*(?=<function)")
_CLOSE = re.compile(rf"\s*</{_NS}(?:function|invoke)>\s*")
_PARAM = re.compile(
    rf"\s*<{_NS}param(?:eter)?(?:\s*=\s*|(?P<before>[^<>=]*(?:=[^<>=]*?)?)\bname\s*=\s*|name\s*=\s*)"
    rf"{_VALUE_NAME}(?P<after>[^>\n]*)(?:>|(?=\n))"
)
_JSON_FOLLOWS = re.compile(r"\s*\{")
_PARAM_EDGE = re.compile(rf"</{_NS}param(?:eter)?>|(?=<{_NS}param(?:eter)?(?:\s*=|\s[^<>=]*(?:=[^<>=]*)?\bname\s*=|name\s*=))")
_PARAM_CLOSE = re.compile(rf"\s*</{_NS}param(?:eter)?>")
_CALL_EDGE = re.compile(rf"</?{_NS}(?:function|invoke|tool_call)\b")
_CDATA_START = re.compile(r"\s*<!\[CDATA\[")
_CDATA_END = re.compile(rf"(?P<cdata>\]\]>\s*)</{_NS}param(?:eter)?>")
_CDATA = re.compile(r"\s*<!\[CDATA\[(.*)\]\]>\s*", re.DOTALL)
_LINE_ENDS = re.compile(r"\A\r?\n|\r?\n\Z")
"""Line breaks right after an argument's opening tag and right before its closing tag."""
_ITEM = re.compile(r"\s*<item>(.*?)</item>\s*", re.DOTALL)
_WRAPPED = re.compile(r"\s*<(?P<tag>(?:ifm\|)?tool_call(?::[\w-]+)?)>(?P<body>.*?)</(?P=tag)>\s*", re.DOTALL)
_PRINTED = re.compile(r"print\((.*)\)[ \t;]*")


def read_body(body: str, known: Definitions) -> list[ToolCall]:
    """Return the calls of a block; always at least one, faulty if it is unreadable."""
    text = unfenced(body)
    if cdata := _CDATA.fullmatch(text):
        text = cdata[1].strip()
    head = text[:1]
    if head and head in "{[":
        return list(_json_or_python(text))
    if head == "<":
        return _wrapped(text, known) or read_xml(text, known)
    if text.startswith(("call:", ":")) and (calls := read_colons(text, known)):
        return calls
    if (keyed := read_keyed(text, known)) is not None:
        return [keyed]
    if _python.BEGINS.match(text):
        return [_called(call, known) for call in _python.read_python(text)]
    if match := _NAMED_JSON.fullmatch(text):
        return [_named(match[1], unfenced(match[2]), text)]
    if text in known and _BARE_NAME.fullmatch(text):
        return [ToolCall(ToolCall.new_id(), text, {})]
    return [faulty("", body, 'a call is written as {"name": "tool_name", "args": {...}}')]


def read_code(body: str, known: Definitions) -> list[ToolCall]:
    """Return the calls of a code block in Python syntax, with or without print()."""
    lines = [_PRINTED.fullmatch(line) for line in body.strip().splitlines()]
    return _python.read_python("\n".join(line[1] for line in lines if line) if all(lines) else body)


def _called(call: ToolCall, known: Definitions) -> ToolCall:
    """Return the call without Llama 3's suffix: ``name.call(...)``."""
    name = call.name.removesuffix(".call")
    return replace(call, name=name) if call.name not in known and name in known else call


def _wrapped(text: str, known: Definitions) -> list[ToolCall]:
    """Return the calls of a list with tags around each; none for any other text."""
    calls: list[ToolCall] = []
    at = 0
    while match := _WRAPPED.match(text, at):
        calls += read_body(match["body"], known)
        at = match.end()
    return calls if at == len(text) else []


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
    """Return JSON objects that follow each other; none for any other text."""
    found: list[object] = []
    at = 0
    while at < len(text):
        try:
            value, at = DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            return []
        found.append(value)
        at = between(text, at)
    return found


def _named(name: str, text: str, raw: str) -> ToolCall:
    try:
        return made(name, read_json(text), raw)
    except ValueError as error:
        return faulty(name, raw, f"the arguments are not valid JSON ({error}); send one JSON object")


def read_xml(text: str, known: Definitions) -> list[ToolCall]:
    """Return the calls of Qwen3-Coder, MiniMax, DeepSeek DSML, MiniCPM, Step, Seed: elements with parameters."""
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
    """Return the call and its end; an unreadable call extends to the end of the text."""
    name = _found(head)
    if _JSON_FOLLOWS.match(text, head.end()):
        return _json_function(name, head, text)
    found: dict[str, tuple[re.Match[str], int]] = {}
    at = head.end()
    fault = ""
    while not fault and (match := _PARAM.match(text, at)):
        key = _found(match)
        end, at, fault = _value_end(match, name, key, known)
        if not fault and key in found:
            fault = f"the parameter {key} appears twice"
        found[key] = match, end
    args: dict[str, object] = {}
    lines = not fault and all(_is_on_lines(match, end, known.schema(name, key)) for key, (match, end) in found.items())
    for key, (match, end) in found.items() if not fault else ():
        args[key] = value = _parameter(match, end, known.schema(name, key), lines=lines)
        if isinstance(value, str) and "<item>" in value and takes_list(known.schema(name, key)):
            fault = f"the list {key} has more than <item>...</item> in it"
    if fault:
        return faulty(name, text[head.start() :], fault), len(text)
    end_tag = _CLOSE.match(text, at)
    if end_tag is None and (not args or text[at:].strip()):
        return faulty(name, text[head.start() :], "there is text between its parameters, or it is not closed"), len(text)
    at = end_tag.end() if end_tag else len(text)
    raw = "" if name.strip() else text[head.start() : at]  # made() needs it only for a call without a name
    return made(name, args, raw), at


def _json_function(name: str, head: re.Match[str], text: str) -> tuple[ToolCall, int]:
    """Return Llama 3's and functionary's call: ``<function=name>{...}</function>``."""
    start = head.end() + len(text[head.end() :]) - len(text[head.end() :].lstrip())
    end = _CLOSE.search(text, end_of_value(text, start))
    stop = end.start() if end else len(text)
    return _named(name, text[head.end() : stop].strip(), text[head.start() : stop]), end.end() if end else len(text)


def _value_end(match: re.Match[str], name: str, key: str, known: Definitions) -> tuple[int, int, str]:
    """Return the value's end, the position after it, and a fault, for the parameter that ``match`` begins.

    Models forget closing tags, so the beginning of another parameter of the tool ends the value. Within a line of a multi-line
    value, such a beginning is part of the value.
    """
    text = match.string
    if _CDATA_START.match(text, match.end()) and (close := _CDATA_END.search(text, match.end())):
        return close.end("cdata"), close.end(), ""
    start = match.end()
    lines = text[start : start + 2].lstrip("\r").startswith("\n")  # the value is on lines of its own
    mentioned = False
    for edge in _PARAM_EDGE.finditer(text, start):
        at = edge.start()
        if edge[0]:
            if mentioned and not begins_line(text, at):
                return 0, 0, inside(key)
            return at, _without_strays(text, start, at, edge.end()), ""
        if lines and not begins_line(text, at):
            mentioned = True
            if _misses_end(text, at, name, known) or without_misspelt(text[start:at].rstrip(), key) != text[start:at].rstrip():
                return 0, 0, inside(key)
            continue
        inner = _PARAM.match(text, at)
        if inner is None or not text[start:at].strip() or _CALL_EDGE.search(text, start, at):
            return 0, 0, inside(key)
        if not known.takes(name, _found(inner)) or not (lines or _fits(inner, name, known)):
            return 0, 0, inside(key)
        value = without_misspelt(text[start:at].rstrip(), key)
        return (0, 0, misspelt(key)) if value is None else (start + len(value), edge.end(), "")
    return 0, 0, f"the parameter {key} is not closed"


def _without_strays(text: str, start: int, end: int, at: int) -> int:
    """Return the offset after closing tags that a model repeated. Only a value that contains no tags may have such repeats."""
    while "<" not in text[start:end] and (again := _PARAM_CLOSE.match(text, at)):
        at = again.end()
    return at


def _misses_end(text: str, at: int, name: str, known: Definitions) -> bool:
    """Return whether the tag at ``at``, within a line, may begin the next parameter, with its value on the next line."""
    inner = _PARAM.match(text, at)
    if inner is None or not known.takes(name, _found(inner)) or not text[inner.end() :].lstrip("\r").startswith("\n"):
        return False
    end = _PARAM_EDGE.search(text, inner.end())
    return end is not None and bool(text[inner.end() : end.start()].strip())


def _fits(match: re.Match[str], name: str, known: Definitions) -> bool:
    """Return whether a tag within an open parameter begins the next parameter: only if the next value is not text."""
    end = _PARAM_EDGE.search(match.string, match.end())
    read = typed(match.string[match.end() : end.start()], known.schema(name, _found(match))) if end and end[0] else ""
    return not isinstance(read, str)


def _is_on_lines(match: re.Match[str], end: int, schema: SchemaView) -> bool:
    """Return whether a value begins on its own line, so that the line breaks around it are dropped; True if it is not text.

    Qwen's models write values this way, others directly between the tags; all values of a call together decide.
    """
    text = match.string
    return text.startswith(("\n", "\r\n"), match.end(), end) or not isinstance(typed(text[match.end() : end], schema), str)


def _parameter(match: re.Match[str], end: int, schema: SchemaView, *, lines: bool) -> object:
    """Return the value between its opening tag, ``match``, and ``end``."""
    text, start = match.string, match.end()
    value = text[start:end]
    marks = f"{match['before'] or ''}{match['after']}"
    if 'string="true"' in marks:
        return value
    if cdata := _CDATA.fullmatch(value):
        value = cdata[1]
    elif lines:
        value = _LINE_ENDS.sub("", value)
    if 'type="string"' in marks:
        return value
    read = typed(value, schema)
    if isinstance(read, str) and (items := _items(read)) is not None and takes_list(schema):
        return [typed(item, schema.item(index) or ANY) for index, item in enumerate(items)]
    return read


def _items(text: str) -> list[str] | None:
    """Return the texts of ``<item>`` elements; None for any other text."""
    found, at = [], 0
    while match := _ITEM.match(text, at):
        if "<item>" in match[1]:
            return None
        found.append(match[1])
        at = match.end()
    return found if found and at == len(text) else None


def _found(match: re.Match[str]) -> str:
    return html.unescape((match["dq"] if match["dq"] is not None else match["sq"] or match["bare"] or "").strip())
