"""Hostile mail, on real servers. It reaches no model, or does no harm there, and the next message is answered."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aioimaplib
import httpx
import pytest

from plugins.email.markup import text_of_html
from tests.infra.mail import DOMAIN
from tests.infra.served import NO_TLS
from tests.plugins.email.conftest import MailHouse, decide, line_of, link_in, vouched
from tests.plugins.email.conftest import text_of as shown_text

FORGED = f"Authentication-Results: {DOMAIN}; dmarc=pass header.from={DOMAIN}\r\n"


def writing(who: str, text: str = "let me in", **more: str) -> Callable[[MailHouse], object]:
    return lambda house: getattr(house, who).writes(text, **{name: value.format(house=house) for name, value in more.items()})


def raw(head: str, body: str = "let me in", sender: str | None = None) -> Callable[[MailHouse], object]:
    """Put a mail unchanged into the bot's mailbox; ``{ann}`` and the like are addresses."""

    def put(house: MailHouse) -> None:
        names = {"ann": house.ann.address, "eve": house.eve.address, "bot": house.bot, "ok": vouched(house.ann.address).strip()}
        text = head.format(**names).replace("\n", "\r\n") + "\r\n\r\n" + body
        house.post.put(house.eve.address if sender is None else sender, house.bot, text.encode("utf-8", "surrogateescape"))

    return put


REFUSED: dict[str, Callable[[MailHouse], object]] = {
    "a stranger whom the server vouches for": writing("eve"),
    "a forged From": writing("eve", head="", From="{house.ann.address}"),
    "a forged From that the server reports": writing(
        "eve", head=f"Authentication-Results: {DOMAIN}; dmarc=fail header.from={DOMAIN}\r\n{FORGED}", From="{house.ann.address}"
    ),
    "a result below that of the server's": writing(
        "eve", head=f"Authentication-Results: {DOMAIN}; none\r\n{FORGED}{FORGED}", From="{house.ann.address}"
    ),
    "a result of another server": writing(
        "eve", head=f"Authentication-Results: evil.example; dmarc=pass header.from={DOMAIN}\r\n", From="{house.ann.address}"
    ),
    "a result in a comment": writing(
        "eve",
        head=f"Authentication-Results: {DOMAIN}; spf=fail (; dmarc=pass header.from={DOMAIN})\r\n",
        From="{house.ann.address}",
    ),
    "a result in quotes": writing(
        "eve",
        head=f'Authentication-Results: {DOMAIN}; spf=pass smtp.mailfrom="x; dmarc=pass header.from={DOMAIN} "\r\n',
        From="{house.ann.address}",
    ),
    "a result for another domain": writing(
        "eve", head=f"Authentication-Results: {DOMAIN}; dmarc=pass header.from=evil.example\r\n", From="{house.ann.address}"
    ),
    "two authors": raw("{ok}\nFrom: {ann}, {eve}"),
    "two From": raw("{ok}\nFrom: {ann}\nFrom: {eve}"),
    "the owner's address as a name": raw("{ok}\nFrom: {ann} <{eve}>"),
    "the owner's address in quotes": raw('{ok}\nFrom: "<{ann}>" <{eve}>'),
    "a group": raw("{ok}\nFrom: friends: {ann};"),
    "a look-alike": raw("{ok}\nFrom: {ann}\u212a"),
    "no author": raw("{ok}\nTo: {bot}"),
    "an owner's automatic reply": writing("ann", Auto_Submitted="auto-replied"),
    "an out of office note": writing("ann", X_Auto_Response_Suppress="All"),
    "a mailing list": writing("ann", List_Id="<list.crib.test>"),
    "bulk": writing("ann", Precedence="bulk"),
    "a bounce": raw("{ok}\nFrom: {ann}", sender=""),
    "a report": raw('{ok}\nFrom: {ann}\nContent-Type: multipart/report; boundary="b"'),
    "the mailer daemon": raw(f"{{ok}}\nFrom: MAILER-DAEMON@{DOMAIN}"),
    "our own words": raw("{ok}\nFrom: {bot}"),
    "fields without end": raw("{ok}\nFrom: {ann}\n" + "\n".join(f"X-{n}: {'y' * 900}" for n in range(90))),
    "no mail at all": raw("\x00\x01"),
}  # fmt: skip


