"""The limits in docs/explanation/limits.md are real, and so are lines that leave the session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from toolcrib.testing import FakeEnvironment

PROJECT = "/home/dev/project"


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
        ["git checkout w && make"],
        ["objcopy a.out tidy", "./tidy -rf d"],
        ["tar xf t.tar --transform s/rm/tidy/", "./tidy -rf d"],
        ["(make; sh x.sh) &"],
    ],
)
def test_what_is_not_promised_is_so(floors: Callable[..., Any], commands: list[str]) -> None:
    """If this test fails because such a command now needs approval, the document can promise that."""
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
