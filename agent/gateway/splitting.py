"""Splits a long answer into messages that a platform accepts, never within a code block that fits into one message."""

from __future__ import annotations

import re
from collections.abc import Iterator

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.regex import Regex

_FENCE = Regex(r"((?:[ \t]*(?:>|(?:[-*+]|\d{1,9}[.)])(?=[ \t])))*[ \t]*)(`{3,}(?=[^`]*$)|~{3,})(.*)$")
"""The first line of a code block: quotes, list marks and indent before it, the fence, the language and the rest."""
_BLANK = Regex(r"\s*")
_LEAST = 200
"""Smallest limit of a message's characters, so that a tiny ``most`` does not produce hundreds of messages."""
_LANGUAGE = 30
"""Maximum length of a language that is repeated when a code block is reopened."""


@dataclass(frozen=True, slots=True)
class _Fence:
    """The first line of a code block: ``lead`` before its mark, ``info`` after it."""

    lead: str
    mark: str
    info: str

    @property
    def quotes(self) -> str:
        """The `> ` marks that begin each line of the block if it is reopened in another message."""
        return "> " * self.lead.count(">")

    @property
    def indent(self) -> str:
        """The white space after the quotes; a list mark counts as white space."""
        return re.sub(r"\S", " ", self.lead[self.lead.rfind(">") + 1 :])

    @property
    def is_marked(self) -> bool:
        """True if the line has a list mark."""
        return self.lead.strip(" \t>") != ""

    def inside(self, line: str) -> str | None:
        """Return a line of the block without quotes and the block's indent, or None if the line is outside of the quotes."""
        quoted = re.match(rf"(?:[ \t]*>){{{self.lead.count('>')}}}", line)
        if quoted is None:
            return None
        rest, indent = line[quoted.end() :], self.indent
        if rest.startswith(indent):
            return rest[len(indent) :]
        text = rest.lstrip(" \t")
        return rest[: len(rest) - len(text)].expandtabs(4)[len(indent.expandtabs(4)) :] + text

    def ends_at(self, inside: str) -> bool:
        """Return whether a line that ``inside`` returned is the last line of the block."""
        mark = inside.strip()
        return len(mark) >= len(self.mark) and not mark.strip(self.mark[0]) and not inside.startswith(("    ", "\t"))


def split(text: str, most: int) -> list[str]:
    """Return the text as messages of at most ``most`` characters (at least 200), without blank lines around them.

    The text is cut between blocks (paragraphs, lists, whole code blocks) if possible, else between lines, words or characters.
    A code block longer than a message is closed and reopened. A block is not indented in a message that lacks the beginning of
    its list.
    """
    most = max(most, _LEAST)
    parts: list[str] = []
    now: list[str] = []
    size = 0
    for fence, block in _blocks(text):
        if size + len(block) <= most:
            now.append(block)
            size += len(block) + 2
            continue
        if now:
            parts.append("\n\n".join(now))
        *whole, last = _pieces(fence, block, most)
        parts += whole
        now, size = [last], len(last) + 2
    return [*parts, "\n\n".join(now)] if now else parts


def _blocks(text: str) -> Iterator[tuple[_Fence | None, str]]:
    """Yield paragraphs and code blocks, without the blank lines between them. A code block comes with its fence."""
    lines: list[str] = []
    fence: _Fence | None = None
    for line in text.split("\n"):
        if fence is not None and (inside := fence.inside(line)) is not None:
            lines.append(line)
            if fence.ends_at(inside):
                yield fence, "\n".join(lines)
                lines, fence = [], None
            continue
        begins = _FENCE.match(line)
        if lines and (fence is not None or begins is not None or not line.strip()):
            yield fence, "\n".join(lines)
            lines, fence = [], None
        if begins is not None:
            fence = _Fence(*begins.groups())
        if line.strip():
            lines.append(line)
    if lines:
        yield fence, "\n".join(lines)


def _pieces(fence: _Fence | None, block: str, most: int) -> list[str]:
    """Return a block as pieces of at most ``most`` characters. The first piece must be the beginning of a message."""
    if fence is not None and 8 * (len(fence.quotes) + len(fence.mark)) < most:
        # Without its list, Markdown reads a fence with so much indent as code.
        is_code = not fence.is_marked and len(fence.indent.expandtabs(4)) > 3 + bool(fence.quotes)
        if len(block) > most or is_code:
            return list(_reopened(fence, block, most))
    return [block] if len(block) <= most else list(_cut(block, most))


def _reopened(fence: _Fence, block: str, most: int) -> Iterator[str]:
    """Yield a code block as code blocks of at most ``most`` characters."""
    lines = [fence.inside(line) or "" for line in block.split("\n")[1:]]
    if lines and fence.ends_at(lines[-1]):
        lines.pop()
    language = fence.info if len(fence.info) <= _LANGUAGE else next(iter(fence.info.split()), "")[:_LANGUAGE]
    again = f"{fence.quotes}{fence.mark}{language}"
    lead = fence.lead.lstrip() if fence.is_marked and 4 * len(fence.lead) < most else fence.quotes
    before = re.sub(r"[^>\s]", " ", lead)
    first = f"{lead}{fence.mark}{fence.info}"
    if 2 * len(first) > most:
        lines.insert(0, fence.info.strip())
        first = f"{lead}{fence.mark}{language}"
    width = most - max(len(first), len(again)) - len(before) - len(before) - len(fence.mark) - 2
    piece, size = [first], len(first)
    for line in lines:
        for part in [line] if len(line) <= width else _cut(line, width, keep_indent=True):
            if size + len(before) + len(part) + len(before) + len(fence.mark) + 2 > most and len(piece) > 1:
                yield "\n".join([*piece, before + fence.mark])
                before, piece, size = fence.quotes, [again], len(again)
            piece.append(before + part)
            size += len(before) + len(part) + 1
    yield "\n".join([*piece, before + fence.mark])


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
