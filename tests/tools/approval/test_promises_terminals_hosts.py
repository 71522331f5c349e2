"""Terminals in a sandbox: keys that another program may read, or that may mean more than the judge sees (003-30).

The sandbox and the snapshots hold what keys change here. If the sandbox allows a host, keys are asked about that could send
something there.
"""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tools.process_registry  # noqa: F401 - it registers a tool
from tests.tools.approval.conftest import HOME, PROJECT, Floor
from tests.tools.approval.test_promises_terminals import HOSTILE, ORDINARY, PYTHON, SHELL
from toolcrib import ShellState, ToolResult, WritesInput
from tools.environments import open_environment
from tools.environments.local.holding import sandbox_here
from tools.judge.calls import judge
from tools.judge.layers import Layers, remaining
from tools.judge.setting import Setting
from tools.registry import registry
from tools.terminals.typed import TypedLine, keys_of, lines_of, typing

DEFAULT = Layers((PROJECT,), network="hosts", has_hosts=False, covers=lambda path: True, reaches_all_covered=True)
HOSTS = replace(DEFAULT, has_hosts=True)
ONLINE = replace(DEFAULT, network="on")


def asked(steps: list[str], layers: Layers, shell: ShellState | None = None) -> set[str]:
    """Return the keys of the findings about the last step, which the layers do not contain. ``ANSWER`` is a terminal's answer."""
    entry = registry.get("process")
    assert entry is not None
    command, typed, left = steps[0].removeprefix("TERM "), TypedLine(), set[str]()
    for step in steps[1:]:
        kind, _, rest = step.partition(" ")
        if kind == "ANSWER":
            typed = replace(typed, certain=False)
            continue
        keys = lines_of(rest) if kind == "LINE" else keys_of([f"text:{rest}"] if kind == "TYPE" else rest.split())
        pressed = typing(typed, keys)
        effect = WritesInput("job", pressed.text, command, PROJECT, shell, typed.written, pressed.keys, pressed.certain)
        found = [] if pressed.only_ends else judge(entry, [effect], setting=Setting(home=HOME)).findings
        left = {one.key for one in remaining(found, layers)}
        typed = pressed.after
    return left


PUSH = "git push -f"
ELSEWHERE = {
    # another program reads first
    "a pager that takes a key": [SHELL, "LINE less f", f"LINE q{PUSH}"],
    "a pager that takes a key of an unfinished line": [SHELL, "LINE less f", "TYPE q", f"LINE {PUSH}"],
    "a line behind a comment that a pager takes": [SHELL, "LINE less f", "TYPE #q", f"LINE {PUSH}"],
    "read": [SHELL, "LINE read -n1 x", f"LINE x{PUSH}"],
    "read with a name that is not known": [SHELL, "LINE $(cat name) -n1 x", f"LINE x{PUSH}"],
    "lines typed ahead": [SHELL, f"LINE npm init\n#{PUSH}"],
    "python's help": [PYTHON, "LINE help()", "LINE evil"],
    "python's input": [PYTHON, "LINE exec(input())", "LINE #1;import evil"],
    "python's standard input": [PYTHON, "LINE import sys, os; os.system(sys.stdin.readline())", f"LINE #;{PUSH}"],
    # answers of the terminal
    "an answer before a comment": [SHELL, "LINE printf '\\e[6n'", "ANSWER", f"LINE #; {PUSH}"],
    # shells and clients that the judge does not read whole
    "the character of the history": [SHELL, "LINE histchars=@^#", f"LINE : {PUSH}", "LINE @-1:s/: //"],
    "zsh's next line": ["TERM zsh", f"LINE print -z {PUSH}", "KEYS Enter"],
    "zsh's history": ["TERM zsh", f"LINE print -s {PUSH}", "LINE r"],
    "zsh's prompt": ["TERM zsh", f"LINE setopt promptsubst; RPROMPT='$({PUSH})'"],
    "zsh's aliases": ["TERM zsh", f"LINE alias -g L='; {PUSH}'", "LINE ls L"],
    "zsh's patterns": ["TERM zsh", f"LINE ls *(e:'{PUSH}':)"],
    "a shell that the judge does not know": ["TERM fish", f"LINE ls; and begin; {PUSH}; end"],
    "node's files": ["TERM node", "LINE .load evil.js"],
    "sqlite3's shell": ["TERM sqlite3 a.db", f"LINE .sh {PUSH}"],
    "sqlite3's output": ["TERM sqlite3 a.db", f"LINE .o |{PUSH}"],
    "sqlite3's next output": ["TERM sqlite3 a.db", f"LINE .once |{PUSH}"],
    "sqlite3's input": ["TERM sqlite3 a.db", f"LINE .import '|{PUSH}' t"],
    # settings that run something later
    "a message about mail": [SHELL, f"LINE MAILCHECK=0 MAILPATH='f?$({PUSH})'"],
    "a trap": [SHELL, f"LINE trap '{PUSH}' DEBUG"],
    "a prompt": [SHELL, f"LINE PS0='$({PUSH})'"],
    "a variable that can't be set again": [SHELL, "LINE readonly LESSSECURE=", "LINE man ls", f"LINE !{PUSH}"],
    "a handler for unknown commands": [SHELL, f"LINE command_not_found_handle() {{ {PUSH}; }}", "LINE nope"],
    "a script in an unknown file": [SHELL, "LINE tr x u > x.sh", "LINE git pxsh -f", "KEYS C-d", "LINE sh x.sh"],
    "a number that the shell calculates": ["TERM read -r x; ((x))", f"LINE a[$({PUSH})]"],
    # programs that the judge does not know
    "an unknown program": ["TERM ./install.sh", "KEYS Enter"],
    "a full-screen program": ["TERM nano x", "KEYS C-t"],
    "a pager that may start a shell": ["TERM LESSSECURE_ALLOW=shell less x", "KEYS !"],
    "a menu with a program": [f"TERM dialog --prgbox '{PUSH}' 9 9", "KEYS Enter"],
    "a menu with unknown options": ["TERM dialog --file options", "KEYS Enter"],
}  # fmt: skip


