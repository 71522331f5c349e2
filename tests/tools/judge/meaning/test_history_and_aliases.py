"""Lines of the history that run again, and aliases that change how the following text is read."""

from __future__ import annotations

import pytest

from tools.judge.meaning import NoFiles, ShellNow, interpret

ON = "shopt -s expand_aliases; "


def is_opaque(text: str, now: ShellNow | None = None) -> bool:
    meaning = interpret(text, now or ShellNow(cwd="/p"), NoFiles())
    unknown = any(not code.text.known for act in meaning.acts for code in act.code)
    return unknown or any(fault.kind in ("opaque", "syntax") for fault in meaning.faults)


@pytest.mark.parametrize("text", ["fc -s rm", "fc -s x=y", "fc", "fc -e vi -1", "fc -e 'sed -i s/#//'", "history -r h; fc -s"])
def test_a_line_of_the_history_is_unknown(text: str) -> None:
    assert is_opaque(text)


@pytest.mark.parametrize("text", ["fc -l", "fc -ln -5", "fc -lr 1 9", "history 5", "history -c"])
def test_a_list_of_it_runs_nothing(text: str) -> None:
    assert not is_opaque(text)


@pytest.mark.parametrize("alias", ["'#'", "'true #'", "'true;#'", '"echo \'"', "'echo \"'", "'cat <<X'", "'echo \\'"])
def test_an_alias_that_is_no_whole_words_is_opaque(alias: str) -> None:
    assert is_opaque(f"{ON}alias n={alias}\nn '\nrm -r /etc\n: '\nX\n")
    text = alias[1:-1]
    assert is_opaque("n '\nrm -r /etc\n: '\nX\n", ShellNow(cwd="/p", aliases={"n": text}, interactive=True))


@pytest.mark.parametrize(
    "alias",
    ["'ls -l'", "'git commit -m \"a #3\"'", "'grep -v \"^#\"'", "\"echo 'a b'\"", "'cat <<< x'", "'echo a#b'", "'cd ..; ls'"],
)
def test_any_other_is_followed(alias: str) -> None:
    assert not is_opaque(f"{ON}alias n={alias}\nn x\n")


def test_an_alias_that_is_not_used_is_free() -> None:
    assert not is_opaque(f"{ON}alias n='#'\necho n\n")
