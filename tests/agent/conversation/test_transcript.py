"""The transcript of a session, read backwards."""

from __future__ import annotations

from typing import Any

import pytest

from agent.conversation.transcript import Transcript
from agent.store.memory import MemoryStore

HERE, INSTEAD = {"server": "here"}, {"server": "instead", "fallback": True}
USER = {"role": "user", "text": "go"}


def reply(**more: Any) -> dict[str, Any]:
    return {"role": "assistant", "text": "done", **more}


@pytest.mark.parametrize(
    ("records", "via"),
    [
        ([], {}),
        ([USER, reply(via=HERE)], HERE),
        ([USER, reply(via=HERE), USER], HERE),
        ([USER, reply(via=HERE), USER, reply(via=INSTEAD)], HERE),
        ([USER, reply(via=HERE), USER, reply()], {}),
    ],
)
async def test_a_model_that_stood_in_was_not_talked_to(records: list[dict[str, Any]], via: dict[str, Any]) -> None:
    store = MemoryStore()
    await store.sessions.create("s", platform="cli", user="")
    await store.sessions.append_many("s", records)
    assert await Transcript(store, "s").talked_to() == via


async def test_all_records_are_read_page_by_page() -> None:
    store = MemoryStore()
    await store.sessions.create("s", platform="cli", user="")
    texts = [str(number) for number in range(450)]
    await store.sessions.append_many("s", [{"role": "user", "text": text} for text in texts])
    transcript = Transcript(store, "s")
    assert [record["text"] async for record in transcript.backwards()] == texts[::-1]
    assert (await transcript.last())["text"] == "449"
    assert [await transcript.text_at(place) for place in (0, 449, 450)] == ["0", "449", ""]
    assert [record async for record in Transcript(store, "nosuch").backwards()] == []
