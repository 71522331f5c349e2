"""The real program on a real Synapse, killed while users write: nothing is lost, and nothing is shown twice."""

from __future__ import annotations

import asyncio

import pytest

from tests.plugins.killing import Program
from tests.plugins.killing import program as program
from tests.plugins.matrix.conftest import Person, Synapse
from tests.plugins.matrix.secrecy import SecretPerson


@pytest.mark.parametrize(("kind", "kills"), [(Person, 6), (SecretPerson, 3)], ids=["plain", "encrypted"])
async def test_a_gateway_that_is_killed_loses_nothing(synapse: Synapse, program: Program, kind: type[Person], kills: int) -> None:
    bot, token = synapse.register("bot")
    async with kind(synapse, "alice") as alice:
        settings = {"homeserver": synapse.url, "per_second": "1000", "edit_seconds": "0.05"}
        program.configure("matrix", {"roles": {"owner": [alice.id]}, "settings": settings}, MATRIX_TOKEN=token)
        program.start()
        room = await alice.room(bot)
        await alice.says(room, program.dooms())
        await alice.until(lambda: alice.messages(room) and "👎" in alice.reactions(alice.messages(room)[0]["id"]))
        question = alice.messages(room)[0]["id"]
        rooms = [await alice.room(bot) for _ in range(3)]
        marks: list[tuple[str, str]] = []
        for kill in range(kills):
            async with program.killed_amid():
                for number, where in enumerate(rooms):
                    marks.append((where, f"k{kill}n{number}"))
                    await alice.says(where, f"<{marks[-1][1]}> hello")
            if kill % 2:
                marks.append((rooms[0], f"k{kill}away"))
                await alice.says(rooms[0], f"<{marks[-1][1]}> while it is down")
            program.start()
        await alice.until(lambda: all(any(f"[{mark}]" in text for text in alice.texts(where)) for where, mark in marks))
        await alice.reacts(room, question, "👍")
        await alice.until(lambda: "[park]" in alice.texts(room)[-1])
        assert not program.kept.exists()
        await asyncio.sleep(1)
        program.close()
        for where, mark in marks:
            assert sum(f"[{mark}]" in text for text in alice.texts(where)) == 1, mark
        shown = sum(len(alice.messages(where)) for where in rooms)
        assert shown == len(marks), [alice.texts(where) for where in rooms]
        assert token not in program.log
