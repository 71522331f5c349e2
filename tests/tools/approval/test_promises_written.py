"""docs/security.md, line by line: each sentence of its two lists has its tests, and what is not promised is so."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
import yaml

from toolcrib.testing import FakeEnvironment

PROJECT = "/home/dev/project"
REASONS = {"advice", "limit"}


def sentences(root: Path, section: str) -> list[str]:
    """Return the sentences of the list below a heading."""
    body = (root / "docs" / "security.md").read_text("utf-8").split(f"\n## {section}\n")[1].split("\n## ")[0]
    lines = [" ".join(line.split()) for line in f"\n{body.strip()}".split("\n- ")[1:]]
    return [sentence for line in lines for sentence in re.split(r"(?<=\.) (?=[A-Z`])", line)]


def written(section: str) -> list[tuple[str, Any]]:
    """Return what `promises.yaml` says of a section: how each sentence begins, and its tests or why it has none."""
    entries = yaml.safe_load(Path(__file__).with_name("promises.yaml").read_text("utf-8"))[section]
    return [pair for entry in entries for pair in entry.items()]


@cache
def names_in(file: Path) -> frozenset[str]:
    tree = ast.parse(file.read_text("utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.parametrize("section", ["Promised", "Not promised"])
def test_each_sentence_is_written_down_with_its_tests(root: Path, section: str) -> None:
    """A sentence that is new or begins otherwise is missing here until somebody has named what proves it."""
    for sentence, (begins, proof) in zip_longest(sentences(root, section), written(section), fillvalue=("", ())):
        assert begins, f"no entry for {sentence!r}"
        assert isinstance(sentence, str), f"no sentence begins with {begins!r}"
        assert sentence.startswith(begins), f"{sentence!r} is not the one that begins with {begins!r}"
        if section == "Not promised" and isinstance(proof, str):
            assert proof in REASONS, f"{begins!r}: {proof!r} is none of {sorted(REASONS)}"
            continue
        assert isinstance(proof, list), f"{begins!r} has no test"
        assert proof, f"{begins!r} has no test"


def test_every_test_that_is_named_is_there(root: Path) -> None:
    known = (root / "tests" / "tools" / "judge_sequences" / "known.txt").read_text("utf-8").splitlines()
    for section in ("Promised", "Not promised"):
        for begins, proof in written(section):
            for name in proof if isinstance(proof, list) else ():
                if name.startswith("known "):
                    assert section == "Not promised"
                    assert name.removeprefix("known ") in known, f"{name} holds: the document can promise more than {begins!r}"
                    continue
                file, _, test = name.partition("::")
                assert test in names_in(root / "tests" / file), f"{begins!r}: {name} is not there"


@pytest.mark.parametrize(
    ("command", "came_of_it"),
    [
        ("env -i setsid --fork toolcrib config set max_turns 3", "refused"),
        ("env -i HOME=$HOME setsid -f ~/.local/bin/toolcrib approvals revoke x", "refused"),
        ("tmux new-session -d 'toolcrib config set max_turns 3'", "refused"),
        ("tmux send-keys -t w 'toolcrib config set max_turns 3' Enter", "refused"),
        ("echo 'toolcrib config set max_turns 3' | at now", "refused"),
        ("echo '* * * * * toolcrib config set max_turns 3' | crontab -", "asked"),
    ],
)
def test_a_line_that_leaves_the_session_is_seen_before_it_runs(floor: Any, command: str, came_of_it: str) -> None:
    outcome = floor.do(command)
    assert (outcome if isinstance(outcome, str) else "asked") == came_of_it
    if came_of_it == "asked":
        assert floor.last.result.suspension.parameters["scopes"] == ["once"]


GAPS = {
    f"{PROJECT}/main.py": b"import pack\n",
    f"{PROJECT}/pack/__init__.py": b"import shutil\nshutil.rmtree('/srv/data')\n",
    f"{PROJECT}/x.sh": b"echo hello\n",
    f"{PROJECT}/tidy": b"\x7fELF" + bytes(64),
}


@pytest.mark.parametrize(
    "commands",
    [
        ["tar xf repository.tar"],
        ["python3 main.py"],
        ["git pull && make"],
        ["objcopy a.out tidy", "./tidy -rf d"],
        ["tar xf t.tar --transform s/rm/tidy/", "./tidy -rf d"],
        ["(make; sh x.sh) &"],
    ],
)
def test_what_is_not_promised_is_so(floors: Callable[..., Any], commands: list[str]) -> None:
    """One that is asked about by now is a promise that the document doesn't make yet."""
    floor = floors(FakeEnvironment(GAPS, commands=lambda request: (0, b""), cwd=PROJECT))
    assert [floor.do(command) for command in commands] == ["ran"] * len(commands)


@pytest.mark.parametrize(
    "line", ["tmux send-keys -t w '{}' Enter", "screen -S w -X stuff '{}\n'", "zellij -s w action write-chars '{}\n'"]
)
def test_a_line_for_a_named_session_is_judged_as_that_line(floor: Any, line: str) -> None:
    assert floor.do(line.format("make test")) == "ran"
    assert floor.do(line.format("rm -rf build")) == {"fs.recursive-delete"}
    assert floor.do(line.format("rm -rf ~")) == "refused"
    assert floor.asks(line.format("y"))
