"""Traps that run between commands: their effects depend on the variables at that moment."""

from __future__ import annotations

import pytest

from tools.judge.meaning import HOLE, NoFiles, ShellNow, interpret


def argvs(text: str, now: ShellNow | None = None) -> list[str]:
    acts = interpret(text, now or ShellNow(cwd="/p"), NoFiles()).acts
    return [" ".join(value.text for value in act.argv).replace(HOLE, "?") for act in acts if act.argv]


@pytest.mark.parametrize(
    "text",
    [
        "trap f DEBUG; f() { t=/victim; }; t=/tmp/x; rm -r $t",
        "trap f DEBUG; f() { g; }; g() { t=/victim; }; t=/tmp/x; rm -r $t",
        "trap f EXIT DEBUG; f() { t=/victim; }; t=/tmp/x; rm -r $t",
        "trap 't=/victim' EXIT ERR; t=/tmp/x; rm -r $t",
        "c=:; trap 'eval \"$c\"' DEBUG; c=t=/victim; t=/tmp/x; rm -r $t",
        "c=:; f() { eval $c; }; trap f RETURN; c=t=/victim; t=/tmp/x; rm -r $t",
        "(trap f DEBUG; f() { t=/victim; }; t=/tmp/x; rm -r $t)",
        "trap f DEBUG; . <(echo 'f() { t=/victim; }'); t=/tmp/x; rm -r $t",
    ],
)
def test_a_variable_that_a_trap_may_set_later_is_unknown(text: str) -> None:
    assert "rm -r /?" in argvs(text) or "rm -r ?" in argvs(text)


@pytest.mark.parametrize(
    "text",
    [
        "trap f INT; f() { rm -r /victim; }; f() { :; }",
        "c=:; trap 'eval \"$c\"' DEBUG; c='rm -r /victim'; c=:",
        "c=:; f() { eval $c; }; trap f USR1; c='rm -r /victim'; c=:",
    ],
)
def test_what_it_would_run_at_any_moment_is_listed(text: str) -> None:
    assert "rm -r /victim" in argvs(text)


def test_a_trap_of_an_earlier_call_is_followed_with_what_is_set_now() -> None:
    now = ShellNow(cwd="/p", traps={"DEBUG": "f"})
    assert "rm -r /?" in argvs("f() { t=/victim; }; t=/tmp/x; rm -r $t", now)


@pytest.mark.parametrize(
    "text",
    [
        "f() { t=/victim; }; trap f EXIT; t=/tmp/x; rm -r $t",
        "trap cleanup INT; cleanup() { rm -f a.tmp; }; t=/tmp/x; rm -r $t",
        "trap 'echo interrupted' INT TERM; t=/tmp/x; rm -r $t",
    ],
)
def test_other_variables_stay_known(text: str) -> None:
    assert "rm -r /tmp/x" in argvs(text)
