"""Modes of a session at the gate: plan refuses changes, confirm-edits asks about them, and neither loosens a rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.tools.approval.conftest import PROJECT
from toolcrib import RunsCommand, ShellState, WritesFile
from toolcrib.testing import FakeEnvironment
from tools.approval.modes import CONFIRM_KEY, MODES, is_stricter, mode_after, mode_of
from tools.approval.policy import RuleSays


@pytest.fixture
def moded(floors: Callable[..., Any]) -> Callable[..., Any]:
    def one(mode: str, environment: Any = None, **options: Any) -> Any:
        floor = floors(environment, **options)
        floor.gate.policy = replace(floor.gate.policy, mode=mode)
        return floor

    return one


WRITES = [
    "echo x > f",
    'python3 -c \'open("f", "w")\'',
    "git checkout .",
    "git commit -am x",
    "sed -i s/a/b/ f",
    "find . -name '*.o' -delete",
    "env GIT_EXTERNAL_DIFF=./x git diff",
    "sleep 1 && touch f &",
    "make",
    "some-program",
]


@pytest.mark.parametrize("command", WRITES)
def test_plan_refuses_what_may_write(moded: Callable[..., Any], command: str) -> None:
    floor = moded("plan")
    assert floor.do(command) == "refused"
    assert "plan mode" in str(floor.last.result.message)
    assert command not in floor.ran


@pytest.mark.parametrize("command", ["ls -la", "cat README.md | wc -l", "git status", "rg -n foo", "find . -name '*.py'"])
def test_plan_lets_reading_pass(moded: Callable[..., Any], command: str) -> None:
    floor = moded("plan", FakeEnvironment({f"{PROJECT}/a": b"x"}, commands=lambda request: (0, b""), cwd=PROJECT))
    assert floor.do(command) == "ran"
    assert floor.call("read_file", {"path": f"{PROJECT}/a"}) == "ran"


def test_plan_refuses_edits(moded: Callable[..., Any]) -> None:
    floor = moded("plan", FakeEnvironment({f"{PROJECT}/a": b"x\n"}, cwd=PROJECT))
    assert floor.call("write_file", {"path": f"{PROJECT}/b", "content": "x"}) == "refused"
    assert floor.call("patch", {"path": f"{PROJECT}/a", "old": "x", "new": "y"}) == "refused"


def test_what_was_harmless_before_is_judged_again(moded: Callable[..., Any]) -> None:
    floor = moded("default")
    assert floor.do("make test") == "ran"
    floor.gate.policy = replace(floor.gate.policy, mode="plan")
    assert floor.do("make test") == "refused"


def test_no_grant_and_no_rule_loosens_plan(moded: Callable[..., Any]) -> None:
    def allows(name: str, args: Any, paths: Sequence[str], toolset: str) -> RuleSays:
        return RuleSays("allow", name)

    floor = moded("default")
    floor.grant("rm -rf build")
    assert floor.do("rm -rf build") == "ran"
    for rules in (None, allows):
        floor.gate.policy = replace(floor.gate.policy, mode="plan", tool_rules=rules)
        assert floor.do("rm -rf build") == "refused"


def test_a_program_of_the_session_is_no_reader(moded: Callable[..., Any]) -> None:
    """A script of the project with a reader's name, found by its path or by PATH, is judged as a script."""
    files = {f"{PROJECT}/bin/ls": b"#!/bin/sh\nrm -rf x\n"}
    environment = FakeEnvironment(files, commands=lambda request: (0, b""), cwd=PROJECT)
    floor = moded("plan", environment)
    assert floor.do("bin/ls") == "refused"
    assert floor.do(f"{PROJECT}/bin/ls") == "refused"
    environment.state = ShellState(variables={"PATH": f"{PROJECT}/bin:/usr/bin"})
    assert floor.do("ls") == "refused"


def test_reading_keys_is_asked_about_in_plan_mode_too(moded: Callable[..., Any]) -> None:
    floor = moded("plan")
    assert "secret.process" in floor.do("cat /proc/1/environ")


def test_confirm_edits_asks_about_every_change_each_time(moded: Callable[..., Any]) -> None:
    floor = moded("confirm-edits")
    assert floor.do("ls") == "ran"
    for command in WRITES:
        assert CONFIRM_KEY in floor.do(command)
    for _ in range(2):
        assert floor.do("touch f") == {CONFIRM_KEY}
        assert floor.last.result.suspension.parameters["scopes"] == ["once"]
        assert floor.answer({"approved": True, "scope": "session"}).result.is_success
    assert floor.call("write_file", {"path": f"{PROJECT}/b", "content": "x"}) == {CONFIRM_KEY}


