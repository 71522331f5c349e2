"""Markdown as it streams: laid out once, whatever the pieces."""

from __future__ import annotations

import io
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from agent.cli.markdown import MarkdownStream

TEXT = """\
# Title
Hello **world**, a [link](http://example.org/x) and `code`.

- one
- two
  more of two
  - nested

1. first
2. second

   of the second

```python
def f():
    return "`"
```
After.

| a | b |
|---|---|
| 1 | 2 |
"""
SHOWN = """\
Title

Hello world, a link (http://example.org/x) and code.

 • one
 • two more of two
   • nested

 1 first
 2 second

   of the second

  def f():
      return "`"

After.
"""


def laid_out(*pieces: str, **how: Any) -> str:
    out = io.StringIO()
    stream = MarkdownStream(Console(file=out, width=80, highlight=False, markup=False, emoji=False, **how))
    for piece in pieces:
        stream.feed(piece)
    stream.end()
    return out.getvalue()


def test_blocks_are_laid_out() -> None:
    assert laid_out(TEXT).startswith(SHOWN)
    assert not any(line != line.rstrip() for line in laid_out(TEXT).splitlines())


@settings(max_examples=20)
@given(st.lists(st.integers(0, len(TEXT)), max_size=12))
def test_wherever_the_pieces_are_cut(places: list[int]) -> None:
    """X-2"""
    cuts = [0, *sorted(places), len(TEXT)]
    assert laid_out(*(TEXT[start:end] for start, end in pairwise(cuts))) == laid_out(TEXT)


@settings(max_examples=60)
@given(st.text(st.sampled_from("ab *_`~#>-+1.|[]()<!&\\\n\t\r\x1b\u202e"), max_size=60))
def test_no_text_breaks_it_or_acts_on_the_terminal(text: str) -> None:
    shown = laid_out(text)
    assert all(char == "\n" or char.isprintable() for char in shown.replace("\t", ""))


@pytest.mark.parametrize("text", [">" * 3000, "[" * 3000, "- " * 1500 + "x", "*a " * 2000])
def test_what_nests_too_deep_is_shown_all_the_same(text: str) -> None:
    assert laid_out(text).strip()


def test_a_block_is_shown_as_soon_as_it_is_whole() -> None:
    out = io.StringIO()
    stream = MarkdownStream(Console(file=out, width=80))
    stream.feed("first\n\nsec")
    assert out.getvalue() == "first\n"
    stream.feed("ond\n```\ncode")
    assert out.getvalue() == "first\n\nsecond\n\n"
    stream.feed("\n")
    assert out.getvalue().endswith("  code\n")
    stream.end()
    stream.feed("another text")
    stream.end()
    assert out.getvalue().endswith("  code\nanother text\n")


def test_a_table_shows_whole_what_is_wider_than_its_column() -> None:
    path = "/srv/" + "abcdefghij" * 12
    shown = laid_out(f"| file | size |\n|---|---|\n| {path} | 3 |\n")
    assert "…" not in shown
    assert path in "".join(line.strip().split(" ")[0] for line in shown.splitlines())
    assert max(map(len, shown.splitlines())) <= 80


def test_a_link_does_not_hide_where_it_leads() -> None:
    shown = laid_out("[bank](http://evil.example)", force_terminal=True)
    assert "http://evil.example" in shown
    assert "\x1b]8" not in shown


def test_html_is_text() -> None:
    assert laid_out("<div>\nhello\n</div>\n\nand <b>so</b> on") == "<div> hello </div>\n\nand <b>so</b> on\n"
