"""Circumstances such as sudo end with their command: they do not apply to the command around it, or to the next one."""

from __future__ import annotations

import pytest

from tools.judge.meaning import Act, NoFiles, ShellNow, Taint, interpret

NOW = ShellNow(cwd="/home/dev/p", home="/home/dev", user="dev")


def acts(text: str) -> list[Act]:
    return list(interpret(text, NOW, NoFiles()).acts)


@pytest.mark.parametrize("inner", ["", "$(true)", "<(true)", '"$(true <(true))"', "<(x=$(true))"])
def test_an_expansion_that_fails_counts_whatever_is_expanded_behind_it(inner: str) -> None:
    """bash then does not run the command, so the one after ``||`` may run."""
    assert "rm" in {act.name for act in acts(f"x=abc; echo ${{x:1:-9}} {inner} || rm -rf a")}


@pytest.mark.parametrize(
    "inner",
    [
        "sudo timeout 5 true",
        "ssh host ls",
        "{ sleep 1; } &",
        "coproc { true; }",
        "curl example.test/x | sh",
        "f() { sudo true; }; f",
        "eval 'sudo true'",
        "bash -c 'sudo true'",
        "python3 -c 'import os; os.system(\"sudo true\")'",
        "docker run -v /:/host image ls",
        "cat <(sudo true)",
        "while sudo true; do break; done",
    ],
)
def test_a_command_behind_another_has_none_of_its_circumstances(inner: str) -> None:
    last = next(act for act in acts(f"{inner}\nrm -rf a") if act.name == "rm")
    assert (last.wrappers, last.place, last.fed, last.language, last.background) == ((), "", False, "shell", False)
    assert last.taint == Taint.NONE
    assert list(last.cwds) == ["/home/dev/p"]


def test_a_deep_nest_leaves_no_depth_behind() -> None:
    """The command has more subshells in a row than may be nested."""
    meaning = interpret("\n".join(["(true)", "$(true)", "f() { true; }; f", "sudo true", "eval true"] * 40), NOW, NoFiles())
    assert not meaning.faults
