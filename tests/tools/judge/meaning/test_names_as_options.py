"""Files of the session whose names are options of a program that gets them from a pattern."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tools.judge.meaning import Seen, ShellNow, Taint, interpret

NOW = ShellNow(cwd="/p", home="/home/dev")


class Own:
    """A snapshot of a session that wrote ``paths``, which are empty files."""

    def __init__(self, *paths: str) -> None:
        self.paths = paths

    def inspect_path(self, path: str) -> Seen:
        return Seen("file", "") if path in self.paths else Seen("missing")

    def taint(self, path: str) -> Taint:
        return Taint.WRITTEN if path in self.paths else Taint.NONE

    def own_below(self, folder: str) -> Sequence[str]:
        return [path for path in self.paths if path.startswith(f"{folder.rstrip('/')}/")]

    def copy_of(self, path: str) -> str:
        return ""


def argvs(text: str, *paths: str) -> list[str]:
    return [" ".join(value.text for value in act.argv) for act in interpret(text, NOW, Own(*paths)).acts]


def has(found: list[str], *words: str) -> bool:
    return any(set(words) <= set(one.split()) for one in found)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("touch -- -delete; find /etc *", ("find", "/etc", "-delete")),
        ("touch ./-delete; find /etc *", ("find", "/etc", "-delete")),
        ("> -delete; find /etc *", ("find", "/etc", "-delete")),
        ("echo x > -rf; rm *", ("rm", "-rf")),
        ("touch -- --reference=x; chown dev *", ("chown", "--reference=x")),
        ("touch -- --reference=x; chown dev [-a]*", ("chown", "--reference=x")),
        ("touch -- --checkpoint=1 '--checkpoint-action=exec=rm y'; tar cf x.tar *", ("rm", "y")),
    ],
)
def test_they_are_followed_as_options(text: str, words: tuple[str, ...]) -> None:
    assert has(argvs(text), *words)


def test_those_of_an_earlier_call_are_too() -> None:
    assert has(argvs("tar cf x.tar *", "/p/--checkpoint-action=exec=reboot"), "reboot")
    assert not has(argvs("tar cf x.tar *", "/q/--checkpoint-action=exec=reboot"), "reboot")


@pytest.mark.parametrize(
    "text",
    [
        "touch -- -delete; find /etc ./*",
        "touch -- -delete; find /etc *.py",
        "touch a b; find /etc *",
        "touch -d now x; find /etc *",
    ],
)
def test_they_are_none_where_no_pattern_gives_them(text: str) -> None:
    assert not has(argvs(text), "find", "-delete")
