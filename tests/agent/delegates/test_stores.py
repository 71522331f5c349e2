"""Delegates over every store, for users without an id, and with tools that a program registers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agent.api import assemble
from agent.model_choice.models import ModelChoice
from agent.store.memory import MemoryStore
from agent.store.postgres.store import PostgresStore
from toolcrib import Answer
from toolcrib.contract.store import Store
from toolcrib.testing import ChatServer

DONE = ChatServer.text("done")


@pytest.fixture(params=["memory", "postgres"])
def store(request: pytest.FixtureRequest) -> Store:
    if request.param == "memory":
        return MemoryStore()
    return PostgresStore(request.getfixturevalue("postgres").new_database())


def test_asked_parked_answered_and_told(tmp_path: Path, task_server: Any, store: Store) -> None:
    (tmp_path / "build").mkdir()

    async def main() -> None:
        scripts = {
            "go": [
                ChatServer.calls(("delegate_task", {"task": "tidy"}), ("delegate_task", {"task": "count", "background": True})),
                DONE,
                DONE,
            ],
            "tidy": [ChatServer.calls(("terminal", {"command": "rm -rf build"})), ChatServer.text("Tidied.")],
            "count": [ChatServer.text("Seven.")],
        }
        with task_server(scripts) as server:
            choice = ModelChoice("m", server.base_url)
            async with assemble(project_dir=tmp_path, store=store) as crib:
                session = await crib.open(platform="api", suspends=True, choice=choice)
                session.link.choice = choice
                result = await session.ask("go")
                assert result.stopped == "parked"
                await session.answer(Answer(result.tickets[0], payload={"approved": True, "scope": "once"}, by="test"))
                last = await session.advance()
                while session.delegates.at_work:
                    await asyncio.sleep(0.02)
                last = await session.advance() or last
                assert last is not None
                assert last.text == "done"
                assert "Tidied." in str(server.talks["go"][-1]["messages"])
                assert "Seven." in str(server.talks["go"][-1]["messages"])
                await session.close()

    asyncio.run(main())
    assert not (tmp_path / "build").exists()


def test_who_has_no_name_reads_what_the_delegates_of_the_session_did(tmp_path: Path, task_server: Any) -> None:
    async def main() -> None:
        scripts = {"go": [ChatServer.calls(("delegate_task", {"task": "count"})), DONE], "count": [ChatServer.text("Seven.")]}
        with task_server(scripts) as server:
            choice = ModelChoice("m", server.base_url)
            async with assemble(project_dir=tmp_path) as crib:
                session = await crib.open(platform="telegram", choice=choice)
                session.link.choice = choice
                await session.ask("go")
                below = json.loads(server.results("go")[0])["delegate"]
                other = await crib.open(platform="telegram", choice=choice)
                for one, sees in ((session, True), (other, False)):
                    found = await asyncio.to_thread(one.call, "session_search", {"session": below, "around": 0})
                    assert found.result.is_success == sees
                    await one.close()

    asyncio.run(main())


def test_a_delegate_in_the_same_turn_as_other_calls(tmp_path: Path, task_server: Any) -> None:
    """003-31: results are in the order of the calls."""

    async def main() -> None:
        calls = [("read_file", {"path": "gone"}), ("delegate_task", {"task": "count"}), ("todo", {})]
        with task_server({"go": [ChatServer.calls(*calls), DONE], "count": [ChatServer.text("Seven.")]}) as server:
            choice = ModelChoice("m", server.base_url)
            async with assemble(project_dir=tmp_path) as crib:
                session = await crib.open(platform="api", choice=choice)
                session.link.choice = choice
                await session.ask("go")
                gone, counted, todos = server.results("go")
                assert "gone" in gone
                assert "Seven." in counted
                assert "todos" in todos
                await session.close()

    asyncio.run(main())
