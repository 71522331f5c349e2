"""Markdown as it streams: each block is laid out once, when it is whole, so that nothing on the screen is ever redrawn."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import cache
from typing import Any, ClassVar

from agent.cli.escape import tame
from toolcrib._regex import Regex

_log = logging.getLogger(__name__)
_FENCE = Regex(r" {0,3}(`{3,}|~{3,})")
_ITEM = Regex(r"( *)([-*+]|\d{1,9}(?=[.)]))[.)]? +\S")
_HEADING = Regex(r" {0,3}#{1,6}(?:\s|$)")


class MarkdownStream:
    """``feed`` it pieces of any size, then ``end``. Code is shown line by line, a list item by item, all else by block."""

    def __init__(self, console: Any) -> None:
        """``console`` is a rich Console."""
        self._console = console
        self._line: list[str] = []
        self._block: list[str] = []
        self._fence = ""
        self._gap = False  # an empty line is due before what comes next
        self._begun = False
        self._in_list = False
        self._kind = ""  # of the list: its bullet, or 1

    def feed(self, text: str) -> None:
        self._line.append(text)
        if "\n" not in text:
            return
        *lines, rest = "".join(self._line).split("\n")
        self._line = [rest]
        for line in lines:
            self._take(line.removesuffix("\r"))

    def end(self) -> None:
        """Print what is left; the next ``feed`` begins another text."""
        if line := "".join(self._line):
            self._take(line)
        self._flush()
        self._line, self._fence, self._gap, self._in_list, self._begun = [], "", False, False, False

    def _take(self, line: str) -> None:
        fence = _FENCE.match(line)
        if self._fence:
            if fence and fence[1].startswith(self._fence) and not line.strip().strip(self._fence[0]):
                self._fence, self._gap = "", True
            else:
                self._console.print(f"  {tame(line)}", style="cyan")
        elif fence:
            self._flush()
            self._gap, self._fence = True, fence[1]
            self._fill_gap()
        elif not line.strip():
            self._flush()
            self._gap = True
        elif item := _ITEM.match(line):
            self._flush()
            kind = item[2] if not item[2].isdigit() else "1"
            self._gap = self._gap and (not self._in_list or (not item[1] and kind != self._kind))
            self._kind = self._kind if item[1] else kind
            self._block, self._in_list = [line], True
        elif _HEADING.match(line):
            self._flush()
            self._gap, self._in_list = True, False
            self._fill_gap()
            self._console.print(tame(line.strip().strip("#").strip()), style="bold")
            self._gap = True
        else:
            if not self._block and not line.startswith(" "):
                self._gap = self._gap or self._in_list
                self._in_list = False
            self._block.append(line)

    def _flush(self) -> None:
        if not self._block:
            return
        self._fill_gap()
        first = self._block[0]
        indent = len(first) - len(first.lstrip(" ")) if self._in_list else 0
        text = tame("\n".join(line[indent:] if line[:indent].isspace() else line for line in self._block))
        self._block = []
        try:
            shown = self._print(_markdown(text), indent)
        except Exception as error:  # noqa: BLE001 - whatever its layout trips over, the answer is shown and the run goes on
            _log.debug("shown as it was written: %s", error)
            shown = False
        if not shown:
            self._console.print(text)

    def _print(self, laid_out: Any, indent: int) -> bool:
        """Print the lines without the empty ones that rich puts around some blocks and without trailing spaces. False for an
        empty block.
        """
        options = self._console.options.update(width=max(20, self._console.width - indent))
        lines = self._console.render_lines(laid_out, options, pad=False)
        texts = ["".join(segment.text for segment in line).rstrip() for line in lines]
        shown = [place for place, text in enumerate(texts) if text]
        for place in range(shown[0], shown[-1] + 1) if shown else ():
            self._console.print(" " * indent, end="")
            self._console.print(_Line(lines[place], len(texts[place])))
        return bool(shown)

    def _fill_gap(self) -> None:
        if self._gap and self._begun:
            self._console.print()
        self._gap, self._begun = False, True


def _markdown(text: str) -> Any:
    """rich's Markdown, but HTML is text, which it would leave out, and links are written out: one sees where they lead."""
    from markdown_it import MarkdownIt

    laid_out = _layout()("", hyperlinks=False)
    laid_out.parsed = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).parse(text)
    return laid_out


@cache
def _layout() -> Any:
    """Make a layout in which a word wider than its table column goes on in the next line: a path with an ellipsis is no path."""
    from rich.markdown import Markdown, TableElement
    from rich.table import Table

    class Whole(TableElement):
        def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
            for part in super().__rich_console__(console, options):
                for column in part.columns if isinstance(part, Table) else ():
                    column.overflow = "fold"
                yield part

    class Layout(Markdown):
        elements: ClassVar[Any] = {**Markdown.elements, "table_open": Whole}

    return Layout


class _Line:
    """A laid out line, cut behind its last visible character."""

    def __init__(self, segments: list[Any], length: int) -> None:
        self._segments = segments
        self._length = length

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        from rich.segment import Segment

        left = self._length
        for text, style, control in self._segments:
            yield Segment(text[:left], style, control)
            left -= len(text)
            if left <= 0:
                break
        yield Segment.line()
