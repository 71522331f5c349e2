"""Markdown as it streams: each line is read once, each row is final as soon as no text to come can change it.

The rows are the same however the text is cut into pieces. What CommonMark decides by a later line is decided here by what was
given away already: only a paragraph of one short line becomes a heading by the line below it.
"""

from __future__ import annotations

import copy

from agent.cli.escape import tame
from agent.cli.screen.cells import Row, chunks
from agent.cli.screen.markdown_blocks import CodeBlock, Leaf, Margin, Paragraph, TableBlock, bullet_of, indent_of
from agent.cli.screen.tables import is_delimiter
from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.regex import Regex

_FENCE = Regex(r" {0,3}(`{3,}(?=[^`]*\Z)|~{3,})[ \t]*([^\s`]*)")
_ITEM = Regex(r" {0,3}([-*+]|\d{1,9}[.)])(?:( +)(?=\S)|[ \t]*\Z)")
_TASK = Regex(r"\[([ xX])\](?: |\Z)")
_HEADING = Regex(r" {0,3}(#{1,6})(?:[ \t]+(.*))?\Z")
_HEADING_END = Regex(r"(?:^|[ \t]+)#+[ \t]*\Z")
_RULE = Regex(r" {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})\Z")
_UNDERLINE = Regex(r" {0,3}(?:=+|-+)[ \t]*\Z")
_QUOTE = Regex(r" {0,3}>[ \t]?")
_INDENT = Regex(r" *")
_DECIDED = 14
"""Characters after which a line that is no block's beginning yet becomes none any more."""
_UNDECIDED = frozenset("-=*_|:`~ \t")
_WIDEST_RULE = 40
_DEEPEST = 12
"""Lists and quotes in one another that are shown as such."""


class _Container(NamedTuple):
    """A quote, or an item of a list: ``indent`` is the column that its content begins at, 0 for a quote."""

    indent: int
    first: Row
    rest: Row
    marker: str = ""


