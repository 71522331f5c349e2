"""Format streaming Markdown: each line is read once, and each row is final when no later text can change it.

The rows do not depend on how the text is cut into pieces. In CommonMark a later line can change the block above it. Here it
cannot, because that block may already be on the screen. Only a short one-line paragraph may still become a heading or a table.
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
"""Number of characters after which a line that has not begun a block is text, whatever follows on it."""
_UNDECIDED = frozenset("-=*_|:`~ \t")
_WIDEST_RULE = 40
_DEEPEST = 12
"""Maximum number of levels of nested lists and quotes that are formatted."""


class _Container(NamedTuple):
    """A quote or a list item. ``indent`` is the first column of an item's content, 0 for a quote."""

    indent: int
    first: Row
    rest: Row
    marker: str = ""


class Markdown:
    """Formats a text: ``feed`` takes pieces of any size, ``end`` ends it. ``take`` returns final rows, ``live`` those of the open
    block.

    If ``laid_out`` is False, the text is shown as written, line by line.
    """

    def __init__(self, columns: int, *, laid_out: bool = True) -> None:
        self.columns = columns
        self._laid_out = laid_out
        self._partial = ""
        self._committed = False
        """True if the beginning of the current line was already added to a paragraph."""
        self._rows: list[Row] = []
        self._stack: list[_Container] = []
        self._leaf: Leaf | None = None
        self._fence = ""
        self._fence_indent = 0
        self._fence_depth = 0
        self._kept = 0
        """Number of quotes and items that were open before the current line."""
        self._begun = False
        self._gap = False
        self._kind = ""
        """Kind of the previous block; it decides, with the next block's kind, whether an empty row separates them."""

    # -- input ---------------------------------------------------------------------------------------------------

    def feed(self, text: str) -> None:
        """Read a piece of the text."""
        *lines, rest = text.split("\n")
        for line in lines:
            self._finish(line)
        self._add(rest)

    def end(self) -> None:
        """End the text; all its rows become final. The next ``feed`` begins another text."""
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
        """Return the current rows of the open block. Call ``take`` first."""
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
        """Format further text for another width."""
        self.columns = columns
        if self._leaf is not None:
            self._leaf.narrow(columns)

    # -- lines ---------------------------------------------------------------------------------------------------

    def _add(self, text: str) -> None:
        """Read a piece of a line."""
        if not text:
            return
        self._partial += text
        if self._partial.endswith("\r"):  # may be part of a line break
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
        """Read the end of a line."""
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
        """Return True if the line belongs to a paragraph, whatever follows on it."""
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
            self._continue(rest)  # a lazy continuation of the inner paragraph
            return
        self._leave(depth)
        self._kept = len(self._stack)
        self._block(self._containers(rest))

    def _leave(self, depth: int) -> None:
        """Close the quotes and items below ``depth``."""
        if depth == len(self._stack):
            return
        self._close_leaf()
        if self._stack[-1].indent and self._stack[-1].first is not self._stack[-1].rest:  # an item without text
            self._begin("text")
            self._emit()
        if any(not one.indent for one in self._stack[depth:]):
            self._gap = True
        del self._stack[depth:]
        self._kept = min(self._kept, depth)

    def _matched(self, line: str) -> tuple[int, str]:
        """Return the number of open quotes and items that the line belongs to, and the rest of the line."""
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
        """Open the quotes and items at the beginning of the rest of a line. Return what follows."""
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
        """Begin the block of this line, or continue the open one."""
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
        """Return True if the line turned a one-line paragraph into another block."""
        if paragraph.lines != 1 or not (paragraph.holds or paragraph.is_short):
            return False
        if is_delimiter(rest, paragraph.text):
            paragraph.margin.fit(self.columns)
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
        self._leaf = Paragraph(self._margin(), self.columns, "quote" if in_quote else "")
        self._leaf.line(text)
        self._leaf.holds = text.startswith("|")

    def _heading(self, text: str) -> None:
        self._begin("heading")
        paragraph = Paragraph(self._margin(), self.columns, "heading")
        paragraph.line(text.strip())
        self._leaf = paragraph
        self._close_leaf()
        self._gap = True

    def _margin_only(self) -> None:
        """Begin an item without text, or an empty line of a quote."""
        if self._stack and self._stack[-1].indent and self._stack[-1].first is not self._stack[-1].rest:
            return
        self._close_leaf()
        self._gap = True

    # -- rows ----------------------------------------------------------------------------------------------------

    def _begin(self, kind: str) -> None:
        """Close the open block, and leave a gap if one is needed before a block of this kind."""
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
        """Return the margin for a block in the open quotes and items. Each item's bullet appears in one row only."""
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
    """Return the text with terminal controls escaped."""
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
    """Return True if an item may begin within a paragraph: only if it has text."""
    return bool(rest.strip())


def _is_decided(line: str) -> bool:
    """Return True if no later text on the line can make it another kind of block."""
    text = line.lstrip(" ")
    if not text or "\t" in line:
        return False
    if text[0].isalpha():
        return True
    return len(text) > _DECIDED and text[:3] not in ("```", "~~~") and not _UNDECIDED.issuperset(text)
