"""Subcommands of toolcrib that a session's commands may run. All others are blocked, so a new one is blocked too."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib import import_module

import pytest

from agent.cli.app import built_in, parser_of
from tools.judge.detect import examine
from tools.judge.meaning.state import NoFiles
from tools.judge.rules import self as rules
from tools.judge.setting import Setting

ALLOWED = {
    "approvals": "list pending show history",
    "call": "",
    "chat": "",
    "completion": "",
    "config": "show get path check",
    "cron": "list history",
    "docs": "",
    "doctor": "",
    "env": "list test",
    "explain": "",
    "gateway": "run status people reload drain stop",
    "models": "",
    "parse": "",
    "plugins": "list info",
    "run": "",
    "sandbox": "status test",
    "tools": "list show",
    "toolsets": "list show resolve diff",
    "trace": "",
    "usage": "",
}
"""Subcommand -> the actions that are allowed, of those with actions."""


def parsers() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for name, module in built_in().items():
        yield name, parser_of(name, import_module(module))


def is_blocked(command: str) -> bool:
    found = examine(command, "/home/dev/project", None, NoFiles(), Setting(home="/home/dev")).findings
    return any((one.key, one.level) == ("self.approval", "block") for one in found)


def test_every_subcommand_and_action_is_allowed_or_blocked() -> None:
    allowed: dict[str, set[str]] = {}
    for name, parser in parsers():
        chosen = next((one.choices for one in parser._actions if one.dest == "action"), None) or ()
        free = {str(action) for action in chosen if not is_blocked(f"toolcrib {name} {action}")}
        if not is_blocked(f"toolcrib {name}"):
            allowed[name] = free
        assert free <= allowed.get(name, set())
    assert allowed == {name: set(actions.split()) for name, actions in ALLOWED.items()}


@pytest.mark.parametrize("command", ["toolcrib new", "toolcrib new list", "toolcrib tools new", "python -m toolcrib new"])
def test_an_unknown_one_is_blocked(command: str) -> None:
    assert is_blocked(command)


def test_the_judge_knows_which_options_have_values() -> None:
    """Otherwise it would take an option's value for the action."""
    for name, parser in parsers():
        for action in parser._actions:
            for option in action.option_strings:
                if option in rules._VALUED:
                    assert action.nargs is None, f"{name} {option}"
                if option in rules._FLAGS:
                    assert action.nargs == 0, f"{name} {option}"
