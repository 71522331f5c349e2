"""Runs from a message to its answer, with a scripted model and with a person who types as the model."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.api import Crib, Session, assemble
from agent.config import Config
from agent.conversation.limits import MaxTurnsReached, NoProgress, RunLimits, TokenCapReached
from agent.conversation.state import RunResult
from agent.events import Event, Retrying, TextDelta, ThinkingDelta, ToolCallDelta, ToolFinished, ToolStarted
from agent.model_choice.retry import RetryPolicy
from agent.protocols.command import parse_command
from agent.providers.manual import ManualSession
from toolcrib import AuthFailed, BadRequest, ContextTooLong, Overloaded, ProviderTurn, RateLimited, StreamEvent, ToolCall
from toolcrib.testing import ScriptedSession


def run(crib: Crib, provider: Any, emit: Any = lambda event: None, text: str = "go", **limits: Any) -> RunResult:
    async def go() -> RunResult:
        session = await crib.open()
        session.link.use(provider)
        try:
            return await session.ask(text, emit=emit, limits=RunLimits(**limits))
        finally:
            await session.close()

    return asyncio.run(go())


def drive(crib: Crib, provider: Any, **options: Any) -> tuple[str, list[Event]]:
    events: list[Event] = []
    return run(crib, provider, events.append, **options).text, events


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
        drive(crib, model, max_turns=3, on_max_turns="error")


def test_a_typed_call_goes_the_whole_way(crib: Crib) -> None:
    """001-13"""
    person = ManualSession(crib.granted())
    _, events = drive(crib, person, text='@terminal {"command": "echo typed"}')
    assert [event.executed.result.data["output"] for event in events if isinstance(event, ToolFinished)] == ["typed\n"]


def test_plain_text_is_answered_with_the_way_to_a_model(crib: Crib) -> None:
    person = ManualSession(crib.granted())
    text, events = drive(crib, person, text="what is the time?")
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
        ("@stranger look at this", None),
        ('please use @tool terminal {"command": "ls"}', None),
        ("mail me@tool.example", None),
        ("", None),
        ("@", None),
    ],
)
def test_the_command_protocol(line: str, expected: Any) -> None:
    """001-13, 001-14: dotted and versioned names, strict objects; a mention in prose is not a call"""
    assert parsed(line) == expected


@pytest.mark.parametrize(
    ("pasted", "hint"),
    [
        ('@terminal {"command": "ls"}\n@terminal {"command": "id"}', "give one call at a time, with nothing after it"),
        ('@terminal {"command": "ls\nid"}', "write a line break within a text as \\n, and the arguments as an object"),
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


def test_after_the_last_turn_one_more_call_gives_the_answer(crib: Crib) -> None:
    """000-41: exactly one more model call; its text is the answer"""
    model = ScriptedSession(CALL, CALL, "as far as I got")
    result = run(crib, model, max_turns=2)
    assert (result.text, result.stopped, result.turns) == ("as far as I got", "max_turns", 3)
    assert model.said[1:] == ["You have reached the maximum number of turns. Please provide your final answer now."]


def test_calls_in_the_last_answer_are_not_run(crib: Crib, tmp_path: Path) -> None:
    """000-41"""
    model = ScriptedSession(CALL, [("terminal", {"command": "touch ran"})])
    assert run(crib, model, max_turns=1).stopped == "max_turns"
    assert not (tmp_path / "ran").exists()


def test_or_an_error_is_raised(crib: Crib) -> None:
    """004-6: at most 20 tool turns, then an error"""
    model = ScriptedSession(*[CALL] * 20)
    with pytest.raises(MaxTurnsReached, match="no answer after 20 turns"):
        run(crib, model, max_turns=20, on_max_turns="error", repeats=99)
    assert len(model.results) == 20


def test_ten_turns_are_the_default() -> None:
    """000-43 (the default)"""
    assert RunLimits().max_turns == Config().max_turns == 10
    assert RunLimits().on_max_turns == "final_answer"


def test_the_same_failing_call_again_and_again_ends_the_run(crib: Crib) -> None:
    model = ScriptedSession(*[[("read_file", {"path": "missing"})]] * 9)
    with pytest.raises(NoProgress, match="the same call failed 4 times in a row: read_file"):
        run(crib, model)
    assert len(model.results) == 4


def test_different_failing_calls_are_no_circle(crib: Crib) -> None:
    model = ScriptedSession(*[[("read_file", {"path": f"missing{n % 2}"})] for n in range(8)], "gave up")
    assert run(crib, model).text == "gave up"


def test_unreadable_calls_are_repaired_a_bounded_number_of_times(crib: Crib) -> None:
    class Garbled(ScriptedSession):
        async def stream_turn(self, on_event: Any) -> ProviderTurn:
            return ProviderTurn("", (ToolCall(ToolCall.new_id(), "terminal", {}, "cut off"),))

    model = Garbled()
    with pytest.raises(NoProgress, match="were unreadable 4 turns in a row: cut off"):
        run(crib, model, repeats=99)
    assert all("send it again" in str(one.result.message) for turn in model.results for one in turn)


def test_a_hard_token_cap(crib: Crib) -> None:
    class Counting(ScriptedSession):
        async def stream_turn(self, on_event: Any) -> ProviderTurn:
            return replace(await super().stream_turn(on_event), usage={"input": 400, "output": 50})

    with pytest.raises(TokenCapReached, match="900 tokens used of 800"):
        run(crib, Counting(*[CALL] * 5), max_tokens=800)
    assert run(crib, Counting(CALL, "done"), max_tokens=800).usage == {"input": 800, "output": 100}


def test_a_server_that_recovers_is_asked_again(crib: Crib) -> None:
    events: list[Event] = []
    model = ScriptedSession(Overloaded("busy"), RateLimited("slow down", retry_after=0.01), "here")
    assert run(crib, model, events.append, retry=RetryPolicy(first=0.01)).text == "here"
    waits = [event for event in events if isinstance(event, Retrying)]
    assert [(wait.attempt, wait.reason) for wait in waits] == [(1, "busy"), (2, "slow down")]
    assert waits[1].seconds == 0.01


def test_a_server_that_names_a_time_in_the_past_gets_a_moment(crib: Crib) -> None:
    """Its clock may be wrong. If its clients retried without a delay, all of them would return at the same time."""
    policy = RetryPolicy(first=2.0)
    assert 1.0 <= (policy.wait(1, RateLimited("slow down", retry_after=0.0)) or 0) <= 2.0
    assert 2.0 <= (policy.wait(2, Overloaded("busy", retry_after=0.0)) or 0) <= 4.0
    assert policy.wait(4, RateLimited("slow down", retry_after=0.0)) is None


@pytest.mark.parametrize("error", [AuthFailed("no key"), ContextTooLong("too long"), BadRequest("no")])
def test_what_asking_again_can_not_help_is_raised_at_once(crib: Crib, error: Exception) -> None:
    """000-42"""
    model = ScriptedSession(error, "never")
    with pytest.raises(type(error)):
        run(crib, model)


def test_retrying_ends(crib: Crib) -> None:
    model = ScriptedSession(*[Overloaded(f"busy {n}") for n in range(9)])
    with pytest.raises(Overloaded, match="busy 2"):
        run(crib, model, retry=RetryPolicy(attempts=3, first=0.001))
    with pytest.raises(RateLimited):
        run(crib, ScriptedSession(RateLimited("tomorrow", retry_after=80_000), "never"))


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
    run(crib, Streaming(CALL, CALL, "done"), events.append)
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
    """A step is stored completely before the next one begins."""
    seen: list[Any] = []

    async def go() -> None:
        session = await crib.open()

        class Watching(ScriptedSession):
            async def stream_turn(self, on_event: Any) -> ProviderTurn:
                seen.append([record["role"] for record in await session.records()])
                return await super().stream_turn(on_event)

        async def roles(args: Any) -> list[str]:
            return [record["role"] for record in await session.records()]

        crib.registry.register("look", "terminal", {"description": "d"}, roles)
        session.scope.granted = None
        model = Watching([("look", {})], "done")
        session.link.use(model)
        await session.ask("hello")
        assert model.results[0][0].result.data == ["user", "assistant"]
        assert [record["role"] for record in await session.records()] == ["user", "assistant", "results", "assistant"]
        await session.close()

    take_back = crib.registry.checkpoint()
    asyncio.run(go())
    take_back()
    assert seen == [["user"], ["user", "assistant", "results"]]


class Endless(ScriptedSession):
    """A model that begins to speak and never ends."""

    async def stream_turn(self, on_event: Any) -> ProviderTurn:
        on_event(StreamEvent("assistant_delta", "I think"))
        await asyncio.sleep(60)
        raise AssertionError


def speaking(session: Session) -> tuple[Any, asyncio.Event]:
    """Return an ``emit`` function, and an event that is set when the model speaks."""
    begun = asyncio.Event()

    def emit(event: Event) -> None:
        if isinstance(event, TextDelta):
            begun.set()

    return emit, begun


def test_an_interrupt_while_the_model_speaks_keeps_the_session(crib: Crib) -> None:
    async def go() -> tuple[RunResult, RunResult]:
        session = await crib.open()
        session.link.use(Endless())
        emit, begun = speaking(session)
        task = asyncio.create_task(session.ask("go", emit=emit))
        await begun.wait()
        session.interrupt()
        first = await task
        session.link.use(ScriptedSession(CALL, "still here"))
        second = await session.ask("go on")
        await session.close()
        return first, second

    first, second = asyncio.run(go())
    assert first.stopped == "interrupted"
    assert second.text == "still here"


def test_a_cancelled_run_is_cancelled(crib: Crib) -> None:
    async def go() -> None:
        session = await crib.open()
        session.link.use(Endless())
        emit, begun = speaking(session)
        task = asyncio.create_task(session.ask("go", emit=emit))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        session.link.use(ScriptedSession("here"))
        assert (await session.ask("and now?")).text == "here"
        assert [record["role"] for record in await session.records()] == ["user", "assistant", "user", "assistant"]
        await session.close()

    asyncio.run(go())


def test_messages_at_once_are_answered_in_order(crib: Crib) -> None:
    """Each message gets its own answer, whichever caller drives the session."""

    async def go() -> list[str]:
        session = await crib.open()
        session.link.use(ScriptedSession(CALL, "first", "second", "third"))
        answers = await asyncio.gather(*(session.ask(text) for text in ("a", "b", "c")))
        said = [record["text"] for record in await session.records() if record["role"] == "user"]
        await session.close()
        assert said == ["a", "b", "c"]
        return [answer.text for answer in answers]

    assert asyncio.run(go()) == ["first", "second", "third"]


def test_a_message_is_taken_once_by_its_sender_s_key(crib: Crib) -> None:
    async def go() -> None:
        session = await crib.open()
        session.link.use(ScriptedSession("first"))
        assert await session.say("a", key="update-7") is not None
        assert await session.say("a", key="update-7") is None
        result = await session.advance()
        assert result is not None
        assert result.text == "first"
        assert await session.advance() is None
        assert [record["role"] for record in await session.records()] == ["user", "assistant"]
        await session.close()

    asyncio.run(go())


def test_what_steers_is_read_with_the_next_results(crib: Crib) -> None:
    """The message joins the active run, and its sender gets that run's answer."""

    async def go() -> None:
        session = await crib.open()
        model = ScriptedSession([("speak", {})], "done both")
        answered: list[asyncio.Task[RunResult]] = []

        async def speak(args: Any) -> str:
            answered.append(asyncio.create_task(session.ask("and the tests", mode="steer")))
            while not await session.store.inbox.waiting(session.id):
                await asyncio.sleep(0.01)
            return "spoken"

        crib.registry.register("speak", "terminal", {"description": "d"}, speak)
        session.scope.granted = None
        session.link.use(model)
        first = await session.ask("the code")
        second = await answered[0]
        assert (first.text, second.text) == ("done both", "done both")
        assert model.said == ["the code", "and the tests"]
        roles = [record["role"] for record in await session.records()]
        assert roles == ["user", "assistant", "results", "user", "assistant"]
        await session.close()

    take_back = crib.registry.checkpoint()
    asyncio.run(go())
    take_back()


