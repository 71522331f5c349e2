"""The sandbox of this machine in its modes: closed and granted folders, and limits.

The tests run as this account and, if that is root, as an ordinary user too.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Inside = Callable[..., list[Any]]


def test_only_the_project_and_private_folders_change(inside: Inside) -> None:
    home: Path = inside.home  # type: ignore[attr-defined]  # see the fixture
    said = inside(
        ("run", "touch HOME/x HOME/sibling/x; touch in /tmp/a /var/tmp/a ~/.cache/a && ls ~/.cache; ls -A ~/.ssh"),
        ("run", "grep -h ^Cap /proc/self/status | sort -u | cut -f2 | uniq; grep NoNew /proc/self/status | cut -f2"),
        ("run", "umount ~/.ssh || mount -o remount,bind,rw HOME || echo x >/proc/sys/kernel/panic || echo closed"),
        ("write", "HOME/x"),
        ("contains", None),
    )
    assert said[0].count("Read-only file system") == 2
    assert said[0].startswith("a\n")
    assert said[1] == "0000000000000000\n1\n"
    assert said[2].startswith("closed\n")
    assert "read-only in the sandbox" in said[3]
    held = said[4]
    assert held["writable"] == [f"{home}/project"]
    assert held["read_only"] == [f"{home}/project/.git/hooks"]
    assert f"{home}/.ssh" in held["masked"]
    assert {"/tmp", f"{home}/.cache"} <= set(held["ephemeral"])
    assert (home / "project" / "in").exists()
    assert list((home / ".cache").iterdir()) == []


def test_git_is_pinned_and_its_hooks_are_closed(inside: Inside) -> None:
    said = inside(
        (
            "run",
            "mv .git .g; mv .git/hooks .git/h; touch .git/hooks/post-commit; echo x >.git/config && cat .git/config",
        ),
    )
    assert said[0].count("Device or resource busy") >= 2
    assert "Read-only file system" in said[0]
    assert said[0].startswith("x\n")
    assert (inside.home / "project" / ".git" / "hooks").is_dir()  # type: ignore[attr-defined]  # see the fixture


def test_a_folder_is_granted_to_the_shell_that_runs(inside: Inside) -> None:
    said = inside(
        ("run", "kept=1; touch HOME/sibling/x"),
        ("allow", "HOME/sibling"),
        ("run", "echo $kept; touch HOME/sibling/x HOME/y; mv HOME/sibling/.git HOME/sibling/g; touch HOME/sibling/.git/hooks/x"),
        ("allow", "HOME/.ssh"),
        ("allow", "HOME"),
        ("allow", "HOME/none"),
        ("contains", None),
    )
    assert "Read-only" in said[0]
    assert said[2].startswith("1\n")
    assert said[2].count("Read-only file system") == 2  # HOME/y, and the hook
    assert "busy" in said[2]
    assert ".ssh" in said[3]
    assert "is closed in it" in said[4]
    assert "does not exist" in said[5]
    assert said[6]["writable"][1:] == [f"{inside.home}/sibling"]  # type: ignore[attr-defined]  # see the fixture
    assert (inside.home / "sibling" / "x").exists()  # type: ignore[attr-defined]  # as above


def test_grants_nest_and_keep_what_is_private_below_them(inside: Inside) -> None:
    """The folders are one above the project, one in another granted folder, and the sandbox's own ones below it."""
    home: Path = inside.home  # type: ignore[attr-defined]  # see the fixture
    (home / ".cache").mkdir()
    (home / "shared" / "inner").mkdir(parents=True)
    for path in (home / ".cache", home / "shared", home / "shared" / "inner"):
        os.chown(path, home.stat().st_uid, home.stat().st_gid)
    write = "touch HOME/.cache/a HOME/shared/inner/a HOME/shared/a HOME/project/a HOME/a; ls HOME/.cache"
    said = inside(
        ("run", write),
        ("allow", "HOME/shared"),
        ("allow", "HOME/shared/inner"),
        ("run", "kept=1; touch HOME/shared/inner/b HOME/shared/b"),
        ("allow", "HOME"),
        ("run", f"echo $kept; {write}; touch HOME/project/.git/hooks/x; mv HOME/project/.git HOME/project/g"),
        ("contains", None),
        masked=[],
    )
    assert said[0].count("Read-only file system") == 3
    assert (said[1], said[2], said[4]) == (None, None, None)
    assert said[3] == ""
    assert said[5].startswith("1\na\n")
    found = (said[5].count("Read-only file system"), said[5].count("busy"))
    assert found == (1, 1), said[5]  # the hook, and .git
    assert list((home / ".cache").iterdir()) == []
    assert f"{home}/.cache" in said[6]["ephemeral"]
    assert (home / "shared" / "inner" / "b").exists()
    assert (home / "a").exists()


