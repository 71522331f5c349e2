"""Slack's platform: its input, output and errors, with the real library and a fake of Slack."""

from __future__ import annotations

import html
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.slack.incoming import said
from plugins.slack.platform import SlackPlatform
from plugins.slack.writing import blocks_of, mrkdwn_of
from tests.plugins.slack.fake import APP_TOKEN, BOT_TOKEN, FakeSlack, Fault
from toolcrib import ConfigError, ToolcribError
from toolcrib.chat import Button, Chat, NotSent, Outbound, OutFile
from toolcrib.testing import FakeHost

DIRECT = Chat("D300")


@asynccontextmanager
async def connected(bot: str = BOT_TOKEN, app: str = APP_TOKEN, **settings: str) -> AsyncIterator[tuple[FakeSlack, Any]]:
    fake = FakeSlack()
    await fake.revive()
    fake.channel("D300", is_im=True)
    host = FakeHost(settings={"base_url": fake.url, **settings}, secrets={"SLACK_BOT_TOKEN": bot, "SLACK_APP_TOKEN": app})
    platform = None
    try:
        platform = SlackPlatform("slack", host)
        await platform.connect()
        yield fake, platform
    finally:
        if platform is not None:
            await platform.stop()
        await fake.kill()


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ("<@UBOT> hi", "hi"),
        ("<@UBOT|crib> /new", "/new"),
        (" /help", "/help"),
        ("a &lt;b&gt; &amp;amp; c", "a <b> &amp; c"),
        ("see <https://a.example/x|a.example/x>", "see a.example/x"),
        ("see <https://a.example/x>", "see https://a.example/x"),
        ("see <https://a.example/x|here>", "see here (https://a.example/x)"),
        ("<mailto:a@b.example|a@b.example>", "a@b.example"),
        ("ask <@U12> in <#C1|room> <!here>", "ask @U12 in #room @here"),
    ],
)
def test_what_was_typed(sent: str, read: str) -> None:
    assert said(sent, "UBOT") == read


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("**bold** *it* ~~no~~ `a<b`", "*bold* _it_ ~no~ `a&lt;b`"),
        ("# Head\n\n<!channel> <@U5> @here", "*Head*\n\n&lt;!channel&gt; &lt;@U5&gt; @here"),
        ("[x](https://a.example/?a=1&b=2)", "<https://a.example/?a=1&amp;b=2|x>"),
        ("```\na ``` <!here>\n```", "```\na `\u200b`` &lt;!here&gt;\n```"),
        ("> quoted", "> quoted"),
    ],
)
def test_markdown_as_slack_reads_it(markdown: str, shown: str) -> None:
    assert mrkdwn_of(Outbound(DIRECT, markdown, "k")) == shown


@given(st.text(alphabet="@!<>&|*_~`[]()#-1.\n abU", max_size=80))
def test_any_markdown_names_nobody(markdown: str) -> None:
    for is_plain in (False, True):
        shown = mrkdwn_of(Outbound(DIRECT, markdown, "k", is_plain=is_plain))
        assert not [one for one in ("<!", "<@", "<#") if one in shown]


@pytest.mark.parametrize("text", ["x" * 2_900, "<&>" * 966, "&\n" * 1_450, "`" * 2_900])
@pytest.mark.parametrize("is_plain", [False, True])
def test_long_texts_are_cut_into_blocks_and_nothing_is_lost(text: str, *, is_plain: bool) -> None:
    out = Outbound(DIRECT, text, "k", buttons=[Button("y", "Yes")], is_plain=is_plain)
    *sections, actions = blocks_of(mrkdwn_of(out), out)
    parts = [one["text"]["text"] for one in sections]
    assert max(map(len, parts)) <= 3_000
    assert actions["elements"][0]["value"] == "y\nk"
    if is_plain:
        assert all(part.startswith("```\n") and part.endswith("\n```") for part in parts)
        assert html.unescape("".join(part[4:-4] for part in parts)).replace("\u200b", "") == text


def test_code_of_several_blocks_stays_code() -> None:
    out = Outbound(DIRECT, "see\n\n```\n" + "<a>\n" * 600 + "```\n\nend", "k")
    parts = [one["text"]["text"] for one in blocks_of(mrkdwn_of(out), out)]
    assert len(parts) > 2
    assert max(map(len, parts)) <= 3_000
    assert [part.count("```") for part in parts] == [2] * len(parts)


