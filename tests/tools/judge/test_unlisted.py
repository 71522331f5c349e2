"""Programs that no table of writers describes: if they may write a file of the highest kind, the command needs approval."""

from __future__ import annotations

import pytest

from tools.judge import unlisted
from tools.judge.meaning.act import Act
from tools.judge.meaning.value import Value


def _written(line: str, **variables: str) -> list[str]:
    argv = [Value(word) for word in line.split()]
    environment = {name: Value(text) for name, text in variables.items()}
    act = Act(argv[0].text, argv, cwds=("/home/dev",), environment=environment)
    return [value.text for value in unlisted.written(act, (act.name,))]


@pytest.mark.parametrize(
    "line",
    ["frob ~/.bashrc", "frob --out=~/.bashrc", "frob -o ~/.bashrc", "frob -o~/.bashrc", "history -w ~/.bashrc"],
)
def test_words_of_a_program_that_nobody_knows_may_be_written(line: str) -> None:
    assert "~/.bashrc" in _written(line)


@pytest.mark.parametrize(
    "line", ["cat ~/.bashrc", "ls ~/.bashrc", "grep x ~/.bashrc", "diff a ~/.bashrc", "code ~/.bashrc", "tmux -f ~/.tmux.conf"]
)
def test_what_is_known_to_read_writes_nothing(line: str) -> None:
    assert _written(line) == []


def test_a_module_of_python_may_write_all_but_the_file_it_reads() -> None:
    assert _written("python3 -m json.tool in.json out.json") == ["out.json"]
    assert _written("python3 -m json.tool ~/.bashrc") == []
    assert "~/.bashrc" in _written("python3 -m zipapp d -o ~/.bashrc")


def test_variables_that_name_a_log_are_written() -> None:
    assert _written("git status", GIT_TRACE="/home/dev/.bashrc", HOME="/home/dev/.bashrc") == ["/home/dev/.bashrc"]
