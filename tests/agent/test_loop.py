"""The loop, with a scripted model and with the one that is a person typing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.config import Config
from agent.events import Event, Retrying, TextDelta, ThinkingDelta, ToolCallDelta, ToolFinished, ToolStarted
from agent.loop import Loop, LoopLimits, LoopResult, MaxTurnsReached, NoProgress, TokenCapReached, run_loop
from agent.protocols.command import parse_command
from agent.providers.manual import ManualSession
from agent.retry import RetryPolicy
from agent.run import Crib, assemble
from toolcrib import AuthFailed, BadRequest, ContextTooLong, Overloaded, ProviderTurn, RateLimited, StreamEvent, ToolCall
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
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["done"]


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
    assert [event.text for event in events if isinstance(event, TextDelta)] == [text]


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


@pytest.mark.parametrize(
    ("pasted", "hint"),
    [
        ('@terminal {"command": "ls"}\n@terminal {"command": "id"}', "give one call at a time, with nothing after it"),
        ('@terminal {"command": "ls\nid"}', "write a line break within a text as \\n, and all as an object"),
        ("@terminal ls", "write them as an object"),
    ],
)
def test_what_is_pasted_wrong_is_told_with_what_mends_it(pasted: str, hint: str) -> None:
    call = parse_command(pasted, ["terminal"])
    assert call is not None
    assert call.fault is not None
    assert f'; {hint}, such as @terminal {{"command": "ls"}}' in call.fault


@given(st.text())
def test_any_line_is_a_call_or_is_not(line: str) -> None:
    call = parse_command(line, ["terminal"])
    assert call is None or isinstance(call, ToolCall)
    call = parse_command(f"@tool {line}")
    assert call is not None


# -- limits ------------------------------------------------------------------------------------------------------------

CALL = [("terminal", {"command": "true"})]


def loop(crib: Crib, provider: Any, emit: Any = lambda event: None, **limits: Any) -> LoopResult:
    async def go() -> LoopResult:
        session = crib.open_session()
        try:
            return await Loop(provider, session, emit, LoopLimits(**limits)).run()
        finally:
            await session.close()

    return asyncio.run(go())


def test_after_the_last_turn_one_more_call_gives_the_answer(crib: Crib) -> None:
    """000-41: exactly one more model call, whose text is the answer"""
    model = ScriptedSession(CALL, CALL, "as far as I got")
    result = loop(crib, model, max_turns=2)
    assert (result.text, result.stopped, result.turns) == ("as far as I got", "max_turns", 3)
    assert model.said == ["You have reached the maximum number of turns. Please provide your final answer now."]


def test_calls_in_the_last_answer_are_not_run(crib: Crib, tmp_path: Path) -> None:
    """000-41"""
    model = ScriptedSession(CALL, [("terminal", {"command": "touch ran"})])
    assert loop(crib, model, max_turns=1).stopped == "max_turns"
    assert not (tmp_path / "ran").exists()


def test_or_an_error_is_raised(crib: Crib) -> None:
    """004-6: at most 20 tool turns, then an error"""
    model = ScriptedSession(*[CALL] * 20)
    with pytest.raises(MaxTurnsReached, match="no answer after 20 turns"):
        loop(crib, model, max_turns=20, on_max_turns="error")
    assert len(model.results) == 20


def test_ten_turns_are_the_default() -> None:
    """000-43 (the default)"""
    assert LoopLimits().max_turns == Config().max_turns == 10
    assert LoopLimits().on_max_turns == "final_answer"


def test_the_same_failing_call_again_and_again_ends_the_run(crib: Crib) -> None:
    model = ScriptedSession(*[[("read_file", {"path": "missing"})]] * 9)
    with pytest.raises(NoProgress, match="the same call failed 4 times in a row: read_file"):
        loop(crib, model)
    assert len(model.results) == 4


def test_different_failing_calls_are_no_circle(crib: Crib) -> None:
    model = ScriptedSession(*[[("read_file", {"path": f"missing{n % 2}"})] for n in range(8)], "gave up")
    assert loop(crib, model).text == "gave up"


def test_unreadable_calls_are_repaired_a_bounded_number_of_times(crib: Crib) -> None:
    class Garbled(ScriptedSession):
        async def stream_turn(self, on_event: Any) -> ProviderTurn:
            return ProviderTurn("", (ToolCall(ToolCall.new_id(), "terminal", {}, "cut off"),))

    model = Garbled()
    with pytest.raises(NoProgress, match="could not be read 4 turns in a row: cut off"):
        loop(crib, model, repeats=99)
    assert all("send it again" in str(one.result.message) for turn in model.results for one in turn)


def test_a_hard_token_cap(crib: Crib) -> None:
    class Counting(ScriptedSession):
        async def stream_turn(self, on_event: Any) -> ProviderTurn:
            return replace(await super().stream_turn(on_event), usage={"input": 400, "output": 50})

    with pytest.raises(TokenCapReached, match="900 tokens used of 800"):
        loop(crib, Counting(*[CALL] * 5), max_tokens=800)
    assert loop(crib, Counting(CALL, "done"), max_tokens=800).usage == {"input": 800, "output": 100}


def test_a_server_that_recovers_is_asked_again(crib: Crib) -> None:
    events: list[Event] = []
    model = ScriptedSession(Overloaded("busy"), RateLimited("slow down", retry_after=0.01), "here")
    assert loop(crib, model, events.append, retry=RetryPolicy(first=0.01)).text == "here"
    waits = [event for event in events if isinstance(event, Retrying)]
    assert [(wait.attempt, wait.reason) for wait in waits] == [(1, "busy"), (2, "slow down")]
    assert waits[1].seconds == 0.01


@pytest.mark.parametrize("error", [AuthFailed("no key"), ContextTooLong("too long"), BadRequest("no")])
def test_what_asking_again_can_not_help_is_raised_at_once(crib: Crib, error: Exception) -> None:
    """000-42"""
    model = ScriptedSession(error, "never")
    with pytest.raises(type(error)):
        loop(crib, model)


def test_retrying_ends(crib: Crib) -> None:
    model = ScriptedSession(*[Overloaded(f"busy {n}") for n in range(9)])
    with pytest.raises(Overloaded, match="busy 2"):
        loop(crib, model, retry=RetryPolicy(attempts=3, first=0.001))
    with pytest.raises(RateLimited):
        loop(crib, ScriptedSession(RateLimited("tomorrow", retry_after=80_000), "never"))


# -- events and records ------------------------------------------------------------------------------------------------


def test_every_turn_has_fresh_ids_and_every_call_one_id(crib: Crib) -> None:
    """004-2, 004-3, 004-4, 004-5, 004-11"""

    class Streaming(ScriptedSession):
        async def stream_turn(self, on_event: Any) -> ProviderTurn:
            on_event(StreamEvent("thinking_delta", "hm"))
            on_event(StreamEvent("assistant_delta", "I will"))
            turn = await super().stream_turn(on_event)
            for call in turn.tool_calls:
                on_event(StreamEvent("tool_call_delta", "{", call.id, call.name))
            return turn

    events: list[Event] = []
    loop(crib, Streaming(CALL, CALL, "done"), events.append)
    texts = {event.id for event in events if isinstance(event, TextDelta)}
    thoughts = {event.id for event in events if isinstance(event, ThinkingDelta)}
    assert len(texts) == len(thoughts) == 3
    assert not texts & thoughts
    by_call: dict[str, list[str]] = {}
    for event in events:
        match event:
            case ToolCallDelta(call_id):
                by_call.setdefault(call_id, []).append("delta")
            case ToolStarted(call):
                by_call.setdefault(call.id, []).append("start")
            case ToolFinished(executed):
                by_call.setdefault(executed.call.id, []).append("end")
    assert list(by_call.values()) == [["delta", "start", "end"]] * 2


def test_a_turn_is_on_record_before_its_calls_run_and_results_before_the_next_request(crib: Crib) -> None:
    seen: list[Any] = []

    class Watching(ScriptedSession):
        async def stream_turn(self, on_event: Any) -> ProviderTurn:
            seen.append([record["role"] for record in crib.store.sessions.messages(session.identity.session_id)])
            return await super().stream_turn(on_event)

    session = crib.open_session()
    take_back = crib.registry.checkpoint()
    crib.registry.register(
        "look", "terminal", {"description": "d"}, lambda args: [record["role"] for record in session.records()]
    )
    session.scope.granted = None
    model = Watching([("look", {})], "done")

    async def go() -> None:
        session.say("hello")
        await Loop(model, session, lambda event: None).run()
        await session.close()

    asyncio.run(go())
    take_back()
    assert seen == [["user"], ["user", "assistant", "results"]]
    assert model.results[0][0].result.data == ["user", "assistant"]
    assert [record["role"] for record in session.records()] == ["user", "assistant", "results", "assistant"]


def test_an_interrupt_while_the_model_speaks_keeps_the_session(crib: Crib) -> None:
    class Endless(ScriptedSession):
        async def stream_turn(self, on_event: Any) -> ProviderTurn:
            on_event(StreamEvent("assistant_delta", "I think"))
            await asyncio.sleep(60)
            raise AssertionError

    async def go() -> tuple[LoopResult, LoopResult]:
        session = crib.open_session()
        task = asyncio.create_task(Loop(Endless(), session, lambda event: None).run())
        await asyncio.sleep(0.02)
        session.interrupt()
        first = await task
        second = await Loop(ScriptedSession(CALL, "still here"), session, lambda event: None).run()
        await session.close()
        return first, second

    first, second = asyncio.run(go())
    assert first.stopped == "interrupted"
    assert second.text == "still here"


def test_a_cancelled_run_is_cancelled(crib: Crib) -> None:
    class Endless(ScriptedSession):
        async def stream_turn(self, on_event: Any) -> ProviderTurn:
            await asyncio.sleep(60)
            raise AssertionError

    async def go() -> None:
        session = crib.open_session()
        task = asyncio.create_task(Loop(Endless(), session, lambda event: None).run())
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await session.close()

    asyncio.run(go())
