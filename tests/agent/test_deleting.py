"""Deleting sessions: what happens to a session that is open elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.api import assemble
from agent.model_choice.models import ModelChoice
from toolcrib import ToolcribError
from toolcrib.testing import ChatServer


async def test_who_has_it_open_is_told(tmp_path: Path) -> None:
    with ChatServer(ChatServer.text("hi"), ChatServer.text("never")) as server:
        async with assemble(project_dir=tmp_path) as crib:
            choice = ModelChoice("m", server.base_url)
            session = await crib.open(choice=choice)
            await session.connect(choice)
            assert (await session.ask("hello")).text == "hi"
            assert await crib.delete_sessions([session.id, "unknown"]) == [session.id]
            with pytest.raises(ToolcribError, match="was deleted and can't continue; start another"):
                await session.ask("again")
            await session.close()
            assert await crib.delete_sessions([]) == []
        assert len(server.requests) == 1