@pytest.mark.parametrize("layers", [HOSTS, ONLINE], ids=["hosts", "online"])
@pytest.mark.parametrize("steps", ELSEWHERE.values(), ids=ELSEWHERE)
def test_keys_that_may_send_something_are_asked_about(steps: list[str], layers: Layers) -> None:
    assert asked(steps, layers)


@pytest.mark.parametrize("steps", HOSTILE.values(), ids=HOSTILE)
def test_hostile_keys_are_asked_about_where_a_host_is_allowed(steps: list[str]) -> None:
    assert asked(steps, HOSTS)


FREE = frozenset(
    ("less", "less in another folder", "a manual", "a log of git", "a comparison of git", "hunks", "top", "htop", "a menu",
     "a form", "watch", "tail", "cat", "a counter")
)  # fmt: skip
"""Ordinary programs that only read, show and choose."""


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_keys_are_asked_about_only_where_a_host_is_allowed(name: str) -> None:
    for end in range(2, len(ORDINARY[name]) + 1):
        steps = ORDINARY[name][:end]
        assert not asked(steps, DEFAULT)
        assert not asked(steps, replace(DEFAULT, network="none", has_hosts=True))
        assert asked(steps, HOSTS) <= (set() if name in FREE else {"process.keys"})


@pytest.mark.parametrize(
    "variables",
    [
        {"LESSSECURE": ""},
        {"LESSSECURE_ALLOW": "shell"},
        {"LESSKEYIN": "keys"},
        {"MANOPT": "-P vim"},
        {"PAGER": "vim"},
        {"GIT_PAGER": "sh"},
    ],
    ids=lambda given: next(iter(given)),
)
def test_a_pager_with_settings_of_the_sessions_shell_is_no_plain_one(variables: dict[str, str]) -> None:
    """A readonly variable there keeps the terminal from setting LESSSECURE."""
    for command in ("less x", "man ls"):
        assert not asked([f"TERM {command}", "KEYS q"], HOSTS, ShellState())
        assert asked([f"TERM {command}", "KEYS q"], HOSTS, ShellState(variables))


def test_what_keys_add_to_an_unfinished_line_is_judged_alone_too() -> None:
    """Another program may have read the beginning of the line."""
    steps = [SHELL, "LINE less f", "TYPE echo q", f"LINE {PUSH}"]
    assert {one.partition("@")[0] for one in asked(steps, DEFAULT)} == {"git.push-force"}
    assert not asked([SHELL, "LINE less f", f"LINE echo q{PUSH}"], DEFAULT), "this one can't be seen"


@pytest.mark.xdist_group("bubblewrap")
@pytest.mark.parametrize("hosts", [[], ["example.org"]], ids=["no hosts", "hosts"])
def test_a_real_sandbox(hosts: list[str], tmp_path: Path) -> None:
    """003-30: a pager that a typed line started takes a key, so that the shell gets another line than the judge saw."""
    if (held := sandbox_here("workspace")).mode != "workspace":
        pytest.skip(f"no sandbox can be made here: {held.why_not_more}")
    (tmp_path / "project").mkdir()
    (project := tmp_path.resolve() / "project").joinpath("f").write_text("text\n" * 99)
    environment = open_environment("local", cwd=str(project), sandbox="workspace", hosts=hosts)
    floor = Floor(tmp_path / "store.db", environment, project_root=str(project))
    floor.gate.policy = replace(floor.gate.policy, covers=lambda path: True)
    entry = registry.get("process")
    assert entry is not None
    floor.dispatcher.registry.put(entry)
    scope = floor.scope(f"s-{secrets.token_hex(6)}")

    def use(tool: str, **args: Any) -> ToolResult:
        return floor.run(tool, args, scope).result

    try:
        start = use("terminal", command="PS1='$ ' bash --norc", pty=True)
        assert start.is_success
        typed = use("process", action="write", name="bash", text="less f")
        assert (typed.suspension is not None) is bool(hosts)
        if not hosts:
            use("process", action="wait", name="bash", pattern="^f")
            use("process", action="keys", name="bash", keys=["q", "touch made", "Enter"])
            assert (project / "made").exists()
    finally:
        asyncio.run(floor.close())
