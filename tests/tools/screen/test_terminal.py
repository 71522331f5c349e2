"""Sequences, modes, answers, changes and painted rows of a terminal's screen."""

from __future__ import annotations

import pytest

from tools.screen.terminal import ScreenCursor, ScreenModes, TerminalScreen


def shown(output: str | bytes, columns: int = 10, rows: int = 4) -> TerminalScreen:
    screen = TerminalScreen(columns, rows)
    screen.feed(output if isinstance(output, bytes) else output.encode())
    return screen


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ("\x1b[7m one \x1b[m two", " <one>  two|"),
        ("\x1b[1;7;38;5;7;48;2;1;2;3mone\x1b[0m", "<one>|"),
        ("\x1b[38;5;47mone", "one|"),
        ("\x1b[4mone", "one|"),
        ("\x1b[7mon\x1b[1me\x1b[m", "<one>|"),
        ("\x1b[7m日本\x1b[m.", "<日本>.|"),
        ("\x1b[7mx\x1b[m.", "x.|"),  # a cursor that the program draws
        ("\x1b[7m   \x1b[m.", "   .|"),
        ("ab\x1b[7mcd\x1b[m\x1b[1;3H", "ab|<cd>"),
        ("ab\x1b[7mcd\x1b[m\x1b[1;4H", "ab<c|d>"),
        ("\x1b[47m\x1b[2Jone\r\n\x1b[44mtwo \x1b[47m\r\nthree", "one\n<two>\nthree|"),
        ("\x1b[47m\x1b[2Jone\r\ntwo\r\nthree", "one\ntwo\nthree|"),
        ("one\x1b[3H\x1b[42m two ", "one\n\n <two> |"),
        (f"\x1b[7m{'0123456789' * 2}\x1b[m", "0123456789\n0123456789|"),  # a large part of the screen
        ("\x1b[7m0123456789\x1b[m\r\n", "<0123456789>\n|"),
        ("\x1b[7;7H\x1b[7;7mab\x1b[27mcd", "\n\n\n      <ab>cd|"),
    ],
)
def test_highlighted_text_is_enclosed(output: str, text: str) -> None:
    """003-30: reverse video, and a background that the rows around it do not have, if it is a small part of the screen."""
    screen = shown(output)
    assert screen.text("|", ("<", ">")) == text
    assert screen.text("") == "\n".join(screen.lines).rstrip("\n")


@pytest.mark.parametrize(
    ("output", "lines"),
    [
        ("0123456789a", ["0123456789", "a", "", ""]),
        ("0123456789\r\na", ["0123456789", "a", "", ""]),  # a full row wraps only with the next character
        ("012345678日a", ["012345678", "日a", "", ""]),
        ("\x1b[?7l0123456789abc", ["012345678c", "", "", ""]),
        ("日本\x1b[1;2Hx", [" x本", "", "", ""]),
        ("日本\x1b[1;3Hx", ["日x", "", "", ""]),
        ("日本\x1b[1;2H\x1b[X", ["  本", "", "", ""]),
        ("日本\x1b[1;2H\x1b[P", [" 本", "", "", ""]),
        ("abc\x1b[1;2H\x1b[4hxy", ["axybc", "", "", ""]),
        ("abc\x1b[1;2H\x1b[2@", ["a  bc", "", "", ""]),
        ("abcdef\x1b[1;2H\x1b[2P", ["adef", "", "", ""]),
        ("abcdef\x1b[1;2H\x1b[2X", ["a  def", "", "", ""]),
        ("a\x1b[3b", ["aaaa", "", "", ""]),
        ("a\tb\x1b[Z\x1b[Zc", ["c       b", "", "", ""]),
        ("\x1b[3g\x1b[1;4H\x1bH\r\tx\ty", ["   x     y", "", "", ""]),
        ("1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[3;1H\nx", ["1", "3", "x", "4"]),
        ("1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[2;1H\x1bMx", ["1", "x", "2", "4"]),
        ("1\r\n2\r\n3\r\n4\x1b[2H\x1b[L", ["1", "", "2", "3"]),
        ("1\r\n2\r\n3\r\n4\x1b[2H\x1b[2M", ["1", "4", "", ""]),
        ("1\r\n2\x1b[S\x1b[2T", ["", "", "2", ""]),
        ("\x1b[2;3r\x1b[?6h\x1b[9;2Hx", ["", "", " x", ""]),
        ("ab\x1b7\x1b[3Hx\x1b8c", ["abc", "", "x", ""]),
        ("abc\r\ndef\x1b[1;2H\x1b[J", ["a", "", "", ""]),
        ("abc\r\ndef\x1b[2;2H\x1b[1J", ["", "  f", "", ""]),
        ("abc\x1b[1;2H\x1b[1K", ["  c", "", "", ""]),
        ("\x1b(0lqk\x1b(Bq", ["┌─┐q", "", "", ""]),
        ("\x1b)0a\x0eq\x0fq", ["a─q", "", "", ""]),
        ("\x1b#8\x1b[2;1H\x1b[0K\x1b[3;1H\x1b[J", ["EEEEEEEEEE", "", "", ""]),
        ("e\u0301x", ["e\u0301x", "", "", ""]),
        ("a\x1b]0;title\x07b\x1bPdcs\x07\x1b\\c\x1b_apc\x1b\\d\x1b^pm\x1b\\e\x1bXsos\x1b\\f", ["abcdef", "", "", ""]),
        ("a\x1b[?4mb\x1b[>4;1mc\x1b[<ud\x1b[?ue\x1b[=1;1uf\x1b[38:2::1:2:3mg\x1b[4:3mh", ["abcdefgh", "", "", ""]),
        ("a\x1b[2\bCb\x1b[3\x18c", ["a bc", "", "", ""]),
        ("a\u0085\u009b1mb\x7f\u202e\u2028\U000e0041c", ["a1mbc", "", "", ""]),
        (b"\x9b31m\xc3(\xffx", ["�31m�(�x", "", "", ""]),
        ("abc\x1b[20hd\ne", ["abcd", "e", "", ""]),
        ("abc\x1b[!p\x1b[5;1Hx\x1bcy", ["y", "", "", ""]),
    ],
)
def test_output_gives_these_lines(output: str | bytes, lines: list[str]) -> None:
    assert shown(output).lines == lines


