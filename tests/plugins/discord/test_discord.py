"""Discord's platform: its output and its errors, with the real library and a fake of Discord."""

from __future__ import annotations

import asyncio
import re
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.discord.platform import DiscordPlatform
from plugins.discord.writing import CHARS, discord_of, discord_of_plain
from tests.plugins.discord.fake import TOKEN, FakeDiscord
from tests.plugins.discord.requests import Fault
from tests.plugins.discord.test_discord_suite import before
from tests.plugins.houses import holds
from toolcrib import ConfigError, ToolcribError
from toolcrib.chat import Attachment, Button, Chat, NotSent, Outbound, OutFile
from toolcrib.testing import FakeHost

DIRECT = Chat("300")


@asynccontextmanager
async def connected(token: str = TOKEN, flags: int = 1 << 18, **settings: str) -> AsyncIterator[tuple[FakeDiscord, Any]]:
    fake = FakeDiscord()
    fake.flags = flags
    await fake.revive()
    fake.channel("300", "direct")
    platform = None
    try:
        platform = DiscordPlatform("discord", FakeHost(settings=settings, secrets={"DISCORD_TOKEN": token}))
        with before(fake):
            await platform.connect()
            yield fake, platform
    finally:
        if platform is not None:
            await platform.stop()
        await fake.kill()


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("**bold** *it* ~~no~~ `a<b`", "**bold** *it* ~~no~~ `a<b`"),
        ("# Head\n\n||hidden|| @everyone <@5>", "**Head**\n\n\\|\\|hidden\\|\\| \\@everyone \\<\\@5\\>"),
        ("2 \\* 3 \\* 4 __main\\_\\_", "2 \\* 3 \\* 4 \\_\\_main\\_\\_"),
        ("see https://a.example/x_y_z now", "see https://a.example/x_y_z now"),
        ("[x](https://a.example/)", "[x](<https://a.example/>)"),
        ("```python\na ``` b\n```", "```python\na `\u200b`` b\n```"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "```\na | b\n1 | 2\n```"),
        ("x\x1b\u202e", "x\ufffd\ufffd"),
        ("``a` ||hidden|| `b``", "``a` ||hidden|| `b``"),
        ("``` `x``y` ```", "``\u200b`x`\u200b`y`\u200b``"),
    ],
)
def test_markdown_as_discord_reads_it(markdown: str, shown: str) -> None:
    assert discord_of(markdown) == shown


@given(st.text(alphabet="@|*_~`<>&[]()#-1.>\n \\\"'!ab", max_size=80))
def test_any_markdown_hides_nothing_and_names_nobody(markdown: str) -> None:
    code = r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)"  # code ends with as many backticks as it began with
    bare = re.sub(rf"```.*?```|{code}|\\.", "", discord_of(markdown), flags=re.DOTALL)
    assert not re.search(r"\|\||@everyone|<@", bare)


@pytest.mark.parametrize("text", ["x" * 1_900, "`" * 1_900, "*" * 1_900, "<@5> " * 380, "||" * 950, "```\n" * 475])
def test_nothing_grows_too_long(text: str) -> None:
    assert len(discord_of(text)) <= CHARS
    assert len(discord_of_plain(text)) <= CHARS
    assert discord_of_plain(text).count("```") == 2


@pytest.mark.parametrize("rest", ["_@" * 900, "@" * 1_000])
def test_a_long_text_of_marks_hides_nothing_and_names_nobody(rest: str) -> None:
    told = discord_of(f"@everyone <@1> ||x|| [https://bank.example](https://evil.example)\n{rest}")
    assert len(told) <= CHARS
    assert not re.search(r"\|\||@everyone|<@1|\]\(", told)


@pytest.mark.parametrize(
    ("fault", "for_good", "perhaps", "retry"),
    [
        (Fault("create", 429, retry_after=99.0), False, False, 99.0),
        (Fault("create", 403), True, False, None),
        (Fault("create", 400), True, False, None),
        (Fault("create", 413), True, False, None),
        (Fault("create", 401), False, False, None),
        (Fault("create", 429, retry_after=99.0, by_proxy=True), False, False, 99.0),
        (Fault("create"), False, True, None),
    ],
)
async def test_what_is_not_shown(fault: Fault, *, for_good: bool, perhaps: bool, retry: float | None) -> None:
    async with connected() as (fake, platform):
        fake.faults.append(fault)
        with pytest.raises(NotSent) as caught:
            await platform.send(Outbound(DIRECT, "hi", "k"))
        assert (caught.value.for_good, caught.value.perhaps_sent, caught.value.retry_after) == (for_good, perhaps, retry)


