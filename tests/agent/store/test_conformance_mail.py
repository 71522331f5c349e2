"""Conformance of every store for a gateway's mail, posts and chats."""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.store._mail import PENDING, UNPOSTED, WAITING
from agent.store.memory import MemoryStore
from agent.store.postgres import _mail as server
from agent.store.postgres.store import PostgresStore
from agent.store.sqlite import SqliteStore
from toolcrib.contract.mail import ChatRecord, Mail, Post
from toolcrib.contract.store import Fence, RunRecord, Store

MakeStore = Callable[..., Store]
ODD = "odd \udc80\0"
LONG = "x" * 9_000
NUMBER = itertools.count()


def mail_of(key: str = "1", chat: str = "c", *, platform: str = "chat", **more: Any) -> Mail:
    return Mail(platform, chat, key, {"text": f"message {key}"}, **more)


def post_of(key: str = "p", chat: str = "c", *, platform: str = "chat", text: str = "hello", **more: Any) -> Post:
    return Post(platform, chat, key, {"text": text}, **more)


def ticking() -> tuple[list[float], Callable[[], float]]:
    """Return a clock and a list with its time, which tests set."""
    now = [100.0]
    return now, lambda: now[0]


async def sent(store: Store, post: Post, shown_as: str = "m") -> Post:
    """Mark a post as shown, as a gateway does."""
    kept = await store.mail.post(post)
    assert await store.mail.moved(kept.id, "sending")
    done = await store.mail.moved(kept.id, "shown", shown_as=shown_as, body=kept.body)
    assert done is not None
    return done


async def begun(store: Store, *sessions: str) -> None:
    for session in sessions:
        await store.sessions.create(session, platform="chat", user="")
        await store.sessions.append(session, {"role": "user", "text": "hello"})


# -- mail ------------------------------------------------------------------------------------------------------------


async def test_a_message_is_kept_once_until_it_was_worked_on(make_store: MakeStore) -> None:
    now, clock = ticking()
    store = make_store(clock=clock)
    first = await store.mail.arrived(mail_of("1"))
    now[0] = 101.0
    second = await store.mail.arrived(mail_of("2", at=50.0))
    assert first is not None
    assert second is not None
    assert (first.at, second.at, first.id < second.id) == (100.0, 50.0, True)
    assert replace(first, id=0, at=0.0) == mail_of("1")
    assert await store.mail.arrived(Mail("chat", "c", "1", {"text": "another"})) is None
    assert list(await store.mail.waiting("chat")) == [first, second]
    await store.mail.done([first.id, first.id, 10_000])
    assert list(await store.mail.waiting("chat")) == [second]
    assert await store.mail.arrived(mail_of("1")) is None, "its key stays known"
    await store.mail.done([])
    await store.mail.done([first.id, second.id])
    assert list(await store.mail.waiting("chat")) == []


async def test_messages_are_the_same_by_platform_chat_and_key(store: Store) -> None:
    names = ("c", "C", "", ODD, "c\0t", LONG)
    kept = [await store.mail.arrived(mail_of(key, chat)) for chat in names for key in names]
    assert None not in kept
    assert list(await store.mail.waiting("chat")) == kept
    other = await store.mail.arrived(mail_of("c", "c", platform=ODD))
    assert list(await store.mail.waiting(ODD)) == [other]
    assert list(await store.mail.waiting("cha")) == []
    for chat, key in itertools.product(names, names):
        assert await store.mail.arrived(mail_of(key, chat)) is None


@pytest.mark.parametrize("body", [{"a": object()}, {"a": {1, 2}}, ["a"], "a", None])
async def test_what_is_no_json_object_is_not_kept(store: Store, body: Any) -> None:
    kept = await store.mail.post(post_of())
    for refused in (
        store.mail.arrived(Mail("chat", "c", "1", body)),
        store.mail.post(Post("chat", "c", "q", body)),
        store.mail.post(Post("chat", "c", "p", body)),
        store.mail.enter(ChatRecord("chat", "c", "s", body)),
    ):
        with pytest.raises((TypeError, ValueError)):
            await refused
    assert list(await store.mail.waiting("chat")) == []
    assert list(await store.mail.pending("chat")) == [kept]
    assert await store.mail.chat("chat", "c") is None


async def test_what_was_given_may_change_afterwards(store: Store) -> None:
    body: dict[str, Any] = {"list": [1]}
    kept = await store.mail.arrived(Mail("chat", "c", "1", body))
    post = await store.mail.post(Post("chat", "c", "p", body))
    await store.mail.enter(ChatRecord("chat", "c", "s", body))
    body["list"].append(2)
    (waiting,) = await store.mail.waiting("chat")
    record = await store.mail.chat("chat", "c")
    assert kept is not None
    assert record is not None
    assert waiting.body == kept.body == post.body == record.body == {"list": [1]}
    assert (await store.mail.pending("chat"))[0].body == {"list": [1]}


