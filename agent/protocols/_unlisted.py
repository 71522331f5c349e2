"""Finds calls in formats that no reader knows: the name of a known tool inside marks of calls. None of them runs.

Answers about HTML, XML and configuration contain such names too, so a name alone is not enough. A token such as ``<|call|>``
counts if the tool's own arguments follow, or if the name is next to it and the rest has the form of a call. A tag of a call
counts only if the reply ends with a bracket, and the tool's own arguments follow or the tool has none. An element named like a
tool counts if it contains exactly the tool's arguments; an element whose name also has an argument or another word for calls
always counts. A name with the tool's arguments as JSON, ``[Calling tool: name({...})]`` or ``[Called "name" with args: {...}]``,
counts if it ends the reply, and so does ``[/name]`` after a line with the name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice

from agent.protocols._made import Definitions
from agent.protocols._sentences import LOOKED_BACK, covers

_BAR = r"[|\uff5c]"
_TOKEN = (
    rf"(?:<{_BAR}[^<>\n|\uff5c]{{1,60}}{_BAR}>|</?[\w:.-]{{1,30}}{_BAR}[^<>\n]{{1,40}}>|\][<(]\][^\[\]<>\n]{{1,30}}\[[>)]\["
    r"|</?\w*(?:arg_key|arg_value|tool_sep)(?::[\w-]+)?>)"
)
"""A special token of a chat template, ``<|call|>``, ``<ifm|call>``, ``]<]name[>[``, or a tag that only calls have."""
_WORDS = r"(?:(?:tool|function|func|fn)s?[_-]?(?:call(?:ing)?|use|request|invocation|invoke)s?|invoke|call[_-](?:tool|function))"
_TAG = (
    rf"(?:</?[\w:.-]*{_WORDS}(?![a-z])[\w:.-]*(?:[\s=][^<>\n]{{0,80}})?>"
    rf"|\[{_WORDS}(?:[\s=:][^\[\]\n]{{0,80}})?\]|<<{_WORDS}>>|\{{\{{{_WORDS}\}}\}}"
    rf"|\u25c1{_WORDS}\u25b7)"
)
"""A tag in brackets of any kind with words for a call: ``<x_tool_call>``, ``[TOOL_CALL]``, ``[tool_call:name]``."""
_MARK = re.compile(rf"(?P<token>{_TOKEN})|(?P<tag>{_TAG})", re.IGNORECASE)
_BEFORE_NAME = (
    r"\s*(?:<[\w:.-]+[>=:\s]\s*)?(?:json\s*)?(?:\[\s*)?(?:\{\s*[\"'](?:name|tool|tool_name|function)[\"']\s*:\s*)?[\"']?"
    r"(?:functions?[.:]|tool[.:])?"
)
_NAME_ENDS = r"(?![\w-])"
_ENDS = ("]", ">", "}", ")", "\u25b7")
_LOOKED_AHEAD = 600
_MOST = 40
_DECODER = json.JSONDecoder()
_ELEMENT = re.compile(r"^[ \t]*<(?P<name>\w+[_-]\w+)>(?P<body>.*)</(?P=name)>\s*\Z", re.MULTILINE | re.DOTALL)

_CALLING = r"(?:call(?:ing|ed|s)?|use|using|invok(?:e|ing)|run(?:ning)?|exec(?:ute|uting)?|tool|function|action)"
_NAME_WORD = re.compile(rf"(?:{_CALLING}|command|request|input|args|arguments|parameters)", re.IGNORECASE)
_LABEL = rf"(?:(?:{_CALLING}[ \t]+){{0,2}}{_CALLING})?:[ \t]*|(?:{_CALLING}[ \t]+){{1,2}}"
_WITH = r"[:=,]?[ \t]*(?:(?:with[ \t]+)?(?:args|arguments|parameters|params|input)[ \t]*[:=]?)?"
_CALLED = re.compile(
    rf"^[ \t]*(?:(?P<bracket>[\[<(]\s*)|[\[<({{]+\s*)?(?:{_LABEL})?(?P<mark>[\"'`]?)(?P<name>[A-Za-z_][\w.-]*)(?P=mark)"
    rf"\s*(?:\(|(?(bracket){_WITH}|\())\s*(?=\{{)",
    re.MULTILINE | re.IGNORECASE,
)
_CALLED_END = re.compile(r"\s*[\])>}][\s\])>}]*\Z")
_CLOSED = re.compile(r"\[/(?P<name>[A-Za-z_][\w.-]*)\]\s*\Z")


def unlisted_calls(text: str, known: Definitions) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of a call that is written in an unknown form, if there is one. ``text`` has no code."""
    yield from _called(text, known)
    yield from _closed(text, known)
    if "<" not in text and "[" not in text and "{{" not in text and "\u25c1" not in text:
        return
    names = "|".join(sorted(map(re.escape, known.names), key=len, reverse=True))
    behind = re.compile(rf"{_BEFORE_NAME}(?P<name>{names}){_NAME_ENDS}")
    within = re.compile(rf"(?:name|tool|function|call|[:=|\uff5c])\s*[=:]?\s*[\"']?(?P<name>{names}){_NAME_ENDS}", re.IGNORECASE)
    before = re.compile(rf"(?:^|[\s>.:=])(?P<name>{names})[ \t]*\Z")
    for count, mark in enumerate(_MARK.finditer(text)):
        if count >= _MOST:
            return
        inner = within.search(mark[0])
        found = behind.match(text, mark.end())
        ends = found is not None and text.rstrip().endswith(_ENDS)
        if found is None and inner is not None:
            found, ends = inner, mark["tag"] is not None and text.rstrip().endswith(_ENDS)
        if found is None and mark["token"]:
            line = text[max(0, mark.start() - 100) : mark.start()]
            found = before.search(line)
            ends = (
                found is not None
                and not line[: found.start("name")].strip(" \t").rpartition("\n")[2]
                and bool(text[mark.end() :].strip())
            )
        if found is None:
            continue
        name = found["name"]
        if _is_call(text, mark, name, known, ends=ends) and not covers(text[max(0, mark.start() - LOOKED_BACK) : mark.start()]):
            yield name, text[mark.start() :]
            return
    if (element := _ELEMENT.search(text)) and (name := _tool_of(element, known)):
        yield name, element[0]


def _called(text: str, known: Definitions) -> Iterator[tuple[str, str]]:
    """Yield the call ``name({...})`` that ends the text, if the JSON is the tool's arguments."""
    if not text.rstrip().endswith((")", "]", ">", "}")):
        return
    for match in islice(_CALLED.finditer(text), _MOST):
        try:
            args, end = _DECODER.raw_decode(text, match.end())
        except (ValueError, RecursionError):
            continue
        name = match["name"]
        if name not in known or not _CALLED_END.match(text, end) or known.lacks(name, args):
            continue
        if all(known.takes(name, key) for key in args) and not covers(text[max(0, match.start() - LOOKED_BACK) : match.start()]):
            yield name, text[match.start() :].strip()
            return


def _closed(text: str, known: Definitions) -> Iterator[tuple[str, str]]:
    """Yield the call that ends the text with ``[/name]``, after a line that begins with the name alone or in brackets."""
    end = _CLOSED.search(text) if text.rstrip().endswith("]") else None
    if end is None or end["name"] not in known:
        return
    name = re.escape(end["name"])
    begin = re.search(rf"^[ \t]*(?:{name}[ \t]*$|\[{name}\])", text[: end.start()], re.MULTILINE)
    if begin and not covers(text[max(0, begin.start() - LOOKED_BACK) : begin.start()]):
        yield end["name"], text[begin.start() :].strip()


def _tool_of(element: re.Match[str], known: Definitions) -> str:
    """Return the tool that an element at the end of the text calls; "" for none."""
    name = element["name"]
    if name in known:
        return name if _has_all(element, known) else ""
    for tool in known.names:
        rest = name.removeprefix(tool) if name.startswith(tool) else name.removesuffix(tool)
        word = rest.strip("_-")
        if rest not in (name, word) and (_NAME_WORD.fullmatch(word) or (name.startswith(tool) and known.takes(tool, word))):
            return tool
    return ""


def _is_call(text: str, mark: re.Match[str], name: str, known: Definitions, *, ends: bool) -> bool:
    """Return whether a mark is part of a call of the tool. ``ends``: the rest of the reply has the form of a call.

    A token needs the tool's arguments or ``ends``. A tag needs ``ends``, and arguments unless the tool has none.
    """
    rest = text[mark.start() : mark.end() + _LOOKED_AHEAD]
    if _has_argument(rest, name, known):
        return ends or mark["token"] is not None
    return ends and (mark["token"] is not None or not known.keys(name))


def _has_argument(text: str, name: str, known: Definitions) -> bool:
    """Return whether the text contains an argument of the tool as a key."""
    keys = "|".join(map(re.escape, known.keys(name)))
    return bool(keys) and re.search(rf"""(?<![\w-])(?:{keys})(?:["']?\s*[:=]|["']?\s*>|\s*</)""", text) is not None


def _has_all(element: re.Match[str], known: Definitions) -> bool:
    """Return whether an element named like a tool contains exactly elements of its arguments, and all that it requires."""
    keys = re.findall(r"<([\w.-]+)>", element["body"])
    given = {key: "" for key in keys if known.takes(element["name"], key)}
    return len(given) == len(keys) > 0 and not known.lacks(element["name"], given)
