"""Runs without progress: the same call with the same result ends the run, except calls that wait for a change."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from agent.api import Crib, assemble
from agent.conversation.limits import NoProgress, RunLimits
from agent.conversation.state import RunResult
from toolcrib import RegistrationError, ToolRegistry
from toolcrib.testing import ScriptedSession
from tools.dispatch.bridge import run_async

SCHEMA = {"description": "Look.", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}
LOOK = ("look", {"a": "x"})


@pytest.fixture
def crib(tmp_path: Path) -> Iterator[Crib]:
    with assemble(project_dir=tmp_path) as crib:
        crib.registry.register("look", "terminal", SCHEMA, lambda args: "nothing new")
        yield crib


def run(crib: Crib, *turns: Any, **limits: Any) -> RunResult:
    session = crib.open_session()
    session.link.use(ScriptedSession(*turns))
    try:
        return run_async(session.ask("go", limits=RunLimits(**{"max_turns": 30, **limits})))
    finally:
        session.close_sync()


def test_the_same_call_with_the_same_result_ends_the_run(crib: Crib) -> None:
    with pytest.raises(NoProgress, match=r'returned the same result 4 times in a row: look \{"a": "x"\}'):
        run(crib, *[[LOOK]] * 9, "done")
    assert run(crib, *[[LOOK]] * 3, "done").text == "done"


def test_the_limit_is_a_setting_of_the_run(crib: Crib) -> None:
    with pytest.raises(NoProgress, match="2 times in a row"):
        run(crib, *[[LOOK]] * 9, "done", repeats=2)
    assert run(crib, *[[LOOK]] * 9, "done", repeats=10).text == "done"


def test_the_same_calls_of_several_in_a_turn_end_it_too(crib: Crib) -> None:
    """The order of the calls in a turn does not matter, nor how often each one is in it."""
    other = ("look", {"a": "y"})
    with pytest.raises(NoProgress, match=r'look \{"a": "[xy]"\}, look \{"a": "[xy]"\}'):
        run(crib, [LOOK, other], [other, LOOK], [LOOK, LOOK, other], [LOOK, other], "done")


def test_another_call_between_them_is_progress(crib: Crib) -> None:
    turns = [[("look", {"a": str(number % 2)})] for number in range(12)]
    assert run(crib, *turns, "done").text == "done"


def test_another_result_is_progress(crib: Crib) -> None:
    count = itertools.count()
    crib.registry.register("look", "terminal", SCHEMA, lambda args: f"{next(count)} new")
    assert run(crib, *[[LOOK]] * 9, "done").text == "done"


@pytest.mark.parametrize("fails", [False, True])
def test_a_tool_that_polls_may_be_asked_again(crib: Crib, fails: bool) -> None:
    def wait(args: Mapping[str, Any]) -> str:
        if fails:
            raise ValueError("not ready")
        return "not ready"

    crib.registry.register("look", "terminal", SCHEMA, wait, polls=True)
    assert run(crib, *[[LOOK]] * 9, "done").text == "done"


def test_a_tool_may_decide_by_its_arguments(crib: Crib) -> None:
    crib.registry.register("look", "terminal", SCHEMA, lambda args: "not ready", polls=lambda args: args["a"] == "wait")
    assert run(crib, *[[("look", {"a": "wait"})]] * 9, "done").text == "done"
    with pytest.raises(NoProgress):
        run(crib, *[[LOOK]] * 9, "done")
    with pytest.raises(NoProgress):
        run(crib, *[[("look", {})]] * 9, "done")


def test_a_command_that_sleeps_polls(crib: Crib) -> None:
    assert run(crib, *[[("terminal", {"command": "sleep 0; echo waiting"})]] * 6, "done").text == "done"
    with pytest.raises(NoProgress, match="terminal"):
        run(crib, *[[("terminal", {"command": "echo waiting"})]] * 6, "done")


def test_polls_must_be_a_plain_answer_or_function() -> None:
    for wrong in ("yes", None, 1):
        with pytest.raises(RegistrationError, match="polls"):
            ToolRegistry().register("look", "terminal", SCHEMA, lambda args: "", polls=wrong)  # type: ignore[arg-type] # on purpose