def test_what_interrupts_ends_the_run_and_is_answered_next(crib: Crib) -> None:
    async def go() -> None:
        session = await crib.open()
        session.link.use(Endless())
        emit, begun = speaking(session)
        first = asyncio.create_task(session.ask("go", emit=emit))
        await begun.wait()
        session.link.use(ScriptedSession("stopped, and read it"))
        second = await session.ask("no, this", mode="interrupt")
        assert (await first).stopped == "interrupted"
        assert second.text == "stopped, and read it"
        await session.close()

    asyncio.run(go())


def test_what_interrupts_does_not_end_the_run_that_answers_it(crib: Crib) -> None:
    """The signal of a message may arrive late."""

    async def go() -> None:
        session = await crib.open()
        item = await session.say("no, this", mode="interrupt")
        assert item is not None
        session.interrupt_for(item)
        session.link.use(ScriptedSession(CALL, "read it"))
        last = await session.advance(lambda event: session.interrupt_for(item))
        assert last is not None
        assert (last.stopped, last.text) == ("done", "read it")
        await session.close()

    asyncio.run(go())


def test_what_was_said_behind_an_interrupted_run_is_answered(crib: Crib) -> None:
    """An interrupt ends one run; the messages that wait behind it are not lost."""

    async def go() -> None:
        session = await crib.open()
        session.link.use(Endless())
        emit, begun = speaking(session)
        for text in ("one", "two"):
            await session.say(text)
        driving = asyncio.create_task(session.advance(emit))
        await begun.wait()
        session.link.use(ScriptedSession("the second"))
        session.interrupt()
        last = await driving
        assert last is not None
        assert last.text == "the second"
        assert [record["text"] for record in await session.records() if record["role"] == "user"] == ["one", "two"]
        await session.close()

    asyncio.run(go())


def test_caps_hold_across_processes(tmp_path: Path) -> None:
    """A run's counts are stored with it: another process continues counting from them."""

    class Dies(ScriptedSession):
        async def stream_turn(self, on_event: Any) -> ProviderTurn:
            if not self._turns:
                raise RuntimeError("the process ends here")
            return replace(await super().stream_turn(on_event), usage={"input": 100, "output": 10})

    async def begin(crib: Crib) -> str:
        session = await crib.open()
        session.link.use(Dies(CALL, CALL))
        with pytest.raises(RuntimeError, match="ends here"):
            await session.ask("go", limits=RunLimits(max_turns=3))
        await session.close()
        return session.id

    async def go_on(crib: Crib, session_id: str) -> RunResult | None:
        session = await crib.open(resume=session_id)
        session.link.use(Dies(CALL, "the last answer"))
        try:
            return await session.advance()
        finally:
            await session.close()

    with assemble(project_dir=tmp_path) as crib:
        session_id = asyncio.run(begin(crib))
    with assemble(project_dir=tmp_path) as crib:
        result = asyncio.run(go_on(crib, session_id))
    assert result is not None
    assert (result.stopped, result.turns, result.usage) == ("max_turns", 4, {"input": 400, "output": 40})
