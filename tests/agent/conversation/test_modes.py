"""A session's mode: a person sets it, the store keeps it, and code that runs in the session can't change it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.api import Crib, assemble
from agent.config import load_config
from agent.conversation.modes import KEY, first_mode
from agent.store._sessions import SqliteSessions
from agent.store.memory import MemoryStore
from toolcrib import Answer, InvalidArguments, StoreFailed, SuspendTicket, ToolCallContext
from tools.dispatch.bridge import run_async


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def crib(tmp_path: Path, store: MemoryStore) -> Iterator[Crib]:
    with assemble(project_dir=tmp_path, store=store) as made:
        yield made


def wrote(session: Any, folder: Path, name: str) -> bool:
    result = session.call("write_file", {"path": str(folder / name), "content": "x\n"}).result
    assert result.is_success == (folder / name).exists()
    return bool(result.is_success)


def test_the_next_call_is_judged_by_the_mode_that_a_person_chose(crib: Crib, tmp_path: Path) -> None:
    session = crib.open_session()
    assert session.mode.now == "default"
    assert wrote(session, tmp_path, "a")
    asyncio.run(session.mode.switch("plan"))
    assert not wrote(session, tmp_path, "b")
    assert not session.call("terminal", {"command": "touch c"}).result.is_success
    assert session.call("terminal", {"command": "ls"}).result.is_success
    assert not (tmp_path / "c").exists()
    asyncio.run(session.mode.switch("default"))
    assert wrote(session, tmp_path, "b")
    with pytest.raises(InvalidArguments, match="default, cautious, confirm-edits, plan"):
        asyncio.run(session.mode.switch("yolo"))
    session.close_sync()


def test_of_two_switches_at_once_the_later_counts(crib: Crib, monkeypatch: pytest.MonkeyPatch) -> None:
    session = crib.open_session()
    real, waiting = SqliteSessions.get, asyncio.Event()

    async def first_is_slow(sessions: SqliteSessions, session_id: str) -> Any:
        if not waiting.is_set():
            waiting.set()
            await asyncio.sleep(0.05)
        return await real(sessions, session_id)

    monkeypatch.setattr(SqliteSessions, "get", first_is_slow)

    async def go() -> None:
        await asyncio.gather(session.mode.switch("confirm-edits"), session.mode.switch("plan"))

    asyncio.run(go())
    assert waiting.is_set()
    assert session.mode.now == "plan"


def test_switching_to_confirm_edits_asks_about_edits_again(tmp_path: Path, store: MemoryStore) -> None:
    """What the user allowed in that mode before is over; other grants stay."""
    asked: list[str] = []

    def asker(ticket: SuspendTicket, ctx: ToolCallContext) -> Answer:
        asked.append(ticket.parameters["findings"][0]["key"])
        return Answer(ticket.id, payload={"approved": True, "scope": "session"}, by="test")

    with assemble(project_dir=tmp_path, store=store) as crib:
        session = crib.open_session(asker=asker, mode="confirm-edits")
        assert wrote(session, tmp_path, "a")
        assert wrote(session, tmp_path, "b")
        assert asked == ["mode.confirm-edits"]
        run_async(session.mode.switch("confirm-edits"))
        assert wrote(session, tmp_path, "c")
        assert len(asked) == 1
        run_async(session.mode.switch("default"))
        run_async(session.mode.switch("confirm-edits"))
        assert wrote(session, tmp_path, "d")
        assert asked == 2 * ["mode.confirm-edits"]
        session.close_sync()


def test_schemas_stay_the_same(crib: Crib) -> None:
    session = crib.open_session()
    before = session.definitions
    asyncio.run(session.mode.switch("plan"))
    assert session.definitions == before
    session.close_sync()


def test_a_session_has_its_old_names_too(crib: Crib) -> None:
    session = crib.open_session()
    with pytest.warns(DeprecationWarning, match="Session.look is an old name: call refresh"):
        asyncio.run(session.look())
    with pytest.warns(DeprecationWarning, match="Session.tell is an old name: call call_hook"):  # (quoted)
        asyncio.run(session.tell("on_run_end", stopped="", error=""))
    session.close_sync()


def test_the_mode_is_kept_with_the_session(crib: Crib, store: MemoryStore, tmp_path: Path) -> None:
    session = crib.open_session(mode="plan")
    asyncio.run(session.refresh())
    session.close_sync()
    with assemble(project_dir=tmp_path, store=store) as other:
        again = other.open_session(resume=session.id)
        assert again.mode.now == "plan"
        assert not wrote(again, tmp_path, "a")
        asyncio.run(again.mode.switch("confirm-edits"))
        again.close_sync()
        once_more = other.open_session(resume=session.id)
        assert once_more.mode.now == "confirm-edits"
        once_more.close_sync()
        named = other.open_session(resume=session.id, mode="default")
        assert named.mode.now == "default"
        named.close_sync()


def test_a_mode_that_another_process_set_is_heeded(crib: Crib, store: MemoryStore, tmp_path: Path) -> None:
    session = crib.open_session()
    with assemble(project_dir=tmp_path, store=store) as other:
        elsewhere = other.open_session(resume=session.id)
        asyncio.run(elsewhere.mode.switch("plan"))
        elsewhere.close_sync()
    assert not wrote(session, tmp_path, "a")
    assert session.mode.now == "plan"
    session.close_sync()


def test_a_stricter_mode_that_could_not_be_written_down_holds(
    crib: Crib, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*args: Any, **values: Any) -> None:
        raise StoreFailed("the disk is full")

    session = crib.open_session(mode="confirm-edits")
    with monkeypatch.context() as patch:
        patch.setattr(type(session.store.sessions), "update", full)
        with pytest.raises(StoreFailed):
            asyncio.run(session.mode.switch("plan"))
    asyncio.run(session.refresh())
    assert session.mode.now == "plan"
    assert not wrote(session, tmp_path, "a")
    asyncio.run(session.mode.switch("default"))
    asyncio.run(session.refresh())
    assert session.mode.now == "default"
    session.close_sync()


def test_what_the_store_says_and_nobody_can_read_is_the_strictest(crib: Crib, store: MemoryStore, tmp_path: Path) -> None:
    session = crib.open_session(mode="plan")
    info = run_async(session.info())
    assert info is not None
    assert info.place[KEY] == "plan"
    run_async(store.sessions.update(session.id, place={**info.place, KEY: "of-a-later-version"}))
    asyncio.run(session.refresh())
    assert session.mode.now == "plan"
    session.close_sync()
    assert first_mode("default", {KEY: "of-a-later-version"}) == "plan"


def test_the_configured_mode_holds_where_nobody_chose_one(config: Callable[[str], Path], tmp_path: Path) -> None:
    set_up = load_config(config("approval: {mode: plan}\n"))
    with assemble(config=set_up, project_dir=tmp_path, store=MemoryStore()) as crib:
        session = crib.open_session()
        assert session.mode.now == "plan"
        asyncio.run(session.mode.switch("default"))
        session.close_sync()
        again = crib.open_session(resume=session.id)  # the person's own choice stays
        assert again.mode.now == "default"
        again.close_sync()
        result = crib.dispatcher.registry.dispatch("write_file", {"path": str(tmp_path / "a"), "content": "x"})
        assert "plan mode" in result


def test_a_project_cannot_set_the_mode(tmp_path: Path) -> None:
    (tmp_path / ".toolcrib").mkdir()
    (tmp_path / ".toolcrib" / "config.yaml").write_text("approval: {mode: default}\n")
    found = load_config(project_dir=tmp_path)
    assert any("approval" in notice for notice in found.notices)


def test_explain_goes_by_the_mode(crib: Crib) -> None:
    session = crib.open_session(mode="plan")
    explained = asyncio.run(session.explain("touch f"))
    assert (explained.level, explained.mode) == ("block", "plan")
    assert "plan mode" in explained.refused
    assert asyncio.run(session.explain("ls")).level == "allow"
    asyncio.run(session.mode.switch("confirm-edits"))
    explained = asyncio.run(session.explain("touch f"))
    assert explained.level == "ask-once"
    assert [one.key for one in explained.findings] == ["mode.confirm-edits"]
    assert "confirm-edits" in explained.decider(explained.findings[0], "a person")
    session.close_sync()
