"""Gates that stop a call, and the call's continuation after an answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from toolcrib import (
    Answer,
    Block,
    Denied,
    InvalidArguments,
    NotFound,
    SetResult,
    Suspend,
    SuspendTicket,
    ToolCall,
    ToolCallContext,
    ToolCallStatus,
    ToolResult,
)
from toolcrib.contract.store import TicketRecord
from tools.dispatch.bridge import run_async

NO_RUN = {"error": "Error executing t: because"}


def never(args: Any) -> None:
    pytest.fail("the handler ran")


def ticket(binds: str = "b", **options: Any) -> SuspendTicket:
    return SuspendTicket(action="ask", message="may it?", binds=binds, **options)


def asks_once(binds: str = "b") -> Any:
    def gate(call: ToolCall, ctx: ToolCallContext) -> Any:
        return None if ctx.answer_to(binds) else Suspend(ticket(binds))

    return gate


def test_block(bench: Any) -> None:
    """002-21, 002-23: the handler never runs, the reason is the result, and after-hooks see it"""
    seen: list[Any] = []
    bench.tool("t", never)
    bench.plugin(
        tool_gate=lambda call: Block("because", end_run=True), post_tool_call=lambda result: seen.append(result.is_error)
    )
    executed = bench.call("t")
    assert executed.result.message == NO_RUN["error"]
    assert executed.end_run
    assert executed.status is bench.status(executed) is ToolCallStatus.FAILED
    assert seen == [True]


def test_set_result(bench: Any) -> None:
    """002-21, 002-25: the handler does not run, the given result is used, and after-hooks still see it"""
    seen: list[Any] = []
    bench.tool("t", never)
    bench.plugin(
        tool_gate=lambda call: SetResult(ToolResult.success("t", "cached")),
        post_tool_call=lambda result: seen.append(result.data),
    )
    executed = bench.call("t")
    assert executed.result.data == "cached"
    assert executed.status is ToolCallStatus.SUCCEEDED
    assert seen == ["cached"]


def test_suspend_leaves_the_call_with_its_ticket(bench: Any) -> None:
    """002-21, 002-24"""
    bench.tool("t", never)
    bench.scope.suspends = True
    bench.plugin(tool_gate=asks_once())
    executed = bench.call("t", {"a": 1})
    assert executed.result.is_pending
    assert executed.status is bench.status(executed) is ToolCallStatus.SUSPENDED
    stored = run_async(bench.store.tickets.get(executed.result.suspension.id))
    assert stored.ticket.call == ToolCall(executed.call.id, "t", {"a": 1})


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_the_strongest_decision_wins_whatever_the_order(bench: Any, order: tuple[int, ...]) -> None:
    """002-22"""
    decisions = [SetResult(ToolResult.success("t", 1)), Suspend(ticket()), Block("because")]
    bench.tool("t", never)
    for place in order:
        bench.plugin(f"p{place}", tool_gate=lambda call, decision=decisions[place]: decision)
    assert bench.text("t") == NO_RUN


def test_same_rank_the_first_stands_and_the_conflict_is_logged(bench: Any, caplog: pytest.LogCaptureFixture) -> None:
    """002-22: the plugin that was registered first is asked first"""
    bench.tool("t", never)
    bench.plugin("early", tool_gate=lambda call: Block("because"))
    bench.plugin("late", tool_gate=lambda call: Block("other"))
    assert bench.text("t") == NO_RUN
    assert "gates 'early' and 'late' both decided Block; the first is used" in caplog.text


def test_a_raising_gate_is_closed(bench: Any) -> None:
    bench.tool("t", never)
    bench.plugin("broken", tool_gate=lambda call: 1 / 0)
    assert "the gate 'broken' failed (ZeroDivisionError: division by zero), so the call is not run" in bench.text("t")["error"]


def test_a_late_gate_is_closed(bench: Any) -> None:
    async def hang(call: ToolCall) -> None:
        await asyncio.sleep(60)

    bench.tool("t", never)
    bench.plugin("slow", tool_gate=hang)
    assert "the plugin 'slow' did not answer within 1.5 s, so the call is denied" in bench.text("t")["error"]


def test_a_gate_that_answers_nonsense_is_closed(bench: Any) -> None:
    bench.tool("t", never)
    bench.plugin("odd", tool_gate=lambda call: True)
    assert "returned bool, not SetResult, Suspend, Block or None" in bench.text("t")["error"]


def test_nobody_to_ask_means_no(bench: Any) -> None:
    bench.tool("t", never)
    bench.plugin(tool_gate=asks_once())
    assert "may it?: this needs a user's answer, but no user can be asked here" in bench.text("t")["error"]
    assert run_async(bench.store.tickets.pending("session")) == []


@pytest.mark.parametrize("is_async", [False, True])
def test_an_answer_lets_the_gates_be_asked_again(bench: Any, is_async: bool) -> None:
    """002-27: Suspended -> Resuming -> Running -> Succeeded; answers are a map, so two gates may each suspend once"""
    moves: list[str] = []
    asked: list[str] = []

    def answer(given: SuspendTicket, ctx: ToolCallContext) -> Answer:
        asked.append(given.binds)
        return Answer(given.id, payload={"approved": True}, by="me")

    async def answer_later(given: SuspendTicket, ctx: ToolCallContext) -> Answer:
        await asyncio.sleep(0)
        return answer(given, ctx)

    original = bench.store.ledger.move

    async def move(session: str, call: str, status: ToolCallStatus) -> None:
        moves.append(status.value)
        await original(session, call, status)

    bench.store.ledger.move = move
    bench.tool("t", lambda args: "ran")
    bench.scope.asker = answer_later if is_async else answer
    bench.scope.asker_is_async = is_async
    bench.plugin("one", tool_gate=asks_once("one"))
    bench.plugin("two", tool_gate=asks_once("two"))
    assert bench.call("t").result.data == "ran"
    assert sorted(asked) == ["one", "two"]
    assert moves == ["suspended", "resuming", "running", "suspended", "resuming", "running"]


def test_a_no_ends_the_call_with_its_reason(bench: Any) -> None:
    """003-28: RESUMING -> FAILED, and the model gets the reason"""
    bench.tool("t", never)
    bench.scope.asker = lambda given, ctx: Answer(given.id, payload={"approved": False, "reason": "not today"}, by="me")
    bench.plugin(tool_gate=asks_once())
    executed = bench.call("t")
    assert executed.result.message == "Error executing t: the user denied it: not today"
    assert executed.status is bench.status(executed) is ToolCallStatus.FAILED


def test_a_cancel_cancels(bench: Any) -> None:
    bench.tool("t", never)
    bench.scope.asker = lambda given, ctx: Answer(given.id, "cancel")
    bench.plugin(tool_gate=asks_once())
    executed = bench.call("t")
    assert executed.status is bench.status(executed) is ToolCallStatus.CANCELLED


def bad_askers() -> list[Any]:
    def raises(given: SuspendTicket, ctx: ToolCallContext) -> None:
        raise OSError("no terminal")

    async def hangs(given: SuspendTicket, ctx: ToolCallContext) -> None:
        await asyncio.sleep(60)

    return [
        raises,
        hangs,
        lambda given, ctx: None,
        lambda given, ctx: "yes",
        lambda given, ctx: Answer("another", payload={"approved": True}),
    ]


@pytest.mark.parametrize("number", range(5))
def test_a_face_that_fails_means_no(bench: Any, number: int) -> None:
    from dataclasses import replace

    bench.tool("t", never)
    bench.scope.limits = replace(bench.scope.limits, answer_seconds=0.1)
    bench.scope.asker = bad_askers()[number]
    bench.scope.asker_is_async = number == 1
    bench.plugin(tool_gate=asks_once())
    executed = bench.call("t")
    assert executed.status is ToolCallStatus.FAILED
    assert executed.result.failure.kind == "Denied"


def test_a_gate_that_can_not_take_the_answer_closes(bench: Any) -> None:
    bench.tool("t", never)
    bench.scope.asker = lambda given, ctx: Answer(given.id, payload={"approved": True})
    bench.plugin("forgetful", tool_gate=asks_once(), on_answer=lambda answer: 1 / 0)
    assert "'forgetful' failed to handle the answer (division by zero), so the call is not run" in bench.text("t")["error"]


def test_a_gate_that_asks_for_ever_is_closed(bench: Any) -> None:
    bench.tool("t", never)
    bench.scope.asker = lambda given, ctx: Answer(given.id, payload={"approved": True})
    bench.plugin(tool_gate=lambda call: Suspend(ticket()))
    assert "suspended too often" in bench.text("t")["error"]


def test_an_answer_may_be_the_result_or_reach_the_tool(bench: Any) -> None:
    def ask(args: Any, ctx: ToolCallContext) -> Any:
        if ctx.resume_input is not None:
            return f"heard {ctx.resume_input}"
        return ToolResult.suspended_with("t", "colour?", ticket(resume_mode=args["mode"]))

    bench.tool("t", ask)
    bench.scope.asker = lambda given, ctx: Answer(given.id, payload="blue")
    assert bench.call("t", {"mode": "use_as_result"}).result.data == "blue"
    assert bench.call("t", {"mode": "pass_to_tool"}).result.data == "heard blue"


def test_resume_runs_the_stored_call_once(bench: Any) -> None:
    """002-24: the call that was asked about runs; a second answer is refused"""
    ran: list[Any] = []
    bench.tool("t", lambda args: ran.append(args))
    bench.scope.suspends = True
    bench.plugin("one", tool_gate=asks_once("one"))
    bench.plugin("two", tool_gate=asks_once("two"))

    async def go() -> None:
        first = await bench.dispatcher.call(ToolCall("c", "t", {"a": 1}), bench.scope)
        one = Answer(first.result.suspension.id, payload={"approved": True})
        second = await bench.dispatcher.resume(one, bench.scope)
        assert second.result.is_pending
        assert ran == []
        two = Answer(second.result.suspension.id, payload={"approved": True})
        third = await bench.dispatcher.resume(two, bench.scope)
        assert third.status is ToolCallStatus.SUCCEEDED
        with pytest.raises(Denied, match="already decided"):
            await bench.dispatcher.resume(Answer(two.ticket_id, payload={"approved": True}), bench.scope)
        with pytest.raises(NotFound):
            await bench.dispatcher.resume(Answer("unknown"), bench.scope)

    asyncio.run(go())
    assert ran == [{"a": 1}]
    assert bench.record("c").status is ToolCallStatus.SUCCEEDED


def test_an_earlier_answer_counts_behind_a_ticket_that_nobody_answered(bench: Any) -> None:
    """A process died with its first ticket unanswered; the call was gated again, and got other tickets."""
    first = SuspendTicket("ask", "may it?", ToolCall("c", "t"), id="left")
    one = asks_once("one")

    async def gate(call: ToolCall, ctx: ToolCallContext) -> Any:
        if await bench.store.tickets.get("left") is None:
            await bench.store.tickets.put(TicketRecord(first, "session", at=1.0))
        return one(call, ctx)

    bench.tool("t", lambda args: "did it")
    bench.scope.suspends = True
    bench.plugin("one", tool_gate=gate)
    bench.plugin("two", tool_gate=lambda call, ctx: asks_once("two")(call, ctx) if ctx.answer_to("one") else None)

    async def go() -> Any:
        parked = await bench.dispatcher.call(ToolCall("c", "t"), bench.scope)
        for _ in range(2):
            answer = Answer(parked.result.suspension.id, payload={"approved": True})
            parked = await bench.dispatcher.resume(answer, bench.scope)
        return parked.result

    assert asyncio.run(go()).data == "did it"


def test_resume_refuses_another_sessions_ticket(bench: Any) -> None:
    from toolcrib import RunIdentity

    bench.tool("t", never)
    bench.scope.suspends = True
    bench.plugin(tool_gate=asks_once())
    waiting = bench.call("t").result.suspension
    bench.scope.identity = RunIdentity("other")
    with pytest.raises(Denied, match="another session"):
        asyncio.run(bench.dispatcher.resume(Answer(waiting.id, payload={"approved": True}), bench.scope))


@pytest.mark.parametrize("mode", ["replay", "use_as_result", "pass_to_tool"])
@pytest.mark.parametrize("other_process", [False, True])
def test_the_three_ways_to_resume(bench: Any, mode: Any, other_process: bool) -> None:
    """002-24, 002-30, 002-31"""
    ran: list[Any] = []

    def work(args: Any, ctx: ToolCallContext) -> Any:
        if not ctx.answers:
            return ToolResult.suspended_with("t", "colour?", ticket(resume_mode=mode, response_schema={"type": "string"}))
        ran.append(ctx.resume_input)
        return f"painted {ctx.resume_input}"

    bench.tool("t", work)
    bench.scope.suspends = True
    parked = bench.call("t", call_id="c").result.suspension
    if other_process:
        from dataclasses import replace

        bench.scope = replace(bench.scope)
    done = asyncio.run(bench.dispatcher.resume(Answer(parked.id, payload="blue"), bench.scope))
    assert done.status is bench.record("c").status is ToolCallStatus.SUCCEEDED
    expected: dict[str, tuple[str, list[Any]]] = {
        "replay": ("painted None", [None]),
        "use_as_result": ("blue", []),
        "pass_to_tool": ("painted blue", ["blue"]),
    }
    assert (done.result.data, ran) == expected[mode]


def test_an_answer_that_does_not_fit_its_schema_settles_nothing(bench: Any) -> None:
    """002-30, 002-31"""
    schema = {"type": "object", "properties": {"days": {"type": "integer"}}, "required": ["days"]}
    bench.tool(
        "t", lambda args: ToolResult.suspended_with("t", "when?", ticket(resume_mode="use_as_result", response_schema=schema))
    )
    bench.scope.suspends = True
    parked = bench.call("t").result.suspension

    async def go() -> Any:
        with pytest.raises(InvalidArguments, match=r"\$\.days: .*not of type"):
            await bench.dispatcher.resume(Answer(parked.id, payload={"days": "two"}), bench.scope)
        assert (await bench.store.tickets.get(parked.id)).state == "pending"
        return await bench.dispatcher.resume(Answer(parked.id, payload={"days": 2}), bench.scope)

    assert asyncio.run(go()).result.data == {"days": 2}


def test_a_refusal_fits_any_schema(bench: Any) -> None:
    bench.tool("t", lambda args: ToolResult.suspended_with("t", "when?", ticket(response_schema={"type": "integer"})))
    bench.scope.suspends = True
    parked = bench.call("t").result.suspension
    answer = Answer(parked.id, payload={"approved": False, "reason": "never"})
    message = asyncio.run(bench.dispatcher.resume(answer, bench.scope)).result.message
    assert message == "Error executing t: the user denied it: never"


def test_the_same_decision_again_changes_nothing(bench: Any) -> None:
    """002-31"""
    ran: list[Any] = []
    bench.tool("t", lambda args: ran.append(args) or "did it")
    bench.scope.suspends = True
    bench.plugin(tool_gate=asks_once())
    answer = Answer(bench.call("t").result.suspension.id, payload={"approved": True})

    async def go() -> list[Any]:
        first = await bench.dispatcher.resume(answer, bench.scope)
        return [first, *await asyncio.gather(*[bench.dispatcher.resume(answer, bench.scope) for _ in range(3)])]

    done = asyncio.run(go())
    assert len(ran) == 1
    assert [one.result.data for one in done] == ["did it"] * 4
    assert [one.status for one in done] == [ToolCallStatus.SUCCEEDED] * 4


def test_an_answer_that_was_recorded_before_a_crash_is_acted_on_once(bench: Any) -> None:
    """002-31: the decision is delivered again, and the call still waits"""
    ran: list[Any] = []
    bench.tool("t", lambda args: ran.append(args) or "did it")
    bench.scope.suspends = True
    bench.plugin(tool_gate=asks_once())
    answer = Answer(bench.call("t").result.suspension.id, payload={"approved": True})

    async def go() -> list[Any]:
        assert await bench.store.tickets.decide_ticket(answer, "approved") == "settled"  # and its process died
        return list(await asyncio.gather(*[bench.dispatcher.resume(answer, bench.scope) for _ in range(3)]))

    done = asyncio.run(go())
    assert len(ran) == 1
    assert "did it" in [one.result.data for one in done]


def test_an_earlier_answer_still_reaches_the_tool_after_a_gate_asked_too(bench: Any) -> None:
    """002-30: pass_to_tool, then a gate's question on the way back"""

    def work(args: Any, ctx: ToolCallContext) -> Any:
        return ctx.resume_input or ToolResult.suspended_with("t", "colour?", ticket("tool", resume_mode="pass_to_tool"))

    def gate(call: ToolCall, ctx: ToolCallContext) -> Any:
        return Suspend(ticket("gate")) if ctx.answer_to("tool") and not ctx.answer_to("gate") else None

    bench.tool("t", work)
    bench.plugin(tool_gate=gate)
    bench.scope.suspends = True
    first = bench.call("t").result.suspension

    async def go() -> Any:
        second = await bench.dispatcher.resume(Answer(first.id, payload="blue"), bench.scope)
        return await bench.dispatcher.resume(Answer(second.result.suspension.id, payload={"approved": True}), bench.scope)

    assert asyncio.run(go()).result.data == "blue"
