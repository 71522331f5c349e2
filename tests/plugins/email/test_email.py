"""E-mail on real servers, through the whole gateway, as users see it."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from pathlib import Path
from typing import Any

import aiosmtplib
import pytest

from agent.gateway.forms import body_of
from tests.infra.mail import PASSWORD
from tests.plugins.email.conftest import MailHouse, decide, line_of, link_in, open_link, text_of
from toolcrib.chat import Chat, OutFile


async def test_a_mail_is_answered_in_its_thread_within_seconds(house: MailHouse) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        first = house.ann.writes("How are you?", subject="Greetings")
        begun = time.monotonic()
        await house.ann.until(house.ann.mail)
        assert time.monotonic() - begun < 25.0
        [answer] = house.ann.mail()
        assert text_of(answer) == "re Greetings\n\nHow are you?"
        assert (answer["Subject"], answer["In-Reply-To"], answer["References"]) == ("Re: Greetings", f"<{first}>", f"<{first}>")
        assert (answer["Auto-Submitted"], answer["X-Auto-Response-Suppress"]) == ("auto-replied", "All")
        html = answer.get_body(("html",))
        assert html is not None
        assert "How are you?" in html.get_content()

        quoted = "\n".join(f"> {line}" for line in text_of(answer).split("\n"))
        quoting = f"And now?\n\nOn Tue, bot wrote:\n{quoted}\n\n-- \nAnn\nof Example\n"
        second = house.ann.writes(quoting, answers=answer)
        await house.ann.until(lambda: len(house.ann.mail()) == 2)
        assert house.asked == ["Greetings\n\nHow are you?", "And now?"]
        assert house.ann.mail()[1]["References"] == f"<{first}> <{second}>"
        assert len(await house.store.mail.chats()) == 1

        house.ann.writes("Another matter", subject="Else")
        await house.ann.until(lambda: len(house.ann.mail()) == 3)
        assert len(await house.store.mail.chats()) == 2


async def test_a_reply_without_references_is_in_its_thread(house: MailHouse) -> None:
    async with house.gateway():
        house.ann.writes("one two", subject="S")
        await house.ann.until(house.ann.mail)
        house.ann.writes("three", In_Reply_To=house.ann.mail()[0]["Message-ID"], subject="something else")
        await house.ann.until(lambda: len(house.ann.mail()) == 2)
        assert len(await house.store.mail.chats()) == 1


async def test_files_come_and_go(house: MailHouse, tmp_path: Path) -> None:
    async with house.gateway() as gateway:
        data = bytes(range(256)) * 2_000
        house.ann.writes("read this please", files={"../notes.bin": data, "b(.txt": b"two"})
        await house.ann.until(house.ann.mail)
        [said] = house.asked
        assert "notes.bin came with this message" in said
        kept = [path for path in house.folder.parent.rglob("*") if path.parent.name == "received"]
        assert sorted(path.read_bytes() for path in kept) == sorted([data, b"two"])

        (tmp_path / "report").write_bytes(b"a,b\n" * 1_000)
        chat = Chat(house.ann.address, "root@x.example", title="Reports")
        files = [OutFile(tmp_path / "report", "report ü.csv", "text/csv")]
        await line_of(gateway).outbox.put(chat.key, "report", body_of(chat, "The *report*:", files=files))
        await house.ann.until(lambda: len(house.ann.mail()) == 2)
        mail = house.ann.mail()[1]
        [file] = mail.iter_attachments()
        assert (file.get_filename(), file.get_payload(decode=True)) == ("report ü.csv", b"a,b\n" * 1_000)
        assert text_of(mail) == "The *report*:"
        html = mail.get_body(("html",))
        assert html is not None
        assert "The <i>report</i>:" in html.get_content()


async def test_a_link_approves_once_and_a_message_never(house: MailHouse) -> None:
    """003-25"""
    (house.folder / "build").mkdir()
    async with house.gateway():
        house.ann.writes(f"rm -rf {house.folder}/build")
        question = await house.question(house.ann)
        assert f"rm -rf {house.folder}/build" in text_of(question)
        for word in ("yes", "1", "/approve"):
            before = len(house.ann.mail())
            house.ann.writes(word, answers=question)
            await house.ann.until(lambda before=before: len(house.ann.mail()) > before)
            assert "cannot approve this" in house.ann.texts()[-1]
            assert "Use the question's link" in house.ann.texts()[-1]
        link = link_in(question)
        for _ in range(3):  # some mail programs open links in advance
            shown = await open_link(link)
            assert (shown.status_code, shown.headers["cache-control"]) == (200, "no-store")
            assert "rm -rf" in shown.text
        assert (house.folder / "build").is_dir()
        assert (await decide(link, "always")).status_code == 400
        assert (await decide(f"{link[:-1]}{'1' if link[-1] != '1' else '2'}", "y")).status_code == 410
        assert (house.folder / "build").is_dir()
        first, second = await asyncio.gather(decide(link, "y"), decide(link, "n"))
        assert sorted([first.status_code, second.status_code]) == [200, 410]
        assert "Recorded" in (first if first.status_code == 200 else second).text
        await house.ann.until(lambda: any("approved by" in text or "denied by" in text for text in house.ann.texts()))
        assert (await decide(link, "y")).status_code == 410


async def test_a_link_approves(house: MailHouse) -> None:
    """003-25"""
    (house.folder / "build").mkdir()
    async with house.gateway():
        house.ann.writes(f"rm -rf {house.folder}/build")
        assert "Recorded" in (await decide(link_in(await house.question(house.ann)), "y")).text
        await house.ann.until(lambda: "ran it" in house.ann.texts())
        assert not (house.folder / "build").exists()
        [settled] = [text for text in house.ann.texts() if "approved by" in text]
        assert house.ann.address in settled


@pytest.mark.parametrize("by", ["link", "message"])
async def test_a_call_is_refused_by_link_and_by_message(house: MailHouse, by: str) -> None:
    """003-25"""
    (house.folder / "build").mkdir()
    async with house.gateway():
        house.ann.writes(f"rm -rf {house.folder}/build")
        question = await house.question(house.ann)
        if by == "link":
            await decide(link_in(question), "n")
        else:
            house.ann.writes("no", answers=question)
        await house.ann.until(lambda: any("denied by" in text for text in house.ann.texts()))
        assert (house.folder / "build").is_dir()


async def test_the_link_of_somebody_who_may_not_decide_approves_nothing(house: MailHouse) -> None:
    """003-25: bob asks; ann, who may decide, is asked in a thread of her own. Each link works only for its addressee."""
    (house.folder / "build").mkdir()
    async with house.gateway():
        house.ann.writes("hello there")
        await house.ann.until(house.ann.mail)
        house.bob.writes(f"rm -rf {house.folder}/build")
        bobs, anns = await house.question(house.bob), await house.question(house.ann)
        assert house.bob.address in text_of(anns)
        assert "may not decide" in (await decide(link_in(bobs), "y")).text
        assert (house.folder / "build").is_dir()
        assert "Recorded" in (await decide(link_in(anns), "y")).text
        await house.bob.until(lambda: "ran it" in house.bob.texts())


async def test_without_a_page_the_question_says_how_it_is_answered(house: MailHouse) -> None:
    house.configure(link_url="")
    (house.folder / "build").mkdir()
    async with house.gateway() as gateway:
        line_of(gateway)
        house.ann.writes(f"rm -rf {house.folder}/build")
        await house.ann.until(house.ann.mail)
        assert "toolcrib approvals" in house.ann.texts()[0]
        assert "http" not in house.ann.texts()[0]


async def test_a_question_outlives_a_restart(house: MailHouse) -> None:
    """003-25"""
    (house.folder / "build").mkdir()
    async with house.gateway():
        house.ann.writes(f"rm -rf {house.folder}/build")
        question = await house.question(house.ann)
    house.ann.writes("while it is away")
    async with house.gateway():
        assert (await decide(link_in(question), "y")).status_code == 200
        await house.ann.until(lambda: "ran it" in house.ann.texts())
        await house.ann.until(lambda: "re while it is away" in house.ann.texts())
        assert len([one for one in house.ann.mail() if link_in(one)]) == 1


async def test_it_goes_on_when_the_servers_are_back(house: MailHouse) -> None:
    async with house.gateway():
        house.ann.writes("wait for it")
        await house.ann.until(lambda: house.asked)
        house.post.control("kill")
        house.may.set()
        await asyncio.sleep(0.5)
        house.post.control("start")
        house.ann.writes("are you there?")
        await house.ann.until(lambda: sorted(house.ann.texts()) == ["re are you there?", "re wait for it"])
        await asyncio.sleep(0.5)
        assert len(house.ann.mail()) == 2
        assert sorted(house.asked) == ["are you there?", "wait for it"]


async def test_a_mail_whose_fate_is_unknown_goes_once(house: MailHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server accepted the mail, and the connection ended before its acknowledgement."""
    data, lost = aiosmtplib.SMTP.data, [True]

    async def losing(self: aiosmtplib.SMTP, *given: Any, **more: Any) -> Any:
        answer = await data(self, *given, **more)
        if lost:
            lost.clear()
            raise aiosmtplib.SMTPServerDisconnected("gone")
        return answer

    monkeypatch.setattr(aiosmtplib.SMTP, "data", losing)
    async with house.gateway() as gateway:
        house.ann.writes("hello there")
        await house.ann.until(lambda: not lost)
        await house.ann.until(lambda: line_of(gateway).outbox.waiting == 0)
        house.post.wait_for_queue()
        assert house.ann.texts() == ["re hello there"]


