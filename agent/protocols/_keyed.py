"""Reads calls whose arguments are pairs of keys and values between tags: GLM, LongCat, IQuest, K2 Horizon, Hunyuan.

The families spell the tags with a prefix (``<ifm|arg_key>``) or a suffix (``<arg_key:ab12>``). A call spells all its tags alike.
"""

from __future__ import annotations

import re
from functools import lru_cache

from agent.protocols._ends import without_misspelt
from agent.protocols._made import Definitions, faulty, typed
from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.schema_view import SchemaView
from toolcrib.contract.types import ToolCall

_NAME = r"[A-Za-z_][\w.:/-]*"
_HEAD = re.compile(
    rf"\s*(?P<name>{_NAME})\s*(?P<separator><(?:ifm\|)?tool_sep(?::[\w-]+)?>\s*)?"
    r"(?:(?=<(?P<prefix>longcat_|ifm\|)?arg_key(?P<suffix>:[\w-]+)?>)|(?P<end>\Z))"
)
_MENTIONED = re.compile(r"[\"'`]<\w*\|?arg_value(?::[\w-]+)?>[\"'`]")
"""A mention of the tag in quotation marks."""


class _Spelling(NamedTuple):
    """Patterns for the beginning of an argument and for the end of its value, and the text that the value's tags end with."""

    begin: re.Pattern[str]
    edge: re.Pattern[str]
    tag: str


@lru_cache(maxsize=64)
def _spelling(prefix: str, suffix: str) -> _Spelling:
    key, kind, value = (f"{prefix}{part}{suffix}>" for part in ("arg_key", "arg_type", "arg_value"))
    begin = (
        rf"\s*(?:<{re.escape(key)}\s*)+(?P<key>[^<>]*)</{re.escape(key)}\s*"
        rf"(?:<{re.escape(kind)}(?P<type>[^<>]*)</{re.escape(kind)}\s*)?<{re.escape(value)}"
    )
    return _Spelling(re.compile(begin), re.compile(rf"</{re.escape(value)}|(?=<{re.escape(key)})"), value)


def read_keyed(text: str, known: Definitions) -> ToolCall | None:
    """Return the call; None if the text does not begin like one.

    The tag of a known key at the beginning of a line ends a value that lacks its closing tag.
    """
    head = _HEAD.match(text)
    if head is None or (head["end"] is not None and not head["separator"]):
        return None
    name, at = head["name"], head.end()
    spelling = _spelling(head["prefix"] or "", head["suffix"] or "")
    args: dict[str, object] = {}
    while match := spelling.begin.match(text, at):
        key = match["key"].strip()
        if key in args:
            return faulty(name, text, f"the argument {key} appears twice")
        value, at, fault = _value(match, name, spelling, known)
        if fault:
            return faulty(name, text, fault)
        schema = known.schema(name, key)
        if match["type"] and not schema.fields:
            schema = SchemaView({"type": match["type"].strip()})
        args[key] = typed(value, schema)
    if text[at:].strip():
        return faulty(name, text, "an arg_key or arg_value is not closed")
    return ToolCall(ToolCall.new_id(), name, args)


def _value(match: re.Match[str], name: str, spelling: _Spelling, known: Definitions) -> tuple[str, int, str]:
    """Return the value, the position after it, and a fault, for the argument that ``match`` begins."""
    text, key, start = match.string, match["key"].strip(), match.end()
    edge = spelling.edge.search(text, start)
    while edge is not None and not edge[0] and not spelling.begin.match(text, edge.start()):
        edge = spelling.edge.search(text, edge.start() + 1)  # the value mentions the tag
    if edge is None:
        return "", 0, f"the arg_value of {key} is not closed"
    value = text[start : edge.start()]
    if not edge[0]:
        inner = spelling.begin.match(text, edge.start())
        meant = inner is not None and known.takes(name, inner["key"].strip()) and begins_line(text, edge.start())
        if not meant or not value.strip():
            return "", 0, inside(key)
    if spelling.tag in _MENTIONED.sub("", value):
        return "", 0, inside(key)
    if not edge[0]:
        whole = without_misspelt(value.strip(), key)
        if whole is None:
            return "", 0, misspelt(key)
        value = whole
    return value, edge.end(), ""


def begins_line(text: str, at: int) -> bool:
    return not text[text.rfind("\n", 0, at) + 1 : at].strip()


def inside(key: str) -> str:
    return (
        f"the value of {key} contains the beginning of another argument, so the end of the value is unclear; close each argument"
    )


def misspelt(key: str) -> str:
    return f"the value of {key} seems to end with a misspelt closing tag, so the end of the value is unclear; close each argument"
