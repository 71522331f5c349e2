"""Repeated code is read once, and again if a file that it reads has changed."""

from __future__ import annotations

import pytest

from tools.judge.languages import python
from tools.judge.meaning import interpret
from tools.judge.meaning.act import Act
from tools.judge.meaning.state import NoFiles, ShellNow

HOME = "/home/dev"
RUNS = "python3 -c 'exec(open(\"a.py\").read())'"


def acts(command: str) -> list[Act]:
    return list(interpret(command, ShellNow(cwd=f"{HOME}/project", home=HOME), NoFiles()).acts)


def removed(found: list[Act]) -> list[str]:
    return [act.argv[1].text for act in found if act.name == "rm"]


def test_code_in_a_loop_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """003-25"""
    parsed: list[str] = []
    parse = vars(python)["parse"]
    monkeypatch.setattr(python, "parse", lambda text: (parsed.append(text), parse(text))[1])
    code = 'import os; os.remove("x")'
    found = acts(f"for one in a b c; do cd $one; python3 -c '{code}'; done")
    assert removed(found) == ["x", "x", "x"]
    assert len({act.cwds for act in found if act.name == "rm"}) == 3
    assert len(parsed) == 1


def test_code_is_read_anew_where_a_file_that_it_reads_has_changed() -> None:
    """003-25"""
    one, two = (f"echo 'import os; os.remove(\"{name}\")' > a.py; {RUNS}" for name in "xy")
    assert removed(acts(f"{RUNS}; {one}; {RUNS}; {two}; {one}")) == ["x", "y"]


def test_what_was_told_before_that_file_is_told_once() -> None:
    """Effects before the read of the changed file are not recorded twice."""
    code = 'open("log", "a").write("z"); exec(open("a.py").read())'
    found = acts(f"python3 -c '{code}'; echo 'import os; os.remove(\"x\")' > a.py; python3 -c '{code}'; cat log | sh")
    assert removed(found) == ["x"]
    assert [act.stdin.text for act in found if act.name == "sh" and act.stdin is not None] == ["zz"]
