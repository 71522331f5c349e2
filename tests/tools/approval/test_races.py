"""Answers that arrive twice, late, from two users, after a restart or at an end.

Each run needs its own approval, and no call runs twice. The dispatcher, gate and SQLite store are real; the environment is a
double that counts its commands.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent.store.sqlite import SqliteStore
from toolcrib import (
    Answer,
    Denied,
    Effect,
    ExecRequest,
    ExecutedCall,
    RunIdentity,
    RunsCommand,
    ToolCall,
    ToolCallStatus,
    ToolRegistry,
)
from toolcrib.testing import FakeEnvironment
from tools.approval.gate import APPROVAL, ApprovalGate
from tools.dispatch.bridge import run_async
from tools.dispatch.hooks import new_manager
from tools.dispatch.pipeline import Dispatcher
from tools.dispatch.scope import CallScope, Limits

YES = {"approved": True}
NO = {"approved": False, "reason": "no"}
SCHEMA = {"description": "Runs.", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}


class Clock:
    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


class House:
    """One process: a store on disk, a gate, a dispatcher, and scopes of one session."""

    def __init__(self, file: Path, environment: FakeEnvironment | None = None) -> None:
        self.clock = Clock()
        self.store = SqliteStore(file, clock=self.clock)
        self.environment = environment or FakeEnvironment(commands=lambda request: (0, b""))
        registry, hooks = ToolRegistry(), new_manager()
        registry.register("run", "t", SCHEMA, self._run, kind="execute", effects=self._effects)
        self.gate = ApprovalGate(self.store.grants, project_root="/project", audit=self.store.audit)
        hooks.register(self.gate, APPROVAL)
        self.dispatcher = Dispatcher(registry, hooks)

    @staticmethod
    def _effects(args: dict[str, Any], ctx: Any) -> Sequence[Effect]:
        return [RunsCommand(args["command"], ctx.environment.cwd)]

    @staticmethod
    async def _run(args: dict[str, Any], ctx: Any) -> str:
        await ctx.environment.execute(ExecRequest(args["command"]))
        return "done"

    def scope(self, *, suspends: bool = True, asker: Any = None, session: str = "s1", seconds: float | None = None) -> CallScope:
        return CallScope(
            identity=RunIdentity(session),
            open_environment=lambda: self.environment,
            suspends=suspends,
            asker=asker,
            ledger=self.store.ledger,
            tickets=self.store.tickets,
            limits=Limits(answer_seconds=seconds, park_seconds=seconds),
        )

    @property
    def ran(self) -> list[str]:
        return [request.command for request in self.environment.executed]

    def ask(self, scope: CallScope, command: str = "rm -rf build", call_id: str = "c1") -> str:
        """Return the id of the question that the call is suspended with."""
        executed = asyncio.run(self.dispatcher.call(ToolCall(call_id, "run", {"command": command}), scope))
        assert executed.result.suspension is not None, executed.result
        return executed.result.suspension.id

    def resume(self, scope: CallScope, ticket_id: str, payload: Any = None, by: str = "ann") -> ExecutedCall:
        answer = Answer(ticket_id, payload=YES if payload is None else payload, by=by, at=time.time())
        return asyncio.run(self.dispatcher.resume(answer, scope))


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Callable[..., House]]:
    made: list[House] = []

    def one(environment: FakeEnvironment | None = None) -> House:
        made.append(House(tmp_path / "store.db", environment))
        return made[-1]

    yield one
    for house in made:
        house.store.close()


@pytest.fixture
def house(build: Callable[..., House]) -> House:
    return build()


def together(*actions: Callable[[], Any]) -> list[Any]:
    """Run the actions at the same moment in separate threads, and return what each returns or raises."""
    start = threading.Barrier(len(actions))
    results: list[Any] = [None] * len(actions)

    def run(place: int, action: Callable[[], Any]) -> None:
        start.wait()
        try:
            results[place] = action()
        except Exception as error:  # noqa: BLE001 - the test checks it
            results[place] = error

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(actions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_a_double_click_runs_it_once(house: House) -> None:
    """003-25, 002-31"""
    for number in range(10):
        scope = house.scope()
        ticket = house.ask(scope, call_id=f"c{number}")
        results = together(*[partial(house.resume, scope, ticket)] * 4)
        assert sum(isinstance(one, ExecutedCall) and one.result.is_success for one in results) == 1, results
        assert sum(isinstance(one, Denied) for one in results) == 3, results
        assert len(house.ran) == number + 1


def test_of_two_people_the_first_decides(house: House) -> None:
    for number in range(10):
        scope = house.scope()
        ticket, before = house.ask(scope, call_id=f"c{number}"), len(house.ran)
        results = together(partial(house.resume, scope, ticket, YES, "ann"), partial(house.resume, scope, ticket, NO, "bob"))
        assert sum(isinstance(one, Denied) for one in results) == 1, results
        record = run_async(house.store.tickets.get(ticket))
        assert record is not None
        assert record.answer is not None
        assert (record.state, record.answer.by) in (("approved", "ann"), ("denied", "bob"))
        assert len(house.ran) - before == (record.state == "approved")


def test_a_late_click_is_refused_and_says_so(house: House) -> None:
    scope = house.scope(seconds=60)
    ticket = house.ask(scope)
    house.clock.ahead = 61
    with pytest.raises(Denied, match="came too late: the request had expired"):
        house.resume(scope, ticket)
    assert house.ran == []


def test_an_answer_of_yesterday_names_who_settled_it(house: House) -> None:
    scope = house.scope()
    ticket = house.ask(scope)
    house.resume(scope, ticket, NO, "bob")
    with pytest.raises(Denied, match=r"already decided \(denied, by bob\)"):
        house.resume(scope, ticket, YES, "ann")
    assert house.ran == []


def test_after_a_restart_the_question_is_still_open_and_runs_once(build: Callable[..., House]) -> None:
    first = build()
    ticket = first.ask(first.scope())
    first.store.close()
    second = build()
    assert second.ran == []
    assert second.resume(second.scope(), ticket).result.is_success
    with pytest.raises(Denied):
        second.resume(second.scope(), ticket)
    assert second.ran == ["rm -rf build"]


@pytest.mark.parametrize("change", ["script", "folder", "place"])
def test_what_changed_between_question_and_answer_is_asked_about_again(build: Callable[..., House], change: str) -> None:
    environment = FakeEnvironment({"/project/clean.sh": b"rm -rf build\n"}, commands=lambda request: (0, b""))
    house = build(environment)
    scope = house.scope()
    ticket = house.ask(scope, "bash clean.sh")
    if change == "script":
        environment.files["/project/clean.sh"] = b"rm -rf src\n"
    elif change == "folder":
        environment.cwd = "/project/sub"
        environment.files["/project/sub/clean.sh"] = b"rm -rf build\n"
    else:
        environment.identity = "docker:other"
    again = house.resume(scope, ticket)
    assert again.result.is_pending
    assert house.ran == []
    assert again.result.suspension is not None
    assert house.resume(scope, again.result.suspension.id).result.is_success
    assert house.ran == ["bash clean.sh"]


def test_another_session_cannot_answer(house: House) -> None:
    ticket = house.ask(house.scope())
    with pytest.raises(Denied, match="another session"):
        house.resume(house.scope(session="s2"), ticket)
    assert house.ran == []


def test_the_end_of_the_session_withdraws_the_question(house: House) -> None:
    asked = threading.Event()

    async def asker(ticket: Any, ctx: Any) -> Answer:
        asked.set()
        await asyncio.sleep(3600)
        raise AssertionError

    scope = house.scope(suspends=False, asker=asker)

    async def main() -> ToolCallStatus:
        call = asyncio.create_task(house.dispatcher.call(ToolCall("c1", "run", {"command": "rm -rf build"}), scope))
        while not asked.is_set():
            await asyncio.sleep(0.01)
        scope.interrupt()
        return (await call).status

    assert asyncio.run(main()) is ToolCallStatus.CANCELLED
    assert run_async(house.store.tickets.pending()) == []
    (record,) = run_async(house.store.tickets.of_call("s1", "c1"))
    assert record.state == "expired"
    with pytest.raises(Denied, match="came too late"):
        house.resume(house.scope(), record.ticket.id)
    assert house.ran == []


def test_closing_a_scope_withdraws_what_it_asks(house: House) -> None:
    scope = house.scope(suspends=False)
    ticket = house.ask(house.scope())
    scope.asking.add(ticket)
    asyncio.run(scope.close())
    with pytest.raises(Denied, match="came too late"):
        house.resume(house.scope(), ticket)


def test_where_nobody_answers_in_time_it_is_expired_and_not_run(house: House) -> None:
    async def asker(ticket: Any, ctx: Any) -> Answer:
        await asyncio.sleep(3600)
        raise AssertionError

    scope = house.scope(suspends=False, asker=asker, seconds=0.05)
    executed = asyncio.run(house.dispatcher.call(ToolCall("c1", "run", {"command": "rm -rf build"}), scope))
    assert executed.result.failure is not None
    assert executed.result.failure.kind == "Denied"
    assert [record.state for record in run_async(house.store.tickets.of_call("s1", "c1"))] == ["expired"]
    assert house.ran == []


def test_an_answer_given_elsewhere_beats_the_one_at_the_terminal(house: House) -> None:
    """A question can be answered in two ways: the first answer counts, and the second one does not run the call."""
    reached: list[str] = []

    async def asker(ticket: Any, ctx: Any) -> Answer:
        settled = await house.store.tickets.decide_ticket(Answer(ticket.id, payload=NO, by="bob", at=time.time()), "denied")
        reached.append(ticket.id)
        assert settled == "settled"
        return Answer(ticket.id, payload=YES, by="ann", at=time.time())

    scope = house.scope(suspends=False, asker=asker)
    executed = asyncio.run(house.dispatcher.call(ToolCall("c1", "run", {"command": "rm -rf build"}), scope))
    assert executed.result.failure is not None
    assert (executed.result.failure.kind, executed.result.failure.text) == ("Denied", "the user denied it: no")
    (record,) = run_async(house.store.tickets.of_call("s1", "c1"))
    assert record.answer is not None
    assert (record.state, record.answer.by) == ("denied", "bob")
    assert house.ran == []
    assert len(reached) == 1


def test_a_counted_grant_is_used_no_oftener_than_it_says(house: House) -> None:
    scope = house.scope()
    first = house.ask(scope)
    assert house.resume(scope, first, {**YES, "scope": "uses", "uses": 3}).result.is_success
    (grant,) = run_async(house.store.grants.all("s1"))
    left, before = grant.uses_left, len(house.ran)
    assert left is not None

    def call(number: int) -> Callable[[], Any]:
        made = ToolCall(f"n{number}", "run", {"command": "rm -rf build"})
        return lambda: asyncio.run(house.dispatcher.call(made, house.scope()))

    results = together(*[call(number) for number in range(8)])
    assert sum(one.result.is_success for one in results) == left
    assert sum(one.result.is_pending for one in results) == 8 - left
    assert len(house.ran) - before == left


def test_a_revoked_grant_counts_no_longer(house: House) -> None:
    scope = house.scope()
    assert house.resume(scope, house.ask(scope), {**YES, "scope": "session"}).result.is_success
    (grant,) = run_async(house.store.grants.all("s1"))
    assert run_async(house.store.grants.revoke(grant.id))
    house.ask(scope, call_id="c2")


def test_answers_while_a_grant_is_narrowed(house: House) -> None:
    scope = house.scope()
    assert house.resume(scope, house.ask(scope), {**YES, "scope": "session"}).result.is_success
    (grant,) = run_async(house.store.grants.all("s1"))
    run_async(house.store.grants.revoke(grant.id))
    run_async(house.store.grants.add(replace(grant, root="/project/build")))
    executed = asyncio.run(house.dispatcher.call(ToolCall("c2", "run", {"command": "rm -rf build/x"}), scope))
    assert executed.result.is_success
    house.ask(scope, "rm -rf src", call_id="c3")
