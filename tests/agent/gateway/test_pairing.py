"""Pairing codes admit the user who sends one: once, before it expires, and not by guessing."""

from __future__ import annotations

import time

import pytest

from agent.gateway import pairing
from agent.gateway.pairing import Pairings
from agent.store.memory import MemoryStore


async def test_a_code_counts_once() -> None:
    pairings = Pairings(MemoryStore(), "fake")
    code = await pairings.offer("owner")
    paired = await pairings.take(f" {code[:4]}-{code[4:].lower()} ", "ann")
    assert paired is not None
    assert (paired.user, paired.role) == ("ann", "owner")
    assert await pairings.take(code, "bob") is None
    assert [one.user for one in await pairings.people()] == ["ann"]
    assert (await pairings.role_of("ann"), await pairings.role_of("bob")) == ("owner", None)
    assert [await pairings.remove("ann"), await pairings.remove("ann")] == [True, False]
    assert await pairings.role_of("ann") is None


async def test_wrong_codes_use_it_up() -> None:
    pairings = Pairings(MemoryStore(), "fake")
    code = await pairings.offer()
    wrong = "".join("A" if letter != "A" else "B" for letter in code)
    for user in ("eve", "mal", "eve", "mal"):
        assert await pairings.take(wrong, user) is None
    assert await pairings.take("hello there", "ann") is None
    assert await pairings.is_open()
    assert await pairings.take(wrong, "eve") is None
    assert not await pairings.is_open()
    assert await pairings.take(code, "ann") is None


async def test_a_code_has_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    pairings = Pairings(MemoryStore(), "fake")
    monkeypatch.setattr(pairing, "SECONDS", -1.0)
    assert await pairings.take(await pairings.offer(), "ann") is None


async def test_platforms_have_their_own_codes_and_no_code_is_kept() -> None:
    store = MemoryStore()
    code = await Pairings(store, "one").offer()
    assert await Pairings(store, "two").take(code, "ann") is None
    assert code not in str(await store.state.of("profile", "gateway:one"))


async def test_who_was_let_in_and_no_longer_is_in_the_audit() -> None:
    store = MemoryStore()
    pairings = Pairings(store, "p")
    await pairings.take(await pairings.offer("owner"), "ann")
    await pairings.remove("ann")
    code = await pairings.offer()
    assert await pairings.void(code)
    assert not await pairings.void(code)
    entries = await store.audit.entries()
    assert [entry.decision for entry in entries] == ["paired", "unpaired", "code void: said in a group"]
    assert entries[0].detail == {"platform": "p", "user": "ann", "role": "owner"}
    assert code not in str(entries)


async def test_a_clock_that_is_set_back_makes_no_old_code_count_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    pairings, now = Pairings(MemoryStore(), "fake"), time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    code = await pairings.offer("owner")
    monkeypatch.setattr(time, "time", lambda: now - 86_400.0)
    assert await pairings.take(code, "ann") is None
