"""Blocks of the dialects that mark calls by special tokens: DeepSeek, Kimi, Mistral, Step, MiniMax M3."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping

from agent.protocols._bodies import read_body, read_xml
from agent.protocols._made import Definitions, faulty, from_json, made, typed
from agent.protocols.repair import read_json
from toolcrib import ToolCall
from toolcrib._types import Json

_NAME = r"[A-Za-z_][\w.:/-]*"
_DEEPSEEK = re.compile(
    rf"\s*(?:function\s*<\uff5ctool▁sep\uff5c>\s*(?P<old>{_NAME})\s*```(?:json)?(?P<fenced>.*)```\s*"
    rf"|(?P<name>{_NAME})\s*<\uff5ctool▁sep\uff5c>(?P<args>.*))",
    re.DOTALL,
)
_DEEPSEEK_BEGIN, _DEEPSEEK_END = "<\uff5ctool▁call▁begin\uff5c>", "<\uff5ctool▁call▁end\uff5c>"
_KIMI = re.compile(rf"\s*(?:functions\.)?(?P<name>{_NAME}?)(?::\d+)?\s*<\|tool_call_argument_begin\|>(?P<args>.*)", re.DOTALL)
_KIMI_BEGIN, _KIMI_END = "<|tool_call_begin|>", "<|tool_call_end|>"
_MISTRAL = re.compile(rf"\s*(?P<name>{_NAME})\s*(?:\[CALL_ID\][^\[{{]*)?(?:\[ARGS\])?\s*(?P<args>\{{.*)", re.DOTALL)
_M3, _M3_DEPTH = "]<]minimax[>[", 20
_M3_MARK = re.escape(_M3)
_M3_INVOKE = re.compile(rf'\s*{_M3_MARK}<invoke name="(?P<name>[^"<>]+)">(?P<body>.*?){_M3_MARK}</invoke>', re.DOTALL)
_M3_FIELD = re.compile(rf"\s*{_M3_MARK}<(?P<key>[A-Za-z_][\w.-]*)>(?P<value>.*?){_M3_MARK}</(?P=key)>", re.DOTALL)
_K3_CALL = re.compile(r"\s*<\|open\|>call(?P<marks>[^<>|]*)<\|sep\|>(?P<body>.*?)<\|close\|>call<\|sep\|>", re.DOTALL)
_K3_ARG = re.compile(r"\s*<\|open\|>argument(?P<marks>[^<>|]*)<\|sep\|>(?P<value>.*?)<\|close\|>argument<\|sep\|>", re.DOTALL)
_MARK = re.compile(r'(\w+)="([^"]*)"')


def read_deepseek(body: str, known: Definitions) -> list[ToolCall]:
    return _sections(body, _DEEPSEEK_BEGIN, _DEEPSEEK_END, _DEEPSEEK)


def read_kimi(body: str, known: Definitions) -> list[ToolCall]:
    return _sections(body, _KIMI_BEGIN, _KIMI_END, _KIMI)


def _sections(body: str, begin: str, end: str, pattern: re.Pattern[str]) -> list[ToolCall]:
    """Read a call from each section; a broken one does not lose the others."""
    calls = []
    for section in body.split(begin):
        text = section.strip()
        if not text:
            continue
        closed = text.rfind(end)
        after = text[closed + len(end) :].strip() if closed >= 0 else ""
        match = pattern.fullmatch(text, 0, closed if closed >= 0 else len(text))
        if match is None or after:
            calls.append(faulty("", section, f"a call is written as in {begin}...{end}, with its name and one JSON object"))
            continue
        found = match.groupdict()
        name, args = found.get("old") or found["name"], found.get("fenced") or found["args"]
        calls.append(_call(name, args, section))
    return calls or [faulty("", body, "there is no call in it")]


def _call(name: str, args: str, raw: str) -> ToolCall:
    try:
        return made(name, read_json(args), raw)
    except ValueError as error:
        return faulty(name, raw, f"the arguments are not valid JSON ({error}); send one JSON object")


def read_mistral(body: str, known: Definitions) -> list[ToolCall]:
    text = body.strip()
    if text.startswith("["):
        return read_body(text, known)
    match = _MISTRAL.fullmatch(text)
    if match is None:
        return [faulty("", body, "a call is written as [TOOL_CALLS]tool_name[ARGS]{...}")]
    return [_call(match["name"], match["args"], text)]


def read_step(body: str, known: Definitions) -> list[ToolCall]:
    return read_xml(body.replace("<\uff5ctool_call_begin\uff5c>", "").replace("<\uff5ctool_call_end\uff5c>", ""), known)


def read_minimax_m3(body: str, known: Definitions) -> list[ToolCall]:
    """The mark stands before every tag; arguments are tags of their own names, and objects nest."""
    calls, at = [], 0
    text = body.strip()
    while match := _M3_INVOKE.match(text, at):
        at = match.end()
        name = match["name"]
        fields = _fields(match["body"])
        if fields is None:
            calls.append(faulty(name, match[0], "its arguments are not <key>value</key> each"))
        else:
            calls.append(made(name, {key: _argument(value, known.schema(name, key)) for key, value in fields}, match[0]))
    if text[at:].strip() or not calls:
        calls.append(faulty("", body, 'a call is written as <invoke name="tool_name"><key>value</key></invoke>'))
    return calls


def _fields(text: str) -> list[tuple[str, str]] | None:
    found, at = [], 0
    while match := _M3_FIELD.match(text, at):
        found.append((match["key"], match["value"]))
        at = match.end()
    keys = {key for key, _ in found}
    return None if text[at:].strip() or len(keys) < len(found) else found


def _argument(value: str, schema: Mapping[str, Json], depth: int = _M3_DEPTH) -> Json:
    fields = _fields(value) if depth and _M3 in value else None
    if not fields:
        return typed(value, schema)
    return {key: _argument(inner, {}, depth - 1) for key, inner in fields}


def read_kimi_k3(body: str, known: Definitions) -> list[ToolCall]:
    calls, at = [], 0
    while match := _K3_CALL.match(body, at):
        at = match.end()
        name = html.unescape(dict(_MARK.findall(match["marks"])).get("tool", ""))
        args: dict[str, object] = {}
        inner, place = match["body"], 0
        while one := _K3_ARG.match(inner, place):
            place = one.end()
            marks = dict(_MARK.findall(one["marks"]))
            key = html.unescape(marks.get("key", ""))
            text_type = marks.get("type", "")
            args[key] = one["value"] if text_type == "string" else typed(one["value"], {"type": text_type} if text_type else {})
        if inner[place:].strip():
            calls.append(faulty(name, match[0], "an argument is not closed"))
        else:
            calls.append(made(name, args, match[0]))
    if body[at:].strip() or not calls:
        calls.append(faulty("", body, "a call is not closed"))
    return calls


def read_json_body(body: str, known: Definitions) -> list[ToolCall]:
    """Read a call, or a list of them, as JSON; a Markdown fence around it is ignored."""
    text = body.strip().removeprefix("```json").removesuffix("```").strip()
    try:
        value = read_json(text)
    except ValueError as error:
        return [faulty("", body, f"it is not valid JSON ({error}); send one JSON object")]
    return list(from_json(value, text)) or [faulty("", body, "the list of calls is empty")]
