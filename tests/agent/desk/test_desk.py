"""The front desk: every interface opens its sessions by a request, which holds all their special settings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

from agent import events
from agent.api import assemble
from agent.config import Config, load_config
from agent.conversation.limits import RunLimits
from agent.desk.desk import FrontDesk
from agent.desk.request import SessionRequest
from agent.events import Event, TextDelta, TicketOpened
from agent.model_choice.models import ModelChoice
from agent.process import Crib
from agent.store.memory import MemoryStore
from toolcrib import Principal
from toolcrib.testing import ChatServer

ROOT = Path(__file__).parents[3]
PUSHES = ("terminal", {"command": "git push --force origin main"})


@pytest.fixture
def config(tmp_path: Path) -> Config:
    (tmp_path / "config.yaml").write_text("")
    return load_config(tmp_path / "config.yaml")


async def test_a_desk_is_made_from_a_store_and_a_function() -> None:
    opened = list[SessionRequest]()

    async def open_session(request: SessionRequest) -> Any:
        opened.append(request)

    desk = FrontDesk(MemoryStore(), open_session, lambda: {"fs": ["admins"]})
    await desk.open(SessionRequest(platform="page", user="ann"))
    assert [one.principal for one in opened] == [Principal("page", "ann")]
    assert desk.approvals.rights.roles_for("fs.write@/x") == {"admins"}
    assert await desk.approvals.waiting() == []


async def test_a_request_says_everything_about_its_session(config: Config, tmp_path: Path) -> None:
    seen = list[Event]()
    with ChatServer(ChatServer.text("Hello.")) as server, assemble(config=config, project_dir=tmp_path) as crib:
        request = SessionRequest(
            platform="api",
            enabled=["file"],
            without=["write_file"],
            within=["read_file", "write_file", "todo"],
            instructions="Be brief.",
            limits=RunLimits(max_turns=3),
            watch=seen.append,
            choice=ModelChoice("test-model", server.base_url),
            acts_for=Principal("telegram", "ann", ("admins",)),
        )
        session = await crib.desk.open(request)
        try:
            assert session.names == ["read_file"]
            assert session.limits.max_turns == 3
            assert session.opened_for.principal == Principal("telegram", "ann", ("admins",))
            assert (await session.ask("hi")).text == "Hello."
        finally:
            await session.close()
    assert TextDelta in {type(event) for event in seen}
    [sent] = map(str, server.requests)
    assert "Be brief." in sent
    assert "'read_file'" in sent
    assert "'write_file'" not in sent


@pytest.mark.parametrize("payload", [{"approved": True, "scope": "once"}, {"approved": False, "reason": "not today"}])
async def test_a_user_decides_at_the_desk_and_the_run_continues(config: Config, tmp_path: Path, payload: dict[str, Any]) -> None:
    seen = list[Event]()
    with (
        ChatServer(ChatServer.calls(PUSHES), ChatServer.text("Done.")) as server,
        assemble(config=config, project_dir=tmp_path) as crib,
    ):
        request = SessionRequest(
            platform="api", suspends=True, watch=seen.append, choice=ModelChoice("test-model", server.base_url)
        )
        session = await crib.desk.open(request)
        try:
            assert (await session.ask("push")).stopped == "parked"
            [waiting] = await crib.desk.approvals.waiting(session.id)
            assert [event.ticket for event in seen if isinstance(event, TicketOpened)] == [waiting.record.ticket.id]
            assert await crib.desk.approvals.decide(waiting, payload, who=Principal("api")) == "settled"
            result = await session.advance()
            assert result is not None
            assert (result.stopped, result.text) == ("done", "Done.")
        finally:
            await session.close()
    assert ("not today" in str(server.requests[-1])) is not payload["approved"]


@pytest.mark.parametrize("open_of", [lambda crib: crib.open, lambda crib: crib.default.open])
async def test_the_fields_of_a_request_open_a_session_too(
    config: Config, tmp_path: Path, open_of: Callable[[Crib], Callable[..., Any]]
) -> None:
    with assemble(config=config, project_dir=tmp_path) as crib:
        opens = open_of(crib)
        session = await opens(platform="api", user="ann")
        await session.close()
        assert session.opened_for.principal == Principal("api", "ann")
        assert list(inspect.signature(opens).parameters) == list(SessionRequest.__annotations__)
        with pytest.raises(TypeError, match="colour"):
            await opens(colour="red")


async def test_a_session_stands_in_the_folder_of_its_request(config: Config, tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    with assemble(config=config, project_dir=tmp_path) as crib:
        for folder, start in ((None, tmp_path), (tmp_path, tmp_path), (tmp_path / "shop", tmp_path / "shop")):
            session = await crib.desk.open(SessionRequest(platform="api", folder=folder))
            assert session.scope.start == str(start)
            await session.close()


def test_the_page_names_each_event_with_its_line_of_json() -> None:
    page = (ROOT / "docs" / "front-desk.md").read_text("utf-8")
    lines = dict(re.findall(r"^\| `(\w+)` \| (?:`(\w+)`)? ?\|", page, re.MULTILINE))
    assert set(lines) == {kind.__name__ for kind in get_args(events.Event)}
    documented = (ROOT / "docs" / "events.md").read_text("utf-8")
    assert [line for line in lines.values() if line and f"| `{line}` |" not in documented] == []


async def test_a_resumed_session_keeps_its_bounds_for_others_than_the_local_user(config: Config, tmp_path: Path) -> None:
    """A parked run of a chat is continued at a terminal with no more tools than the chat had."""
    with assemble(config=config, project_dir=tmp_path) as crib:
        about = {"platform": "telegram", "user": "bob"}
        session = await crib.desk.open(SessionRequest(**about, enabled=["file"], without=["write_file", "patch"], named="s" * 32))
        first = set(session.names)
        await session.close()
        assert "write_file" not in first
        resumed = await crib.desk.open(SessionRequest(**about, enabled=["file", "terminal"], resume="s" * 32))
        assert set(resumed.names) == first
        await resumed.close()
        local = await crib.desk.open(SessionRequest(platform="cli", enabled=["file"], resume="s" * 32))
        assert "write_file" in local.names
        assert local.outfit is not None
        local.outfit(Principal("telegram", "bob"))  # a run for bob
        assert local.scope.granted <= first
        await local.close()
