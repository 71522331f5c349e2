"""The real program on real mail servers, killed while users write: nothing is lost, and nothing is shown twice."""

from __future__ import annotations

import asyncio

from tests.infra.mail import PASSWORD
from tests.plugins.email.conftest import Person, Post, decide, link_in, link_settings
from tests.plugins.killing import Program
from tests.plugins.killing import program as program


async def test_a_gateway_that_is_killed_loses_nothing(mail_servers: Post, program: Program) -> None:
    post = mail_servers
    addresses = post.accounts()
    ann = Person(post, addresses["ann"], addresses["bot"])
    mail = {"roles": {"owner": [ann.address]}, "settings": post.settings(ann.bot, **link_settings())}
    program.configure("email", mail, EMAIL_PASSWORD=PASSWORD)
    program.start()
    await program.listens()
    ann.writes(program.dooms(), subject="clean up")
    await ann.until(lambda: [one for one in ann.mail() if link_in(one)])
    marks: list[str] = []
    for kill in range(3):
        async with program.killed_amid():
            for number in range(3):
                marks.append(f"k{kill}n{number}")
                ann.writes(f"<{marks[-1]}> hello", subject=f"thread {marks[-1]}")
        if kill % 2:
            marks.append(f"k{kill}away")
            ann.writes(f"<{marks[-1]}> while it is down")
        program.start()
    await ann.until(lambda: all(any(f"[{mark}]" in text for text in ann.texts()) for mark in marks), 60.0)
    await program.listens()  # the page of the link is available now
    [question] = [one for one in ann.mail() if link_in(one)]
    assert (await decide(link_in(question), "y")).status_code == 200
    await ann.until(lambda: any("[park]" in text for text in ann.texts()))
    assert not program.kept.exists()
    await asyncio.sleep(1)
    program.close()
    post.wait_for_queue()
    for mark in marks:
        assert sum(f"[{mark}]" in text for text in ann.texts()) == 1, (mark, ann.texts())
    assert len(ann.mail()) == len(marks) + 3, ann.texts()  # the question, its outcome, and the answer
    assert PASSWORD not in program.log.split()
    assert ann.address not in program.log
