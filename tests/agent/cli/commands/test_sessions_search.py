"""``toolcrib sessions search``."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from agent.api import assemble


@pytest.fixture
def talked() -> None:
    async def fill() -> None:
        with assemble() as crib:
            for name, text in (("aaaa", "Which port has the staging database?"), ("bbbb", "the port of the gateway\x1b[31m")):
                await crib.store.sessions.create(name * 4, platform="cli", user="", cwd=f"/{name}")
                await crib.store.sessions.append(name * 4, {"role": "user", "text": text})

    asyncio.run(fill())


@pytest.mark.usefixtures("talked")
def test_messages_are_found_by_their_words(run: Any) -> None:
    found = run("sessions", "search", "port").out.splitlines()
    assert [line.split()[0] for line in found[::2]] == ["bbbbbbbbbbbb", "aaaaaaaaaaaa"]
    assert found[3] == "  message 0, you: Which port has the staging database?"
    assert "\x1b" not in "".join(found)
    assert run("sessions", "search", "port", "staging", "--best").out.startswith("aaaaaaaaaaaa  ")
    assert run("sessions", "search", "staging database", "--newer-than", "1d").out.startswith("aaaaaaaaaaaa  ")
    done = run("sessions", "search", "database staging")
    assert (done.out, done.code) == ("nothing found\n", 1), "as grep has it"
    assert run("sessions", "search", "port", "--here").out == "nothing found\n"
    hits = json.loads(run("sessions", "search", "--json", "--limit", "1", "port").out)
    assert [(hit["session_id"], hit["marks"]) for hit in hits] == [("bbbb" * 4, [[4, 8]])]


def test_what_a_delegate_said_is_not_the_persons(run: Any) -> None:
    async def fill() -> None:
        with assemble() as crib:
            await crib.store.sessions.create("aaaa" * 4, platform="cli", user="", cwd="/a")
            await crib.store.sessions.append("aaaa" * 4, {"role": "user", "text": "It is seven.", "source": "delegate"})

    asyncio.run(fill())
    assert run("sessions", "search", "seven").out.splitlines()[1] == "  message 0, delegate: It is seven."
    assert "\n0 delegate:\n  It is seven.\n" in run("sessions", "show", "aaaa").out


def test_what_a_tool_answered_is_told_in_words(run: Any) -> None:
    """The text has no JSON quotes or escapes, and the matches are still marked."""
    answers = [
        json.dumps({"output": 'a harbour\n"QX\\7" of the harbour\tmaster', "exit_code": 0, "where": "local"}),
        json.dumps("notes.txt: lines 1-2 of 2\n1|the harbour caf\u00e9\n2|x"),
    ]

    async def fill() -> None:
        with assemble() as crib:
            await crib.store.sessions.create("aaaa" * 4, platform="cli", user="", cwd="/a")
            results = [{"call_id": str(n), "name": "t", "text": text, "is_error": False} for n, text in enumerate(answers)]
            for result in results:
                await crib.store.sessions.append("aaaa" * 4, {"role": "results", "results": [result]})

    asyncio.run(fill())
    assert run("sessions", "search", "harbour").out.splitlines()[1:] == [
        "  message 1, tool: notes.txt: lines 1-2 of 2 1|the harbour café 2|x",
        '  message 0, tool: a harbour "QX\\7" of the harbour master exit_code: 0 where: local',  # (quoted)
    ]


def test_what_cannot_be_searched_for_is_said(run: Any) -> None:
    assert "-port only excludes words; add a word to find" in run("sessions", "search", "-port").err
    for word in ("-foo", "-foo*", "-h"):
        err = run("sessions", "search", "--", word).err
        assert err.startswith(f"toolcrib: {word} only excludes words; add a word to find")
        assert "--without" not in err
    assert "'--json'" in run("sessions", "search", "--", "--json").err
    assert "give the words: toolcrib sessions search WORD" in run("sessions", "search").err
    assert "no word to search for in '?!'" in run("sessions", "search", "?!").err
    assert "give one id" in run("sessions", "show", "a", "b").err