# -- posts -----------------------------------------------------------------------------------------------------------


async def test_a_post_waits_until_it_is_shown(make_store: MakeStore) -> None:
    now, clock = ticking()
    store = make_store(clock=clock)
    given = Post("chat", "c", "p", {"text": "a"}, "shown", "odd", 7, 130.0, "why", 5.0, 99)
    kept = await store.mail.post(given)
    assert kept == Post("chat", "c", "p", {"text": "a"}, due_at=130.0, at=100.0, id=kept.id)
    assert await store.mail.get("chat", "p") == kept
    assert list(await store.mail.pending("chat")) == [kept]
    now[0] = 140.0
    sending = await store.mail.moved(kept.id, "sending")
    assert sending == replace(kept, state="sending", tries=1, due_at=0.0)
    assert list(await store.mail.pending("chat")) == [sending]
    waiting = await store.mail.moved(kept.id, "waiting", due_at=150.0, problem="it is down")
    assert waiting == replace(kept, tries=1, due_at=150.0, problem="it is down")
    assert list(await store.mail.pending("chat")) == [waiting]
    await store.mail.moved(kept.id, "sending")
    shown = await store.mail.moved(kept.id, "shown", shown_as=ODD)
    assert shown == replace(kept, state="shown", shown_as=ODD, tries=2, due_at=0.0)
    assert await store.mail.get("chat", "p") == await store.mail.shown("chat", "c", ODD) == shown
    assert list(await store.mail.pending("chat")) == []
    failed = await store.mail.moved(kept.id, "failed", problem=ODD)
    assert failed == replace(kept, state="failed", shown_as=ODD, tries=2, due_at=0.0, problem=ODD)
    assert list(await store.mail.pending("chat")) == []


async def test_what_is_not_known_is_said_so(store: Store) -> None:
    assert await store.mail.get("chat", "p") is None
    assert await store.mail.moved(10_000, "shown", shown_as="m", body={}) is None
    assert await store.mail.shown("chat", "c", "m") is None
    assert await store.mail.chat("chat", "c") is None
    assert await store.mail.chat_of("s") is None
    assert await store.mail.chat_of("") is None
    assert await store.mail.sweep(4e9) == 0
    for found in (store.mail.waiting("chat"), store.mail.pending("chat"), store.mail.unposted("chat", 0.0), store.mail.chats()):
        assert list(await found) == []


async def test_posts_stand_in_the_order_of_their_making(store: Store) -> None:
    made = [await store.mail.post(post_of(f"{number}")) for number in (3, 1, 2)]
    await store.mail.post(post_of("3", platform="other"))
    await sent(store, post_of("3", text="first"))
    again = await store.mail.post(post_of("3", text="second"))
    assert [post.id for post in await store.mail.pending("chat")] == [post.id for post in made]
    assert (await store.mail.pending("chat"))[0] == again


@pytest.mark.parametrize("state", ["shown", "failed"])
async def test_the_same_key_is_the_same_post(make_store: MakeStore, state: Any) -> None:
    now, clock = ticking()
    store = make_store(clock=clock)
    one = await sent(store, post_of())
    over = await store.mail.moved(one.id, state, problem="why" if state == "failed" else "")
    now[0] = 110.0
    assert await store.mail.post(post_of(chat="elsewhere", due_at=9.0)) == over, "with this very body it stays"
    changed = await store.mail.post(post_of(chat="elsewhere", text="else", due_at=120.0))
    assert changed == replace(one, body={"text": "else"}, state="waiting", tries=0, due_at=120.0, problem="")
    assert (changed.shown_as, changed.chat, changed.at) == ("m", "c", 100.0)
    assert await store.mail.post(post_of(text="more", due_at=115.0)) == replace(changed, body={"text": "more"}, due_at=115.0)
    other = await store.mail.post(post_of(platform="other"))
    assert other.id != one.id


