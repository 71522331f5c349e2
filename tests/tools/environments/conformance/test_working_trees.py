"""The state of a working tree is reported equally by every backend; without git, no tree counts as clean."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from toolcrib import Environment
from tools.approval.uncommitted import ask_git, read_status
from tools.judge.file_view import UNSEEN, WorkTree

SET_UP = (
    "git init -q . && printf x > a && git add a"
    " && git -c user.name=a -c user.email=a@b.test commit -qm a >/dev/null && echo made || echo none"
)


def test_a_working_tree_is_seen_as_it_is(env: Environment, says: Callable[..., str], folder: Path) -> None:
    def seen() -> WorkTree:
        return read_status(asyncio.run(ask_git(env, str(folder))))

    assert seen() == UNSEEN
    if says(f"{{ {SET_UP}; }} 2>/dev/null") == "none\n":
        assert says("command -v git || echo missing") == "missing\n"
        assert seen() == UNSEEN
        return
    assert seen() == WorkTree(False, False, False, False)
    assert says("echo changed >> a; : > new; echo done") == "done\n"
    assert seen() == WorkTree(changed=True, untracked=True, ignored=False)


def test_the_session_s_shell_stays_as_it_was(env: Environment, says: Callable[..., str], folder: Path) -> None:
    says("kept=1; cd /")
    asyncio.run(ask_git(env, str(folder)))
    assert says("echo $kept $PWD") == "1 /\n"
