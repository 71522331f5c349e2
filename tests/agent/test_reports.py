"""Reports of running calls as a session's observers receive them: few, whole, sanitized, and never after the call."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.api import assemble
from agent.conversation.manager import SessionManager
from agent.events import Event, ToolActivity, ToolFinished, ToolProgressed, ToolStarted
from agent.model_choice.models import ModelChoice
from toolcrib import ActivityEvent, ProgressStatus, ToolCallContext
from toolcrib.testing import ChatServer
from tools.dispatch.bridge import run_async

RUNNING = ProgressStatus.RUNNING
Watched = Callable[..., list[Event]]


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    """Return ``watched(handler)``: a model calls a tool that runs the handler; the result is the events of that run."""

    def start(handler: Any, times: int = 1, watch: Callable[[Event], None] | None = None, **more: Any) -> list[Event]:
        events: list[Event] = []
        calls = ChatServer.calls(*[("build", {})] * times, ids=[f"c{number}" for number in range(times)])
        with ChatServer(calls, ChatServer.text("done")) as server, assemble(project_dir=tmp_path) as crib:
            crib.registry.register("build", "terminal", {"description": "d"}, handler)
            session = crib.open_session(**more)
            session.link.choice = ModelChoice("m", server.base_url)
            assert run_async(session.ask("go", emit=watch or events.append)).text == "done"
            session.close_sync()
        return events

    return start


def of_call(events: list[Event], call_id: str = "c0") -> list[ToolProgressed | ToolActivity]:
    return [one for one in events if isinstance(one, (ToolProgressed, ToolActivity)) and one.call_id == call_id]


def result_of(events: list[Event]) -> Any:
    return next(one for one in events if isinstance(one, ToolFinished)).executed.result


def test_progress_is_told_while_the_call_runs(watched: Watched) -> None:
    """002-17"""

    def build(args: Any, ctx: ToolCallContext) -> str:
        ctx.report_progress(RUNNING, "compiling", 0.25)
        time.sleep(0.3)
        ctx.report_progress(ProgressStatus.DONE, progress=1)
        return "built"

    events = watched(build)
    assert of_call(events) == [ToolProgressed("c0", "running", "compiling", 0.25, 1), ToolProgressed("c0", "done", "", 1.0, 2)]
    kinds = [type(one) for one in events if isinstance(one, (ToolStarted, ToolProgressed, ToolFinished))]
    assert kinds == [ToolStarted, ToolProgressed, ToolProgressed, ToolFinished]


@pytest.mark.parametrize("waits", [True, False], ids=["async", "in a thread"])
def test_ten_thousand_reports_are_a_few_events(watched: Watched, waits: bool) -> None:
    """002-17: however often a call reports, observers receive a few events per second, and the last report."""

    def all_of(ctx: ToolCallContext) -> str:
        for number in range(10_000):
            ctx.report_progress(RUNNING, f"file {number}", number / 9_999)
            ctx.report_activity("files", {"done": number})
        return "built"

    async def build_async(args: Any, ctx: ToolCallContext) -> str:
        return all_of(ctx)

    def build(args: Any, ctx: ToolCallContext) -> str:
        return all_of(ctx)

    begin = time.monotonic()
    events = watched(build_async if waits else build)
    told, seconds = of_call(events), time.monotonic() - begin
    assert told[-2:] == [ToolProgressed("c0", "running", "file 9999", 1.0, 10_000), ToolActivity("c0", "files", {"done": 9_999})]
    assert len(told) <= 2 * (2 + 10 * seconds)
    assert result_of(events).data == "built"


def test_a_snapshot_is_replaced_and_changes_are_applied(watched: Watched) -> None:
    """002-15, 002-16"""

    def build(args: Any, ctx: ToolCallContext) -> str:
        ctx.report_activity("plan", {"steps": ["a"], "done": 0})
        ctx.report_activity_delta("plan", {"op": "add", "path": "/steps/-", "value": "b"})
        ctx.report_activity_delta("plan", [{"op": "replace", "path": "/done", "value": 1}])
        ctx.report_activity_delta("log", {"op": "add", "path": "/first", "value": "from nothing"})
        time.sleep(0.3)
        ctx.report_activity("plan", "all done")
        ctx.report_activity_delta("log", {"op": "remove", "path": "/nothing"})
        return "built"

    told = of_call(watched(build))
    plans = [one.content for one in told if isinstance(one, ToolActivity) and one.activity == "plan"]
    assert plans[-2:] == [{"steps": ["a", "b"], "done": 1}, "all done"]
    assert [one for one in told if one.activity == "log"] == [ToolActivity("c0", "log", {"first": "from nothing"})]  # type: ignore[union-attr]  # no progress is reported


def test_what_was_reported_does_not_change_later(watched: Watched) -> None:
    def build(args: Any, ctx: ToolCallContext) -> str:
        plan = {"done": 1}
        ctx.report_activity("plan", plan)
        plan["done"] = 2
        return "built"

    assert of_call(watched(build)) == [ToolActivity("c0", "plan", {"done": 1})]


class Unreadable:
    def __str__(self) -> str:
        raise RuntimeError("no words")


def hostile(ctx: ToolCallContext) -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    odd = (deep, Unreadable(), {1: Unreadable()}, [object()], {"x": math.inf}, "y" * 3_000_000, list(range(100_000)))
    for content in odd:
        ctx.report_activity("odd", content)
    for patch in (
        [None],
        "text",
        7,
        [{"op": "add", "path": "/x" * 100_000}],
        [{}] * 5_000,
        {"op": "copy", "from": "", "path": ""},
    ):
        ctx.report_activity_delta("odd", patch)
    ctx.report_activity("\x1b[2J" + "n" * 1_000, "text")
    for share in (math.nan, math.inf, -math.inf, -7, 10**400, "half", True, [], Unreadable()):
        ctx.report_progress("exploded", Unreadable(), share)  # type: ignore[arg-type]  # what a faulty tool sends
        ctx.report_progress(RUNNING, "m" * 3_000_000, share)  # type: ignore[arg-type]  # as above
        ctx.report_progress(RUNNING, "\x1b]0;title\x07\n\n\u202e", share)  # type: ignore[arg-type]  # as above


def test_hostile_reports_are_tamed_and_end_nothing(watched: Watched) -> None:
    """002-15 .. 002-17: no error, no number that JSON lacks, nothing of unlimited size."""

    def build(args: Any, ctx: ToolCallContext) -> str:
        hostile(ctx)
        time.sleep(0.3)
        hostile(ctx)
        ctx.report_progress(RUNNING, "over", math.nan)
        return "built"

    events = watched(build)
    assert result_of(events).data == "built"
    told = of_call(events)
    assert told
    for event in told:
        if isinstance(event, ToolProgressed):
            assert event.status in set(ProgressStatus)
            assert len(event.message) <= 500
            assert event.share is None or 0 <= event.share <= 1
        else:
            assert len(event.activity) <= 100
            assert len(json.dumps(event.content, allow_nan=False)) < 2_000_000
    last = [one for one in told if isinstance(one, ToolProgressed)][-1]
    assert (last.message, last.share) == ("over", None)


def test_secrets_are_taken_out(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUILD_TOKEN", "hunter2hunter2")

    def build(args: Any, ctx: ToolCallContext) -> str:
        ctx.report_progress(RUNNING, "with hunter2hunter2")
        ctx.report_activity("env hunter2hunter2", {"hunter2hunter2": ["hunter2hunter2"]})
        ctx.report_activity_delta("more", {"op": "add", "path": "/x", "value": "hunter2hunter2"})
        return "built"

    told = of_call(watched(build))
    assert len(told) == 3
    assert "hunter2" not in repr(told)


def test_who_watches_and_fails_ends_no_call(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    def watch(event: Event) -> None:
        seen.append(event)
        if isinstance(event, ToolProgressed):
            raise RuntimeError("nobody looks")

    def build(args: Any, ctx: ToolCallContext) -> str:
        ctx.report_progress(RUNNING, "half", 0.5)
        return "built"

    seen: list[Event] = []
    caplog.set_level(logging.CRITICAL)
    watched(build, watch=watch)
    assert (len(of_call(seen)), result_of(seen).data) == (1, "built")


def test_a_call_that_has_ended_reports_nothing_more(watched: Watched) -> None:
    threads: list[threading.Thread] = []

    def build(args: Any, ctx: ToolCallContext) -> str:
        def late() -> None:
            for _ in range(50):
                ctx.report_progress(RUNNING, "late")
                time.sleep(0.01)

        threads.append(threading.Thread(target=late))
        threads[-1].start()
        return "built"

    events = watched(build, times=2)
    for thread in threads:
        thread.join()
    for call_id in ("c0", "c1"):
        finished = next(n for n, one in enumerate(events) if isinstance(one, ToolFinished) and one.executed.call.id == call_id)
        assert not of_call(events[finished:], call_id)


def test_a_program_s_own_sink_gets_each_report(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    """002-15 .. 002-18: the sink of Crib.open receives what calls report, and events are still sent; a sink that fails is logged
    once.
    """

    class Sink:
        def emit(self, event: ActivityEvent) -> None:
            seen.append(event)
            raise RuntimeError("the sink is shut")

    def build(args: Any, ctx: ToolCallContext) -> str:
        for number in range(3):
            ctx.report_activity_delta("log", {"op": "add", "path": f"/{number}", "value": number})
        return "built"

    seen: list[ActivityEvent] = []
    events = watched(build, sink=Sink())
    assert [one.is_delta for one in seen] == [True] * 3
    assert of_call(events)[-1] == ToolActivity("c0", "log", {"0": 0, "1": 1, "2": 2})
    assert len([one for one in caplog.records if "the sink is shut" in one.getMessage()]) == 1


def test_calls_by_hand_report_too(tmp_path: Path) -> None:
    def build(args: Any, ctx: ToolCallContext) -> str:
        ctx.report_progress(RUNNING, "half", 0.5)
        return "built"

    events: list[Event] = []
    with assemble(project_dir=tmp_path) as crib:
        crib.registry.register("build", "terminal", {"description": "d"}, build)
        session = crib.open_session()
        session.watch = events.append
        assert session.call("build", {}).result.data == "built"
        assert session.call("build", {}).result.data == "built"
        session.close_sync()
    assert [one.message for one in events if isinstance(one, ToolProgressed)] == ["half", "half"]


async def test_a_host_of_many_sessions_is_told_whose_call_it_is(tmp_path: Path) -> None:
    """002-15 .. 002-17, for gateways."""

    def build(args: Any, ctx: ToolCallContext) -> str:
        ctx.report_progress(RUNNING, ctx.run_identity.session_id, 0.5)
        return "built"

    seen: list[tuple[str, ToolProgressed]] = []
    done: list[str] = []

    def watch(session_id: str, event: Event) -> None:
        if isinstance(event, ToolProgressed):
            seen.append((session_id, event))

    replies = [ChatServer.calls(("build", {})), ChatServer.text("done")] * 2
    with ChatServer(*replies) as server:
        async with assemble(project_dir=tmp_path) as crib:
            crib.registry.register("build", "terminal", {"description": "d"}, build)
            about: Any = {"choice": ModelChoice("m", server.base_url), "watch": watch, "done": lambda of, result: done.append(of)}
            async with SessionManager(crib, **about) as manager:
                for number, key in enumerate(("ann", "bob")):
                    await manager.say(key, "go")
                    while len(done) == number:
                        await asyncio.sleep(0.01)
    assert [session_id for session_id, _ in seen] == done
    assert [event.message for _, event in seen] == done