def test_the_alternate_screen_leaves_the_primary_one_and_the_history_alone() -> None:
    screen = shown("1\r\n2\r\n3\r\n4\r\n5\x1b[?1049h\x1b[H" + "x\r\n" * 9)
    assert (screen.alternate, screen.lines, screen.history) == (True, ["x", "x", "x", ""], ["1"])
    screen.resize(12, 5)
    screen.feed(b"\x1b[?1049l6")
    assert (screen.alternate, screen.lines, screen.history) == (False, ["1", "2", "3", "4", "56"], [])


def test_the_history_is_bounded() -> None:
    screen = TerminalScreen(10, 2, history=3)
    screen.feed(b"".join(b"%d\r\n" % number for number in range(9)))
    assert screen.history == ["5", "6", "7"]


def test_a_smaller_screen_keeps_the_cursor_and_gives_lines_to_the_history() -> None:
    screen = shown("1\r\n2\r\n3日本", rows=6)
    screen.resize(4, 2)
    assert (screen.history, screen.lines, screen.cursor) == (["1"], ["2", "3日"], ScreenCursor(1, 3, True))
    screen.resize(0, 10**9)
    assert screen.size == (1, 1000)


def test_the_text_marks_a_visible_cursor() -> None:
    assert shown("ab\r\n$ ").text() == "ab\n$ ‸"
    assert shown("abcd\x1b[1;3H").text() == "ab‸cd"
    assert shown("日本\x1b[1;3H").text() == "日‸本"
    assert shown("0123456789").text() == "0123456789‸"
    assert shown("ab\x1b[?25l").text() == "ab"
    assert shown("ab").text("") == "ab"


def test_modes_of_input_are_reported() -> None:
    screen = shown("\x1b[?1h\x1b=\x1b[?2004;1002;1006h")
    assert screen.modes == ScreenModes(True, True)
    screen.feed(b"\x1b[?1l\x1b>\x1b[?2004;1002;1006l\x1b[?25l")
    assert screen.modes == ScreenModes(False, False)
    assert not screen.cursor.visible


