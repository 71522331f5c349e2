"""``toolcrib mcp``: servers are added, shown, locked and removed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

from agent.config import load_config, read_secrets
from agent.mcp.lock import lock_path, read_lock
from tests.agent.mcp.conftest import RAW, configure, lock
from tests.forks import Forks


@pytest.fixture
def raw(tmp_path: Path) -> list[str]:
    (tmp_path / "raw").mkdir()
    return [sys.executable, "-S", str(RAW), str(tmp_path / "raw")]


@pytest.fixture
def toolcrib(forks: Forks, tmp_path: Path) -> Iterator[Callable[..., pexpect.spawn]]:
    """Return a function that runs toolcrib at a terminal."""
    running: list[pexpect.spawn] = []

    def start(*args: str) -> pexpect.spawn:
        running.append(forks.spawn(*args, cwd=tmp_path, timeout=60, encoding="utf-8", dimensions=(50, 200)))
        return running[-1]

    yield start
    for one in running:
        one.close(force=True)


def test_one_is_added_and_locked_at_a_terminal(toolcrib: Any, raw: list[str], tmp_path: Path) -> None:
    """003-5"""
    configure({})
    (tmp_path / "raw/tools.json").write_text(
        json.dumps(
            [
                {
                    "name": "send",
                    "description": "Send a mail.",
                    "inputSchema": {"type": "object", "properties": {"to": {"type": "string"}}},
                },
                {"name": "terminal", "inputSchema": {"type": "object"}, "annotations": {"destructiveHint": True}},
                {"name": "bad name", "inputSchema": {"type": "object"}},
            ]
        )
    )
    program = toolcrib("mcp", "add", "mail", "--", *raw)
    program.expect(r"mail: added, in \S+config.yaml")
    program.expect("! bad name is not offered: its name has other characters")
    program.expect(r"\+ send: Send a mail.")
    program.expect('to: {"type": "string"}')
    program.expect(r"\+ terminal \(called mail.terminal\): no description")
    program.expect("it may destroy something: each call asks")
    program.expect("May sessions have these tools")
    program.sendline("yes")
    program.expect("mail: 2 tools locked, in .*mcp-lock.json")
    program.expect(pexpect.EOF)
    locked = read_lock(lock_path(load_config().path)).servers["mail"]
    assert [tool.offered for tool in locked.tools] == ["send", "mail.terminal"]


def test_nothing_is_locked_without_a_yes(toolcrib: Any, raw: list[str]) -> None:
    configure({"mail": {"command": raw, "protocol": "legacy"}})
    program = toolcrib("mcp", "lock")
    program.expect("May sessions have these tools")
    program.sendline("no")
    program.expect("mail: not locked")
    program.expect(pexpect.EOF)
    assert not read_lock(lock_path(load_config().path)).servers


def test_a_change_is_shown_as_a_difference(run: Any, toolcrib: Any, raw: list[str], tmp_path: Path) -> None:
    configure({"mail": {"command": raw, "protocol": "legacy"}})
    tools = [
        {"name": name, "description": f"Does {name}.", "inputSchema": {"type": "object"}} for name in ("send", "list", "drop")
    ]
    (tmp_path / "raw/tools.json").write_text(json.dumps(tools))
    lock("mail")
    assert run("mcp", "test", "mail").out.splitlines()[-1] == "its 3 tools are as they were locked"
    tools[0]["description"] = "Send it to me."
    (tmp_path / "raw/tools.json").write_text(json.dumps([*tools[:2], {**tools[0], "name": "new"}]))
    tested = run("mcp", "test", "mail")
    assert tested.code == 1
    assert tested.out.splitlines()[1:] == [
        "~ send",
        "    @@ -1,3 +1,3 @@",
        "     {",
        '    - "description": "Does send.",',
        '    + "description": "Send it to me.",',
        '      "inputSchema": {',
        "+ new: Send it to me.",
        "- drop",
    ]
    program = toolcrib("mcp", "lock", "mail")
    program.expect("May sessions have these tools")
    program.sendline("yes")
    program.expect(pexpect.EOF)
    assert run("mcp", "test", "mail").code == 0


def test_they_are_listed_shown_disabled_and_removed(run: Any, raw: list[str]) -> None:
    assert run("mcp").out.startswith("no MCP servers; add one: toolcrib mcp add")
    configure({"mail": {"command": raw, "protocol": "legacy"}, "far": {"url": "https://mcp.example.org/mcp"}})
    lock("mail")
    assert run("mcp").out.splitlines()[1:] == [
        "mail  on          21     a program, in local",
        "far   not locked  -      https://mcp.example.org/mcp",
    ]
    shown = run("mcp", "show", "mail").out
    assert "terminal (called mail.terminal): Does terminal." in shown
    assert run("mcp", "disable", "mail").out.startswith("mail: disabled, in ")
    assert run("mcp").out.splitlines()[1].split()[1] == "off"
    assert run("mcp", "remove", "mail").out.startswith("mail: removed, in ")
    assert "mail" not in load_config().mcp.servers
    assert not read_lock(lock_path(load_config().path)).servers


def test_servers_of_other_programs_are_taken_after_a_yes(toolcrib: Any, run: Any) -> None:
    configure({"mail": {"command": ["x"]}})
    file = Path.home() / ".cursor/mcp.json"
    file.parent.mkdir()
    given = {"command": "files", "env": {"FILES_TOKEN": "abc123def"}}
    file.write_text(json.dumps({"mcpServers": {"files": given, "mail": {"command": "y"}, "bad": {}, "other": {"command": "z"}}}))
    program = toolcrib("mcp", "import", "cursor")
    program.expect("FILES_TOKEN: the values will be stored in secrets.env")
    program.expect("Take files")
    program.sendline("yes")
    program.expect("not taken: a server of this name exists")
    program.expect("it has neither a command nor an address")
    program.expect("Take other")
    program.sendline("no")
    program.expect("taken: files; look at their tools and lock them: toolcrib mcp lock")
    program.expect(pexpect.EOF)
    config = load_config()
    assert list(config.mcp.servers) == ["mail", "files"]
    assert (config.mcp.servers["files"].command, config.mcp.servers["files"].secrets) == (("files",), ("FILES_TOKEN",))
    assert "abc123def" not in config.path.read_text()
    assert read_secrets(config.folder)["FILES_TOKEN"] == "abc123def"
    assert run("mcp", "import", "emacs").err.startswith("toolcrib: 'emacs' is not a known program; choose one of claude-code, ")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["show"], "give the server: toolcrib mcp show NAME"),
        (["show", "mial"], "there is no MCP server 'mial'; did you mean 'mail'?"),
        (["add", "mail", "--url", "https://a.example"], "the MCP server 'mail' already exists"),
        (["add", "new"], "give the server's program, after --, or its address with --url"),
        (["add", "new", "--env", "x", "--", "a"], "write --env NAME=VALUE"),
        (["test", "mail", "more"], "`mcp test` takes one name"),
    ],
)
def test_a_wrong_command_line_names_the_fix(args: list[str], said: str, run: Any, raw: list[str]) -> None:
    configure({"mail": {"command": raw}})
    done = run("mcp", *args)
    assert done.code == 2
    assert said in done.err


def test_a_server_that_does_not_start_says_why(run: Any) -> None:
    configure({"mail": {"command": ["no-such-program"]}})
    done = run("mcp", "lock", "mail")
    assert done.code == 1
    assert "the MCP server mail did not start: " in done.err
    assert "no-such-program" in done.err
    assert "After the repair: toolcrib mcp lock mail" in done.err
