"""The one table of slash commands."""

from __future__ import annotations

from agent.cli import slash
from agent.cli.app import parser_of
from agent.cli.commands import chat
from agent.desk.commands import ALIASES, SLASH_COMMANDS, on
from agent.gateway import commands


def test_each_surface_carries_out_what_the_table_has_for_it() -> None:
    assert set(slash.COMMANDS) | {"/quit"} == set(on("terminal"))
    assert set(commands.COMMANDS) == set(on("chat"))
    assert set(ALIASES.values()) <= set(SLASH_COMMANDS)


def test_a_terminals_help_names_each_with_its_arguments() -> None:
    epilog = parser_of("chat", chat).epilog or ""
    assert [name for name, row in on("terminal").items() if f"  {name} {row.arguments}".rstrip() not in epilog] == []


def test_a_command_is_of_the_terminal_unless_its_row_says_otherwise() -> None:
    assert set(on("chat")) == {
        *("/help", "/new", "/stop", "/approvals", "/approve", "/deny", "/busy", "/tools", "/title", "/status", "/jobs", "/ps"),
    }