class Markdown:
    """``feed`` it pieces of any size and ``end`` it. ``take`` gives the rows that are final, ``live`` those of what is open.

    ``laid_out`` False shows the text as it was written, line by line.
    """

    def __init__(self, columns: int, *, laid_out: bool = True) -> None:
        self.columns = columns
        self._laid_out = laid_out
        self._partial = ""
        self._committed = False
        """True while the line that is being fed is known to be a paragraph's, and was handed to it."""
        self._rows: list[Row] = []
        self._stack: list[_Container] = []
        self._leaf: Leaf | None = None
        self._fence = ""
        self._fence_indent = 0
        self._fence_depth = 0
        self._kept = 0
        """Quotes and items that were open before the line that is being read."""
        self._begun = False
        self._gap = False
        self._kind = ""
        """The block before: a gap stands around most."""

    # -- the way in ----------------------------------------------------------------------------------------------

    def feed(self, text: str) -> None:
        """Take a piece of the text."""
        *lines, rest = text.split("\n")
        for line in lines:
            self._finish(line)
        self._add(rest)

    def end(self) -> None:
        """End the text; all its rows are final. The next ``feed`` begins another one."""
        if self._partial or self._committed:
            self._finish("")
        self._close_leaf()
        self._leave(0)
        self._stack, self._fence, self._begun, self._gap, self._kind = [], "", False, False, ""

    def take(self) -> list[Row]:
        """Return the rows that became final, each once."""
        if self._leaf is not None:
            self._rows += self._leaf.ready()
        rows, self._rows = self._rows, []
        return rows

    def live(self) -> list[Row]:
        """Return the rows of what is open, as they are now. Call ``take`` before."""
        if self._leaf is None and not self._partial:
            return []
        other = copy.copy(self)
        other._rows, other._stack = [], [*self._stack]
        other._leaf = None if self._leaf is None else self._leaf.copy()
        if other._partial and not other._committed:
            other._finish("")
        other._close_leaf()
        return other._rows

    def resize(self, columns: int) -> None:
        """Lay out what comes at another width."""
        self.columns = columns
        if self._leaf is not None:
            self._leaf.narrow(columns)

    # -- lines ---------------------------------------------------------------------------------------------------

    def _add(self, text: str) -> None:
        """Take a piece of a line."""
        if not text:
            return
        self._partial += text
        if self._partial.endswith("\r"):  # it may be the line's end
            return
        if not self._committed:
            if not self._laid_out or self._fence or "\t" in self._partial or not self._is_text(line := _clean(self._partial)):
                return
            self._open_line(line)
            self._committed, self._partial = True, ""
        elif isinstance(self._leaf, Paragraph):
            self._leaf.grow(_clean(self._partial).replace("\t", " "))
            self._partial = ""

    def _finish(self, text: str) -> None:
        """Take the end of a line."""
        line, self._partial = self._partial + text, ""
        line = _clean(line.removesuffix("\r"))
        if self._committed:
            self._committed = False
            if line and isinstance(self._leaf, Paragraph):
                self._leaf.grow(line.replace("\t", " "))
            return
        line = line.expandtabs(4)
        if not self._laid_out:
            self._plain(line)
        else:
            self._open_line(line)

    def _plain(self, line: str) -> None:
        self._rows += chunks(((line, ""),) if line else (), self.columns)

    def _is_text(self, line: str) -> bool:
        """Return True if the line is a paragraph's, whatever follows on it."""
        if isinstance(self._leaf, (TableBlock, CodeBlock)):
            return False
        _, rest = self._matched(line)
        while (found := _QUOTE.match(rest) or _ITEM.match(rest)) is not None:
            is_item = _QUOTE.match(rest) is None
            rest = rest[found.end() :]
            if is_item and (task := _TASK.match(rest)) is not None:
                rest = rest[task.end() :]
        return _is_decided(rest) and not rest.startswith("    ") and not _begins_block(rest)

    def _open_line(self, line: str) -> None:
        if self._fence:
            self._fenced(line)
            return
        depth, rest = self._matched(line)
        if not rest.strip():
            self._blank(depth)
            return
        is_open = isinstance(self._leaf, Paragraph)
        if depth < len(self._stack) and is_open and not _begins_block(rest):
            self._continue(rest)  # a lazy line of the paragraph in there
            return
        self._leave(depth)
        self._kept = len(self._stack)
        self._block(self._containers(rest))

    def _leave(self, depth: int) -> None:
        """Close the quotes and items that are deeper than ``depth``."""
        if depth == len(self._stack):
            return
        self._close_leaf()
        if self._stack[-1].indent and self._stack[-1].first is not self._stack[-1].rest:  # an item without any text
            self._begin("text")
            self._emit()
        if any(not one.indent for one in self._stack[depth:]):
            self._gap = True
        del self._stack[depth:]
        self._kept = min(self._kept, depth)

    def _matched(self, line: str) -> tuple[int, str]:
        """Return how many of the open quotes and items the line belongs to, and what is left of it."""
        for depth, one in enumerate(self._stack):
            if one.indent:
                blanks = _blanks(line)
                if blanks == len(line):
                    line = ""
                elif blanks < one.indent:
                    return depth, line
                line = line[one.indent :]
            else:
                found = _QUOTE.match(line)
                if found is None:
                    return depth, line
                line = line[found.end() :]
        return len(self._stack), line

    def _containers(self, rest: str) -> str:
        """Open the quotes and items that the rest of a line begins with."""
        while len(self._stack) < _DEEPEST:
            if (quote := _QUOTE.match(rest)) is not None:
                self._close_leaf()
                bar: Row = (("▌ ", "mark"),)
                self._stack.append(_Container(0, bar, bar))
                self._gap = True
                rest = rest[quote.end() :]
            elif (item := _ITEM.match(rest)) is not None and _RULE.match(rest) is None:
                if isinstance(self._leaf, Paragraph) and not _may_interrupt(item[1], rest[item.end() :]):
                    return rest
                self._close_leaf()
                blanks = item[2] or " "
                indent = item.end(1) + (len(blanks) if len(blanks) <= 4 else 1)
                depth = sum(1 for one in self._stack if one.indent)
                bullet = bullet_of(item[1], depth)
                rest = rest[indent:]
                if (task := _TASK.match(rest)) is not None:
                    bullet = f"{bullet if item[1][0].isdigit() else ''}{'☐' if task[1] == ' ' else '☑'} "
                    rest = rest[task.end() :]
                self._stack.append(_Container(indent, ((bullet, "bullet"),), indent_of(bullet), item[1]))
                self._gap = self._gap and self._kind != "item"
            else:
                break
        return rest

    def _blank(self, depth: int) -> None:
        if isinstance(self._leaf, CodeBlock) and not self._fence:
            self._leaf.line("")
            return
        self._close_leaf()
        self._leave(depth)
        self._gap = True

    def _fenced(self, line: str) -> None:
        depth, rest = self._matched(line)
        if depth < self._fence_depth and rest.strip():
            self._fence = ""
            self._close_leaf()
            self._open_line(line)
            return
        found = _FENCE.match(rest)
        if found and found[1].startswith(self._fence) and not rest.strip().strip(self._fence[0]):
            self._fence = ""
            self._close_leaf()
        elif isinstance(self._leaf, CodeBlock):
            self._leaf.line(rest[min(self._fence_indent, _blanks(rest)) :])

    def _block(self, rest: str) -> None:
        """Begin the block that a line holds, or continue the one that is open."""
        paragraph = self._leaf if isinstance(self._leaf, Paragraph) else None
        if not rest.strip():
            self._margin_only()
        elif paragraph is not None and self._changes(paragraph, rest):
            return
        elif (fence := _FENCE.match(rest)) is not None:
            self._begin("code")
            self._fence, self._fence_indent, self._fence_depth = fence[1], _blanks(rest), len(self._stack)
            self._leaf = CodeBlock(self._margin(), fence[2])
        elif (heading := _HEADING.match(rest)) is not None:
            self._heading(_HEADING_END.sub("", heading[2] or ""))
        elif _RULE.match(rest) is not None:
            self._begin("rule")
            self._emit(("─" * min(self._margin().room, _WIDEST_RULE), "mark"))
        elif isinstance(self._leaf, TableBlock):
            self._leaf.line(rest)
        elif rest.startswith("    ") and paragraph is None:
            if not isinstance(self._leaf, CodeBlock):
                self._begin("code")
                self._leaf = CodeBlock(self._margin())
            self._leaf.line(rest[4:])
        else:
            self._continue(rest)

    def _changes(self, paragraph: Paragraph, rest: str) -> bool:
        """Return True if the line made another block of the paragraph's only line."""
        if paragraph.lines != 1 or not (paragraph.holds or paragraph.is_short):
            return False
        if is_delimiter(rest, paragraph.text):
            self._leaf = TableBlock(paragraph.margin, paragraph.text, rest)
            self._kind = "table"
            return True
        if _UNDERLINE.match(rest) is not None and paragraph.is_short:
            paragraph.style, self._kind = "heading", "heading"
            self._close_leaf()
            self._gap = True
            return True
        return False

    def _continue(self, rest: str) -> None:
        text = rest.lstrip(" ")
        if isinstance(self._leaf, Paragraph):
            self._leaf.holds = False
            self._leaf.line(text)
            return
        self._begin("text")
        in_quote = any(not one.indent for one in self._stack)
        self._leaf = Paragraph(self._margin(), "quote" if in_quote else "")
        self._leaf.line(text)
        self._leaf.holds = text.startswith("|")

    def _heading(self, text: str) -> None:
        self._begin("heading")
        paragraph = Paragraph(self._margin(), "heading")
        paragraph.line(text.strip())
        self._leaf = paragraph
        self._close_leaf()
        self._gap = True

    def _margin_only(self) -> None:
        """Begin an item that has no text yet, or a quote's empty line."""
        if self._stack and self._stack[-1].indent and self._stack[-1].first is not self._stack[-1].rest:
            return
        self._close_leaf()
        self._gap = True

    # -- rows ----------------------------------------------------------------------------------------------------

    def _begin(self, kind: str) -> None:
        """Close what is open, and leave a gap where one is due before a block of this kind."""
        self._close_leaf()
        in_list = any(one.indent for one in self._stack)
        if self._kind == "item" and not in_list:
            self._gap = True
        apart = kind in ("heading", "code", "table") or self._kind in ("code", "table", "rule")
        if self._begun and (self._gap or (apart and not in_list)):
            self._rows.append(tuple(span for one in self._stack[: self._kept] if not one.indent for span in one.rest))
        self._gap, self._begun = False, True
        self._kind = "item" if in_list else kind

    def _margin(self) -> Margin:
        """Return the margin of a block here; the bullets of its items are used up by its first row."""
        first: list[tuple[str, str]] = []
        rest: list[tuple[str, str]] = []
        for place, one in enumerate(self._stack):
            first += one.first
            rest += one.rest
            if one.indent:
                self._stack[place] = one._replace(first=one.rest)
        return Margin(tuple(first), tuple(rest), self.columns)

    def _emit(self, *row: tuple[str, str]) -> None:
        self._rows.append((*self._margin().take(), *row))

    def _close_leaf(self) -> None:
        if self._leaf is not None:
            self._rows += self._leaf.close()
            self._leaf = None


def _clean(text: str) -> str:
    """Return a text without what would act on the terminal."""
    return tame(text)


def _blanks(line: str) -> int:
    found = _INDENT.match(line)
    return 0 if found is None else found.end()


def _begins_block(line: str) -> bool:
    """Return True if the line can't continue a paragraph."""
    if _FENCE.match(line) or _HEADING.match(line) or _RULE.match(line) or _QUOTE.match(line):
        return True
    item = _ITEM.match(line)
    return item is not None and _may_interrupt(item[1], line[item.end() :])


def _may_interrupt(marker: str, rest: str) -> bool:
    """Return True if an item may begin within a paragraph: a line that happens to begin with a year does not."""
    return bool(rest.strip())


def _is_decided(line: str) -> bool:
    """Return True if no text that follows on the line can make another kind of block of it."""
    text = line.lstrip(" ")
    if not text or "\t" in line:
        return False
    if text[0].isalpha():
        return True
    return len(text) > _DECIDED and text[:3] not in ("```", "~~~") and not _UNDECIDED.issuperset(text)
