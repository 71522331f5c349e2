"""Only users who were admitted may speak."""

from __future__ import annotations

from typing import Any

import pytest

from agent.config import PlatformConfig
from agent.gateway.admission import Admission, Admitted
from agent.gateway.pairing import Pairings
from agent.store.memory import MemoryStore
from toolcrib.chat import Chat

DIRECT, GROUP = Chat("d"), Chat("g", is_group=True)


def admission(store: MemoryStore | None = None, **keys: Any) -> Admission:
    store = store or MemoryStore()
    return Admission("fake", PlatformConfig(**keys), Pairings(store, "fake"), store)


@pytest.mark.parametrize(
    ("keys", "chat", "user", "roles", "expected"),
    [
        ({}, DIRECT, "ann", (), "stranger"),
        ({"allowed_users": ("*",)}, DIRECT, "", ("staff",), "stranger"),
        ({"allowed_users": ("ann",)}, DIRECT, "ann", (), Admitted("ann")),
        ({"allowed_users": ("ann",)}, DIRECT, "Ann", (), "stranger"),
        ({"allowed_users": ("*",)}, DIRECT, "eve", (), Admitted("eve")),
        ({"allowed_users": ("role:staff",)}, DIRECT, "ann", ("staff",), Admitted("ann")),
        ({"allowed_users": ("role:staff",)}, DIRECT, "role:staff", (), "stranger"),
        (
            {"roles": {"owner": ("ann",), "admins": ("role:staff",)}},
            DIRECT,
            "ann",
            ("staff",),
            Admitted("ann", ("admins", "owner")),
        ),
        ({"allowed_users": ("ann",)}, GROUP, "ann", (), "group"),
        ({"allowed_users": ("ann",), "allowed_chats": ("g",)}, GROUP, "ann", (), Admitted("ann")),
        ({"allowed_chats": ("g",)}, GROUP, "eve", (), "stranger"),
    ],
)
async def test_who_may_speak(keys: dict[str, Any], chat: Chat, user: str, roles: tuple[str, ...], expected: object) -> None:
    assert await admission(**keys).admit(chat, user, roles) == expected


async def test_who_paired_may_speak_with_the_role_that_was_given() -> None:
    store = MemoryStore()
    pairings = Pairings(store, "fake")
    await pairings.take(await pairings.offer("owner"), "ann")
    await pairings.take(await pairings.offer(), "bob")
    here = admission(store)
    assert await here.admit(DIRECT, "ann", ()) == Admitted("ann", ("owner",))
    assert await here.admit(DIRECT, "bob", ()) == Admitted("bob")


async def test_refusals_are_noted_at_growing_distances() -> None:
    store = MemoryStore()
    here = admission(store, strangers="told")
    told = [await here.refuse(DIRECT, "eve", "stranger") for _ in range(150)]
    assert (told[0], sum(told)) == (True, 1)
    entries = await store.audit.entries()
    assert [entry.detail["times"] for entry in entries] == [1, 10, 100]
    assert not await here.refuse(GROUP, "mal", "group")
