"""Markdown as it streams: the same rows for any chunks, each row once, and final as early as possible."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent.cli.screen.cells import Row, plain, row_width
from agent.cli.screen.markdown import Markdown

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

- [ ] open
- [x] done
- [] neither

```python
def f():
    return "`"
```
After.

> quoted *text
> that* runs on
>
> - an item in it

Underlined
----------

| a | b |
|---|--:|
| 1 | 22 |

long **paragraph with a mark** that runs on and on over rows, `some code`, 5*3 and a_b_c and [brackets] and *one
more* line &amp; a \\* star.
"""
SHOWN = """\
Title

Hello world, a link (http://example.org/x) and code.

• one
• two more of two
  ◦ nested
1. first
2. second

   of the second
☐ open
☑ done
• [] neither

  def f():
      return "`"

After.

▌ quoted text that runs on
▌
▌ • an item in it

Underlined

a   b
─  ──
1  22

long paragraph with a mark that runs on and on over rows,
some code, 5*3 and a_b_c and [brackets] and one more line &
a * star.
"""


def rows_of(*pieces: str, columns: int = 60, laid_out: bool = True) -> list[Row]:
    """Return the final rows; as the screen does, read the live rows after each piece."""
    markdown = Markdown(columns, laid_out=laid_out)
    rows = []
    for piece in pieces:
        markdown.feed(piece)
        rows += markdown.take()
        markdown.live()
    markdown.end()
    return rows + markdown.take()


def shown(*pieces: str, columns: int = 60) -> str:
    return "".join(f"{plain(row).rstrip()}\n" for row in rows_of(*pieces, columns=columns))


def styles_of(text: str, columns: int = 60) -> dict[str, str]:
    return {part: style for row in rows_of(text, columns=columns) for part, style in row}


def test_blocks_are_laid_out() -> None:
    assert shown(TEXT) == SHOWN


@pytest.mark.parametrize("columns", [20, 39, 79, 199])
def test_no_row_is_wider_than_the_screen(columns: int) -> None:
    wide = TEXT + "\n日本語" * 40 + "\n\n" + "x" * 500 + "\n\n| a | b |\n|-|-|\n| " + "word " * 60 + "| 漢字漢字漢字漢字 |\n"
    assert max(map(row_width, rows_of(wide, columns=columns))) <= columns


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, len(TEXT)), max_size=40), st.sampled_from([24, 60]))
def test_wherever_the_pieces_are_cut(places: list[int], columns: int) -> None:
    """X-2"""
    cuts = [0, *sorted(places), len(TEXT)]
    assert rows_of(*(TEXT[start:end] for start, end in pairwise(cuts)), columns=columns) == rows_of(TEXT, columns=columns)


MARKS = st.text(st.sampled_from("ab *_`~#>-+1.|[]()<!&;\\:=\n\t\r\x1b\u202e漢"), max_size=80)


@settings(max_examples=300, deadline=None)
@given(MARKS, st.lists(st.integers(0, 80), max_size=30))
@example("111111*1 1111111\u202e`*1`", [20])  # what closed the emphasis becomes code
@example("1111 *1 111111111 _x `*_ 1`", [23])
def test_any_text_cut_anywhere(text: str, places: list[int]) -> None:
    cuts = [0, *sorted(min(place, len(text)) for place in places), len(text)]
    rows = rows_of(*(text[start:end] for start, end in pairwise(cuts)), columns=12)
    assert rows == rows_of(text, columns=12)
    assert all(plain(row).isprintable() for row in rows)


@given(MARKS)
def test_character_by_character(text: str) -> None:
    assert rows_of(*text, columns=12) == rows_of(text, columns=12)


def test_a_long_paragraph_is_given_away_while_it_grows() -> None:
    markdown = Markdown(40)
    given_away: list[Row] = []
    for number in range(2000):
        markdown.feed(f"word{number} ")
        given_away += markdown.take()
        assert len(markdown.live()) <= 3
    markdown.end()
    rows = [*given_away, *markdown.take()]
    assert " ".join(map(plain, rows)).split() == [f"word{number}" for number in range(2000)]


def test_rows_before_an_open_mark_are_given_away() -> None:
    markdown = Markdown(20)
    markdown.feed("some plain words that fill up several rows of it, and then **bold begins ")
    assert [plain(row) for row in markdown.take()] == ["some plain words"]
    markdown.feed("and ends** here")
    markdown.end()
    assert ("bold begins and ends", "strong") in [span for row in markdown.take() for span in row]


