"""Splits a long answer into messages that a platform accepts: between paragraphs, never within a code block that fits."""

from __future__ import annotations

import re
from collections.abc import Iterator

from toolcrib.contract.regex import Regex

_FENCE = Regex(r" {0,3}(`{3,}|~{3,})[^\n`]*$")
_BLANK = Regex(r"\s*")
_LEAST = 200
"""Smallest limit of a message's characters, so that a tiny ``most`` does not produce hundreds of messages."""


def split(text: str, most: int) -> list[str]:
    """Return the text as messages of at most ``most`` characters (at least 200), without blank lines around them.

    The text is cut between blocks (paragraphs, lists, whole code blocks) if possible, else between lines, words or characters.
    A code block longer than a message is closed and reopened.
    """
    most = max(most, _LEAST)
    parts: list[str] = []
    now: list[str] = []
    size = 0
    for block in _blocks(text):
        if size + len(block) <= most:
            now.append(block)
            size += len(block) + 2
            continue
        if now:
            parts.append("\n\n".join(now))
        *whole, last = _pieces(block, most)
        parts += whole
        now, size = [last], len(last) + 2
    return [*parts, "\n\n".join(now)] if now else parts


def _blocks(text: str) -> Iterator[str]:
    """Yield paragraphs and code blocks, without the blank lines between them."""
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if fence:
            lines.append(line)
            if mark is not None and line.strip() == mark[1] and mark[1].startswith(fence):
                yield "\n".join(lines)
                lines, fence = [], ""
        elif mark is not None:
            if lines:
                yield "\n".join(lines)
            lines, fence = [line], mark[1]
        elif line.strip():
            lines.append(line)
        elif lines:
            yield "\n".join(lines)
            lines = []
    if lines:
        yield "\n".join(lines)


def _pieces(block: str, most: int) -> list[str]:
    """Split a block that is too long; one that fits is returned unchanged."""
    if len(block) <= most:
        return [block]
    mark = _FENCE.match(block.split("\n", 1)[0])
    if mark is None or len(mark[0]) * 2 + 2 > most // 2:
        return list(_cut(block, most))
    first, _, rest = block.partition("\n")
    lines = rest.split("\n")
    closed = lines[-1].strip() == mark[1]
    inside = "\n".join(lines[:-1] if closed else lines)
    room = most - len(first) - len(mark[1]) - 2
    return [f"{first}\n{piece}\n{mark[1]}" for piece in _cut(inside, room, keep_indent=True)]


def _cut(text: str, most: int, *, keep_indent: bool = False) -> Iterator[str]:
    """Yield pieces of at most ``most`` characters, cut at line ends, else at blanks. The work is linear in the length."""
    begin = 0
    while len(text) - begin > most:
        at = text.rfind("\n", begin + 1, begin + most + 1) - begin
        if at < most // 4:
            blanks = [found.start() for found in re.finditer(r"\s", text[begin : begin + most + 1])]
            at = blanks[-1] if blanks and blanks[-1] >= most // 4 else most
        yield text[begin : begin + at].rstrip()
        begin += at
        if not keep_indent:
            blank = _BLANK.match(text, begin)
            begin = begin if blank is None else blank.end()
        elif text.startswith("\n", begin):
            begin += 1
    if (rest := text[begin:]).strip():
        yield rest
