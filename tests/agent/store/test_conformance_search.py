"""The results of every store's search, and who may see them."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.store.memory import MemoryStore
from agent.store.search.words import MOST_CHARS, parse, searched, snippet, words_of
from toolcrib import Principal
from toolcrib.contract.search import SearchFilter, SearchRefused
from toolcrib.contract.store import Store

CALL = {"id": "c1", "name": "read_file", "args": {"path": "src/wordCount.py", "more": [{"deep": "kept"}]}}
RESULTS = {
    "role": "results",
    "results": [{"call_id": "c1", "name": "read_file", "text": "ValueError: bad width", "is_error": False}],
}


async def say(store: Store, session: str, *texts: str, platform: str = "cli", user: str = "ann", cwd: str = "/p") -> None:
    await store.sessions.create(session, platform=platform, user=user, cwd=cwd)
    await store.sessions.append_many(session, [{"role": "user", "text": text} for text in texts])


async def found(store: Store, query: str, **how: Any) -> list[tuple[str, int]]:
    return [(hit.session_id, hit.seq) for hit in await store.search.find(query, **how)]


async def test_words_are_found_wherever_they_stand(store: Store) -> None:
    await say(store, "a", "Where is the Café menu?", "nothing here")
    await say(store, "b", "the menu of the day")
    assert await found(store, "menu") == [("b", 0), ("a", 0)]
    assert await found(store, "MENU cafe") == [("a", 0)]
    assert await found(store, "menu -day") == [("a", 0)]
    assert await found(store, '"the menu"') == [("b", 0)]
    assert await found(store, "noth*") == [("a", 1)]
    assert await found(store, "nothing OR day") == [("b", 0), ("a", 1)]
    assert await found(store, "noth") == []


async def test_a_hit_says_whose_message_it_is(store: Store) -> None:
    await say(store, "a", "count to seven")
    await store.sessions.append("a", {"role": "user", "text": "It is seven.", "source": "delegate"})
    assert [hit.source for hit in await store.search.find("seven")] == ["delegate", ""]


async def test_what_was_called_and_what_came_of_it_is_found(store: Store) -> None:
    await say(store, "a", "count")
    await store.sessions.append_many("a", [{"role": "assistant", "text": "", "calls": [CALL]}, RESULTS])
    for query in ("read_file", "wordcount", "wordCount", "count.py", "src/wordCount.py", "deep OR kept", "wordCount.p*"):
        assert ("a", 1) in await found(store, query), query
    assert await found(store, "valueerror width") == [("a", 2)]
    assert await found(store, "count", where=SearchFilter(roles=("user", "results"))) == [("a", 0)]


async def test_what_a_tool_answered_is_searched_as_it_reads(store: Store) -> None:
    """In JSON, a word after a line break would start with the letter of the escape."""
    await store.sessions.create("s1", platform="cli", user="", cwd="/")
    answer = {"output": 'the \tcape\nharbour "café"\n', "exit_code": 3, "found": [{"path": "a.txt", "line": 7, "more": None}]}
    texts = [json.dumps(answer), json.dumps("north\nquay"), '{"cut": "in the mid\\ndle', "[not JSON]"]
    results = [{"call_id": str(number), "name": "t", "text": text} for number, text in enumerate(texts)]
    await store.sessions.append("s1", {"role": "results", "results": results})
    for query in ("harbour", "cape", "café", '"cape harbour"', "exit_code 3", "a.txt", "quay", "mid", '"not JSON"'):
        assert await found(store, query) == [("s1", 0)], query
    for query in ("nharbour", "tcape", "u00e9", "nquay"):
        assert await found(store, query) == [], query
    (hit,) = await store.search.find("harbour")
    assert hit.snippet.startswith('the cape harbour "café" exit_code: 3 path: a.txt')
    assert [hit.snippet[start:end] for start, end in hit.marks] == ["harbour"]


@pytest.mark.parametrize("query", ["東京", "京タ", "タワー", "東京タワー", "서울", "\uff34\uff2f\uff2b\uff39\uff2f"])
async def test_languages_without_blanks_are_found_by_any_part(store: Store, query: str) -> None:
    await say(store, "a", "昨日は東京タワーに行きました。TOKYO", "서울에서 만나요 tokyo")
    await say(store, "b", "京東 대구")
    hits = await store.search.find(query)
    assert {hit.session_id for hit in hits} == {"a"}
    assert all(hit.marks for hit in hits)


async def test_filters(store: Store) -> None:
    await say(store, "a", "one word", cwd="/home/ann/api")
    await say(store, "b", "one word", cwd="/home/ann/api/web", platform="telegram")
    await say(store, "c", "one word", cwd="/home/ann/api2", user="bob")
    for where, sessions in {
        SearchFilter(session_id="a"): "a",
        SearchFilter(session_id="nobody"): "",
        SearchFilter(platform="cli"): "ac",
        SearchFilter(principal=Principal("cli", "ann")): "a",
        SearchFilter(principal=Principal("cli", "bob"), platform="cli"): "c",
        SearchFilter(principal=Principal("cli", "bob"), session_id="a"): "",
        SearchFilter(principal=Principal("cli")): "",
        SearchFilter(cwd="/home/ann/api"): "ab",
        SearchFilter(cwd="/home/ann/api/"): "ab",
        SearchFilter(cwd="/"): "abc",
    }.items():
        assert sorted(name for name, _ in await found(store, "word", where=where)) == [*sessions], where


async def test_tags_narrow_a_search(store: Store) -> None:
    for session, tags in (("a", ["web", "urgent"]), ("b", ["web"]), ("c", []), ("d", ["we", "b\ud800"])):
        await say(store, session, "one word")
        await store.sessions.label(session, tags=tags)
    for tags, sessions in (
        (["web"], "ab"),
        (["urgent", "web"], "a"),
        (["we"], "d"),
        (["b\ud800"], "d"),
        (["eb"], ""),
        ([], "abcd"),
    ):
        assert sorted(name for name, _ in await found(store, "word", where=SearchFilter(tags=tags))) == [*sessions], tags


async def test_the_local_person_is_one_wherever_from(store: Store) -> None:
    for platform, user in (("cli", ""), ("api", ""), ("telegram", ""), ("cli", "ann")):
        await say(store, f"{platform}-{user}", "one word", platform=platform, user=user)
    for person, sessions in ((Principal("cli"), {"cli-", "api-"}), (Principal("telegram"), {"telegram-"})):
        assert {name for name, _ in await found(store, "word", where=SearchFilter(principal=person))} == sessions


async def test_times(store: Store) -> None:
    await say(store, "a", "one word")
    (hit,) = await store.search.find("word")
    assert hit.at > 0
    assert await found(store, "word", where=SearchFilter(since=hit.at, until=hit.at + 1)) == [("a", 0)]
    assert await found(store, "word", where=SearchFilter(since=hit.at + 1)) == []
    assert await found(store, "word", where=SearchFilter(until=hit.at)) == []


async def test_pages_and_order(store: Store) -> None:
    await say(store, "a", *(f"common {number}" for number in range(30)), "common common common")
    assert [seq for _, seq in await found(store, "common", limit=5)] == [30, 29, 28, 27, 26]
    assert [seq for _, seq in await found(store, "common", limit=5, offset=28)] == [2, 1, 0]
    assert [seq for _, seq in await found(store, "common", order="best", limit=1)] == [30]
    assert len(await found(store, "common", order="best", limit=100)) == 31
    assert await found(store, "common", offset=31) == []


async def test_what_comes_later_is_found_too(store: Store) -> None:
    await say(store, "a", "one")
    assert await found(store, "two") == []
    await store.sessions.append("a", {"role": "assistant", "text": "two", "calls": []})
    assert await found(store, "two") == [("a", 1)]


@pytest.mark.parametrize("query", ["", "  ", "-not", "***", '"', "OR", "?!", " ".join("abcdefghijklmnopqrstuvwxyzabcdefghijkl")])
async def test_a_query_that_finds_nothing_says_why(store: Store, query: str) -> None:
    with pytest.raises(SearchRefused, match=r"no word to search for|at most 32 words"):
        await store.search.find(query)


@pytest.mark.parametrize(
    "query", ["a'b", "x:y AND z", "(one", "NEAR(a b)", "said : x", "^a", "'); DROP TABLE", "a & !b", "x\\'", "a\x00b"]
)
async def test_no_query_is_taken_for_the_databases_language(store: Store, query: str) -> None:
    await say(store, "a", f"before {query} behind")
    assert await found(store, query) == [("a", 0)]


async def test_a_principal_never_sees_anothers(store: Store) -> None:
    """100 random pairs of users, each with their own words and common ones."""
    chance = random.Random(7)  # noqa: S311 - no secret
    people = [(chance.choice(["cli", "telegram", "matrix"]), f"user{number % 40}") for number in range(60)]
    for number, (platform, user) in enumerate(people):
        await say(store, f"s{number}", f"common word of {user}", f"secret{number}", platform=platform, user=user)
    for _ in range(100):
        (platform, user), number = chance.choice(people), chance.randrange(60)
        where = SearchFilter(principal=Principal(platform, user))
        theirs = {f"s{index}" for index, who in enumerate(people) if who == (platform, user)}
        assert {name for name, _ in await found(store, "common", where=where, limit=100)} == theirs
        assert await found(store, f"secret{number}", where=where) == ([(f"s{number}", 1)] if f"s{number}" in theirs else [])


TEXT = st.text(st.sampled_from("abAB é_.東京 ßИ\u0301\ud800-"), max_size=30)


@given(st.lists(TEXT, min_size=1, max_size=4), TEXT)
def test_every_word_of_a_text_finds_it(texts: Sequence[str], query: str) -> None:
    asyncio.run(finds_its_words(texts, query))


async def finds_its_words(texts: Sequence[str], query: str) -> None:
    store = MemoryStore()
    await say(store, "a", *texts)
    for seq, text in enumerate(texts):
        for word in words_of(text):
            assert ("a", seq) in await found(store, word)
    try:
        parse(query)
    except SearchRefused:
        return
    for hit in await store.search.find(query):
        assert all(0 <= start < end <= len(hit.snippet) for start, end in hit.marks)


def test_a_snippet_shows_what_was_found() -> None:
    text = "word " * 100 + "the needle\nin it, " + "word " * 100
    shown = snippet(text, parse("needle -x"))
    assert [shown.text[start:end] for start, end in shown.marks] == ["needle"]
    assert "\n" not in shown.text
    assert shown.text.startswith("… ")
    assert shown.text.endswith(" …")
    assert snippet("a Café, cafeteria", parse("cafe")).marks == ((2, 6),)
    assert snippet("caFeBar x", parse("bar")).marks == ((4, 7),)


@pytest.mark.parametrize(
    "query",
    [
        "staging database listens",
        '"staging database" port',
        "staging data* OR nothing listens",
        "Listens Staging",
        "\u8caf staging",
    ],
)
def test_a_snippet_shows_where_most_words_stand_together(query: str) -> None:
    scattered = "staging came first; " + "the database was a word, " * 40 + "and it listens here, port or not. " + "x " * 200
    text = f"{scattered}The staging database listens on port 54329, \u8caf. {scattered}"
    shown = snippet(text, parse(query)).text
    assert "The staging database listens on port 54329" in shown
    assert len(shown) < 250


def test_a_snippet_of_words_that_stand_far_apart_has_some() -> None:
    text = "alpha " + "x " * 500 + "beta " + "x " * 500 + "gamma delta"
    assert "gamma delta" in snippet(text, parse("alpha beta gamma delta")).text
    assert snippet(text, parse("beta alpha")).text.startswith("alpha x")
    assert snippet("a " * 100_000, parse("a b c")).text.startswith("a a a")


def test_of_a_long_text_both_ends_are_searched() -> None:
    text = searched({"role": "user", "text": "begin " + "x " * MOST_CHARS + "end"})
    assert len(text) == MOST_CHARS + 1
    assert (text[:5], text[-3:]) == ("begin", "end")