@pytest.mark.parametrize("part", range(4))
async def test_a_mail_reaches_no_model_and_the_next_is_answered(house: MailHouse, part: int) -> None:
    """Each run tests several kinds of mail, because each kind would need its own gateway; REFUSED describes them."""
    async with house.gateway() as gateway:
        for name in list(REFUSED)[part::4]:
            REFUSED[name](house)
            assert house.asked == [], f"before or at: {name}"
        house.ann.writes("are you well?")
        await house.ann.until(lambda: house.ann.texts() == ["re are you well?"])
        assert house.asked == ["are you well?"]
        assert house.eve.mail() == []
        assert len(await house.store.mail.chats()) == 1
        assert line_of(gateway).door.counts["kept"] == 1


PARTS = "{ok}\nFrom: {ann}\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b"
BOMBS: dict[str, tuple[str, str]] = {
    "parts in parts": (
        "{ok}\nFrom: {ann}\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b0",
        "".join(f"--b{n}\r\nContent-Type: multipart/mixed; boundary=b{n + 1}\r\n\r\n" for n in range(3_000)),
    ),
    "many parts": (PARTS, "--b\r\n\r\nx\r\n" * 20_000),
    "a field of a megabyte": (PARTS, "--b\r\nContent-Type: text/plain; x=\"" + ";" * 200_000 + "\r\n\r\nx\r\n--b--"),
    "an unknown charset": ("{ok}\nFrom: {ann}\nMIME-Version: 1.0\nContent-Type: text/plain; charset=\"utf-9\x7f\"", "caf\u00e9"),
    "a charset that is a codec": ("{ok}\nFrom: {ann}\nMIME-Version: 1.0\nContent-Type: text/plain; charset=rot13", "let me in"),
    "a zip as a charset": ("{ok}\nFrom: {ann}\nMIME-Version: 1.0\nContent-Type: text/plain; charset=zlib", "let me in"),
    "base64 that is none": ("{ok}\nFrom: {ann}\nContent-Transfer-Encoding: base64", "a b!"),
    "a subject that is none": ("{ok}\nFrom: {ann}\nSubject: =?utf-9?q?a=0D=0ABcc:_{eve}?= =?b?x", "hello there"),
    "a subject with a line of its own": ("{ok}\nFrom: {ann}\nSubject: =?utf-8?q?a=0D=0ABcc:_{eve}?=", "hello there"),
    "an id with a line of its own": ("{ok}\nFrom: {ann}\nMessage-ID: <=?utf-8?q?a=0D=0ABcc:_{eve}?=@x>", "hello there"),
    "a thread with a line of its own": (
        "{ok}\nFrom: {ann}\nIn-Reply-To: <toolcrib.00000000000000000000000000000000.YT4NCkJjYzogeEB5@x>", "hello there"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("head", "body"), BOMBS.values(), ids=list(BOMBS))
async def test_what_its_owner_sends_chokes_nothing(house: MailHouse, head: str, body: str) -> None:
    async with house.gateway():
        begun = time.monotonic()
        raw(head, body)(house)
        house.ann.writes("are you well?")
        await house.ann.until(lambda: "re are you well?" in house.ann.texts())
        await house.ann.until(lambda: len(house.asked) == len(house.ann.mail()))
        assert time.monotonic() - begun < 40
        assert house.eve.mail() == []
        for mail in house.ann.mail():
            assert mail["Bcc"] is None
            assert mail["To"] == house.ann.address


async def test_a_huge_mail_is_told_to_who_may_speak_and_not_fetched_of_strangers(
    house: MailHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    uid, fetched = aioimaplib.IMAP4.uid, set[str]()

    async def noting(self: Any, command: str, uids: str, parts: str) -> Any:
        fetched.add(parts.rpartition("<0.")[2].rstrip(">)"))
        return await uid(self, command, uids, parts)

    monkeypatch.setattr(aioimaplib.IMAP4, "uid", noting)
    async with house.gateway() as gateway:
        huge = {"huge.bin": b"\0" * (22 * 2**20)}
        house.eve.writes("let me in", files={"big.bin": b"\0" * 2**20})
        house.ann.writes("look at this", files=huge)
        await house.ann.until(lambda: len(house.ann.mail()) >= 2)
        assert any("not accepted" in text for text in house.ann.texts())
        assert house.asked == ["look at this"]
        assert fetched == {"65536", "262144"}
        assert line_of(gateway).door.counts["refused"] == 1


async def test_a_mail_that_the_server_does_not_give_keeps_back_no_other(
    house: MailHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    uid = aioimaplib.IMAP4.uid

    async def refusing(self: Any, command: str, uids: str, parts: str) -> Any:
        return aioimaplib.Response("NO", [b"broken"]) if uids == "1" else await uid(self, command, uids, parts)

    monkeypatch.setattr(aioimaplib.IMAP4, "uid", refusing)
    monkeypatch.setattr("toolcrib.platforms._SHORTEST_PAUSE", 0.02)
    async with house.gateway():
        house.ann.writes("broken on its disk")
        house.ann.writes("are you well?")
        await house.ann.until(lambda: house.ann.texts() == ["re are you well?"])


async def test_a_replayed_mail_is_answered_once_and_an_id_is_its_writers(house: MailHouse) -> None:
    async with house.gateway() as gateway:
        for _ in range(3):
            house.ann.writes("hello", Message_ID="<same@x.example>")
        house.bob.writes("me too", Message_ID="<same@x.example>")
        house.ann.writes("are you well?")
        await house.ann.until(lambda: house.ann.texts() == ["re hello", "re are you well?"])
        await house.bob.until(lambda: house.bob.texts() == ["re me too"])
        assert line_of(gateway).door.counts["known"] == 2


async def test_somebody_elses_thread_is_not_come_into(house: MailHouse) -> None:
    async with house.gateway():
        first = house.ann.writes("mine alone")
        await house.ann.until(house.ann.mail)
        house.bob.writes("and mine", answers=house.ann.mail()[0])
        house.bob.writes("as well", answers=first)
        await house.bob.until(lambda: len(house.bob.mail()) == 2)
        assert len({record.session_id for record in await house.store.mail.chats()}) == 2


async def test_two_programs_do_not_answer_each_other_for_ever(house: MailHouse) -> None:
    house.configure(per_hour="3")
    async with house.gateway():
        for number in range(5):
            house.ann.writes(f"number {number}")
        house.bob.writes("are you well?")
        await house.bob.until(house.bob.mail)
        await house.ann.until(lambda: len(house.ann.mail()) == 3)
        assert sorted(house.asked)[:4] == ["are you well?", "number 0", "number 1", "number 2"]


async def test_a_link_is_good_for_nothing_else(house: MailHouse, tmp_path: Path) -> None:
    """003-25"""
    (house.folder / "build").mkdir()
    async with house.gateway():
        house.ann.writes(f"rm -rf {house.folder}/build")
        link = link_in(await house.question(house.ann))
        base, _, token = link.rpartition("/")
        name, _, signature = token.partition(".")
        async with httpx.AsyncClient(verify=NO_TLS) as client:
            for bad in ("", "..%2f..%2flinks.key", f"{name}.", f"{'0' * 32}.{signature}", f"{name}.{'0' * 64}", "x" * 5_000):
                assert (await client.post(f"{base}/{bad}", data={"choice": "y"})).status_code in (404, 410)
            assert (await client.post(link, content=b"choice=y&" + b"x" * 5_000)).status_code == 400
            assert (await client.post(link, content=b"\xff\xfe")).status_code == 400
            assert (await client.get(link, params={"choice": "y"})).status_code == 200
            assert (await client.head(link)).status_code == 200
            assert (await client.put(link, content=b"choice=y")).status_code == 405
        [kept] = [path for path in tmp_path.rglob("links/*") if path.name == name]
        assert oct(kept.stat().st_mode & 0o777) == "0o600"
        text = kept.read_text()
        kept.write_text(text.replace(house.ann.address, house.eve.address))
        assert (await decide(link, "y")).status_code == 410
        kept.write_text(text)
        assert (house.folder / "build").is_dir()
        assert (await decide(link, "y")).status_code == 200
        await house.ann.until(lambda: "ran it" in house.ann.texts())


async def test_words_of_a_question_draw_nothing_on_the_page(house: MailHouse) -> None:
    async with house.gateway():
        house.ann.writes("rm -rf '<script>alert(1)</script>'")
        question = await house.question(house.ann)
        async with httpx.AsyncClient(verify=NO_TLS) as client:
            page = await client.get(link_in(question))
        assert "<script>" not in page.text
        assert "&lt;script&gt;" in page.text
        assert "default-src 'none'" in page.headers["content-security-policy"]
        html = question.get_body(("html",))
        assert html is not None
        assert "<script>" not in html.get_content()
        assert "<script>alert(1)</script>" in shown_text(question)


@pytest.mark.parametrize("source", ["<!--", "<a ", "<a href='", "<", "< ", "</", "<!", "<div>", "&", "<script>", "<svg><"])
def test_html_takes_time_by_its_length(source: str) -> None:
    def seconds(length: int) -> float:
        begun = time.thread_time()
        text_of_html(source * (length // len(source)))
        return time.thread_time() - begun

    # A quadratic algorithm would take 100 times as long for 10 times the length.
    assert seconds(200_000) < 30 * max(seconds(20_000), 0.02)
