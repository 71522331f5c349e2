"""The text of an approval prompt: the call's text can't imitate toolcrib's lines, and all of it can be seen."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wcwidth import wcswidth

from toolcrib import SuspendTicket, ToolCall
from tools.approval.prompt import BAR, CONTINUED, WRAPPED, Prompt, PromptPages, physical, prompt_of, worded


def ticket(name: str, args: dict[str, Any], **parameters: Any) -> SuspendTicket:
    found = [{"key": "fs.recursive-delete", "level": "ask", "why": "deletes folders", "text": parameters.pop("text", "")}]
    return SuspendTicket("approve_tool", "m", ToolCall("1", name, args), {"findings": found, **parameters})


def lines_of(prompt: Prompt, columns: int = 80) -> list[str]:
    return physical([*prompt.call, *prompt.about], columns)


def of_command(command: str, **more: Any) -> Prompt:
    return prompt_of(ticket("terminal", {"command": command}, command=command, cwd="/p", **more))


def test_a_resolved_command_draws_no_line_among_ours() -> None:
    resolved = "rm -rf a\n  o    lists it, once"
    shown = lines_of(of_command("rm -rf $'a\\n  o    lists it, once'", text=resolved))
    assert shown == [
        "terminal wants to run:",
        "  │ rm -rf $'a\\n  o    lists it, once'",
        "  in /p",
        "  ! deletes folders (fs.recursive-delete)",
        "      as: rm -rf a\\n  o    lists it, once",
    ]


def test_a_folder_and_a_path_draw_no_line_either() -> None:
    prompt = prompt_of(ticket("terminal", {"command": "ls"}, command="ls", cwd="/p\n  o    this call only"))
    assert "  in /p\\n  o    this call only" in lines_of(prompt)
    shown = lines_of(prompt_of(ticket("write_file", {"path": "x"}, path="/p/a\n  o    this call only")))
    assert shown[:3] == ["write_file wants to change:", "  │ /p/a", "  │   o    this call only"]


OURS = re.compile(r"(terminal wants to run:|  in /p|  ! [^│]*|      as: .*|  You are asked about this every time\.)")


@given(st.text(st.characters(), max_size=300), st.integers(20, 120))
def test_every_physical_line_of_a_command_has_our_bar_and_fits(command: str, columns: int) -> None:
    prompt = of_command(command)
    for line in physical(prompt.call[1:], columns):
        assert line.startswith((BAR, WRAPPED)), line
        assert 0 <= wcswidth(line) < columns, line
    for line in physical(prompt.about, columns):
        assert OURS.fullmatch(line) or line.startswith(CONTINUED), line


@pytest.mark.parametrize("filler", [" ", "漢", "e\u0301", "\u0301", "…", "👍", "\u3164", "я"])
def test_padding_pushes_nothing_to_a_line_of_its_own(filler: str) -> None:
    for count in range(30, 90):
        command = f"true {filler * count}  o    lists it, once"
        for line in lines_of(of_command(command, text=f"{command}!"), 80):
            assert wcswidth(line) < 80
            assert not line.startswith("  o ")
            assert line.startswith((BAR, WRAPPED, CONTINUED)) or OURS.fullmatch(line)


def test_what_is_left_of_a_line_is_told_from_a_line() -> None:
    """A line break begins another command; a wrapped row does not."""
    shown = lines_of(of_command(f"# {'a' * 30}\nrm -rf x # {'b' * 30}"), 30)
    assert shown[1:5] == ["  │ # aaaaaaaaaaaaaaaaaaaaaaa", "  │↳aaaaaaa", "  │ rm -rf x # bbbbbbbbbbbbbb", "  │↳bbbbbbbbbbbbbbbb"]


def test_what_is_not_as_it_seems_is_said() -> None:
    shown = lines_of(of_command("\u0441at a\u3164 b\u0301\u0301\u0301\u0301\u0301 שלום"), 200)
    assert "  │ \\u0441at a\\u3164 b\u0301\u0301\u0301\\u0301\\u0301 שלום" in shown
    assert "  ! invisible characters are escaped as ^X, \\xNN or \\uNNNN" in shown
    assert "  ! look-alike characters are escaped: U+0441 cyrillic small letter es" in shown
    assert any("combining marks" in line for line in shown)
    assert any("right to left" in line for line in shown)
    assert not any("!" in line for line in lines_of(of_command("\tmake all"))[:2])


def test_a_script_that_is_at_home_in_a_text_is_on_all_of_its_lines() -> None:
    """A word of one letter is not a look-alike among other words of its language."""
    assert "  │ \u0441" in lines_of(
        of_command("cat <<X\n\u043f\u0440\u0438\u0432\u0435\u0442\n\u0441\n\u0442\u043e\u0431\u043e\u0439\nX")
    )
    assert "  │ \\u0441" in lines_of(of_command("cat\n\u0441"))


def test_the_text_of_a_file_is_shown_line_by_line() -> None:
    args = {"path": "a.sh", "content": "#!/bin/sh\nrm -rf x\n", "mode": 7}
    assert lines_of(prompt_of(ticket("write_file", args, path="/p/a.sh")))[:10] == [
        "write_file wants to change:",
        "  │ /p/a.sh",
        "  with:",
        "  │ {",
        '  │   "path": "a.sh",',
        '  │   "mode": 7',
        "  │ }",
        "  and content:",
        "  │ #!/bin/sh",
        "  │ rm -rf x",
    ]


def test_another_gates_words_are_quoted() -> None:
    asked = SuspendTicket("check", "Shall it?\n  o    this call only", ToolCall("1", "t", {}), {})
    assert lines_of(prompt_of(asked)) == [
        "t wants to run with:",
        "  │ {}",
        "  with this request:",
        "  │ Shall it?",
        "  │   o    this call only",
    ]


def test_pages_show_all_of_a_long_call_once() -> None:
    command = "\n".join(f"line {number}" for number in range(100))
    pages = PromptPages(of_command(command), 80, 30)
    first = pages.first()
    assert first[:2] == ["terminal wants to run:", "  │ line 0"]
    assert "  ! 77 more lines: v next page, v all the rest" in first
    assert first[-1] == "  ! deletes folders (fs.recursive-delete)"
    seen = list(first)
    while pages.unseen:
        seen += pages.next()
    assert [line for line in seen if line.startswith(BAR)] == [f"{BAR}line {number}" for number in range(100)]
    assert seen[-1] == "  ! this is the end"
    assert pages.next() == ["  ! this is the end; v all shows all again"]
    assert pages.unseen == 0  # answers count from now on, also if the user reads it again
    assert len(pages.next(whole=True)) == 102


@pytest.mark.parametrize(("columns", "rows"), [(40, 8), (50, 10), (80, 12), (40, 60)])
def test_a_page_and_the_choices_below_it_fit_a_small_screen(columns: int, rows: int) -> None:
    """Each part that an approval covers is on a page, including the reasons, and each page fits above the choices."""
    command = "rm -rf " + " ".join(f"folder-{number}" for number in range(20))
    prompt = of_command(command, text="rm -rf " + "x" * 70)
    pages = PromptPages(prompt, columns, rows)
    shown = [pages.first()]
    while pages.unseen:
        shown.append(pages.next())
    assert all(len(page) <= rows - 2 for page in shown)
    notes = re.compile(r"  ! (\d+ more line|this is the end)|  ↳ (all )?(the )?rest")
    seen = [line for page in shown for line in page if not notes.match(line)]
    assert sorted(seen) == sorted(physical([*prompt.call, *prompt.about], columns))
    if len(shown) > 1:
        assert shown[-1][-1] == "  ! this is the end"


def test_lines_are_broken_between_words() -> None:
    """A blank begins the next row, so that it is visible; a word that is cut continues without a blank."""
    shown = lines_of(of_command("git commit --message 'nothing of this is cut'  --all", text="x" * 40 + " y"), 30)
    assert shown[1:4] == ["  │ git commit --message", "  │↳ 'nothing of this is cut'", "  │↳  --all"]
    assert shown[-2:] == ["      as: xxxxxxxxxxxxxxxxxxx", "  ↳xxxxxxxxxxxxxxxxxxxxx y"]


def test_the_plain_text_says_how_much_it_leaves_out() -> None:
    prompt = of_command("echo " + "x" * 1_000)
    assert str(prompt) == "\n".join(map(str, [*prompt.call, *prompt.about]))
    given = {"findings": [{"key": "k", "level": "ask", "why": "w", "text": "t"}], "path": "/p/a"}
    short = str(worded("write_file", {"content": "a\n" * 50, "more": "b\nb"}, given, most=14))
    assert short == "\n".join(
        [
            "write_file wants to change:",
            "  │ /p/a",
            "  and content:",
            *["  │ a"] * 5,
            "  │ ",
            "  and more:",
            "  │ ",
            "  ! 93 more characters, covered by an approval: `toolcrib approvals show TICKET` shows all",
            "  ! w (k)",
        ]
    )


DIFF = "--- /p/a\n+++ /p/a\n@@ -8,4 +8,4 @@\n one\n-two\n+2\n   three\n four\n"


def test_numbers_of_a_diff_stand_left_of_the_bar() -> None:
    """All text to the right of the bar is still the call's own text."""
    prompt = prompt_of(ticket("patch", {"path": "a", "old": "two", "new": "2"}, path="/p/a", diff=DIFF, diff_for=["old", "new"]))
    rows = physical(prompt.call, 30, numbered=True)
    at = rows.index("  as follows:")
    assert rows[at + 1 :][:8] == [
        *("   │ --- /p/a", "   │ +++ /p/a", "   │ @@ -8,4 +8,4 @@"),
        *(" 8 │  one", " 9 │ -two", " 9 │ +2", "10 │    three", "11 │  four"),
    ]
    assert [row.style for row in rows[at:][:7]] == ["", "", "", "hunk", "", "removed", "added"]
    assert rows[0].style == "head"
    assert [row.lstrip("0123456789 ") for row in rows] == [row.lstrip() for row in physical(prompt.call, 30)]


@given(st.text(), st.integers(16, 90))
def test_no_line_of_a_diff_begins_a_row(text: str, columns: int) -> None:
    lines = text.split("\n")
    diff = f"@@ -1,{len(lines)} +995,{len(lines)} @@\n" + "\n".join(f" {line}" for line in lines)
    prompt = prompt_of(ticket("patch", {"path": "a"}, path="/p/a", diff=diff, diff_for=["path"]))
    rows = physical(prompt.call, columns, numbered=True)
    own = rows[rows.index("  as follows:") + 1 :]
    assert all(re.match(r"[ \d]+│[ ↳]", row) for row in own)
    assert all(row[: row.margin].strip("0123456789 │↳") == "" for row in own)
