"""Each subcommand of toolcrib either only reads and runs what is judged again, or the judge refuses what it changes."""

from __future__ import annotations

import pytest

from agent.cli.app import built_in
from tools.judge.detect import detect_dangerous_command

CHANGES = {
    "approvals": "approvals answer 4 --scope always",
    "config": "config set approval.mode default",
    "cron": "cron add x",
    "doctor": "doctor --fix",
    "env": "env stop x",
    "gateway": "gateway pair approve 4",
    "mcp": "mcp lock x",
    "memory": "memory forget x",
    "plugins": "plugins trust x",
    "ps": "ps kill x",
    "sandbox": "sandbox shell",
    "sessions": "sessions delete x",
    "setup": "setup",
    "tools": "tools enable x",
    "toolsets": "toolsets create x",
    "undo": "undo",
}
"""Subcommands that change what only a user may change -> a line that does it."""
READS = {"call", "chat", "completion", "docs", "explain", "models", "parse", "run", "trace", "usage"}
"""The others: their calls are judged like all calls, or they change nothing that decides about calls."""


def test_a_new_subcommand_is_in_one_of_the_lists() -> None:
    assert CHANGES.keys() | READS == built_in().keys()


@pytest.mark.parametrize("line", CHANGES.values())
def test_what_only_a_user_may_change_is_refused(line: str) -> None:
    assert "self.approval" in {found.key for found in detect_dangerous_command(f"toolcrib {line}", "/home/dev/p")}
