"""``toolcrib sessions search``."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from agent.run import assemble


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
    assert found[3] == "     0 you: Which port has the staging database?"
    assert "\x1b" not in "".join(found)
    assert run("sessions", "search", "port", "staging", "--best").out.startswith("aaaaaaaaaaaa  ")
    assert run("sessions", "search", "staging database", "--newer-than", "1d").out.startswith("aaaaaaaaaaaa  ")
    assert run("sessions", "search", "database staging").out == "nothing found\n"
    assert run("sessions", "search", "port", "--here").out == "nothing found\n"
    hits = json.loads(run("sessions", "search", "--json", "--limit", "1", "port").out)
    assert [(hit["session_id"], hit["marks"]) for hit in hits] == [("bbbb" * 4, [[4, 8]])]


def test_what_a_delegate_said_is_not_the_persons(run: Any) -> None:
    async def fill() -> None:
        with assemble() as crib:
            await crib.store.sessions.create("aaaa" * 4, platform="cli", user="", cwd="/a")
            await crib.store.sessions.append("aaaa" * 4, {"role": "user", "text": "It is seven.", "source": "delegate"})

    asyncio.run(fill())
    assert run("sessions", "search", "seven").out.splitlines()[1] == "     0 delegate: It is seven."
    assert "\n0 delegate:\n  It is seven.\n" in run("sessions", "show", "aaaa").out


def test_what_cannot_be_searched_for_is_said(run: Any) -> None:
    assert "say what for: toolcrib sessions search WORD" in run("sessions", "search").err
    assert "there is no word to search for in '?!'" in run("sessions", "search", "?!").err
    assert "one id is enough" in run("sessions", "show", "a", "b").err