@pytest.mark.parametrize(
    ("fault", "for_good", "perhaps", "retry"),
    [
        (Fault("chat.postMessage", "ratelimited", 429, retry_after=7), False, False, 7.0),
        (Fault("chat.postMessage", "not_in_channel"), True, False, None),
        (Fault("chat.postMessage", "is_archived"), True, False, None),
        (Fault("chat.postMessage", "token_revoked"), False, False, None),
        (Fault("chat.postMessage", "internal_error"), False, True, None),
        (Fault("chat.postMessage"), False, True, None),
        (Fault("chat.postMessage", page="upstream connect error", status=503), False, True, None),
        (Fault("chat.postMessage", page="too many", status=429), False, False, None),
    ],
)
async def test_what_is_not_shown(fault: Fault, *, for_good: bool, perhaps: bool, retry: float | None) -> None:
    async with connected() as (fake, platform):
        fake.faults.append(fault)
        with pytest.raises(NotSent) as caught:
            await platform.send(Outbound(DIRECT, "hi", "k"))
        assert (caught.value.for_good, caught.value.perhaps_sent, caught.value.retry_after) == (for_good, perhaps, retry)
        assert len([one for one, _ in fake.calls if one == "chat.postMessage"]) == 1


async def test_a_server_that_is_away_has_shown_nothing() -> None:
    async with connected() as (fake, platform):
        await fake.kill()
        caught = []
        for _ in range(2):
            with pytest.raises(NotSent) as error:
                await platform.send(Outbound(DIRECT, "hi", "k2"))
            caught.append((error.value.perhaps_sent, error.value.for_good))
        assert caught[-1] == (False, False)


async def test_a_file_that_is_gone_is_given_up(tmp_path: Path) -> None:
    async with connected() as (_, platform):
        for out in (
            Outbound(DIRECT, "", "k", files=[OutFile(tmp_path / "gone", "gone")]),
            Outbound(DIRECT, "hi", "k", edits="x"),
        ):
            with pytest.raises(NotSent) as caught:
                await platform.send(out)
            assert caught.value.for_good


async def test_links_show_no_preview() -> None:
    async with connected() as (fake, platform):
        await platform.send(Outbound(DIRECT, "http://a.example", "k"))
        [message] = fake.of("D300")
        assert (message["unfurl_links"], message["unfurl_media"]) == (False, False)


async def test_what_is_missing_is_named() -> None:
    for options, says in (
        ({"bot": "xoxb-another"}, "SLACK_BOT_TOKEN"),
        ({"app": "xapp-another"}, "SLACK_APP_TOKEN"),
        ({"bot": "xapp-mixed-up"}, "does not begin with xoxb-"),
        ({"edit_seconds": "soon"}, "settings.edit_seconds"),
        ({"base": "x"}, "settings.base"),
    ):
        with pytest.raises(ConfigError, match=says) as caught:
            async with connected(**options):
                pass
        assert BOT_TOKEN not in "".join(traceback.format_exception(caught.value))
    with pytest.raises(ToolcribError, match=r"the login to Slack at .* failed"):
        async with connected(base_url="http://127.0.0.1:9/api"):
            pass


@pytest.mark.parametrize("method", ["auth.test", "apps.connections.open"])
@pytest.mark.parametrize(
    "fault", [{"code": "ratelimited", "status": 429, "retry_after": 30}, {"code": "internal_error"}, {"page": "x", "status": 503}]
)
async def test_a_server_that_is_busy_is_no_wrong_token(method: str, fault: dict[str, Any]) -> None:
    async with connected() as (fake, platform):
        fake.faults.append(Fault(method, **fault))
        with pytest.raises(ToolcribError, match=r"the login to Slack at .* failed") as caught:
            await SlackPlatform("slack", platform._host).connect()
        assert not isinstance(caught.value, ConfigError)


async def test_a_file_whose_upload_slack_has_forgotten_is_uploaded_again(tmp_path: Path) -> None:
    (tmp_path / "report").write_bytes(b"42")
    out = Outbound(DIRECT, "", "k", files=[OutFile(tmp_path / "report", "report.txt")])
    async with connected() as (fake, platform):
        fake.faults.append(Fault("files.completeUploadExternal", "internal_error", 500))
        with pytest.raises(NotSent):
            await platform.send(out)
        fake.files.clear()
        await platform.send(out)
        [message] = fake.of("D300")
        assert [fake.files[one["id"]]["data"] for one in message["files"]] == [b"42"]