def test_the_title_is_printable_and_short() -> None:
    assert shown("\x1b]2;a\u009b\u202eb\ttitle" + "x" * 999 + "\x1b\\").title == ("abtitle" + "x" * 999)[:200]
    assert shown("\x1b]0;one\x07\x1b]2;cancelled\x18").title == "one"


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("\x1b[5n", "\x1b[0n"),
        ("\x1b[2;3H\x1b[6n", "\x1b[2;3R"),
        ("\x1b[?6n", "\x1b[?1;1R"),
        ("\x1b[2;3r\x1b[?6h\x1b[6n", "\x1b[1;1R"),
        ("\x1b[c", "\x1b[?62;22c"),
        ("\x1bZ", "\x1b[?62;22c"),
        ("\x1b[>c", "\x1b[>0;10;1c"),
        ("\x1b[>0q", "\x1bP>|toolcrib\x1b\\"),
        ("\x1b[?2004$p\x1b[?2004h\x1b[?2004$p\x1b[?9999$p", "\x1b[?2004;2$y\x1b[?2004;1$y\x1b[?9999;0$y"),
        ("\x1b[4$p", "\x1b[4;2$y"),
        ("\x1b[18t", "\x1b[8;4;10t"),
        ("\x1b[14t", "\x1b[4;64;80t"),
        ("\x1b]11;?\x07", "\x1b]11;rgb:0000/0000/0000\x07"),
        ("\x1b]10;?\x1b\\", "\x1b]10;rgb:d0d0/d0d0/d0d0\x1b\\"),
        ("\x1b[?u\x1b[21t\x1b]52;c;?\x07\x1bP$qm\x1b\\\x1b]4;1;?\x07\x05", ""),
    ],
)
def test_questions_are_answered_at_once_however_they_are_cut(question: str, answer: str) -> None:
    for parts in ([question.encode()], [bytes([byte]) for byte in question.encode()]):
        answers: list[bytes] = []
        screen = TerminalScreen(10, 4, answer=answers.append)
        for part in parts:
            screen.feed(part)
        assert b"".join(answers).decode() == answer


def test_a_flood_of_questions_is_no_flood_of_answers() -> None:
    now = 0.0
    answers: list[bytes] = []
    screen = TerminalScreen(10, 4, answer=answers.append, clock=lambda: now)
    for _ in range(100):
        screen.feed(b"\x1b[6n" * 100)
    assert 10 <= b"".join(answers).count(b"R") <= 100
    answers.clear()
    now = 1.0
    screen.feed(b"\x1b[6n" * 1000)
    assert 1 <= b"".join(answers).count(b"R") <= 50


def test_changes_are_the_rows_and_lines_that_differ_from_the_mark() -> None:
    screen = shown("one\r\ntwo\r\n$ ")
    mark = screen.mark()
    assert screen.changes(mark) == ({}, [], 0)
    screen.feed(b"go\r\n\x1b[1;1H\x1b[1mone\x1b[m\x1b[4H$ ")
    assert screen.changes(mark) == ({0: "one", 2: "$ go", 3: "$"}, [], 0)
    screen.feed(b"".join(b"\r\n%d" % number for number in range(6)))
    assert screen.changes(mark) == ({0: "2", 1: "3", 2: "4", 3: "5"}, ["one", "$ go", "$", "0", "1"], 0)
    mark = screen.mark()
    screen.feed(b"\r\n6")  # what only moved is not repeated
    assert screen.changes(mark) == ({3: "6"}, [], 0)
    screen.feed(b"\x1b[?1049h\x1b[2Hmenu")
    assert screen.changes(mark).rows == {1: "menu"}


def test_lines_that_the_history_lost_are_counted() -> None:
    screen = TerminalScreen(10, 2, history=3)
    mark = screen.mark()
    screen.feed(b"".join(b"%d\r\n" % number for number in range(9)))
    assert screen.changes(mark) == ({0: "8"}, ["5", "6", "7"], 5)


def test_rows_are_painted_with_their_styles_and_nothing_else() -> None:
    screen = shown(
        "\x1b[1;3;4;7;9;31mab\x1b[22;23;24;27;29;39mc\x1b[38;5;200;48:2::1:2:3md\x1b[0;97;104;2me\x1b[5;8mf\x1b[4:3;58:5:1mg\x1b[4:0m"
    )
    style = "\x1b[0;2;97;104m"
    assert screen.rows_as_sgr()[0] == (
        f"\x1b[0;1;3;4;7;9;31mab\x1b[mc\x1b[0;38;5;200;48;2;1;2;3md{style}ef\x1b[0;2;4;97;104mg\x1b[m"
    )
    assert shown("\x1b[44m\x1b[K", columns=3).rows_as_sgr()[0] == "\x1b[0;44m   \x1b[m"
    assert shown("a\x1b]8;;http://x\x07b\x1b]52;c;aGk=\x07c").rows_as_sgr()[0] == "abc"
