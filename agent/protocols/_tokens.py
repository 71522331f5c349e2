"""Blocks of dialects that mark calls with special tokens: DeepSeek, Kimi, Mistral, Step, MiniMax M3, PLaMo, Solar."""

from __future__ import annotations

import html
import re

from agent.protocols._bodies import read_body
from agent.protocols._made import ANY, Definitions, faulty, from_json, made, typed, unfenced
from agent.protocols.repair import end_of_value, read_json
from toolcrib.contract.schema_view import SchemaView
from toolcrib.contract.types import Json, ToolCall

_NAME = r"[A-Za-z_][\w.:/-]*"
_ONLY_NAME = re.compile(_NAME)
_BEGIN, _END, _SEPARATOR = (
    re.compile(rf"<[|\uff5c]tool[\u2581_ ]{mark}[|\uff5c]>")
    for mark in ("call[\u2581_ ]begin", "call[\u2581_ ]end", "sep")
)  # fmt: skip
_KIMI = re.compile(rf"\s*(?:functions\.)?(?P<name>{_NAME}?)(?::\d+)?\s*<\|tool_call_argument_begin\|>(?P<args>.*)", re.DOTALL)
_NAME_FIRST = re.compile(rf"\s*(?P<name>{_NAME})\s*(?P<args>(?:```|\{{).*)", re.DOTALL)
_ARGS_MARK = r"(?:\[CALL_ID\][^\[{]*)?(?:\[ARGS\])?"
_MISTRAL = re.compile(rf"\s*(?P<name>{_NAME})\s*{_ARGS_MARK}\s*(?P<args>\{{.*)", re.DOTALL)
MISTRAL_NEXT = re.compile(rf"[\s,;]{{0,20}}(?={_NAME}(?:\s*(?:\[CALL_ID\][^\[{{]*)?\[ARGS\]|\{{\"))")
"""Matches the text before a further call that lacks its ``[TOOL_CALLS]``."""
_M3, _M3_DEPTH = "]<]minimax[>[", 20
_M3_MARK = re.escape(_M3)
_M3_INVOKE = re.compile(
    rf"""\s*{_M3_MARK}<invoke\s+name\s*=\s*(?P<quote>["']?)(?P<name>[^"'<>\s]+)(?P=quote)\s*>(?P<body>.*?){_M3_MARK}</invoke>""",
    re.DOTALL,
)
_M3_FIELD = re.compile(
    rf"""\s*{_M3_MARK}<(?P<parameter>parameter\s+name\s*=\s*["']?)?(?P<key>[A-Za-z_][\w.-]*)(?(parameter)["']?)>(?P<value>.*?)"""
    rf"{_M3_MARK}</(?(parameter)parameter|(?P=key))>",
    re.DOTALL,
)
_K3_CALL = re.compile(r"\s*<\|open\|>call(?P<marks>[^<>|]*)<\|sep\|>(?P<body>.*?)<\|close\|>call<\|sep\|>", re.DOTALL)
_K3_ARG = re.compile(r"\s*<\|open\|>argument(?P<marks>[^<>|]*)<\|sep\|>(?P<value>.*?)<\|close\|>argument<\|sep\|>", re.DOTALL)
_K3_INSIDE = re.compile(r"<\|open\|>argument|\A<\|sep\|>|<\|close\|>\Z")
_MARK = re.compile(r"""(\w+)\s*=\s*["']([^"']*)["']""")
_MARKED = re.compile(
    rf"\s*(?:<\|[\w:]*(?:call:begin|begin_tool_request:plamo)\|>)?[^<]*<\|[\w:]*name[\w:]*\|>\s*(?P<name>{_NAME})\s*"
    r"(?:<\|[\w:]+\|>\s*(?:json\s*)?)+(?=\{)"
)
_MARKED_END = re.compile(r"\s*(?:<\|(?![\w:]*begin)[\w:]+\|>\s*)*")


def read_sections(body: str, known: Definitions) -> list[ToolCall]:
    """Return the calls in the sections of DeepSeek, Kimi and Step; a broken section does not affect the others."""
    calls: list[ToolCall] = []
    for section in _split(_BEGIN, body):
        text = section.strip()
        if not text:
            continue
        inner, *after = _split(_END, text)
        if any(one.strip() for one in after) or len(after) > 1:
            calls.append(faulty("", section, "there is text between the calls"))
        else:
            calls += _section(inner.strip(), section, known)
    return calls or [faulty("", body, "it has no call")]


def _split(mark: re.Pattern[str], text: str) -> list[str]:
    """Split a text at its marks, but not at marks inside a piece's JSON value or one of Step's parameters."""
    pieces: list[str] = []
    start = end = 0
    for match in mark.finditer(text):
        if _in_parameter(text, start, match.start()):
            continue
        brace = text.find("{", start, match.start())
        if brace >= end:
            end = end_of_value(text, brace)
        if match.start() >= end:
            pieces.append(text[start : match.start()])
            start = match.end()
    return [*pieces, text[start:]]


def _in_parameter(text: str, start: int, at: int) -> bool:
    """Return whether one of Step's parameters that began after ``start`` is still open at ``at``."""
    opened = text.rfind("<steptml:parameter", start, at)
    return opened >= 0 and text.find("</steptml:parameter>", opened, at) < 0