async def test_new_uids_double_and_lose_nothing(house: MailHouse) -> None:
    async with house.gateway():
        house.ann.writes("one one")
        await house.ann.until(house.ann.mail)
    house.ann.writes("two two")
    folder = house.post.folder / "mail" / house.bot.partition("@")[0]
    for path in folder.glob("dovecot*"):  # the server forgets the UIDs that it assigned
        path.unlink()
    await asyncio.sleep(1.1)  # UIDVALIDITY is a time in seconds
    async with house.gateway() as gateway:
        await house.ann.until(lambda: len(house.ann.mail()) == 2)
        await asyncio.sleep(0.3)
        assert house.ann.texts() == ["re one one", "re two two"]
        assert line_of(gateway).door.counts["known"] >= 1


async def test_the_log_has_no_words_no_people_and_no_secret(house: MailHouse, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with house.gateway():
        house.ann.writes("a word only we read", subject="unheard-of")
        house.eve.writes("let me in")
        await house.ann.until(house.ann.mail)
        house.post.control("kill")
        await asyncio.sleep(0.3)
        house.post.control("start")
        house.ann.writes("again words")
        await house.ann.until(lambda: len(house.ann.mail()) == 2)
    ours = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith(("plugins", "aio", "toolcrib")))
    assert "receiving failed, retrying" in ours
    for word in ("only we read", "unheard-of", "again words", house.ann.address, house.eve.address, f'"{PASSWORD}"'):
        assert word not in ours
    assert not re.search(rf"\b{PASSWORD}\b", ours)