@pytest.mark.parametrize(
    ("one", "other", "are_same"),
    [
        ({"a": 1, "b": [{"c": 2, "d": ODD}]}, {"b": [{"d": ODD, "c": 2}], "a": 1}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": 1}, {"a": "1"}, False),
        ({"a": None}, {}, False),
        ({"a": "\ud83d\ude00"}, {"a": "\U0001f600"}, False),
    ],
)
async def test_bodies_are_the_same_by_what_they_hold(store: Store, one: Any, other: Any, are_same: bool) -> None:
    kept = await sent(store, Post("chat", "c", "p", one))
    again = await store.mail.post(Post("chat", "c", "p", other))
    assert again.state == ("shown" if are_same else "waiting")
    shown = await store.mail.moved(kept.id, "shown", body=one)
    assert shown is not None
    assert shown.state == ("shown" if are_same else "waiting")


async def test_a_post_that_changes_while_it_is_sent_is_sent_again(store: Store) -> None:
    first = await store.mail.post(post_of(text="one"))
    await store.mail.moved(first.id, "sending")
    changed = await store.mail.post(post_of(text="two", due_at=5.0))
    assert (changed.state, changed.tries) == ("sending", 1), "it is unknown whether it was shown"
    assert await store.mail.post(post_of(text="two")) == changed
    after = await store.mail.moved(first.id, "shown", shown_as="m", body={"text": "one"})
    assert after == replace(changed, state="waiting", shown_as="m", tries=0, due_at=0.0)
    assert list(await store.mail.pending("chat")) == [after]
    await store.mail.moved(first.id, "sending")
    after = await store.mail.moved(first.id, "shown", body={"text": "two"})
    assert after == replace(changed, state="shown", shown_as="m", tries=1, due_at=0.0)
    await store.mail.post(post_of(text="three"))
    await store.mail.moved(first.id, "sending")
    await store.mail.post(post_of(text="four"))
    failed = await store.mail.moved(first.id, "failed", body={"text": "three"}, problem="too long")
    assert failed is not None
    assert (failed.state, failed.shown_as, failed.tries) == ("waiting", "m", 0)


async def test_what_was_tried_keeps_its_tries_and_its_time(store: Store) -> None:
    first = await store.mail.post(post_of(text="one"))
    await store.mail.moved(first.id, "sending")
    await store.mail.moved(first.id, "waiting", due_at=50.0, problem="slow down")
    changed = await store.mail.post(post_of(text="two", due_at=10.0))
    assert (changed.state, changed.tries, changed.due_at, changed.problem) == ("waiting", 1, 50.0, "slow down")
    assert (await store.mail.post(post_of(text="two", due_at=60.0))).due_at == 60.0


async def test_a_try_of_which_nobody_knows_stays_so(store: Store) -> None:
    first = await store.mail.post(post_of(text="one"))
    await store.mail.moved(first.id, "sending")
    unsure = await store.mail.moved(first.id, "sending", due_at=50.0, problem="the connection ended")
    assert unsure == replace(first, state="sending", tries=1, due_at=50.0, problem="the connection ended")
    changed = await store.mail.post(post_of(text="two"))
    assert changed == replace(unsure, body={"text": "two"})
    again = await store.mail.moved(first.id, "sending")
    assert again is not None
    assert (again.tries, again.problem) == (2, "")


async def test_a_post_is_found_by_where_it_is_shown(store: Store) -> None:
    for place in (
        ("chat", "c", "1"),
        ("chat", "other", "1"),
        ("other", "c", "1"),
        ("chat", "c", "2"),
        (ODD, ODD, ODD),
        ("a", "", LONG),
    ):
        platform, chat, shown_as = place
        kept = await sent(store, post_of(f"{place}", chat, platform=platform), shown_as)
        assert await store.mail.shown(*place) == kept
    later = await sent(store, post_of("later"), "1")
    assert await store.mail.shown("chat", "c", "1") == later, "the one made last"
    await sent(store, post_of("later", text="an edit"), "9")
    assert await store.mail.shown("chat", "c", "9") is not None
    earlier = await store.mail.shown("chat", "c", "1")
    assert earlier is not None
    assert earlier.key != "later"
    await store.mail.post(post_of("not shown"))
    assert await store.mail.shown("chat", "c", "") is None


# -- runs whose outcome no chat has received -------------------------------------------------------------------------


async def ended(store: Store, run: str, session: str, status: Any = "ended") -> None:
    await store.runs.commit(RunRecord(run, session, status, 1, {}))


async def test_runs_without_a_post_are_found(make_store: MakeStore) -> None:
    now, clock = ticking()
    store = make_store(clock=clock)
    await begun(store, "s", "had", "elsewhere", "own", ODD)
    for chat, session in (("c", "had"), ("c", "s"), ("odd", ODD)):
        await store.mail.enter(ChatRecord("chat", chat, session))
    await store.mail.enter(ChatRecord("other", "c", "elsewhere"))
    runs = ("s-1", "had-1", "s-10", "a:b", "a", ODD, f"{ODD}:2", "s-2", "elsewhere-1", "own-1")
    sessions = {"had-1": "had", "elsewhere-1": "elsewhere", "own-1": "own", ODD: ODD}
    for number, run in enumerate(runs):
        now[0] = 200.0 + number
        await ended(store, run, sessions.get(run, "s"))
    await ended(store, "parked", "s", "parked")
    await ended(store, "running", "s", "running")
    mine = list(runs[:8])
    assert list(await store.mail.unposted("chat", 0.0)) == mine
    assert list(await store.mail.unposted("chat", 201.0)) == mine[1:]
    assert list(await store.mail.unposted("chat", 207.5)) == []
    assert list(await store.mail.unposted("other", 0.0)) == ["elsewhere-1"]
    assert list(await store.mail.unposted("", 0.0)) == []
    for key in ("run:s-1x", "run:s-", "run:", "run", "s-1", "Run:s-1", "run:s-1;", f"run:{LONG}", "run::s-1"):
        await store.mail.post(post_of(key))
    await store.mail.post(post_of("run:s-1", platform="other"))
    assert list(await store.mail.unposted("chat", 0.0)) == mine
    for key, run in (
        ("run:s-10", "s-10"),
        (f"run:s-1:{ODD}", "s-1"),
        ("run:a:b:0:c", "a:b"),
        (f"run:{ODD}:x", ODD),
        (f"run:{ODD}:2", f"{ODD}:2"),
        ("run:had-1:", "had-1"),
    ):
        await store.mail.post(post_of(key))
        posted = {run, "a"} if run == "a:b" else {run}  # the prefix run:a: includes run:a:b:
        mine = [one for one in mine if one not in posted]
        assert list(await store.mail.unposted("chat", 0.0)) == mine
    assert mine == ["s-2"]


async def test_questions_are_found_by_their_keys(store: Store) -> None:
    keys = ["ticket:a", "ticket:a:0", "ticket", "ticket;", "tickets:", "Ticket:b", f"ticket:{ODD}", "run:ticket:"]
    for key in keys:
        await store.mail.post(post_of(key))
    await store.mail.post(post_of("ticket:c", platform="other"))
    await sent(store, post_of("ticket:d"))
    found = await store.mail.questions("chat")
    assert [post.key for post in found] == ["ticket:a", "ticket:a:0", f"ticket:{ODD}", "ticket:d"]


async def test_no_lease_is_asked_for(store: Store) -> None:
    """The gateway stores its mail even if another owner took the session over."""
    lease = await store.leases.take("s", "me", 0.0)
    assert lease is not None
    mine = store.fenced(Fence(lease))
    assert await store.leases.take("s", "another", 0.0) is not None
    kept = await mine.mail.arrived(mail_of())
    post = await mine.mail.post(post_of())
    await mine.mail.enter(ChatRecord("chat", "c", "s"))
    assert list(await store.mail.waiting("chat")) == [kept]
    assert list(await store.mail.pending("chat")) == [post]
    assert await store.mail.chat_of("s") == await mine.mail.chat("chat", "c")


# -- chats -----------------------------------------------------------------------------------------------------------


async def test_a_chat_has_a_session_and_those_that_it_had(make_store: MakeStore) -> None:
    now, clock = ticking()
    store = make_store(clock=clock)
    await store.mail.enter(ChatRecord("chat", "c", "one", {"title": ODD}))
    first = ChatRecord("chat", "c", "one", {"title": ODD}, 100.0, 100.0)
    assert await store.mail.chat("chat", "c") == await store.mail.chat_of("one") == first
    now[0] = 110.0
    await store.mail.enter(ChatRecord("chat", "c", "two", {"model": "m"}, 3.0))
    second = ChatRecord("chat", "c", "two", {"model": "m"}, 100.0, 110.0)
    assert await store.mail.chat("chat", "c") == second
    assert await store.mail.chat_of("one") == await store.mail.chat_of("two") == second
    await store.mail.enter(replace(second, session_id="", used_at=5.0))
    third = replace(second, session_id="", used_at=5.0)
    assert await store.mail.chat_of("one") == await store.mail.chat("chat", "c") == third
    assert await store.mail.chat_of("") is None
    await store.mail.enter(ChatRecord("chat", "d", "one", {}, 7.0))
    moved = await store.mail.chat_of("one")
    assert moved == ChatRecord("chat", "d", "one", {}, 7.0, 110.0)
    assert await store.mail.chat_of("two") == third


async def test_chats_are_told_apart(store: Store) -> None:
    places = list(itertools.product(("chat", "other", ODD), ("c", "c\0t", "C", ODD, LONG)))
    for number, (platform, chat) in enumerate(places):
        await store.mail.enter(ChatRecord(platform, chat, f"s{number}"))
    for number, (platform, chat) in enumerate(places):
        found = await store.mail.chat(platform, chat)
        assert found is not None
        assert (found.platform, found.chat, found.session_id) == (platform, chat, f"s{number}")


async def test_chats_are_listed_the_last_one_used_first(store: Store) -> None:
    for number, platform in enumerate(["chat", "other", "chat", "chat"]):
        await store.mail.enter(ChatRecord(platform, f"{number}", f"s{number}", used_at=[3.0, 9.0, 5.0, 3.0][number]))
    assert [record.chat for record in await store.mail.chats()] == ["1", "2", "0", "3"]
    assert [record.chat for record in await store.mail.chats("chat")] == ["2", "0", "3"]
    assert [record.chat for record in await store.mail.chats("chat", limit=1, offset=1)] == ["0"]
    assert [record.chat for record in await store.mail.chats(limit=2)] == ["1", "2"]
    await store.mail.enter(ChatRecord("chat", "0", "s0"))
    assert [record.chat for record in await store.mail.chats("chat")] == ["0", "2", "3"]


# -- forgetting ------------------------------------------------------------------------------------------------------


async def test_what_is_over_is_swept_by_when_it_was_over(make_store: MakeStore) -> None:
    now, clock = ticking()
    store = make_store(clock=clock)
    kept = {key: await store.mail.arrived(mail_of(key, at=1.0)) for key in ("early", "late", "waits")}
    for key in ("early", "late", "again", "failed"):
        await sent(store, post_of(key))
    waits, sending = await store.mail.post(post_of("waits")), await store.mail.post(post_of("sending"))
    await store.mail.moved(sending.id, "sending")
    failed = await store.mail.get("chat", "failed")
    assert failed is not None
    await store.mail.moved(failed.id, "failed")
    ids = {key: mail.id for key, mail in kept.items() if mail is not None}
    await store.mail.done([ids["early"]])
    now[0] = 200.0
    await store.mail.done([ids["early"], ids["late"]])
    await sent(store, post_of("late", text="an edit"))
    await store.mail.post(post_of("again", text="an edit"))
    assert await store.mail.sweep(100.0) == 0
    assert await store.mail.sweep(150.0) == 3
    for key, is_there in (("early", False), ("failed", False), ("late", True), ("again", True)):
        assert (await store.mail.get("chat", key) is not None) is is_there
    assert [post.id for post in await store.mail.pending("chat")][1:] == [waits.id, sending.id]
    assert await store.mail.arrived(mail_of("late")) is None
    again = await store.mail.arrived(mail_of("early"))
    assert again is not None, "its key was forgotten"
    assert again.id > max(ids.values())
    assert [mail.key for mail in await store.mail.waiting("chat")] == ["waits", "early"]
    assert await store.mail.sweep(4e9) == 2
    assert [post.key for post in await store.mail.pending("chat")] == ["again", "waits", "sending"]


async def test_a_sweep_of_much_forgets_all_and_numbers_go_on(store: Store) -> None:
    last = 0
    for number in range(1_100):
        mail = await store.mail.arrived(mail_of(f"{number}"))
        assert mail is not None
        last = mail.id
        await store.mail.done([last])
    assert await store.mail.sweep(4e9) == 1_100
    mail = await store.mail.arrived(mail_of())
    assert mail is not None
    assert mail.id > last, "a number never means another message"


async def test_a_session_that_is_deleted_leaves_its_chat(store: Store) -> None:
    await begun(store, "one", "two", ODD)
    for session in ("one", "two"):
        await store.mail.enter(ChatRecord("chat", "c", session, {"title": "t"}))
    await store.mail.enter(ChatRecord("chat", "odd", ODD))
    posts = [await store.mail.post(post_of("1", session_id="one")), await store.mail.post(post_of("2"))]
    posts.append(await store.mail.post(post_of("3", "odd")))
    nobodys = await store.mail.post(post_of("4", "nobody's"))
    assert [post.session_id for post in (*posts, nobodys)] == ["one", "two", ODD, ""]
    assert sorted(await store.delete(["one", ODD])) == ["odd \udc80\0", "one"]
    assert [post.key for post in await store.mail.pending("chat")] == ["2", "4"]
    assert await store.mail.moved(posts[0].id, "shown") is None
    assert await store.mail.chat_of("one") is None
    assert await store.mail.chat_of(ODD) is None
    left = await store.mail.chat("chat", "odd")
    assert left is not None
    assert left.session_id == ""
    record = await store.mail.chat("chat", "c")
    assert record == await store.mail.chat_of("two")
    assert record is not None
    assert record.session_id == "two"
    assert await store.delete(["two"]) == ["two"]
    assert await store.mail.chat("chat", "c") == replace(record, session_id="")
    await store.mail.enter(replace(record, session_id="three"))
    assert (await store.mail.post(post_of("4", "nobody's", session_id="three"))).session_id == "three"
    assert (await store.mail.post(post_of("4", session_id="four"))).session_id == "three", "of the first time"


async def test_a_session_that_mail_waits_for_stays(store: Store) -> None:
    await begun(store, "had", "has")
    for session in ("had", "has"):
        await store.mail.enter(ChatRecord("chat", "c", session))
    mail = await store.mail.arrived(mail_of())
    assert mail is not None
    await store.mail.arrived(mail_of("1", "elsewhere"))
    await store.mail.arrived(mail_of("1", platform="other"))
    assert await store.delete(["had", "has"]) == ["had"]
    assert await store.mail.chat_of("has") is not None
    await store.mail.done([mail.id])
    assert await store.delete(["has"]) == ["has"]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_old_chats_go_with_their_last_session(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    now, clock = ticking()
    store: Store = (
        SqliteStore(tmp_path / "store.db", clock=clock)
        if kind == "sqlite"
        else PostgresStore(request.getfixturevalue("emptied_url"), clock=clock)
    )
    await begun(store, "old", "told")
    for chat, session in (("old", "old"), ("told", "told"), ("never", "never made"), ("renewed", "never made either")):
        await store.mail.enter(ChatRecord("chat", chat, session))
        await sent(store, post_of(f"p {chat}", chat))
    await store.mail.post(post_of("waits", "never"))
    await store.mail.arrived(mail_of("1", "told"))
    now[0] = 300.0
    await begun(store, "new")
    await store.mail.enter(ChatRecord("chat", "renewed", "new"))
    assert await store.old(200.0) == await store.prune(200.0) == 1
    assert {record.chat for record in await store.mail.chats()} == {"told", "renewed"}
    assert [await store.mail.chat_of(name) is None for name in ("old", "never made", "told", "new")] == [True, True, False, False]
    left = [key for key in ("p old", "p told", "p never", "p renewed") if await store.mail.get("chat", key) is not None]
    assert left == ["p told"]
    assert [post.key for post in await store.mail.pending("chat")] == ["waits"]
    store.close()


async def test_sessions_are_found_by_what_their_chats_hold(store: Store) -> None:
    await begun(store, "posted", "waits", "else", ODD)
    for session in ("posted", "waits", "else", ODD):
        await store.mail.enter(ChatRecord("chat", f"of {session}", session))
    await sent(store, post_of("p", "of posted", text="likes apricots"))
    await store.mail.post(post_of("q", "of else", text="likes pears"))
    await store.mail.post(post_of("r", f"of {ODD}", text=f"{ODD} likes apricots"))
    await store.mail.post(post_of("s", "nobody's", text="likes apricots"))
    mail = [
        await store.mail.arrived(Mail("chat", f"of {name}", "1", {"text": "likes apricots"})) for name in ("waits", "else", "x")
    ]
    assert mail[1] is not None
    await store.mail.done([mail[1].id])
    found = await store.saying(lambda kept: "likes apricots" in kept)
    assert sorted(found) == sorted(["posted", "waits", ODD])


async def test_nothing_of_a_deleted_session_is_in_the_file(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db", backups=True)
    await begun(store, "one", "two")
    for session in ("one", "two"):
        await store.mail.enter(ChatRecord("chat", session, session))
        await sent(store, post_of(session, session, text=f"apricots of {session} " * 50))
        mail = await store.mail.arrived(Mail("chat", session, "1", {"text": f"pears of {session}"}))
        assert mail is not None
        await store.mail.done([mail.id])
    await store.delete(["one"])
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    assert [words in kept for words in (b"apricots of one", b"pears of one", b"apricots of two", b"pears of two")] == [
        False,
        False,
        True,
        False,
    ]
    store.close()


# -- several at once -------------------------------------------------------------------------------------------------


async def test_of_many_at_once_each_message_is_kept_once(store: Store) -> None:
    found = await asyncio.gather(*(store.mail.arrived(mail_of(f"{number % 10}")) for number in range(50)))
    assert len([mail for mail in found if mail is not None]) == 10
    waiting = await store.mail.waiting("chat")
    assert sorted(mail.key for mail in waiting) == sorted(f"{number}" for number in range(10))
    assert [mail.id for mail in waiting] == sorted(mail.id for mail in waiting)
    posts = await asyncio.gather(*(store.mail.post(post_of("p", text=f"{number}")) for number in range(20)))
    assert len({post.id for post in posts}) == 1
    assert len(await store.mail.pending("chat")) == 1


async def test_what_a_cancelled_caller_handed_over_is_there_once_or_comes_again(store: Store) -> None:
    keys = [f"{number}" for number in range(10)]
    callers = [asyncio.ensure_future(store.mail.arrived(mail_of(key))) for key in keys]
    await asyncio.sleep(0)
    for caller in callers:
        caller.cancel()
    await asyncio.wait(callers)
    for key in keys:
        await store.mail.arrived(mail_of(key))
    assert sorted(mail.key for mail in await store.mail.waiting("chat")) == keys


class Kind(NamedTuple):
    """A store that other processes can open."""

    where: str
    opened: str

    def start(self, code: str, root: Path) -> subprocess.Popen[str]:
        lines = [
            "import asyncio, json, sys",
            "from pathlib import Path",
            "from toolcrib.contract.mail import ChatRecord, Mail, Post",
        ]
        whole = "\n".join([*lines, self.opened, "async def main():", *(f"    {line}" for line in code.splitlines())])
        command = [sys.executable, "-c", f"{whole}\nasyncio.run(main())\nstore.close()", self.where]
        return subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def open(self) -> Store:
        return SqliteStore(Path(self.where)) if "SqliteStore" in self.opened else PostgresStore(self.where)


@pytest.fixture(params=["sqlite", "postgres"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Kind:
    if request.param == "sqlite":
        opened = "from agent.store.sqlite import SqliteStore\nstore = SqliteStore(Path(sys.argv[1]))"
        return Kind(str(tmp_path / "store.db"), opened)
    opened = "from agent.store.postgres.store import PostgresStore\nstore = PostgresStore(sys.argv[1])"
    return Kind(request.getfixturevalue("emptied_url"), opened)


_BOTH = """
print("ready", flush=True)
sys.stdin.readline()
kept = []
for number in range(60):
    mail = await store.mail.arrived(Mail("chat", "c", f"{number}", {"text": f"{number}"}))
    if mail is not None:
        kept.append(mail.key)
    await store.mail.post(Post("chat", "c", f"{number}", {"text": f"{number}"}))
    await store.mail.enter(ChatRecord("chat", f"{number}", f"s{number}"))
print(json.dumps(kept), flush=True)
"""


async def test_two_processes_take_each_message_once(shared: Kind, root: Path) -> None:
    running = [shared.start(_BOTH, root) for _ in range(2)]
    try:
        told = [line(one) for one in running]
        for one in running:
            assert one.stdin is not None
            one.stdin.write("\n")
            one.stdin.flush()
        told = [json.loads(line(one)) for one in running]
        assert [one.wait(60) for one in running] == [0, 0]
    finally:
        for one in running:
            one.kill()
            one.communicate()
    assert sorted(told[0] + told[1], key=int) == [f"{number}" for number in range(60)]
    with closing(shared.open()) as store:
        assert [mail.key for mail in await store.mail.waiting("chat")] == [f"{number}" for number in range(60)]
        assert [post.key for post in await store.mail.pending("chat")] == [f"{number}" for number in range(60)]
        assert len(await store.mail.chats()) == 60


_KILLED = """
number = 0
while True:
    await store.mail.arrived(Mail("chat", "c", f"{number}", {"text": f"{number}"}))
    print(number, flush=True)
    number += 1
"""


async def test_what_arrived_returned_for_survives_kill_9(shared: Kind, root: Path) -> None:
    running = shared.start(_KILLED, root)
    try:
        for _ in range(30):
            told = int(line(running))
        running.send_signal(signal.SIGKILL)
    finally:
        running.kill()
        assert running.stdout is not None
        rest = running.stdout.read()  # communicate() skips what was read ahead
        running.communicate()
    told = max([told, *map(int, rest.split("\n")[:-1])])
    with closing(shared.open()) as store:
        waiting = [mail.body["text"] for mail in await store.mail.waiting("chat")]
        assert waiting == [f"{number}" for number in range(len(waiting))]
        assert len(waiting) in (told + 1, told + 2), "and perhaps the one after, which it had not heard of"
        assert await store.mail.arrived(mail_of(f"{told}")) is None


def line(of: subprocess.Popen[str]) -> str:
    assert of.stdout is not None
    read = of.stdout.readline()
    assert read, f"the process printed nothing more, and ended with {of.wait()}"
    return read


# -- any text --------------------------------------------------------------------------------------------------------

texts = st.text(st.characters(codec=None), max_size=12) | st.sampled_from(
    ["", "\0", "\ud800", "\ud83d\ude00", "\U0001f600", "\x1a001a", "'; DROP TABLE mail; --", "run:", LONG]
)
bodies = st.dictionaries(
    texts,
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=3,
)


@pytest.fixture(scope="module", params=["memory", "sqlite", "postgres"])
def kept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store: Store
    if request.param == "memory":
        store = MemoryStore()
    elif request.param == "sqlite":
        store = SqliteStore(tmp_path_factory.mktemp("mail") / "store.db")
    else:
        store = PostgresStore(request.getfixturevalue("postgres").new_database())
    yield store
    store.close()


@given(chat=texts, key=texts, body=bodies, other=bodies, shown_as=texts, session=texts)
def test_any_text_comes_back(
    kept: Store, chat: str, key: str, body: dict[str, Any], other: dict[str, Any], shown_as: str, session: str
) -> None:
    async def check() -> None:
        platform = f"p{next(NUMBER)}"
        mail = await kept.mail.arrived(Mail(platform, chat, key, body))
        assert mail is not None
        assert replace(mail, id=0, at=0.0) == Mail(platform, chat, key, body)
        assert list(await kept.mail.waiting(platform)) == [mail]
        assert await kept.mail.arrived(Mail(platform, chat, key, other)) is None
        post = await kept.mail.post(Post(platform, chat, key, body, problem="x", session_id=session))
        assert post == Post(platform, chat, key, body, at=post.at, id=post.id, session_id=session)
        shown = await kept.mail.moved(post.id, "shown", shown_as=shown_as, problem=key, body=body)
        assert shown == replace(post, state="shown", shown_as=shown_as, problem=key)
        assert await kept.mail.get(platform, key) == shown
        assert await kept.mail.shown(platform, chat, shown_as) == (shown if shown_as else None)
        again = await kept.mail.post(Post(platform, chat, key, other))
        is_same = json.dumps(body, sort_keys=True) == json.dumps(other, sort_keys=True)
        assert again.state == ("shown" if is_same and _exactly(body) == _exactly(other) else "waiting")
        name = f"{platform}{session}"
        await kept.mail.enter(ChatRecord(platform, chat, name, body))
        record = await kept.mail.chat_of(name)
        assert record == await kept.mail.chat(platform, chat)
        assert record is not None
        assert (record.platform, record.chat, record.session_id, record.body) == (platform, chat, name, body)
        assert list(await kept.mail.chats(platform)) == [record]

    asyncio.run(check())


def _exactly(body: dict[str, Any]) -> str:
    """Two halves of a surrogate pair must not compare equal to the whole character."""
    return json.dumps(body, sort_keys=True, ensure_ascii=False)


parts = st.text("a:;\0\udc80\u00e9", max_size=4)


@given(runs=st.sets(parts, max_size=4), keys=st.lists(parts, max_size=4))
def test_a_run_has_the_posts_that_its_id_begins(kept: Store, runs: set[str], keys: list[str]) -> None:
    async def check() -> None:
        name = f"u{next(NUMBER)}"
        await kept.sessions.create(name, platform="chat", user="")
        await kept.mail.enter(ChatRecord(name, "c", name))
        for run in runs:
            await kept.runs.commit(RunRecord(f"{name}{run}", name, "ended", 1, {}))
        for key in keys:
            await kept.mail.post(post_of(f"run:{name}{key}", platform=name))
        posted = {run for run in runs for key in keys if key == run or key.startswith(f"{run}:")}
        assert set(await kept.mail.unposted(name, 0.0)) == {f"{name}{run}" for run in runs - posted}

    asyncio.run(check())


# -- many finished rows ----------------------------------------------------------------------------------------------


async def test_what_is_over_is_not_looked_through(tmp_path: Path) -> None:
    """Each query uses an index with only the rows that it may return."""
    file = tmp_path / "store.db"
    SqliteStore(file).close()
    with closing(sqlite3.connect(file)) as connection:
        for sql, values, index in (
            (WAITING, ("p",), "mail_waiting"),
            (PENDING, ("p",), "posts_pending"),
            (UNPOSTED, {"platform": "p", "since": 0.0}, "runs_ended"),
        ):
            plan = [row[-1] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", values)]
            assert any(index in step for step in plan), plan
            assert not any(step.startswith("SCAN") or "TEMP B-TREE" in step for step in plan), plan


def test_what_is_over_is_not_looked_through_on_a_server(emptied_url: str) -> None:
    """An index may be unusable because of its collation: this query requires an index."""
    import psycopg

    with psycopg.connect(emptied_url) as connection:
        connection.execute("SET search_path = toolcrib; SET enable_seqscan = off")
        for sql, indexes in (
            (server.WAITING, ("mail_waiting",)),
            (server.PENDING, ("posts_pending",)),
            (server.UNPOSTED, ("runs_ended", "posts_of_runs", "chat_sessions")),
        ):
            found = connection.execute(f"EXPLAIN {sql}".encode(), {"platform": "p", "since": 0.0})
            plan = "\n".join(row[0] for row in found)
            assert all(index in plan for index in indexes), plan
            assert "Seq Scan" not in plan, plan


async def test_a_start_that_needs_no_mail_does_not_load_it(root: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from agent.store.sqlite import SqliteStore\n"
        "import agent.store.postgres.store\n"
        "store = SqliteStore(Path(sys.argv[1])); store.fenced\n"
        "print([name for name in sys.modules if name.endswith('_mail')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "store.db")], cwd=root, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