def test_a_folder_above_a_mask_is_not_granted(inside: Inside) -> None:
    """The masked file need not exist: a command could create the key, and a program outside would read it."""
    said = inside(("allow", "HOME/sibling"), ("run", "touch HOME/sibling/x"), masked=["HOME/sibling/key"])
    assert "/sibling/key is closed in it" in said[0]
    assert "Read-only file system" in said[1]


@pytest.mark.parametrize("memory_mb", [0, 64])
def test_temporary_folders_share_one_limit(inside: Inside, memory_mb: int) -> None:
    said = inside(
        ("run", "stat -c %d /tmp /run /var/tmp /dev/shm | sort -u | wc -l; stat -c %a /tmp /dev/shm; touch /dev/x"),
        ("run", "for each in /tmp /run /var/tmp; do head -c 30M /dev/zero >$each/x && echo full; done"),
        ("run", "echo $(($(stat -f -c '%b * %S' /tmp) / 1024)) $(grep MemTotal /proc/meminfo | tr -dc 0-9)"),
        memory_mb=memory_mb,
    )
    assert said[0].startswith("1\n1777\n1777\n")
    assert "Read-only file system" in said[0]
    assert said[1].count("full\n") == (2 if memory_mb else 3)
    size, memory = map(int, said[2].split())
    assert size <= memory * 0.55


def test_in_the_mode_own_only_our_own_files_are_closed(inside: Inside) -> None:
    said = inside(
        ("run", "ls -A ~/.config/toolcrib; cat ~/.config/toolcrib/secrets.env; touch ~/x ~/.ssh/x && cat ~/notes"),
        (
            "run",
            "mv ~/.config ~/c; mv ~/code ~/d; touch ~/code/a.py; cat ~/code/a.py; cat /proc/[0-9]*/cmdline | grep -c asynci[o]",
        ),
        ("contains", None),
        sandbox="own",
        masked=["~/.config/toolcrib"],
        closed=[f"{inside.home}/code"],  # type: ignore[attr-defined]  # see the fixture
        network=True,
    )
    assert said[0].startswith("secret")
    assert "No such file" in said[0]
    assert said[1].count("busy") == 2
    assert "Read-only file system" in said[1]
    assert said[1].startswith("secret0\n")
    assert (said[2]["writable"], said[2]["network"]) == (["/"], "on")
    assert (inside.home / "x").exists()  # type: ignore[attr-defined]  # see the fixture


@pytest.mark.parametrize("mode", ["workspace", "own", "none"])
def test_a_terminal_is_contained_like_a_command(inside: Inside, mode: str) -> None:
    """003-30"""
    masked = {"masked": ["~/.config/toolcrib"]} if mode != "none" else {}
    (said,) = inside(("terminal", "stty size; cat ~/.config/toolcrib/secrets.env; touch ~/x; exit 5"), sandbox=mode, **masked)
    assert said.startswith("30 100\r\n")
    assert ("No such file" in said) == (mode != "none")
    assert ("Read-only file system" in said) == (mode == "workspace")
    assert said.endswith("5")


def test_a_fork_bomb_stays_inside_and_is_reported(inside: Inside) -> None:
    """003-29"""
    said = inside(
        ("run", "kept=1"),
        ("until", ["while :; do (sleep 1000 &); done", "limit of 320 processes (sandbox.processes)"]),
        ("run", "echo $kept"),
        ("until", [":(){ :|:& };:", "limit of 320 processes"]),
        ("run", "echo $kept"),
        processes=320,
    )
    assert said[2].startswith("1\n")
    assert said[4].startswith("1\n")


def test_memory_of_all_together_is_limited(inside: Inside) -> None:
    hold = "(python3 -c 'x = b\"1\" * (150 << 20); import time; time.sleep(1000)' &); "
    said = inside(
        ("until", [f"{hold * 4} sleep 1000", "limit of 400 MB of memory (sandbox.memory_mb)"]),
        ("run", "python3 -c 'bytearray(600 << 20)' 2>&1 | tail -n 1"),
        memory_mb=400,
    )
    assert said[1] == "MemoryError\n"
