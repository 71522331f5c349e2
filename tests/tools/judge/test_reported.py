"""Verdicts that public bug reports called wrong, and similar commands."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tools.judge.detect import detect_dangerous_command

LEVELS = ("allow", "ask", "ask-once", "block")


def level(command: str) -> str:
    found = [finding.level for finding in detect_dangerous_command(command, "/home/ann/project")]
    return max(found, key=LEVELS.index, default="allow")


_NOT_HERE = {
    "bugsB-011": "a file that is missing is no finding; test_a_file_of_mysql_is_read reads one",
    "bugsB-030": "needs a folder: tests/tools/judge_sequences/ordinary has it",
    "bugsB-032": "needs a home: tests/tools/judge_sequences/ordinary has it",
}


def test_verdicts_of_the_reports() -> None:
    """003-24"""
    folder = os.environ.get("TOOLCRIB_CORPORA")
    if not folder:
        pytest.skip("TOOLCRIB_CORPORA is not set")
    rows = map(json.loads, (Path(folder) / "reports" / "desk.jsonl").read_text("utf-8").splitlines())
    wrong = []
    for row in rows:
        if not row["kind"].startswith("judge: ") or row["id"] in _NOT_HERE:
            continue
        wanted, found = row["expected"].split()[0], level(row["input"])
        if "both allow" in row["expected"]:
            wanted = level(row["input"].replace("--hostname-bin", "--pre"))
        if found != wanted and not (wanted == "ask" and found == "ask-once"):
            wrong.append((row["id"], row["input"], wanted, found))
    assert not wrong


@pytest.mark.parametrize(
    "command",
    [
        "cmake -E remove_directory /etc",
        "cmake -E rm -rf /",
        "ag --pager='rm -rf ~' x",
        "fd --pager 'rm -rf /' x",
        "newtool --on-exit-command 'rm -rf ~'",
        "newtool --editor='rm -rf ~' file",
        "glab config set editor 'rm -rf ~'",
        "gh config set browser 'rm -rf ~'",
        "just --command sh -c 'rm -rf ~'",
        "asdf exec sh -c 'rm -rf ~'",
        "man -H'rm -rf ~' ls",
        "capsh --drop=all -- -c 'rm -rf ~'",
        "mysql -e 'SYSTEM rm -rf ~'",
        "mysql -e 'select 1; system rm -rf ~'",
        "printf 'select 1;\\npager rm -rf ~\\nselect 2;\\n' | mysql shop",
        "mariadb --execute='system rm -rf ~'",
        "tig --exec 'rm -rf /etc' x",
        "find ~ -delete",
        "find ~ -name '*' -delete",
        "find / -name core -o -type f -delete",
    ],
)
def test_programs_that_act_for_the_caller(command: str) -> None:
    """003-24"""
    assert level(command) == "block"


@pytest.mark.parametrize(
    "command",
    [
        "cmake -E copy x /etc/y",
        "cmake -E create_symlink /tmp/x ~/.bashrc",
        "cmake -E touch ~/.bashrc",
        "cmake -E remove_directory build",
        "less --lesskey-content='x' f",
        "less -k keys f",
        "rm ~/*.log",
        "find /var -name '*.log' -delete",
        "echo 'system rm -rf build' > a.sql; mysql -e 'source a.sql'",
    ],
)
def test_what_acts_for_the_caller_asks(command: str) -> None:
    """003-24"""
    assert level(command) in ("ask", "ask-once")


def test_a_file_of_mysql_is_read() -> None:
    """003-24"""
    assert level("echo 'system rm -rf ~' > evil.sql; mysql -e 'source evil.sql'") == "block"


@pytest.mark.parametrize(
    "command",
    [
        "cmake -E make_directory build/x",
        "cmake -E copy a.txt build/a.txt",
        "cmake --build build --target clean",
        "ag --pager 'less -R' x",
        "bat --pager never README.md",
        "git log --grep 'rm -rf ~'",
        "git commit -m 'never run rm -rf ~ again'",
        "rg -e 'rm -rf /' scripts",
        "gh config set pager less",
        "gh config set editor 'code --wait'",
        "mysql -e 'select system from pagers'",
        "mysql -e 'show tables'",
        "man -P cat ls",
        "less -N README.md",
        "rm build/*.log",
        "find . -name '*.log' -print",
        "asdf exec node --version",
        "just --list",
        "sqlite3 -readonly a.db 'drop table t'",
        "for i in {1..513}; do echo $i; done",
        "ls /proc/sys/*",
        "cat /proc/net/dev",
        "touch part-{0001..1200}.txt",
    ],
)
def test_ordinary_neighbours_are_free(command: str) -> None:
    """003-24"""
    assert level(command) == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "cat /proc/sys/../1/environ",
        "cat /proc/*/environ",
        "sqlite3 -readonly a.db '.open b.db' 'drop table t'",
        "sqlite3 -readonly a.db 'drop table t'; sqlite3 b.db 'drop table t'",
        "for i in {1..600}; do $i; done",
        "for i in {1..600}; do rm -rf d$i; done",
    ],
)
def test_their_hostile_neighbours_ask(command: str) -> None:
    """003-24"""
    assert level(command) != "allow"