async def test_a_server_that_is_away_has_shown_nothing() -> None:
    async with connected() as (fake, platform):
        await platform.send(Outbound(DIRECT, "hi", "k"))
        await fake.kill()
        caught = []
        for _ in range(2):
            with pytest.raises(NotSent) as error:
                await platform.send(Outbound(DIRECT, "hi", "k2"))
            caught.append((error.value.perhaps_sent, error.value.for_good))
        assert caught[-1] == (False, False)


@pytest.mark.parametrize(
    "out", [Outbound(Chat("x"), "hi", "k"), Outbound(DIRECT, " ", "k"), Outbound(DIRECT, "hi", "k", edits="m1")]
)
async def test_what_no_platform_could_show(out: Outbound) -> None:
    async with connected() as (_, platform):
        with pytest.raises(NotSent) as caught:
            await platform.send(out)
        assert caught.value.for_good


async def test_a_file_that_is_gone_is_given_up(tmp_path: Path) -> None:
    async with connected() as (_, platform):
        with pytest.raises(NotSent) as caught:
            await platform.send(Outbound(DIRECT, "see", "k", files=[OutFile(tmp_path / "gone", "gone")]))
        assert caught.value.for_good


async def test_previews_are_off_and_answers_survive_what_they_answer() -> None:
    async with connected() as (fake, platform):
        shown = await platform.send(Outbound(DIRECT, "http://a.example", "k", reply_to="99", buttons=[Button("y", "Yes")]))
        [asked] = [one for kind, one in fake.calls if kind == "create"]
        assert asked["flags"] & 4
        assert asked["message_reference"]["fail_if_not_exists"] is False
        assert asked["allowed_mentions"]["parse"] == []
        assert fake.messages[shown]["components"][0]["components"][0]["custom_id"] == "y\nk"


async def test_what_is_missing_is_named() -> None:
    for options, says in (
        ({"token": "another"}, "does not know the token"),
        ({"flags": 0}, "Message Content Intent"),
        ({"edit_seconds": "soon"}, "settings.edit_seconds"),
        ({"edit_second": "1"}, "did you mean edit_seconds"),
    ):
        with pytest.raises(ConfigError, match=says) as caught:
            async with connected(**options):  # type: ignore[arg-type]  # of several kinds
                pass
        assert TOKEN not in "".join(traceback.format_exception(caught.value))


async def test_a_server_that_is_away_is_no_mistake_of_the_operators() -> None:
    fake = FakeDiscord()
    await fake.revive()
    await fake.kill()
    platform = DiscordPlatform("discord", FakeHost(secrets={"DISCORD_TOKEN": TOKEN}))
    with before(fake), pytest.raises(ToolcribError, match="can't be reached") as caught:
        await platform.connect()
    assert not isinstance(caught.value, ConfigError)
    await platform.stop()


async def test_a_message_that_is_given_up_during_a_limit_of_everything_keeps_back_no_other() -> None:
    async with connected() as (fake, platform):
        fake.faults.append(Fault("typing", 429, retry_after=20.0, is_global=True))
        typing = asyncio.create_task(platform.typing(DIRECT, is_on=True))
        await holds(lambda: fake.calls[-1:] == [("typing", {})])
        await asyncio.sleep(0.1)
        typing.cancel()
        async with asyncio.timeout(60):
            await platform.send(Outbound(DIRECT, "hi", "k"))


async def test_an_answer_in_a_thread_that_was_archived_meanwhile_is_changed() -> None:
    async with connected() as (fake, platform):
        fake.channel("200", "text")
        fake.channel("210", "thread", "200")
        thread = Chat("200", "210", is_group=True)
        shown = await platform.send(Outbound(thread, "half", "k"))
        fake.channels["210"]["thread_metadata"]["archived"] = True
        await platform.send(Outbound(thread, "the whole", "k2", edits=shown))
        assert fake.messages[shown]["content"] == "the whole"


async def test_a_file_that_is_not_given_does_not_tell_its_address() -> None:
    async with connected() as (fake, platform):
        file = fake.keep("plan.txt", b"the plan")
        message = fake.write("300", "11", attachments=[file | {"url": f"{file['url']}x?hm=signed"}])
        with pytest.raises(ToolcribError, match="404") as caught:
            async for _ in platform.fetch(Attachment("plan.txt", ref={"channel": "300", "message": message, "file": file["id"]})):
                pass
        assert "signed" not in str(caught.value)
