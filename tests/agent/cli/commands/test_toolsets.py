"""``toolcrib toolsets``: creating and changing a toolset, and the effects of a change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.api import assemble
from agent.config import load_config
from toolcrib.contract.store import Grant
from tools.dispatch.bridge import run_async


def test_one_is_made_changed_compared_and_taken_out(run: Any, config: Any, agree: Any) -> None:
    file = config("# mine\ntools:\n  timeout: 60  # long\n")
    done = run(
        "toolsets", "create", "research", "--tools", "read_file,search_files", "--include", "todo", "--description", "Looks"
    )
    assert (done.code, done.out) == (0, f"research: created in {file}\nno user gets other tools or approvals\n")
    agree()
    assert run("toolsets", "edit", "research", "--add", "patch", "--drop", "search_files", "--description", "Edits").code == 4
    custom = load_config().toolsets.custom["research"]
    assert (custom.description, custom.tools, custom.includes) == ("Edits", ("read_file", "patch"), ("todo",))
    assert "60  # long" in file.read_text()
    agree()
    rows = run("toolsets", "diff", "coding", "research").out.splitlines()
    assert [row.split()[:2] for row in rows if row[0] in "+-"] == [
        ["-", "terminal"],
        ["-", "process"],
        ["-", "write_file"],
        ["-", "search_files"],
        ["-", "memory"],
        ["-", "session_search"],
        ["-", "delegate_task"],
        ["-", "clarify"],
        ["-", "cronjob"],
    ]
    agree()
    assert run("toolsets", "edit", "research", "--exclude", "todo", "--add", "todo").code == 4
    assert load_config().toolsets.custom["research"].tools == ("read_file", "patch", "todo")
    agree()
    assert run("toolsets", "delete", "research").code == 4
    assert load_config().toolsets.custom == {}


def test_what_waits_for_a_confirmation_is_told_before_the_end(run: Any, config: Any) -> None:
    """A script cannot confirm it: the toolset is written, but not reported as done."""
    file = config("toolsets: {custom: {few: {tools: [read_file]}}}\n")
    done = run("toolsets", "create", "more", "--tools", "terminal")
    assert done.code == 4
    assert "toolsets.custom.more was written and waits for a confirmation" in done.err
    assert done.out.startswith(f"more: created in {file}, but not confirmed yet\n")


def test_platforms_are_compared(run: Any) -> None:
    assert run("toolsets", "diff", "cli", "api", "--platforms").out.splitlines()[0] == "-  clarify         only in cli"


def test_who_gets_other_tools_by_a_change_is_told(run: Any, config: Any) -> None:
    config(
        "toolsets: {custom: {few: {tools: [read_file]}}}\n"
        "platforms: {telegram: {enabled_toolsets: [few], allow_local: true}}\nusers: {'telegram:7': {disabled_tools: [patch]}}\n"
    )
    done = run("toolsets", "edit", "few", "--add", "patch,todo", "--drop", "read_file")
    assert "  telegram: + patch, todo\n" in done.out
    assert "  telegram: - read_file  (not among the toolsets of the platform 'telegram')\n" in done.out
    assert "  telegram, user 7: + todo\n" in done.out
    assert "cli" not in done.out


def _taken(told: str, who: str) -> set[str]:
    """Return the tools that a change removes for a principal, from the output, which lists them in the order of registration."""
    (line,) = [line for line in told.splitlines() if line.startswith(f"  {who}: - ")]
    return {*line.removeprefix(f"  {who}: - ").partition("  (")[0].split(", ")}


def test_what_a_change_would_do_is_told_and_not_done(run: Any, config: Any) -> None:
    file = config("users: {bob: {disabled_tools: [todo]}}\n")
    before = file.read_text()
    done = run("toolsets", "resolve", "--with", "tools.disabled=[terminal, todo]")
    assert done.out.startswith("this would change:\n")
    assert _taken(done.out, "cli") == {"terminal", "todo"}
    assert _taken(done.out, "cli, user bob") == {"terminal"}
    assert done.out.count("  (disabled in the configuration (disabled tools))\n") == 2
    eve = run("toolsets", "resolve", "--with", "users.eve.disabled_toolsets=[file]").out
    assert _taken(eve, "cli, user eve") == {"read_file", "write_file", "patch", "search_files"}
    assert "(not for the user 'eve' (users.eve in the configuration))" in eve
    amy = run("toolsets", "resolve", "--with", "users.cli:amy.disabled_tools=[todo]").out
    assert "(not for the user 'amy' (users.cli:amy in the configuration))" in amy
    one = run("toolsets", "resolve", "--platform", "api", "--with", "toolsets.enabled=[gone]").out
    assert _taken(one, "api") == {
        "terminal",
        "process",
        "read_file",
        "write_file",
        "patch",
        "search_files",
        "todo",
        "memory",
        "session_search",
        "delegate_task",
    }
    assert "(no session can be opened: unknown toolset 'gone'" in one
    assert run("toolsets", "resolve", "--with", "display.color=never").out == "no user would get other tools or approvals\n"
    assert file.read_text() == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("create", "coding"), "a toolset 'coding' already exists; choose another name"),
        (("create", "mine"), "a toolset 'mine' already exists; to change it: toolcrib toolsets edit mine"),
        (("create", "new", "--tools", "red_file"), "unknown tool 'red_file'; did you mean 'read_file'?"),
        (("create", "new", "--include", "codin"), "unknown toolset 'codin'; did you mean 'coding'?"),
        (("edit", "mine", "--include", "mine"), "the toolset 'mine' cannot include itself; remove it from --include"),
        (("edit", "mien", "--add", "todo"), "the toolset 'mien' does not exist; did you mean 'mine'?"),
        (("edit", "coding", "--add", "todo"), "comes with toolcrib or a plugin, so it cannot be changed; yours: mine, other"),
        (("edit", "mine", "--drop", "todo"), "mine has no tool 'todo' of its own (it has: read_file)"),
        (("delete", "mine"), "mine is in use: remove it from toolsets.custom.other.includes ("),
        (("edit", "mine", "--tools", "todo"), "--tools needs `toolsets create`"),
        (("resolve", "--with", "tools"), "--with expects KEY=VALUE"),
        (("resolve", "--with", "tools.disabld=[x]"), "disabled"),
        (("create",), "give the toolset: toolcrib toolsets create NAME"),
        (("diff", "mine"), "give the toolset: toolcrib toolsets diff NAME OTHER"),
        (("show", "mine", "other"), "`toolsets show` takes one name"),
    ],
)
def test_what_can_not_be_done_names_the_fix(run: Any, config: Any, words: tuple[str, ...], said: str) -> None:
    file = config("toolsets: {custom: {mine: {tools: [read_file]}, other: {includes: [mine]}}}\n")
    before = file.read_text()
    done = run("toolsets", *words)
    assert done.code == 2
    assert said in done.err
    assert file.read_text() == before


RULES = """\
approval:
  mode: confirm-edits
  smart: {enabled: true, model: small}
  rules:
    - {key: deploy.production, level: ask-once, command: deployctl, sub: release, operands: prod.*, why: customers see it,
       example: [deployctl release prod-1]}
  tools:
    - {tool: write_*, args: {path: "**/migrations/**"}, decision: deny, why: written by hand}
    - {tool: mcp_*, decision: ask, why: not here}