def _section(text: str, raw: str, known: Definitions) -> list[ToolCall]:
    if match := _KIMI.fullmatch(text):
        return [_call(match["name"], match["args"], raw)]
    if text[:1] in ("{", "[", "<") and not _SEPARATOR.match(text):
        return read_body(text, known)
    first, *others = _SEPARATOR.split(text, maxsplit=1)
    name, rest = first.strip(), others[0].strip() if others else ""
    if rest.startswith("<"):
        return read_body(rest, known)
    if name in ("", "function") and (match := _NAME_FIRST.fullmatch(rest)):
        return [_call(match["name"], unfenced(match["args"]), raw)]
    if rest and _ONLY_NAME.fullmatch(name):
        return [_call(name, unfenced(rest), raw)]
    return [faulty(name if _ONLY_NAME.fullmatch(name) else "", raw, "a call is its name, the separator and one JSON object")]


def _call(name: str, args: str, raw: str) -> ToolCall:
    try:
        return made(name, read_json(args), raw)
    except ValueError as error:
        return faulty(name, raw, f"the arguments are not valid JSON ({error}); send one JSON object")


def read_mistral(body: str, known: Definitions) -> list[ToolCall]:
    text = body.strip()
    if text.startswith(("[", "{")):
        return read_body(text, known)
    match = _MISTRAL.fullmatch(text)
    if match is None:
        return [faulty("", body, "a call is written as [TOOL_CALLS]tool_name[ARGS]{...}")]
    return [_call(match["name"], match["args"], text)]


def read_minimax_m3(body: str, known: Definitions) -> list[ToolCall]:
    """Return MiniMax M3's calls.

    In its format a mark precedes every tag. Each argument is a tag with the argument's name. The value of an object is a tag for
    each property, and the value of a list is a tag ``item`` for each item.
    """
    calls, at = [], 0
    text = body.strip()
    while match := _M3_INVOKE.match(text, at):
        at = match.end()
        calls.append(_m3_call(match["name"], match["body"], match[0], known))
    if text[at:].strip() or not calls:
        calls.append(faulty("", body, 'a call is written as <invoke name="tool_name"><key>value</key></invoke>'))
    return calls


def _m3_call(name: str, body: str, raw: str, known: Definitions) -> ToolCall:
    try:
        fields = _fields(body)
        return made(name, {key: _argument(value, known.schema(name, key)) for key, value in fields.items()}, raw)
    except ValueError as error:
        return faulty(name, raw, f"{error}; write each argument as <key>value</key>, and each item of a list as <item>...</item>")


def _pairs(text: str) -> list[tuple[str, str]]:
    """Return (tag, text) of each field. Raises ValueError for any other text."""
    found, at = [], 0
    while match := _M3_FIELD.match(text, at):
        if match["value"].lstrip().startswith(f"<{match['key']}>"):
            raise ValueError(f"the tag {match['key']} appears twice")
        found.append((match["key"], match["value"]))
        at = match.end()
    if text[at:].strip():
        raise ValueError("there is unreadable markup in its arguments")
    return found


def _fields(text: str) -> dict[str, str]:
    """Return the fields by name. Raises ValueError."""
    pairs = _pairs(text)
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("an argument appears twice")
    return fields


def _argument(value: str, schema: SchemaView, depth: int = _M3_DEPTH) -> Json:
    """Return the value of an argument. Raises ValueError."""
    if _M3 not in value:
        return typed(value, schema)
    if not depth:
        raise ValueError("its arguments are nested too deeply")
    pairs = _pairs(value)
    if all(key == "item" for key, _ in pairs) and "properties" not in schema.fields:
        return [_argument(item, schema.item(index) or ANY, depth - 1) for index, (_, item) in enumerate(pairs)]
    return {key: _argument(text, schema.property(key) or ANY, depth - 1) for key, text in _fields(value).items()}


def read_kimi_k3(body: str, known: Definitions) -> list[ToolCall]:
    calls, at = [], 0
    while match := _K3_CALL.match(body, at):
        at = match.end()
        marks = dict(_MARK.findall(match["marks"]))
        name = html.unescape(marks.get("tool") or marks.get("name", "")).removeprefix("functions.")
        args: dict[str, object] = {}
        inner, place = match["body"], 0
        while one := _K3_ARG.match(inner, place):
            place = one.end()
            marks = dict(_MARK.findall(one["marks"]))
            key = html.unescape(marks.get("key") or marks.get("name", ""))
            text_type = marks.get("type", "")
            schema = SchemaView({"type": text_type}) if text_type else known.schema(name, key)
            args[key] = one["value"] if text_type == "string" else typed(one["value"], schema)
        if inner[place:].strip() or any(isinstance(one, str) and _K3_INSIDE.search(one) for one in args.values()):
            calls.append(faulty(name, match[0], "an argument is not closed"))
        else:
            calls.append(made(name, args, match[0]))
    if body[at:].strip() or not calls:
        calls.append(faulty("", body, "a call is not closed"))
    return calls


def read_marked(body: str, known: Definitions) -> list[ToolCall]:
    """Return PLaMo's or Solar's calls: each has a mark before its name, and marks between the name and a JSON object."""
    calls, at = [], 0
    while match := _MARKED.match(body, at):
        end = end_of_value(body, match.end())
        calls.append(_call(match["name"], body[match.end() : end], body[at:end]))
        after = _MARKED_END.match(body, end)
        at = after.end() if after else end
    if body[at:].strip() or not calls:
        calls.append(faulty("", body[at:], "a call is its name and one JSON object, each after its mark"))
    return calls


def read_json_body(body: str, known: Definitions) -> list[ToolCall]:
    """Return a call, or a list of them, from JSON; a Markdown fence around it is ignored."""
    text = unfenced(body)
    try:
        value = read_json(text)
    except ValueError as error:
        return [faulty("", body, f"it is not valid JSON ({error}); send one JSON object")]
    return list(from_json(value, text)) or [faulty("", body, "the list of calls is empty")]
