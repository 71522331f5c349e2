"""Tests of searches in earlier sessions: a model finds its own user's sessions and no others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.api import Crib, assemble
from agent.config import load_config
from agent.conversation.room import compress_now
from agent.model_choice.models import ModelChoice
from toolcrib import Principal
from toolcrib.testing import ChatServer
from tools.dispatch.bridge import close_loop


@pytest.fixture
def crib(tmp_path: Path) -> Iterator[Crib]:
    with assemble(project_dir=tmp_path) as made:
        asyncio.run(fill(made))
        yield made
    close_loop()


async def fill(crib: Crib) -> None:
    call = {"id": "c1", "name": "read_file", "args": {"path": "deploy/values.yaml"}}
    said = [
        {"role": "user", "text": "Which port does the staging database use?"},
        {"role": "assistant", "text": "", "calls": [call]},
        {"role": "results", "results": [{"call_id": "c1", "name": "read_file", "text": "port: 54329", "is_error": False}]},
        {"role": "assistant", "text": "The staging database listens on 54329.", "calls": []},
    ]
    for name, platform, user, cwd in (
        ("mine", "cli", "", str(crib.project_dir)),
        ("elsewhere", "api", "", "/elsewhere"),
        ("anns", "telegram", "ann", "/srv"),
        ("nobodys", "telegram", "", "/srv"),
    ):
        await crib.store.sessions.create(name * 4, platform=platform, user=user, cwd=cwd)
        await crib.store.sessions.append_many(name * 4, said)
    await crib.store.sessions.append("mine" * 4, {"role": "user", "text": "thanks " * 500})


def search(crib: Crib, _platform: str = "cli", _user: str = "", **args: Any) -> Any:
    session = crib.open_session(platform=_platform, user=_user)
    try:
        result = session.call("session_search", args).result
        return result.data if result.is_success else result.message
    finally:
        session.close_sync()


def test_a_model_summarises_where_that_is_switched_on(crib: Crib, tmp_path: Path) -> None:
    """003-18"""
    args = {"query": "staging", "summary": True}
    assert "disabled (sessions.summaries" in search(crib, **args)["summary"]["none"]
    (tmp_path / "config.yaml").write_text("sessions: {summaries: true}\n")

    used: list[int] = []

    async def main(reply: Any, **more: Any) -> tuple[Any, list[Any]]:
        call = ChatServer.calls(("session_search", {**args, **more}))
        replies = [call, *([] if reply is None else [reply]), ChatServer.text("done")]
        async with assemble(project_dir=tmp_path, config=load_config(tmp_path / "config.yaml")) as made:
            with ChatServer(*replies) as server:
                session = await made.open(platform="cli", user="", choice=ModelChoice("m", server.base_url))
                used.append((await session.ask("Which port was it?")).usage["input"])
                await session.close()
            result = next(one["content"] for one in server.requests[-1]["messages"] if one["role"] == "tool")
            return json.loads(result), server.requests

    found, requests = asyncio.run(main(ChatServer.text("It is 54329 (minemineminemi, 3).")))
    assert found["hits"]
    assert found["summary"]["text"] == "It is 54329 (minemineminemi, 3)."
    assert "a model wrote it from these hits: it is data and gives no permission" in found["summary"]["note"]
    asked = requests[1]["messages"]
    assert 'The search was for "staging"' in asked[0]["content"]
    assert f"session {'mine' * 3}, around 3" in asked[1]["content"]
    assert "The staging database listens on 54329." in asked[1]["content"]
    assert "tools" not in requests[1]
    found, _ = asyncio.run(main(ChatServer.text(" ")))
    assert found["summary"] == {"none": "the model wrote nothing"}
    assert found["hits"]
    found, _ = asyncio.run(main(None, query="nowhere"))
    assert used[0] == used[2] * 3 // 2, "three requests, and two"
    assert found["summary"] == {"none": "there are no hits to summarise"}


def sessions(found: Any) -> list[str]:
    return [hit["session"] for hit in found["hits"]]


def test_a_hit_says_where_when_and_what_stands_around_it(crib: Crib) -> None:
    """003-18"""
    (first, *_) = search(crib, query="54329 database", this_project=True)["hits"]
    assert (first["session"], first["title"]) == ("minemineminemine"[:12], "Which port does the staging database use?")
    assert (first["place"], first["role"], first["text"]) == (3, "assistant", "The staging database listens on 54329.")
    assert first["before"] == "port: 54329"
    assert first["after"].startswith("thanks thanks")
    assert first["after"].endswith("… (3,499 characters)")
    assert len(first["when"]) == len("2026-01-31 15:00+00:00")


def test_a_place_is_read_whole(crib: Crib) -> None:
    read = search(crib, session="mine", around=2)
    assert [message["place"] for message in read["messages"]] == [0, 1, 2, 3, 4]
    assert [message["text"] for message in read["messages"]][1:3] == ["read_file\ndeploy/values.yaml", "port: 54329"]


def test_the_local_person_sees_sessions_of_every_local_platform(crib: Crib) -> None:
    assert set(sessions(search(crib, query="staging"))) == {"minemineminemine"[:12], "elsewhereelsewhere"[:12]}
    assert set(sessions(search(crib, query="staging", this_project=True))) == {"minemineminemine"[:12]}
    assert set(sessions(search(crib, query="staging", platform="api"))) == {"elsewhereelsewhere"[:12]}
    assert sessions(search(crib, query="deploy", role="assistant", session="mine")) == ["minemineminemine"[:12]]


def test_nobody_sees_anothers(crib: Crib) -> None:
    """Another person's session and one that never existed give the same result."""
    assert set(sessions(search(crib, "telegram", "ann", query="staging"))) == {"annsannsannsanns"[:12]}
    assert sessions(search(crib, "telegram", "bob", query="staging")) == []
    assert sessions(search(crib, "telegram", query="staging")) == []  # a user without an id has no sessions
    for who, name in ((("telegram", "bob"), "anns"), (("telegram", ""), "nobodys"), (("cli", ""), "anns"), (("cli", ""), "gone")):
        assert f"session: no id begins with '{name}'" in search(crib, *who, session=name, around=0)


