"""The text that is left in a descriptor after a read. The expected values are those of bash."""

from __future__ import annotations

import pytest

from tools.judge.meaning import HOLE, NoFiles, ShellNow, interpret

LINES = "exec 3<<< $'a\\nb\\nc'; "


def made_up(text: str) -> list[str]:
    """Return each command of a made-up name as one line, unknown parts as ``?``."""
    acts = interpret(text, ShellNow(cwd="/empty"), NoFiles()).acts
    return [" ".join(value.text for value in act.argv).replace(HOLE, "?") for act in acts if act.name in ("alpha", "beta")]


@pytest.mark.parametrize(
    ("text", "argv"),
    [
        ("read u <&3; read v <&3; alpha $u $v", "alpha a b"),
        ("read u <&3; read v <&3; read w <&3; read x <&3; alpha ${x}z", "alpha z"),
        ("while read u <&3; do alpha $u; done", "alpha c"),
        ("while read -u 3 u; do alpha $u; done", "alpha c"),
        ("read -ru3 u; read -u 3 v; alpha $u $v", "alpha a b"),
        ("f() { read u; read v; }; f <&3; read w <&3; alpha $w", "alpha c"),
        ("exec 4<&3; read u <&4; read v <&3; alpha $v", "alpha b"),
        ("read u 4<&3 <&4; read v <&3; alpha $v", "alpha b"),
        ("{ read u <&3; read v; } <<< d; read w <&3; alpha $u $v $w", "alpha a d b"),
        ("{ { read u <&3; } <<< x; read v; } <&3; alpha $v", "alpha b"),
        ("{ read u <&3; read v <&3; } 3<<< x; read w <&3; alpha $w", "alpha a"),
        ("(read u <&3); read v <&3; alpha $v", "alpha ?"),
        ("u=$(read u <&3); read v <&3; alpha $v", "alpha ?"),
        ("beta | { read u <&3; }; read v <&3; alpha $v", "alpha ?"),
        ("read u <&3 & wait; read v <&3; alpha $v", "alpha ?"),
        ("head -n 1 <&3; read v <&3; alpha $v", "alpha ?"),
        ("read -n 1 u <&3; read v <&3; alpha $v", "alpha ?"),
        ("mapfile -u 3 x; read v <&3; alpha $v", "alpha ?"),
        ("mapfile -n 1 x <&3; read v <&3; alpha $v", "alpha ?"),
        ("exec <&3; u=$(read u; echo $u); read v; alpha $u $v", "alpha a b"),
        ("exec <&3; read u | beta; read v; alpha $v", "alpha b"),
        ("exec <&3; (beta && read u); read v; alpha $v", "alpha ?"),
        ("exec <&3; u=$(head -n 1); read v; alpha $v", "alpha ?"),
    ],
)
def test_reading_goes_on_where_it_ended(text: str, argv: str) -> None:
    assert argv in made_up(LINES + text)


def test_files_opened_apart_are_read_apart() -> None:
    assert "alpha a a" in made_up("printf 'a\\nb\\n' > f; exec 3<f 4<f; read u <&3; read v <&4; alpha $u $v")


@pytest.mark.parametrize("text", ["alpha $(printf '%s ' a ${q:1} b)", "set -- ${q:1} b; alpha $1", "set -- a; alpha ${@:$q}"])
def test_unquoted_unknown_may_be_no_word_without_separators_too(text: str) -> None:
    assert made_up(f"IFS=; {text}") == ["alpha ?"]
