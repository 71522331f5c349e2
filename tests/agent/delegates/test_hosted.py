"""Delegates of sessions that a process hosts for a platform."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from agent.api import assemble
from agent.conversation.manager import SessionManager
from agent.conversation.state import RunResult
from agent.model_choice.models import ModelChoice
from toolcrib import Answer
from toolcrib.testing import ChatServer

YES = {"approved": True, "scope": "once"}


def test_the_end_of_one_in_the_background_wakes_its_session(tmp_path: Path, task_server: Any) -> None:
    """The delegate may ask a question first, which is answered like its parent's."""
    (tmp_path / "build").mkdir()
    came: list[RunResult | Exception] = []

    async def main() -> None:
        scripts = {
            "go": [
                ChatServer.calls(("delegate_task", {"task": "tidy", "background": True})),
                ChatServer.text("It works on."),
                ChatServer.text("It was tidied."),
            ],
            "tidy": [ChatServer.calls(("terminal", {"command": "rm -rf build"})), ChatServer.text("Tidied.")],
        }
        with task_server(scripts) as server:
            async with (
                assemble(project_dir=tmp_path) as crib,
                SessionManager(
                    crib, choice=ModelChoice("m", server.base_url), done=lambda session_id, outcome: came.append(outcome)
                ) as manager,
            ):
                session_id = await manager.say("chat", "go")
                for _ in range(3_000):
                    if waiting := await crib.store.tickets.pending(session_id):
                        break
                    await asyncio.sleep(0.02)
                (record,) = waiting
                await manager.answer(Answer(record.ticket.id, payload=YES, by="test"))
                for _ in range(3_000):
                    if len(came) == 2:
                        break
                    await asyncio.sleep(0.02)
                assert "Tidied." in server.said("go")[1]

    asyncio.run(main())
    assert [one.text for one in came if isinstance(one, RunResult)] == ["It works on.", "It was tidied."]
    assert not (tmp_path / "build").exists()