def test_code_is_final_line_by_line_and_coloured() -> None:
    markdown = Markdown(60)
    markdown.feed('```python\ndef f():\n    """text\n    more')
    rows = markdown.take()
    assert [plain(row) for row in rows] == ["  def f():", '      """text']
    assert ("def", "keyword") in rows[0]
    assert [plain(row) for row in markdown.live()] == ["      more"]
    markdown.feed('"""\n```\n')
    assert {style for _, style in markdown.take()[0][1:]} == {"string"}


def test_a_resize_in_the_middle_loses_nothing_and_doubles_nothing() -> None:
    markdown = Markdown(20)
    words = [f"w{number}" for number in range(300)]
    rows = []
    for number, word in enumerate(words):
        markdown.feed(f"{word} " if number % 50 else f"**{word}** ")
        rows += markdown.take()
        if number % 37 == 0:
            markdown.resize(15 + number % 60)
    markdown.end()
    rows += markdown.take()
    assert " ".join(map(plain, rows)).split() == words


def test_emphasis_and_links() -> None:
    found = styles_of("**bold** *it* ***both*** ~~gone~~ `a*b` [x](http://y.z/q_(1)) ![pic](a.png) <http://auto>")
    assert found["bold"] == "strong"
    assert found["it"] == "em"
    assert set(found["both"].split("+")) == {"em", "strong"}
    assert (found["gone"], found["a*b"], found["x"]) == ("strike", "code", "link")
    assert (found["http://y.z/q_(1)"], found["http://auto"]) == ("url", "url")


def test_a_link_does_not_hide_where_it_leads() -> None:
    assert shown("[bank](http://evil.example)") == "bank (http://evil.example)\n"


def test_html_is_text() -> None:
    assert shown("<div>\nhello\n</div>\n\nand <b>so</b> on") == "<div> hello </div>\n\nand <b>so</b> on\n"


def test_a_table_shows_whole_what_is_wider_than_its_column() -> None:
    path = "/srv/" + "abcdefghij" * 12
    rows = shown(f"| file | size |\n|---|---|\n| {path} | 3 |\n").splitlines()
    assert "…" not in "".join(rows)
    assert path in "".join(line.split("  ")[0].strip() for line in rows)


def test_a_table_without_room_is_a_list_of_cells() -> None:
    heads = [f"h{number}" for number in range(6)]
    text = "|".join(heads) + "\n" + "|".join(["---"] * 6) + "\n" + "|".join(["some words"] * 6) + "\n"
    assert [line.split(":")[0] for line in shown(text, columns=16).splitlines() if ":" in line] == heads


@pytest.mark.parametrize("text", [">" * 3000, "[" * 3000, "- " * 1500 + "x", "*a " * 2000, "a" + "`" * 999, "![" * 900])
def test_what_nests_too_deep_is_shown_all_the_same(text: str) -> None:
    assert shown(text).strip()


def test_as_it_was_written() -> None:
    rows = rows_of("**a**  b\n\n    c\x1b[2J", laid_out=False)
    assert [plain(row) for row in rows] == ["**a**  b", "", "    c^[[2J"]


@pytest.mark.parametrize("language", ["python", "toml", "c", "bash", "json", "diff", "rust", "html", "no-such-language", "pycon"])
def test_code_of_any_language_is_shown_as_it_is(language: str) -> None:
    lines = ["def f(x): return 'a'", "/* open", "still */ int x = 1;", "<<EOF", '"unclosed', "+added", "\u00e9\u6f22"]
    rows = rows_of(f"```{language}\n" + "\n".join(lines) + "\n```\n")
    assert [plain(row) for row in rows] == [f"  {line}" for line in lines]


@pytest.mark.parametrize("columns", [60, 100, 200])
def test_prose_ends_at_100_columns_and_code_and_tables_do_not(columns: int) -> None:
    words, code = "word " * 60, "x" * 150
    markdown = Markdown(columns)
    markdown.feed(f"{words}\n\n- {words}\n\n> {words}\n\n```\n{code}\n```\n\n| a | b |\n|---|---|\n| {'y' * 80} | {'z' * 80} |\n")
    markdown.end()
    rows = markdown.take()
    prose = [row for row in rows if "word" in plain(row)]
    assert max(map(row_width, prose)) in (min(columns, 100) - 1, min(columns, 100), min(columns, 100) - 3)
    assert max(row_width(row) for row in rows if "xx" in plain(row)) == min(columns, 152)
    assert max(row_width(row) for row in rows if "yy" in plain(row)) == min(columns, 162)


def test_a_paragraph_that_a_table_follows_gives_it_the_whole_width() -> None:
    markdown = Markdown(200)
    markdown.feed(f"{'a' * 90} | {'b' * 90}\n--- | ---\n1 | 2\n")
    markdown.end()
    assert row_width(markdown.take()[0]) == 182