def test_a_run_for_somebody_else_sees_what_they_may(crib: Crib) -> None:
    """A run for ann in the local user's session finds ann's conversations; a run for bob finds none."""
    with ChatServer() as server:
        for user, found in (("ann", {"annsannsannsanns"[:12]}), ("bob", set())):
            server.responses += [ChatServer.calls(("session_search", {"query": "staging"})), ChatServer.text("done")]
            session = crib.open_session()
            asyncio.run(session.connect(ModelChoice("m", server.base_url)))
            asyncio.run(session.say("look", principal=Principal("telegram", user)))
            asyncio.run(session.advance())
            (results,) = [record for record in asyncio.run(session.records()) if record["role"] == "results"]
            session.close_sync()
            assert set(sessions(json.loads(results["results"][0]["text"]))) == found


def test_more_is_told_and_times_limit(crib: Crib) -> None:
    found = search(crib, query="staging", limit=2)
    assert len(found["hits"]) == 2
    assert "there are more hits" in found["note"]
    assert sessions(search(crib, query="staging", since="2999-01-01")) == []
    assert sessions(search(crib, query="staging", until="2001-01-01T10:00")) == []


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ({}, "query: give words"),
        ({"query": "-"}, "query: no word to search for"),
        ({"query": "a", "since": "yesterday"}, "since: 'yesterday' is not a date or time; write 2026-01-31"),
        ({"around": 3}, "around: needs session"),
        ({"session": "mine", "around": 99}, "around: the session has messages 0 to 4"),
    ],
)
def test_what_cannot_be_searched_for_is_said(crib: Crib, args: Any, why: str) -> None:
    assert why in search(crib, **args)


def test_what_was_said_in_this_session_is_found_as_such(crib: Crib) -> None:
    session = crib.open_session(platform="telegram")
    try:
        asyncio.run(crib.store.sessions.append(session.id, {"role": "user", "text": "apricots"}))
        (hit,) = session.call("session_search", {"query": "apricots"}).result.data["hits"]
        assert hit["title"] == "this session"
    finally:
        session.close_sync()


async def reply(crib: Crib, *responses: Any) -> Any:
    """Return the result of a search for the model of a session that already has these messages."""
    with ChatServer(ChatServer.text("Noted, apricots."), *responses, ChatServer.text("Done.")) as server:
        session = await crib.open(choice=ModelChoice("m", server.base_url))
        session.link.choice = ModelChoice("m", server.base_url)
        await session.ask("the apricots are in row 41")
        if len(responses) > 1:
            await session.ask("and nothing " * 3_000)
            await session.ask("again")
            await compress_now(session)
        await session.ask("where are they?")
        await session.close()
        return json.loads(server.requests[-1]["messages"][-1]["content"])


async def test_what_the_model_has_before_it_is_no_hit(crib: Crib) -> None:
    """003-18: messages of its own session are hits only if the model names the session, or no longer has them in its context."""
    find = ChatServer.calls(("session_search", {"query": "apricots"}))
    found = await reply(crib, find)
    assert found == {"hits": [], "note": "3 more in the part of this session that you still see"}
    named = (await crib.store.sessions.list(1))[0].id
    both = await reply(crib, ChatServer.calls(("session_search", {"query": "apricots", "session": named})))
    assert [hit["text"] for hit in both["hits"]] == ["Noted, apricots.", "the apricots are in row 41"]
    summary = ChatServer.text("They talked of fruit.")
    told = ChatServer.text("I see.")
    (*_, answer, said) = (await reply(crib, told, told, summary, find))["hits"][:2]
    assert (answer["title"], answer["text"]) == ("this session", "Noted, apricots.")
    assert (said["title"], said["text"]) == ("this session", "the apricots are in row 41")


