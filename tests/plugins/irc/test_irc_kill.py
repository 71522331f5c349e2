"""The real program on a real ngircd, killed while users write.

IRC has no history: the protocol loses messages while the bot is away. Stored messages are answered, and an answer that may have
been sent twice is marked.
"""

from __future__ import annotations

import asyncio

from agent.gateway.outbox import SENT_AGAIN
from tests.plugins.irc.conftest import Ngircd, Person, Services, settings_of
from tests.plugins.killing import Program
from tests.plugins.killing import program as program


async def test_a_gateway_that_is_killed_answers_what_it_had(ngircd: Ngircd, program: Program) -> None:
    async with Services(ngircd.port) as services, Person(ngircd.port, "alice") as alice:
        await services.login(alice.nick, alice.id)
        await alice.joins("#kills")
        people = {"roles": {"owner": [alice.id]}, "allowed_chats": ["#kills"]}
        program.configure("irc", {**people, "settings": settings_of(ngircd.port, "killed", "#kills")})
        marks: list[tuple[str, str]] = []
        for kill in range(5):
            seen = len(alice.lines)
            program.start()
            await alice.until(lambda seen=seen: any(":killed!" in one and "JOIN" in one for one in alice.lines[seen:]), 60)
            async with program.killed_amid(replies=2):  # so that both messages were stored
                for where, to in (("", "killed"), ("#kills", "#kills")):
                    marks.append((where, f"k{kill}n{len(marks)}"))
                    await alice.says(to, f"{'killed: ' if where else ''}<{marks[-1][1]}> hello")
        program.start()
        said = alice.heard
        await alice.until(lambda: all(any(f"[{mark}]" in one for one in said("killed", where)) for where, mark in marks), 60)
        await asyncio.sleep(1)
        program.close()
        for where, mark in marks:
            heard = alice.heard("killed", where)
            copies = [number for number, one in enumerate(heard) if f"[{mark}]" in one]
            assert all(heard[number + 1] == SENT_AGAIN for number in copies[1:]), (mark, heard)
            assert len(copies) <= 2
        assert "hello" not in program.log
        assert alice.id not in program.log
