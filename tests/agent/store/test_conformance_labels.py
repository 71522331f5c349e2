"""Conformance of every store for titles and tags of sessions, and for imported sessions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import pytest

from toolcrib.contract.search import SearchFilter
from toolcrib.contract.store import SessionInfo, Store

ODD = "odd \udc80\0"
SAID = {"role": "user", "text": "about quinces"}
ANSWERED = {
    "role": "assistant",
    "text": "yes",
    "usage": {"input": 7, "output": 2},
    "model": "m",
    "via": {"model": "m"},
    "at": 5.0,
}
RAN = {"role": "results", "results": [{"call_id": "c", "name": "x", "text": "", "is_error": False, "seconds": 2.0}]}
ELSEWHERE = SessionInfo("far", "named", "cli", "me", "m", "/p", 10.0, 40.5, 3, {"name": "local"}, "", {"model": "m"}, ("a", "b"))


class MakeStore(Protocol):
    def __call__(self, clock: Callable[[], float]) -> Store: ...


async def known(store: Store, session_id: str) -> SessionInfo:
    info = await store.sessions.get(session_id)
    assert info is not None
    return info


async def test_a_title_and_tags_are_a_persons_and_leave_the_time_of_the_last_use(make_store: MakeStore) -> None:
    now = [100.0]
    store = make_store(clock=lambda: now[0])
    await store.sessions.create("s", platform="cli", user="")
    await store.sessions.append("s", SAID)
    before = await known(store, "s")
    assert (before.title, before.tags) == ("about quinces", ())
    now[0] = 200.0
    await store.sessions.label("s", title=ODD, tags=["web", ODD, "web"])
    assert await known(store, "s") == replace(before, title=ODD, tags=("web", ODD))
    await store.sessions.label("s", tags=["web"])
    await store.sessions.label("s", title="plain")
    await store.sessions.label("s")
    assert await known(store, "s") == replace(before, title="plain", tags=("web",))
    await store.sessions.append("s", {"role": "user", "text": "more"})
    await store.sessions.update("s", model="m")
    assert await known(store, "s") == replace(before, title="plain", tags=("web",), model="m", messages=2, updated_at=200.0)
    with pytest.raises(KeyError):
        await store.sessions.label("other", title="x")


async def test_sessions_are_listed_by_tags(store: Store) -> None:
    for session, tags in (("a", ["web", "urgent"]), ("b", ["web"]), ("c", []), ("d", ['"web"', "we"])):
        await store.sessions.create(session, platform="cli", user="")
        await store.sessions.append(session, SAID)
        await store.sessions.label(session, tags=tags)
    wanted: list[tuple[list[str], str]] = [
        (["web"], "ba"),
        (["web", "urgent"], "a"),
        (["we"], "d"),
        (['"web"'], "d"),
        (["none"], ""),
    ]
    for tags, sessions in wanted:
        assert [info.id for info in await store.sessions.list(tags=tags)] == [*sessions], tags
    assert [info.id for info in await store.sessions.list(tags=["web"], cwd="/elsewhere")] == []


async def test_a_session_that_was_elsewhere_is_kept_whole_and_once(store: Store) -> None:
    assert await store.sessions.add(replace(ELSEWHERE, host="a lease", messages=99), [SAID, ANSWERED, RAN], [11.0, 12.0])
    assert await known(store, "far") == ELSEWHERE
    assert list(await store.sessions.messages("far")) == [SAID, ANSWERED, RAN]
    assert [(hit.seq, hit.at) for hit in await store.search.find("quinces")] == [(0, 11.0)]
    assert [hit.seq for hit in await store.search.find("quinces", SearchFilter(since=11.5))] == []
    assert [info.id for info in await store.sessions.list()] == ["far"]
    sums = [(one.tool, one.input, one.seconds) for one in await store.usage.sums(session_id="far")]
    assert sorted(sums) == [("", 7, 0.0), ("x", 0, 2.0)]
    assert len(await store.usage.sums(session_id="far", since=12.5)) == 1
    assert not await store.sessions.add(replace(ELSEWHERE, title="another"), [SAID])
    assert await known(store, "far") == ELSEWHERE
    assert len(await store.usage.sums(session_id="far")) == 2
    await store.sessions.append("far", {"role": "user", "text": "and now"})
    assert [message["text"] for message in await store.sessions.messages("far", offset=3)] == ["and now"]
    assert await store.delete(["far"]) == ["far"]
    assert await store.search.find("quinces") == []


async def test_a_session_without_a_title_or_a_word_of_a_user(store: Store) -> None:
    assert await store.sessions.add(replace(ELSEWHERE, id=ODD, title="", tags=("a", "a")), [SAID])
    assert ((await known(store, ODD)).title, (await known(store, ODD)).tags) == ("about quinces", ("a",))
    assert await store.sessions.add(replace(ELSEWHERE, id="silent", title=""), [])
    assert [info.id for info in await store.sessions.list()] == [ODD]