def test_confirm_edits_can_allow_all_edits_of_the_session(moded: Callable[..., Any]) -> None:
    """The grant covers only edits by toolcrib's own tools in the project. Commands, other tools and folders need approval."""
    floor = moded("confirm-edits", FakeEnvironment({f"{PROJECT}/a": b"x\n"}, commands=lambda request: (0, b""), cwd=PROJECT))
    write = ("write_file", {"path": f"{PROJECT}/b", "content": "x"})
    assert floor.call(*write) == {CONFIRM_KEY}
    offered = floor.last.result.suspension.parameters["covers"]
    assert offered["session"].startswith(f"all edits, anywhere below {PROJECT}, in this session")
    assert offered["path"].startswith(f"all edits, of {PROJECT}/b only")
    assert "always" not in offered
    assert floor.answer({"approved": True, "scope": "session"}).result.is_success
    assert floor.call("write_file", {"path": f"{PROJECT}/c", "content": "x"}) == "ran"
    assert floor.call("patch", {"path": f"{PROJECT}/a", "old": "x", "new": "y"}) == "ran"
    assert floor.do("touch f") == {CONFIRM_KEY}
    assert CONFIRM_KEY in floor.call("write_file", {"path": "/home/dev/other/b", "content": "x"})
    assert floor.last.result.suspension.parameters["scopes"] == ["once"]
    assert floor.call(*write, session="s2") == {CONFIRM_KEY}
    assert floor.call("write_file", {"path": f"{PROJECT}/.git/hooks/pre-commit", "content": "x"}) - {CONFIRM_KEY}
    floor.gate.policy = replace(floor.gate.policy, mode="plan")
    assert floor.call(*write) == "refused"


def test_a_plugin_s_edit_that_names_files_is_asked_about_each_time(moded: Callable[..., Any]) -> None:
    floor = moded("confirm-edits")
    floor.dispatcher.registry.register(
        "x_edit",
        "x",
        {"description": "x"},
        lambda args: "{}",
        kind="edit",
        effects=lambda args, ctx: [WritesFile(f"{PROJECT}/b", "x")],
    )
    assert floor.call("x_edit", {}) == {CONFIRM_KEY}
    assert floor.last.result.suspension.parameters["scopes"] == ["once"]


def test_what_is_refused_stays_refused(moded: Callable[..., Any]) -> None:
    assert moded("confirm-edits").do("rm -rf /") == "refused"


def test_the_log_names_the_mode(moded: Callable[..., Any]) -> None:
    import asyncio

    floor = moded("plan")
    floor.do("touch f")
    entry = asyncio.run(floor.store.audit.entries("s1"))[-1]
    assert (entry.decision, entry.by) == ("blocked", "mode:plan")


def test_what_is_no_mode_is_the_strictest() -> None:
    assert [mode_of(name) for name in (*MODES, "", "yolo", None)] == [*MODES, "plan", "plan", "plan"]
    assert is_stricter("plan", "confirm-edits")
    assert is_stricter("confirm-edits", "cautious")
    assert is_stricter("cautious", "default")
    assert is_stricter("confirm-edits", "default")
    assert not is_stricter("default", "default")


def test_a_tool_that_does_not_say_what_it_does_is_no_reader(moded: Callable[..., Any]) -> None:
    floor = moded("plan")
    for kind, came_of_it in (("read", "ran"), ("other", "refused"), ("execute", "refused"), ("edit", "refused")):
        floor.dispatcher.registry.register(f"x_{kind}", "x", {"description": "x"}, lambda args: "{}", kind=kind)
        assert floor.call(f"x_{kind}", {}) == came_of_it, kind
    floor.dispatcher.registry.register(
        "x_lies", "x", {"description": "x"}, lambda args: "{}", kind="other", effects=lambda args, ctx: [RunsCommand("ls", "/")]
    )
    assert floor.call("x_lies", {}) == "refused"


@pytest.mark.parametrize("loosest", ["default", "cautious"])
def test_switching_through_the_modes_comes_back_to_the_configured_one(loosest: str) -> None:
    modes = [loosest]
    while len(modes) < 4:
        modes.append(mode_after(modes[-1], loosest))
    assert modes == [loosest, "confirm-edits", "plan", loosest]
    assert mode_after("default", "cautious") == mode_after("cautious", "default") == "confirm-edits"
