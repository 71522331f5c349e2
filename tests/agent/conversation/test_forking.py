"""A fork: the end of a session as a new one, with whole replies only, and without its grants and usage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.api import Crib, assemble
from agent.conversation.forking import Forked, fork
from agent.model_choice.models import ModelChoice
from toolcrib import ToolcribError
from toolcrib.contract.store import Grant, SessionInfo
from toolcrib.testing import ChatServer

VIA = {"provider": "chat", "model": "m", "base_url": "http://127.0.0.1:9/v1"}


def asked(text: str) -> dict[str, Any]:
    return {"role": "user", "text": text}


def replied(text: str, *calls: str) -> dict[str, Any]:
    made = [{"id": call, "name": "look", "args": {}} for call in calls]
    return {"role": "assistant", "text": text, "calls": made, "usage": {"input": 10, "output": 5}, "model": "m", "via": VIA}


def results(*calls: str, size: int = 10) -> dict[str, Any]:
    given = [{"call_id": one, "name": "look", "text": "x" * size, "is_error": False, "seconds": 1.0} for one in calls]
    return {"role": "results", "results": given}


async def stored(crib: Crib, *records: dict[str, Any]) -> SessionInfo:
    session = await crib.open()
    await crib.store.sessions.append_many(session.id, records)
    await session.close()
    info = await crib.store.sessions.get(session.id)
    assert info is not None
    return info


async def taken(crib: Crib, made: Forked) -> list[str]:
    records = await crib.store.sessions.messages(made.id)
    assert all(record["forked"] for record in records)
    return [str(record.get("text", "results")) for record in records]


@pytest.fixture
def talk() -> list[dict[str, Any]]:
    return [asked("one"), replied("1"), asked("two"), replied("", "c"), results("c"), replied("2"), asked("three"), replied("3")]


@pytest.mark.parametrize(
    ("count", "texts"),
    [
        (1, ["three", "3"]),
        (2, ["two", "", "results", "2", "three", "3"]),
        (9, ["one", "1", "two", "", "results", "2", "three", "3"]),
    ],
)
async def test_as_many_messages_as_are_wanted(tmp_path: Path, talk: list[Any], count: int, texts: list[str]) -> None:
    async with assemble(project_dir=tmp_path) as crib:
        info = await stored(crib, *talk)
        made = await fork(crib.store, info, count)
        assert await taken(crib, made) == texts
        assert (made.messages, made.records, made.unanswered) == (min(count, 3), len(texts), "")
        assert len(await crib.store.sessions.messages(info.id)) == len(talk), "the old one stays as it was"


@pytest.mark.parametrize(
    ("end", "unanswered"),
    [
        ([asked("four")], "four"),
        ([asked("four"), replied("", "d")], "four"),
        ([asked("four"), asked("five")], "five"),
        ([asked("four"), replied("", "d"), results("d")], ""),
    ],
    ids=["refused", "cut in a call", "twice", "results"],
)
async def test_what_was_not_answered_is_left_out(tmp_path: Path, talk: list[Any], end: list[Any], unanswered: str) -> None:
    """Each call keeps its result, and no two user messages are adjacent."""
    async with assemble(project_dir=tmp_path) as crib:
        made = await fork(crib.store, await stored(crib, *talk, *end), 1)
        assert made.unanswered == unanswered
        assert made.dropped == sum(len(record.get("calls", ())) for record in end if unanswered)
        assert await taken(crib, made) == (["three", "3"] if unanswered else ["four", "", "results"])


async def test_by_itself_it_takes_what_fits_into_a_quarter_of_the_window(tmp_path: Path) -> None:
    long = [one for number in range(40) for one in (asked(f"ask {number}" + " word" * 80), replied("yes " * 100))]
    async with assemble(project_dir=tmp_path) as crib:
        info = await stored(crib, *long)
        assert (await fork(crib.store, info, window=8_000)).messages == 9
        assert (await fork(crib.store, info)).messages == 39  # about 8,000 tokens
        assert (await fork(crib.store, info, window=1_000_000)).messages == 40
        longer = await stored(crib, *long, *long, *long, *long, *long, *long)
        assert (await fork(crib.store, longer)).messages == 60  # of 240


async def test_of_one_message_that_fills_all_the_last_turns_are_taken(tmp_path: Path) -> None:
    turns = [one for number in range(20) for one in (replied("", f"c{number}"), results(f"c{number}", size=4_000))]
    async with assemble(project_dir=tmp_path) as crib:
        made = await fork(crib.store, await stored(crib, asked("go"), *turns, replied("done")), window=20_000)
        texts = await taken(crib, made)
        assert texts[0] == "go"
        assert texts[1:] == ["", "results"] * 4 + ["done"]
        assert made.dropped == 32


async def test_nothing_to_take_over(tmp_path: Path) -> None:
    async with assemble(project_dir=tmp_path) as crib:
        with pytest.raises(ToolcribError, match="no message has been answered"):
            await fork(crib.store, await stored(crib, asked("one")))


async def test_grants_stay_behind_and_tokens_are_counted_once(tmp_path: Path, talk: list[Any]) -> None:
    async with assemble(project_dir=tmp_path) as crib:
        info = await stored(crib, *talk)
        await crib.store.grants.add(Grant("g", "session", "fs.recursive-delete", str(tmp_path), session_id=info.id))
        made = await fork(crib.store, info)
        assert await crib.store.grants.all(made.id) == []
        assert sum(one.count for one in await crib.store.usage.sums()) == 5
        assert await crib.store.usage.sums(session_id=made.id) == []
        known = await crib.store.sessions.get(made.id)
        assert known is not None
        assert (known.parent, known.why) == (info.id, "fork")


async def test_a_fork_goes_on_and_keeps_its_parent_when_it_is_resumed(tmp_path: Path) -> None:
    with ChatServer(*[ChatServer.text(f"answer {n}") for n in range(4)]) as server:
        async with assemble(project_dir=tmp_path) as crib:
            session = await crib.open(enabled=[])
            await session.connect(ModelChoice("m", server.base_url))
            for text in ("one", "two"):
                await session.ask(text)
            await session.close()
            info = await crib.store.sessions.get(session.id)
            assert info is not None
            made = await fork(crib.store, info, 1)
            for text in ("three", "four"):
                forked = await crib.open(enabled=[], resume=made.id, mode="plan")
                await forked.connect(ModelChoice())
                await forked.ask(text)
                await forked.close()
            known = await crib.store.sessions.get(made.id)
        first, second = (request["messages"] for request in server.requests[2:])
    assert [one["content"] for one in first[1:]] == ["two", "answer 1", "three"]
    assert json.dumps(second[: len(first)]) == json.dumps(first)
    assert known is not None
    assert (known.parent, known.place["mode"]) == (info.id, "plan")


async def test_a_server_that_keeps_replies_is_not_asked_to_go_on_from_the_old_ones(tmp_path: Path) -> None:
    output = [{"type": "message", "id": "msg", "content": []}]
    native: dict[str, Any] = {"wire": "responses", "message": {"id": "resp_1", "output": output}}
    async with assemble(project_dir=tmp_path) as crib:
        made = await fork(crib.store, await stored(crib, asked("one"), {**replied("1"), "native": native}))
        (_, reply) = await crib.store.sessions.messages(made.id)
    assert reply["native"]["message"] == {**native["message"], "id": ""}


@pytest.mark.parametrize(
    ("at", "count", "texts", "unanswered"),
    [
        (1, None, ["one", "1"], ""),
        (2, None, ["one", "1"], "two"),
        (3, None, ["one", "1", "two", "", "results"], ""),
        (4, None, ["one", "1", "two", "", "results"], ""),
        (7, 1, ["three", "3"], ""),
        (5, 1, ["two", "", "results", "2"], ""),
    ],
)
async def test_a_fork_begins_at_a_message(
    tmp_path: Path, talk: list[dict[str, Any]], at: int, count: int | None, texts: list[str], unanswered: str
) -> None:
    with assemble(project_dir=tmp_path) as crib:
        made = await fork(crib.store, await stored(crib, *talk), count, window=10, at=at)
        assert (await taken(crib, made), made.unanswered) == (texts, unanswered)


async def test_a_message_that_is_not_there_is_no_place_to_fork(tmp_path: Path, talk: list[dict[str, Any]]) -> None:
    with assemble(project_dir=tmp_path) as crib:
        info = await stored(crib, *talk)
        with pytest.raises(ToolcribError, match="no message 8; `sessions show` lists messages 0 to 7"):
            await fork(crib.store, info, at=8)
        with pytest.raises(ToolcribError, match="answered yet up to message 0"):
            await fork(crib.store, info, at=0)
