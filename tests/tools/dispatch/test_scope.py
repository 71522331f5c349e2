"""A session's side of the dispatcher: the scope closes what it opened, and deletes its spilled results."""

from __future__ import annotations

import asyncio
import gc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from toolcrib import (
    EnvironmentFailed,
    ExecutedCall,
    RunIdentity,
    Suspend,
    SuspendTicket,
    ToolCall,
    ToolCallContext,
    ToolCallStatus,
)
from toolcrib.testing import FakeEnvironment
from tools.dispatch.scope import CallScope


def scope_of(environment: FakeEnvironment | None = None, **options: Any) -> CallScope:
    return CallScope(identity=RunIdentity("session"), open_environment=lambda: environment or FakeEnvironment(), **options)


def spilled(scope: CallScope) -> Path:
    file = scope.spill_dir / "whole.txt"
    file.write_text("x")
    return file


def test_an_environment_is_opened_once_and_closed() -> None:
    environment = FakeEnvironment()
    scope = scope_of(environment)
    assert (scope.opened, scope.where) == (None, "")
    assert scope.environment is scope.environment is environment
    assert (scope.opened, scope.where) == (environment, "fake")
    asyncio.run(scope.close())
    assert environment.closed
    with pytest.raises(EnvironmentFailed, match="open another"):
        _ = scope.environment


def test_an_environment_that_fails_to_close_is_reported_and_the_rest_goes(caplog: pytest.LogCaptureFixture) -> None:
    class Stuck(FakeEnvironment):
        async def close(self) -> None:
            raise OSError("no way")

    scope = scope_of(Stuck())
    assert scope.environment is scope.opened
    file = spilled(scope)
    asyncio.run(scope.close())
    assert "Stuck could not be closed: OSError: no way" in caplog.text
    assert not file.parent.exists()


def test_a_spill_folder_is_private_and_goes_with_its_scope() -> None:
    scope = scope_of()
    file = spilled(scope)
    assert scope.spill_dir is scope.spill_dir
    assert file.parent.stat().st_mode & 0o777 == 0o700
    asyncio.run(scope.close())
    assert not file.parent.exists()


def test_a_spill_folder_goes_with_a_scope_that_nobody_closed() -> None:
    scope = scope_of()
    file = spilled(scope)
    del scope
    gc.collect()
    assert not file.parent.exists()


def test_a_spill_folder_that_is_kept_goes_only_where_it_is_empty() -> None:
    scope = scope_of(keep_spill=True)
    file = spilled(scope)
    asyncio.run(scope.close())
    assert file.exists()
    empty = scope_of(keep_spill=True)
    folder = empty.spill_dir
    asyncio.run(empty.close())
    assert not folder.exists()
    file.unlink()
    file.parent.rmdir()


def test_a_suspended_call_is_claimed_once_at_a_time() -> None:
    scope = scope_of()
    with scope.resuming("a") as first, scope.resuming("a") as second, scope.resuming("b") as other:
        assert (first, second, other) == (True, False, True)
    with scope.resuming("a") as again:
        assert again


def asked_while_it_is_closed(bench: Any) -> tuple[ToolCallStatus, list[str]]:
    """Close the scope while a user is asked; return the call's status, and the ids of the tickets."""
    begun, asked = asyncio.Event(), list[str]()

    async def asker(ticket: SuspendTicket, ctx: ToolCallContext) -> None:
        asked.append(ticket.id)
        begun.set()
        await asyncio.sleep(300)

    async def main() -> ExecutedCall:
        task = asyncio.create_task(bench.dispatcher.call(ToolCall("c", "t"), bench.scope))
        await begun.wait()
        await bench.scope.close()
        return await task

    bench.tool("t", lambda args: pytest.fail("ran"))
    bench.plugin(tool_gate=lambda call: Suspend(SuspendTicket("ask", "may it?")))
    bench.scope = replace(bench.scope, asker=asker)
    return asyncio.run(main()).status, asked


def test_closing_withdraws_what_is_asked(bench: Any) -> None:
    status, asked = asked_while_it_is_closed(bench)
    record = asyncio.run(bench.store.tickets.get(asked[0]))
    assert (status, record.state) == (ToolCallStatus.CANCELLED, "expired")
    assert record.answer.reason == "the session ended before there was an answer"


def test_closing_ends_a_question_that_no_store_knows(bench: Any) -> None:
    bench.scope = replace(bench.scope, tickets=None, ledger=None)
    status, asked = asked_while_it_is_closed(bench)
    assert (status, len(asked)) == (ToolCallStatus.CANCELLED, 1)
