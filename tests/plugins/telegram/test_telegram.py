"""Telegram's platform: its input and output, with the real library and a fake of Telegram."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.telegram.platform import TelegramPlatform
from plugins.telegram.writing import html_of, html_of_plain, units
from tests.plugins.telegram.fake import ME, TOKEN, FakeTelegram, Fault, Markup
from toolcrib import ConfigError, StoreFailed, ToolcribError
from toolcrib.chat import Attachment, Button, Chat, Inbound, NotSent, Outbound, OutFile
from toolcrib.testing import FakeHost

ANN, ROOM = 11, -1001
DIRECT = Chat(str(ANN))
PNG = b"\x89PNG and more"


def host_of(url: str, token: str = TOKEN, **settings: str) -> FakeHost:
    return FakeHost(settings={"base_url": url, **settings}, secrets={"TELEGRAM_TOKEN": token})


@asynccontextmanager
async def running(**settings: str) -> AsyncIterator[tuple[FakeTelegram, TelegramPlatform, FakeHost]]:
    fake = FakeTelegram()
    await fake.revive()
    fake.chat(ANN)
    fake.chat(ROOM)
    host = host_of(fake.url, **settings)
    platform = TelegramPlatform("telegram", host)
    try:
        await platform.connect()
        await platform.start()
        yield fake, platform, host
    finally:
        await platform.stop()
        await fake.kill()


async def holds(what: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        while not what():
            await asyncio.sleep(0.01)


async def received(**message: Any) -> Inbound:
    """Return a message of the room as it is received. A second message follows, so that waiting always ends."""
    async with running() as (fake, _, host):
        fake.write(ROOM, message.pop("user", ANN), message.pop("text", ""), **message)
        last = fake.write(ROOM, ANN, "the end")
        await holds(lambda: host.received and host.received[-1].message_id == str(last))
        return host.received[0]


# -- incoming messages -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"text": "@Crib_Bot hi"}, {"is_addressed": True, "text": "@Crib_Bot hi"}),
        ({"text": "mail me@crib_bot"}, {"is_addressed": False}),
        ({"text": "👍 @crib_bot hi"}, {"is_addressed": True}),
        ({"text": "/new@crib_bot now"}, {"is_addressed": True, "text": "/new now"}),
        ({"text": "/new now"}, {"is_addressed": False, "text": "/new now"}),
        ({"text": "/new@other_bot now"}, {"text": "the end"}),
        (
            {"text": "Crib, hi", "entities": [{"type": "text_mention", "offset": 0, "length": 4, "user": ME}]},
            {"is_addressed": True},
        ),
        ({"text": "hi", "sender_chat": {"id": ROOM, "type": "supergroup", "title": "x"}}, {"is_bot": True}),
        ({"text": "hi", "via_bot": ME}, {"is_bot": True}),
        ({"text": "hi"}, {"is_bot": False, "name": "P11", "user": "11", "chat": Chat(str(ROOM), "", True, "The room")}),
        ({"text": "hi", "message_thread_id": 7}, {"chat": Chat(str(ROOM), "", True, "The room")}),
        ({"new_chat_members": [ME]}, {"text": "the end"}),
        (
            {"caption": "@crib_bot see", "caption_entities": [{"type": "mention", "offset": 0, "length": 9}]},
            {"is_addressed": True},
        ),
    ],
)  # fmt: skip
async def test_what_somebody_writes(message: dict[str, Any], expected: dict[str, Any]) -> None:
    found = await received(**message)
    assert {name: getattr(found, name) for name in expected} == expected


async def test_the_beginning_of_a_topic_is_nothing_that_is_answered() -> None:
    begins = {"message_id": 7, "date": 1, "chat": {"id": ROOM, "type": "supergroup"}, "from": ME}
    found = await received(text="hi", reply_to_message=begins, message_thread_id=7, is_topic_message=True)
    assert (found.reply_to, found.is_addressed, found.chat.thread) == ("", False, "7")


@pytest.mark.parametrize(
    ("kind", "told", "name", "media_type"),
    [
        ("document", {"file_name": "a.pdf", "mime_type": "application/pdf"}, "a.pdf", "application/pdf"),
        ("document", {}, "document.bin", "application/octet-stream"),
        ("voice", {"duration": 1, "mime_type": "audio/ogg"}, "voice.oga", "audio/ogg"),
        ("video_note", {"length": 1, "duration": 1}, "video_note.mp4", "video/mp4"),
    ],
)
async def test_kinds_of_files(kind: str, told: dict[str, Any], name: str, media_type: str) -> None:
    found = await received(**{kind: {"file_id": "f", "file_unique_id": "u", "file_size": 5, **told}})
    [file] = found.attachments
    assert (file.media_type, file.size, file.ref) == (media_type, 5, {"id": "f"})
    assert file.name == name or kind == "voice"


async def test_of_a_photo_the_largest_form_is_taken() -> None:
    forms = [{"file_id": f"f{n}", "file_unique_id": "u", "width": n, "height": n, "file_size": n} for n in (90, 800, 320)]
    [file] = (await received(photo=forms)).attachments
    assert (file.media_type, file.ref) == ("image/jpeg", {"id": "f800"})


async def test_updates_that_nobody_can_read_are_passed_over() -> None:
    async with running() as (fake, _, host):
        for update in (
            {"message": {"message_id": "?"}},
            {"message": {"message_id": 5, "date": "soon", "chat": {"id": ANN, "type": "private"}, "text": "x"}},
            {"callback_query": {"id": "q", "from": 3}},
            {
                "callback_query": {
                    "id": "q1",
                    "from": fake.person(ANN),
                    "chat_instance": "1",
                    "inline_message_id": "i",
                    "data": "y",
                }
            },
            {"a_new_kind": []},
        ):
            fake.push(update)
        fake.write(ANN, ANN, "hello")
        await holds(lambda: host.received)
        assert ([one.text for one in host.received], host.presses) == (["hello"], [])
        await holds(lambda: "q1" in fake.answered)


async def test_what_was_not_kept_is_not_confirmed() -> None:
    async with running() as (fake, _, host):
        fake.write(ANN, ANN, "one")
        await holds(lambda: host.received and fake.offset)
        confirmed, host.failing = fake.offset, StoreFailed("full")
        fake.write(ANN, ANN, "two")
        await asyncio.sleep(0.8)
        assert fake.offset == confirmed
        assert [one["message"]["text"] for one in fake.updates] == ["two"]
        host.failing = None
        await holds(lambda: fake.offset > confirmed)
        assert [one.text for one in host.received] == ["one", "two"]


@pytest.mark.parametrize("fault", [Fault("getUpdates", 502), Fault("getUpdates"), Fault("getUpdates", 409, text="Conflict")])
async def test_it_goes_on_asking(fault: Fault) -> None:
    async with running() as (fake, _, host):
        fake.faults.append(fault)
        fake.write(ANN, ANN, "first")  # ends the pending question
        fake.write(ANN, ANN, "second")
        await holds(lambda: len(host.received) == 2)


async def test_a_file_that_is_too_large_or_gone_says_so() -> None:
    async with running() as (fake, platform, _):
        fake.keep("huge", b"x" * (20 * 2**20 + 1))
        for file_id, says in (("file0", "[Ff]ile is too big"), ("file9", "[Ii]nvalid file_id")):
            with pytest.raises(ToolcribError, match=says):
                [piece async for piece in platform.fetch(Attachment("a", ref={"id": file_id}))]


# -- outgoing messages -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("**bold** _it_ ~~no~~ `a<b`", "<b>bold</b> <i>it</i> <s>no</s> <code>a&lt;b</code>"),
        ("# Head\n\ntext & more\nnext", "<b>Head</b>\n\ntext &amp; more\nnext"),
        ("```python\nif a < b:\n    c\n```", '<pre><code class="language-python">if a &lt; b:\n    c</code></pre>'),
        ("```\"><b>\nx\n```", "<pre>x</pre>"),
        ("- a\n- b\n  - c\n\n3. x\n4. y", "• a\n• b\n   • c\n\n3. x\n4. y"),
        ("> quoted\n> > twice", "<blockquote>quoted\n\ntwice</blockquote>"),
        ("[x](https://a.example/?q=\"1\"&b)", '<a href="https://a.example/?q=%221%22&amp;b">x</a>'),
        ("<b>raw</b>", "&lt;b&gt;raw&lt;/b&gt;"),
        ("[you](tg://user?id=5) @bob me@bob.example `@bob`", "you @\u2060bob me@bob.example <code>@bob</code>"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "<pre>a | b\n1 | 2</pre>"),
        ("![alt](http://a.example/p.png)", '<a href="http://a.example/p.png">alt</a>'),
        ("---\n\nx\x1b", "———\n\nx\ufffd"),
    ],
)  # fmt: skip
def test_markdown_as_telegram_reads_it(markdown: str, shown: str) -> None:
    assert html_of(markdown) == shown
    Markup(shown)


@given(st.text(alphabet="@ab*_~`<>&[]()#-1.>|\n \\\"'!😀", max_size=80))
def test_any_markdown_is_taken_and_names_nobody(markdown: str) -> None:
    for shown in (html_of(markdown), html_of_plain(markdown), html_of_plain(markdown, is_code=True)):
        seen = Markup(shown)
        assert FakeTelegram._named(None, seen) == []
        assert units(shown) == len(seen.text.encode("utf-16-le")) // 2


@pytest.mark.parametrize(
    ("fault", "for_good", "perhaps", "retry"),
    [
        (Fault("", 429, parameters={"retry_after": 7}), False, False, 7.0),
        (Fault("", 403, text="Forbidden: bot was blocked by the user"), True, False, None),
        (Fault("", 400, text="Bad Request: TOPIC_CLOSED"), True, False, None),
        (Fault("", 401, text="Unauthorized"), False, False, None),
        (Fault("", 502), False, True, None),
        (Fault("sendMessage"), False, True, None),
    ],
)
async def test_what_is_not_shown(fault: Fault, *, for_good: bool, perhaps: bool, retry: float | None) -> None:
    async with running() as (fake, platform, _):
        fault.method = "sendMessage"
        fake.faults.append(fault)
        with pytest.raises(NotSent) as caught:
            await platform.send(Outbound(DIRECT, "hi", "k"))
        assert (caught.value.for_good, caught.value.perhaps_sent, caught.value.retry_after) == (for_good, perhaps, retry)
        await fake.kill()
        with pytest.raises(NotSent) as caught:
            await platform.send(Outbound(DIRECT, "hi", "k"))
        assert not caught.value.for_good


async def test_a_server_that_is_away_has_shown_nothing() -> None:
    async with running() as (fake, platform, _):
        await fake.kill()
        await asyncio.sleep(0.1)
        caught = []
        for _ in range(2):
            with pytest.raises(NotSent) as error:
                await platform.send(Outbound(DIRECT, "hi", "k"))
            caught.append(error.value.perhaps_sent)
        assert caught[-1] is False


async def test_signs_that_count_twice_go_as_a_file() -> None:
    async with running() as (fake, platform, _):
        text = "😀" * 4_000
        message_id = int(await platform.send(Outbound(DIRECT, text, "k", buttons=[Button("y", "Yes")])))
        message = fake.messages[ANN, message_id]
        assert fake.files[message["document"]["file_id"]] == ("message.txt", text.encode())
        assert message["reply_markup"]
        first = await platform.send(Outbound(DIRECT, "short", "k2"))
        again = await platform.send(Outbound(DIRECT, text, "k2", edits=first))
        assert "document" in fake.messages[ANN, int(again)]


async def test_what_telegram_can_not_read_is_shown_as_it_stands() -> None:
    async with running() as (fake, platform, _):
        fake.faults.append(Fault("sendMessage", 400, text="Bad Request: can't parse entities: of a new kind"))
        message_id = await platform.send(Outbound(DIRECT, "**a** <b>", "k"))
        assert fake.messages[ANN, int(message_id)]["text"] == "**a** <b>"


async def test_a_group_that_became_another_is_followed() -> None:
    async with running() as (fake, platform, _):
        fake.faults.append(Fault("sendMessage", 400, parameters={"migrate_to_chat_id": ROOM}))
        message_id = await platform.send(Outbound(Chat("-5", is_group=True), "hi", "k"))
        assert (ROOM, int(message_id)) in fake.messages


async def test_pictures_and_what_only_says_so(tmp_path: Path) -> None:
    async with running() as (fake, platform, _):
        (tmp_path / "a").write_bytes(PNG)
        (tmp_path / "b").write_bytes(b"no picture")
        files = [OutFile(tmp_path / name, f"{name}.png", "image/png") for name in "ab"]
        await platform.send(Outbound(DIRECT, "", "k", files=files))
        picture, file = fake.messages.values()
        assert (picture["photo"][0]["file_id"], file["document"]["file_name"]) == ("file0", "b.png")
        with pytest.raises(NotSent) as caught:
            await platform.send(Outbound(DIRECT, "", "k", files=[OutFile(tmp_path / "gone", "gone")]))
        assert caught.value.for_good
        fake.faults.append(Fault("sendDocument", 502))
        with pytest.raises(NotSent) as caught:
            await platform.send(Outbound(DIRECT, "words", "k", files=[OutFile(tmp_path / "b", "b")]))
        assert caught.value.perhaps_sent


@pytest.mark.parametrize(
    "out", [Outbound(Chat("room"), "hi", "k"), Outbound(DIRECT, "", "k"), Outbound(DIRECT, "hi", "k", edits="m1")]
)
async def test_what_no_platform_could_show(out: Outbound) -> None:
    async with running() as (_, platform, _):
        with pytest.raises(NotSent) as caught:
            await platform.send(out)
        assert caught.value.for_good


async def test_links_are_not_fetched_for_a_preview() -> None:
    async with running() as (fake, platform, _):
        message_id = await platform.send(Outbound(DIRECT, "http://a.example", "k", reply_to="99"))
        await platform.send(Outbound(DIRECT, "http://b.example", "k2", edits=message_id))
        shown = [asked for method, asked in fake.calls if method in ("sendMessage", "editMessageText")]
        assert [one["link_preview_options"] for one in shown] == [{"is_disabled": True}] * 2
        assert shown[0]["reply_parameters"] == {"message_id": 99, "allow_sending_without_reply": True}


# -- start and stop ----------------------------------------------------------------------------------------------------


async def test_what_is_missing_is_named() -> None:
    fake = FakeTelegram()
    await fake.revive()
    secret = TOKEN.partition(":")[2]
    try:
        for host, says in (
            (FakeHost(settings={"base_url": fake.url}), "TELEGRAM_TOKEN"),
            (host_of(fake.url, "not a token/../x"), "does not have the form"),
            (host_of(fake.url, f"9:{secret}"), "does not know the token"),
            (host_of(fake.url, edit_seconds="soon"), "settings.edit_seconds"),
            (host_of("http://127.0.0.1:9"), "the login to Telegram at .* failed"),
        ):
            with pytest.raises(ToolcribError, match=says) as caught:
                await _connected(host)
            assert secret not in "".join(traceback.format_exception(caught.value))
        fake.webhook = "https://other.example"
        with pytest.raises(ConfigError, match="another program"):
            await _connected(host_of(fake.url))
    finally:
        await fake.kill()


async def _connected(host: FakeHost) -> None:
    platform = TelegramPlatform("telegram", host)
    try:
        await platform.connect()
    finally:
        await platform.stop()


async def test_settings_change_the_limits_and_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    traits = TelegramPlatform("telegram", host_of("http://x", edit_seconds="3", per_second="5", max_edits="7")).traits
    assert (traits.edit_seconds, traits.per_second, traits.max_edits) == (3.0, 5.0, 7)
    fake = FakeTelegram()
    await fake.revive()
    try:
        platform = TelegramPlatform("telegram", host_of("http://telegram.example", proxy=fake.url))
        assert await platform.connect() == str(ME["id"])
        await platform.stop()
    finally:
        await fake.kill()


async def test_the_end_comes_at_once() -> None:
    async with running() as (_, platform, _):
        await asyncio.sleep(0.1)
        begun = time.monotonic()
        await platform.stop()
        assert time.monotonic() - begun < 5
