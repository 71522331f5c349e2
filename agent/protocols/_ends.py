"""Ends of arguments between tags: misspelt ends, and ends of arguments that have no beginning."""

from __future__ import annotations

import re

from agent.protocols._code import goes_on

_NS = r"(?:[|\uff5c]{1,2}DSML[|\uff5c]{1,2} ?|[A-Za-z]\w*:)?"
_ENDS_LIKE = re.compile(rf"</{_NS}(?P<word>[A-Za-z_][\w.:-]*)[^<>\n]{{0,80}}>\Z")
_PARAMETER = re.compile(
    r"</[^<>\s=]*?param(?:eter)?(?:[\s=:]\s*(?:name\s*=\s*)?[\"']?(?P<key>[^<>\"'\n]*?)[\"']?)?\s*>\Z", re.IGNORECASE
)
_ARGUMENT = re.compile(
    rf"<(?P<end>/)?(?:{_NS}param(?:eter)?|(?:longcat_)?arg_value)\b[^<>\n]*>"
    r"|<\|(?:open|(?P<close>close))\|>argument[^<>\n]*<\|sep\|>"
    r"|(?P<quote><\|\"\|>|<escape>)(?P<ends>(?=\s*[},]))?"
)
_MARKS = re.compile(r"arg_value>|arg_key>|param(?:eter)?\b|<\|(?:open|close)\|>argument|\]<\]minimax|<\|\"\|>|<escape>")
_STRAY = re.compile(
    r"(?:<|\[)/(?P<name>[\w:.-]{1,60})[>\]]|<\W?[\w\u2581]*(?:end|close)[\w\u2581]*\W?>"
    r"|<\|(?:observation|user|return|eo[mst](?:_id)?)\|>"
)
_MOST_STRAYS = 20
_QUOTES = ("`", '"', "'", "\u201c", "\u201d")


def holds_arguments(text: str) -> bool:
    """Return whether the text of a call contains tags of arguments."""
    return _MARKS.search(text) is not None


def without_misspelt(value: str, key: str) -> str | None:
    """Return a value without a misspelt end tag at its end; None if it is unclear whether that is the argument's end.

    The value has no closing tag of its own: the next argument's beginning closes it.
    """
    match = _ENDS_LIKE.search(value, max(0, value.rfind("<")))
    if match is None:
        return value
    parameter = _PARAMETER.match(value, match.start())
    meant = parameter["key"] in (None, "", key) if parameter else match["word"] == key and f"<{key}" not in value
    return value[: match.start()].rstrip() if meant else None


def stray_end(text: str) -> str:
    """Return the end of an argument whose beginning is not in ``text``; "" for none. Mentions and quotations are ignored."""
    opened = False
    for match in _ARGUMENT.finditer(text):
        if match["quote"] and match["ends"] is None:
            opened = not opened
        elif opened and (match["quote"] or match["end"] or match["close"]):
            opened = False
        elif not (match["quote"] or match["end"] or match["close"]):
            opened = True
        elif not (goes_on(text[match.end() :]) or _is_quoted(text, *match.span())):
            return match[0]
    return ""


def without_strays(text: str) -> str:
    """Return the text without unmatched closing marks at its end, such as ``</tool_call>`` and ``<|user|>``."""
    for _ in range(_MOST_STRAYS):
        bare = text.rstrip()
        at = max(bare.rfind("<"), bare.rfind("["))
        match = _STRAY.fullmatch(bare, max(at, 0))
        if match is None or (match["name"] and any(f"{mark}{match['name']}" in bare[:at] for mark in "<[")):
            return text
        text = bare[:at]
    return text


def _is_quoted(text: str, start: int, end: int) -> bool:
    return text[start - 1 : start] in _QUOTES and text[end : end + 1] in _QUOTES
