"""Characters that hide text, or look like others: some need approval, others are only marked."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.judge.characters import is_hidden, look_alikes, runs_backwards, spelled, stacked, unseen
from tools.judge.detect import detect_dangerous_command

BLANK = "\u3164\u2800\u115f\u1160\u034f\xad\u180e\uffa0\ufe0f\U000e0041\xa0\u2003\u3000\u2065\u17b4\u200d\u200b\U0001d159"


@pytest.mark.parametrize("char", BLANK)
def test_blank_characters_are_hidden(char: str) -> None:
    assert is_hidden(char)
    assert spelled(f"a{char}b").isascii()


def test_every_character_of_these_categories_is_hidden() -> None:
    kinds = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"}
    shown = [code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) in kinds and not is_hidden(chr(code))]
    assert shown == [0x20]


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf a\u3164",
        "rm -rf a\u2800b",
        "cat x\u115f",
        "cat x\u1160",
        "cat x\u034fy",
        "ls r\xadm",
        "ls x\u180ey",
        "ls x\uffa0",
        "ls x\ufe0f",
        "ls a\U000e0061",
        "ls a\U000e0101",
        "rm -rf build\xa0/",
        "rm a\u3000*",
        "ls a\u200db",
        "ls a\u2062b",
        "echo \x1b[2K",
        "echo a\u202eb",
        "echo a\ufeffb",
        "echo \x7f",
    ],
)
def test_what_hides_something_is_asked_about_every_time(command: str) -> None:
    assert unseen(command)
    assert ("opaque.characters", "ask-once") in {(one.key, one.level) for one in detect_dangerous_command(command)}


@pytest.mark.parametrize(
    "command",
    [
        "git commit -m 'Füge 👩\u200d💻 hinzu ❤\ufe0f\u200d🔥 1\ufe0f\u20e3'",
        "echo 'می\u200cخواهم'",  # noqa: RUF001 - Persian
        "echo 'Attention\xa0! «\xa0oui\xa0» 10\u202f000\xa0€'",
        "echo 🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
        "echo '\u2800\u2800⢀⡴\u2800\n\u2800\u2800'",
        "echo 葛\U000e0100飾区",
        "echo שלום; echo مرحبا",
        "echo '日本\u3000語'",
        "echo ' main \ue0b0'",
        "printf 'a\\tb\\n'\n\techo x",
        "echo हिन्दी क्\u200dष",
        "echo ©\ufe0f",
    ],
)
def test_ordinary_writing_is_not_asked_about(command: str) -> None:
    assert unseen(command) == ""
    assert detect_dangerous_command(command) == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("rm -rf \u0441rc", "rm -rf \\u0441rc"),
        ("\u0441\u043e\u0440\u0443 a", "\\u0441\\u043e\\u0440\\u0443 a"),
        ("\uff52m x", "\\uff52m x"),
        ("\U0001d42b\U0001d426 x", "\\U0001d42b\\U0001d426 x"),
        ("rm \u2013rf x", "rm \\u2013rf x"),
        ("cat a\u2215b", "cat a\\u2215b"),
        ("a\u037e rm b", "a\\u037e rm b"),
        ("\u03bfpen", "\\u03bfpen"),
    ],
)
def test_look_alikes_are_written_out(text: str, shown: str) -> None:
    assert spelled(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "echo привет с тобой",  # noqa: RUF001 - Russian
        "git commit -m 'Füge é ñ'",
        "echo Ελλάδα και",
        "echo 'a \u2013 b'",
        "echo m² 1ª",
        "echo 東京 한국",
        "naïve",
    ],
)
def test_other_scripts_stay_as_they_are(text: str) -> None:
    assert spelled(text) == text


def test_marks_that_nothing_carries_are_written_out() -> None:
    assert spelled("\u0301a") == "\\u0301a"
    assert stacked("a" + "\u0301" * 5) == {4, 5}
    assert spelled("é हिन्दी") == "é हिन्दी"


def test_text_that_runs_backwards_is_told_apart() -> None:
    assert runs_backwards("echo שלום")
    assert not runs_backwards("echo é")


@given(st.text(st.characters()))
def test_what_is_spelled_is_one_visible_line(text: str) -> None:
    shown = spelled(text)
    assert shown.isprintable()
    assert not any(map(is_hidden, shown))
    assert not look_alikes(shown) or not look_alikes(text) or shown != text
