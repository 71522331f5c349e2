"""The real program on a real Prosody, killed while users write: nothing is lost, and nothing is shown twice."""

from __future__ import annotations

import asyncio

from tests.plugins.killing import Program
from tests.plugins.killing import program as program
from tests.plugins.xmpp.conftest import Person, Prosody


async def test_a_gateway_that_is_killed_loses_nothing(prosody: Prosody, program: Program) -> None:
    bot = prosody.register("bot")
    nick = bot.partition("@")[0]
    async with Person(prosody, "alice") as alice, Person(prosody, "carl") as carl:
        room = await alice.room(carl)
        people = {"roles": {"owner": [alice.id]}, "allowed_users": [carl.id], "allowed_chats": [room]}
        settings = prosody.settings(bot, rooms=room, edit_seconds="0.05")
        program.configure("xmpp", {**people, "settings": settings}, XMPP_PASSWORD=f"{nick}pw")
        program.start()
        await alice.until(lambda: nick in alice.client.plugin["xep_0045"].get_roster(room), 60)
        marks: list[tuple[Person, str, str]] = []
        for kill in range(5):
            async with program.killed_amid():
                for person, where, name in ((alice, bot, ""), (carl, bot, ""), (alice, room, nick)):
                    mark = f"k{kill}n{len(marks)}"
                    marks.append((person, where, mark))
                    await person.says(where, f"{name}: <{mark}> hello" if name else f"<{mark}> hello")
            marks.append((alice, bot, f"k{kill}away"))
            await alice.says(bot, f"<{marks[-1][2]}> while it is down")
            program.start()

        def shown(person: Person, where: str) -> list[str]:
            return person.texts(where, nick if where == room else "")

        await alice.until(lambda: all(any(f"[{mark}]" in one for one in shown(who, to)) for who, to, mark in marks), 60)
        await asyncio.sleep(1)
        program.close()
        for who, to, mark in marks:
            assert sum(f"[{mark}]" in text for text in shown(who, to)) == 1, (mark, shown(who, to))
        texts = [*shown(alice, bot), *shown(carl, bot), *shown(alice, room)]
        assert len(texts) == len(marks), texts
        assert "hello" not in program.log
        assert alice.id not in program.log
