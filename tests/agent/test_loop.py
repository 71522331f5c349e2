"""The loop, with a scripted model and with the one that is a person typing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent.events import Event, TextDelta, ToolFinished, ToolStarted
from agent.loop import MaxTurnsReached, run_loop
from agent.providers.manual import ManualSession
from agent.run import Crib, assemble
from hypothesis import given
from hypothesis import strategies as st

from agent.protocols.command import parse_command
from toolcrib import ToolCall
from toolcrib.testing import ScriptedSession


@pytest.fixture
def crib(tmp_path: Path) -> Iterator[Crib]:
    with assemble(project_dir=tmp_path) as made:
        yield made


def drive(crib: Crib, provider: Any, **options: Any) -> tuple[str, list[Event]]:
    events: list[Event] = []

    async def go() -> str:
        session = crib.open_session()
        try:
            return await run_loop(provider, session, events.append, **options)
        finally:
            await session.close()

    return asyncio.run(go()), events


def test_turns_until_there_are_no_calls(crib: Crib) -> None:
    model = ScriptedSession([("terminal", {"command": "echo hi"}), ("zzz", {})], [("terminal", {"command": "true"})], "done")
    text, events = drive(crib, model)
    assert text == "done"
    assert [[one.result.is_success for one in turn] for turn in model.results] == [[True, False], [True]]
    started = [event.call.id for event in events if isinstance(event, ToolStarted)]
    finished = [event.executed.call.id for event in events if isinstance(event, ToolFinished)]
    assert started == finished
    assert events[-1] == TextDelta("done")


def test_a_model_that_never_ends_is_ended(crib: Crib) -> None:
    model = ScriptedSession(*[[("terminal", {"command": "true"})]] * 3)
    with pytest.raises(MaxTurnsReached, match="no answer after 3 turns"):
        drive(crib, model, max_turns=3)


def test_a_typed_call_goes_the_whole_way(crib: Crib) -> None:
    """001-13"""
    person = ManualSession(crib.granted())
    person.say('@terminal {"command": "echo typed"}')
    _, events = drive(crib, person)
    assert [event.executed.result.data["output"] for event in events if isinstance(event, ToolFinished)] == ["typed\n"]


def test_plain_text_is_answered_with_the_way_to_a_model(crib: Crib) -> None:
    person = ManualSession(crib.granted())
    person.say("what is the time?")
    text, events = drive(crib, person)
    assert text.startswith("No model is connected")
    assert events == [TextDelta(text)]


def parsed(line: str) -> Any:
    call = parse_command(line, ["terminal", "kom.v1.search"])
    return None if call is None else (call.name, call.args, call.fault is not None)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('@tool terminal {"command": "ls"}', ("terminal", {"command": "ls"}, False)),
        ('@terminal {"command": "ls"}', ("terminal", {"command": "ls"}, False)),
        ('  @tool kom.memory.v1.search {"q": {"text": "a"}}  ', ("kom.memory.v1.search", {"q": {"text": "a"}}, False)),
        ("@tool todo", ("todo", {}, False)),
        ("@terminal", ("terminal", {}, False)),
        ('@tool x {"a": "@tool y {}"}', ("x", {"a": "@tool y {}"}, False)),
        ('@tool x{"a": 1}', ("x", {"a": 1}, False)),
        ("@tool", ("", {}, True)),
        ('@tool terminal {"command": ', ("terminal", {}, True)),
        ("@tool terminal [1]", ("terminal", {}, True)),
        ("@tool terminal ls -l", ("terminal", {}, True)),
        ("@somebody look at this", None),
        ('please use @tool terminal {"command": "ls"}', None),
        ("mail me@tool.example", None),
        ("", None),
        ("@", None),
    ],
)
def test_the_command_protocol(line: str, expected: Any) -> None:
    """001-13, 001-14: dotted and versioned names, strict objects, a mention in prose is no call"""
    assert parsed(line) == expected


@given(st.text())
def test_any_line_is_a_call_or_is_not(line: str) -> None:
    call = parse_command(line, ["terminal"])
    assert call is None or isinstance(call, ToolCall)
    call = parse_command(f"@tool {line}")
    assert call is not None