platforms: {telegram: {enabled_toolsets: [file], smart_approval: false, allow_local: true}}
"""


def test_it_tells_how_calls_would_be_approved(run: Any, config: Any) -> None:
    config(RULES)
    told = run("toolsets", "resolve").out.partition("approval of its calls:\n")[2].splitlines()
    assert told == [
        "  mode confirm-edits: every edit and every command that may write is asked about",
        "  smart approval: small may approve first",
        "  asks every time: deployctl release with operands like prod.* (deploy.production)  (customers see it)",
        "  is refused: calls of write_* with path: **/migrations/**  (written by hand)",
    ]
    whole = json.loads(run("toolsets", "resolve", "--platform", "telegram", "--user", "7", "--json").out)["approval"]
    assert (whole["mode"], whole["smart"], whole["grants"]) == ("confirm-edits", "", [])
    assert whole["rules"] == [
        {
            "key": "write_*",
            "decision": "deny",
            "about": "calls of write_* with path: **/migrations/**",
            "why": "written by hand",
            "tools": ["write_file"],
        }
    ]


def test_grants_for_always_of_each_are_told(run: Any, config: Any, tmp_path: Path) -> None:
    config("command_allowlist:\n  - {argv: [make, clean], cwd: /srv, version: 1}\n")
    with assemble(config=load_config(), project_dir=tmp_path) as crib:
        crib.grants.confirm()
        theirs = Grant("1" * 32, "always", "fs.delete", "/srv", argv=("rm", "-r", "x"), principal="telegram:7")
        run_async(crib.store.grants.add(theirs))

    def granted(*words: str) -> list[str]:
        return [line for line in run("toolsets", "resolve", *words).out.splitlines() if line.startswith("  permanent grant")]

    assert granted() == ["  permanent grant: `make clean` in /srv"]
    assert granted("--platform", "telegram", "--user", "7") == ["  permanent grant: `rm -r x` in /srv"]
    assert granted("--platform", "telegram", "--user", "8") == []


def test_what_a_change_does_to_approvals_is_told(run: Any, config: Any) -> None:
    config(RULES)
    told = run("toolsets", "resolve", "--platform", "telegram", "--with", "approval.mode=plan", "--with", "approval.tools=[]").out
    assert told.splitlines() == [
        "this would change:",
        "  telegram: - approval: mode confirm-edits: every edit and every command that may write is asked about",
        "  telegram: - approval: is refused: calls of write_* with path: **/migrations/**  (written by hand)",
        "  telegram: + approval: mode plan: edits and commands that may write are denied",
    ]
    rows = run("toolsets", "diff", "cli", "telegram", "--platforms").out.splitlines()
    assert "- approval: smart approval: small may approve first" in rows
    assert "+ approval: smart approval: off" in rows
    assert run("toolsets", "diff", "file", "file").out.endswith("calls of both are approved the same way\n")


def test_a_misspelt_tool_of_a_change_is_told(run: Any) -> None:
    done = run("toolsets", "resolve", "--with", "tools.disabled=[terminl]")
    assert done.err == "toolcrib: tools.disabled: unknown tool 'terminl'; did you mean 'terminal'?\n"