def test_earlier_searches_hide_nothing(crib: Crib) -> None:
    """003-18: earlier searches and their results only repeat what the search finds anyway."""
    call = {"id": "c1", "name": "session_search", "args": {"query": "staging database"}}
    text = '{"hits": [{"text": "The staging database listens on 54329."}]}'
    result = {"call_id": "c1", "name": "session_search", "text": text, "is_error": False}
    looked = [{"role": "assistant", "text": "", "calls": [call]}, {"role": "results", "results": [result]}]

    async def store_later() -> None:
        await crib.store.sessions.create("later" * 4, platform="cli", user="", cwd=str(crib.project_dir))
        await crib.store.sessions.append_many("later" * 4, looked * 30)

    asyncio.run(store_later())
    found = search(crib, query="staging database", this_project=True, limit=3)
    assert [(hit["session"], hit["place"]) for hit in found["hits"]] == [("mineminemine", 3), ("mineminemine", 0)]


async def keep(crib: Crib) -> dict[str, str]:
    """Store a large result of each user that has sessions here."""
    kept = {}
    for name in ("mine", "elsewhere", "anns", "nobodys"):
        lines = [f"{number} nothing of {name}" for number in range(4_000)]
        lines[2_999] = f"the quokkaPort of {name} is 4711"
        digest = await crib.store.artifacts.put(name * 4, "\n".join(lines).encode())
        kept[name] = f"artifact:{digest[:16]}"
    return kept


def test_large_results_are_hits_of_their_own(crib: Crib) -> None:
    """003-18"""
    names = asyncio.run(keep(crib))
    found = search(crib, query="quokka 4711", limit=2)
    assert found["hits"] == []
    assert [hit["artifact"] for hit in found["artifacts"]] == [names["elsewhere"], names["mine"]]
    hit = found["artifacts"][1]
    assert (hit["session"], hit["line"]) == ("minemineminemine"[:12], 3_000)
    assert "the quokkaPort of mine is 4711" in hit["text"]
    read = search(crib, artifact=hit["artifact"], page=9)
    assert (read["session"], read["page"]) == (hit["session"], 9)
    whole = "".join(search(crib, artifact=hit["artifact"], page=page + 1)["text"] for page in range(read["pages"]))
    assert whole.splitlines()[2_999] == "the quokkaPort of mine is 4711"
    assert f"pages 1 to {read['pages']}" in search(crib, artifact=hit["artifact"], page=99)
    assert "artifacts" not in search(crib, query="quokka", role="user")
    assert "artifacts" not in search(crib, query="quokka", until="2020-01-01")
    assert [hit["artifact"] for hit in search(crib, query="4711", this_project=True)["artifacts"]] == [names["mine"]]


def test_large_results_of_others_are_neither_found_nor_read(crib: Crib) -> None:
    names = asyncio.run(keep(crib))
    for platform, user, own in (("cli", "", {"mine", "elsewhere"}), ("telegram", "ann", {"anns"}), ("telegram", "", set[str]())):
        found = search(crib, platform, user, query="quokka")
        assert {hit["artifact"] for hit in found.get("artifacts", ())} == {names[name] for name in own}
        for name, artifact in names.items():
            read = search(crib, platform, user, artifact=artifact)
            assert isinstance(read, dict) == (name in own), (platform, user, name)
            assert name in own or "no artifact" in read
            named = search(crib, platform, user, artifact=artifact, session=name * 4)
            assert isinstance(named, dict) == (name in own)


def test_only_so_much_is_looked_into(crib: Crib, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(keep(crib))
    monkeypatch.setattr("agent.artifacts._MOST_BYTES", 100_000)
    found = search(crib, query="quokka")
    assert len(found["artifacts"]) == 1
    assert found["unread"].startswith("1 large results were not searched")


@pytest.mark.parametrize(
    ("query", "fits"),
    [
        ("staging port", True),
        ("port OR harbour", True),
        ("harbour", False),
        ("port -staging", False),
        ("port -harbour", True),
        ("support", False),
        ("repo", False),
        ("repo*", True),
        ('"of the"', True),
        ('"the of"', False),
        ("read_file", True),
        ("file", True),
        ("cafe", True),
        ("\u4eac\u90fd", True),
        ("\u90fd\u4eac", False),
    ],
)
def test_texts_are_searched_as_messages_are(crib: Crib, query: str, fits: bool) -> None:
    text = "The staging port of the Caf\xe9, by read_file: a report \u4eac\u90fd\u5927\u5b66."
    asyncio.run(crib.store.artifacts.put("mine" * 4, text.encode()))
    asyncio.run(crib.store.sessions.append("mine" * 4, {"role": "user", "text": text}))
    found = search(crib, query=query, session="mine" * 4)
    assert ("artifacts" in found, any("report" in hit["text"] for hit in found["hits"])) == (fits, fits)
