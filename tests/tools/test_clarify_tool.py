from __future__ import annotations

import asyncio
from typing import Any

import pytest

import tools.clarify_tool  # noqa: F401 - it registers the tool
from toolcrib import Answer, ExecutedCall, RunIdentity, SuspendTicket, ToolCall, registry
from tools.dispatch.hooks import HookManager
from tools.dispatch.pipeline import Dispatcher
from tools.dispatch.scope import CallScope
from tools.environments.local import LocalEnvironment


def ask(asker: Any = None, *, suspends: bool = False, **args: Any) -> ExecutedCall:
    async def whole() -> ExecutedCall:
        scope = CallScope(identity=RunIdentity("s"), open_environment=LocalEnvironment, asker=asker, suspends=suspends)
        try:
            return await Dispatcher(registry, HookManager()).call(ToolCall("c", "clarify", args), scope)
        finally:
            await scope.close()

    return asyncio.run(whole())


def test_the_answer_is_the_result() -> None:
    asked: list[SuspendTicket] = []

    def person(ticket: SuspendTicket, ctx: Any) -> Answer:
        asked.append(ticket)
        return Answer(ticket.id, payload="Oslo")

    result = ask(person, question=" Where? ", choices=["Oslo", "Bergen"]).result
    assert (result.is_success, result.data) == (True, "Oslo")
    assert (asked[0].action, asked[0].message, asked[0].parameters) == ("clarify", "Where?", {"choices": ["Oslo", "Bergen"]})
    assert asked[0].response_schema == {"type": "string", "minLength": 1, "examples": ["Oslo", "Bergen"]}


def test_nobody_to_ask_is_an_error() -> None:
    assert ask(question="Where?").result.is_error


def test_it_waits_where_answers_come_later() -> None:
    result = ask(question="Where?", suspends=True).result
    assert result.is_pending
    assert result.suspension is not None
    assert result.suspension.resume_mode == "use_as_result"
    assert result.suspension.parameters == {"choices": []}


@pytest.mark.parametrize(
    "args", [{"question": " "}, {"question": "?", "choices": ["a", " a"]}, {"question": "?", "choices": list("abcde")}, {}]
)
def test_bad_questions_name_the_fix(args: dict[str, Any]) -> None:
    result = ask(lambda ticket, ctx: Answer(ticket.id, payload="x"), **args).result
    assert result.is_error


def test_it_is_interactive() -> None:
    entry = registry.get("clarify")
    assert entry is not None
    assert (entry.interactive, entry.kind, entry.toolset, entry.parallel_safe) == (True, "other", "clarify", False)
