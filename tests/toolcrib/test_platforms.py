"""Shared parts of adapters: markup, continued receiving, and bounded memory."""

from __future__ import annotations

import asyncio
import contextlib
import logging

import pytest

from toolcrib import ConfigError, StoreFailed
from toolcrib.chat import Button, Chat, Inbound, NotSent, Outbound, Press, Traits
from toolcrib.platforms import (
    BotPlatform,
    Intake,
    IntakePlatform,
    Markup,
    Recent,
    button_data,
    choice_and_key,
    keep_receiving,
    number_of,
    press_until_kept,
    shown,
    without_fences,
)
from toolcrib.testing import FakeHost

TEXT = """# Title

**bold** *it* ~~out~~ `a<b` [home](https://example.org) [bad](javascript:x) ![pic](https://example.org/p.png)
next line

> quoted
> > within

1. one
2. two
   - below

```python
x = {1}
```

| a | b |
|---|---|
| 1 | 2 |

---
"""
MARKS = Markup(
    words=lambda text: text.replace("<", "&lt;"),
    verbatim=lambda text: text.replace("<", "&lt;"),
    bold="*{}*",
    italic="_{}_",
    strike="~{}~",
    code="`{}`",
    block="```\n{}\n```",
    block_in="```{1}\n{0}\n```",
    quote=lambda text: "\n".join(f"> {line}" for line in text.split("\n")),
    link="<{1}|{0}>".format,
)


def test_markdown_is_written_in_a_platform_s_marks() -> None:
    assert shown(TEXT, MARKS).split("\n\n") == [
        "*Title*",
        "*bold* _it_ ~out~ `a&lt;b` <https://example.org|home> [bad](javascript:x) <https://example.org/p.png|pic>\nnext line",
        "> quoted\n> \n> within",
        "1. one\n2. two\n   • below",
        "```python\nx = {1}\n```",
        "```\na | b\n1 | 2\n```",
        "———",
    ]


def test_without_marks_it_is_plain_text_and_nothing_moves_a_cursor() -> None:
    assert shown("**a** `b` [c](https://d.example) \x1b[2J", Markup()) == "a b c (https://d.example) \ufffd[2J"
    assert shown("```sh\nls\n```", Markup(block="[{}]")) == "[ls]"
    assert shown("a&#13;b&#12;c&#x202e;d&lrm;e [f&#x2066;](https://d.example)", Markup()) == (
        "a\ufffdb\ufffdc\ufffdd\ufffde f\ufffd (https://d.example)"
    )


def test_a_memory_forgets_what_was_set_first() -> None:
    memory: Recent[str, int] = Recent(2)
    for number, name in enumerate("abac"):
        memory[name] = number
    assert memory == {"a": 2, "c": 3}


async def test_receiving_goes_on_after_whatever_fails(caplog: pytest.LogCaptureFixture) -> None:
    failures = [OSError("gone"), ValueError("odd"), None, OSError("again")]
    waited: list[str] = []
    done = asyncio.Event()

    async def receive() -> None:
        if not failures:
            done.set()
            await asyncio.Event().wait()
        if (failure := failures.pop(0)) is not None:
            raise failure

    def wait_of(error: Exception) -> float:
        waited.append(str(error))
        return 0.0

    task = asyncio.create_task(keep_receiving(receive, "bells", (OSError,), wait_of))
    async with asyncio.timeout(60):
        await done.wait()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert waited == ["gone", "odd", "again"]
    records = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert [bool(one.exc_info) for one in records] == [False, True, False]
    assert records[0].getMessage() == "bells: receiving failed, retrying in 0.0 s: gone"


async def test_without_a_word_of_the_server_each_pause_is_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    async def receive() -> None:
        if len(pauses) == 8:
            raise asyncio.CancelledError
        raise OSError("gone")

    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        await keep_receiving(receive, "bells", (OSError,), lambda error: None)
    assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30]


async def test_a_press_that_can_t_be_kept_is_offered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class FullHost(FakeHost):
        async def press(self, press: Press) -> str:
            self.presses.append(press)
            if len(self.presses) < full:
                raise StoreFailed("the disk is full")
            return "settled"

    monkeypatch.setattr("toolcrib.platforms._PRESS_PAUSES", (0, 0, 0))
    press = Press(Chat("c"), "ann", "m1", "y", "p1")
    for full, line in ((1, "settled"), (3, "settled"), (9, "")):
        host = FullHost()
        assert await press_until_kept(host, press) == line
        assert host.presses == [press] * min(full, 3)


@pytest.mark.parametrize(("given", "found"), [("2", 2.0), (0.5, 0.5), (None, 7.0)])
def test_a_number_of_the_settings(given: float | str | None, found: float) -> None:
    host = FakeHost(settings={} if given is None else {"per_second": given})
    assert number_of(host, "per_second", 7.0) == found


@pytest.mark.parametrize("given", ["soon", "nan", "inf", "-1", "", "1e9", True, 0])
def test_what_is_no_number_above_zero_is_named(given: float | str) -> None:
    host = FakeHost(settings={"per_second": given})
    with pytest.raises(ConfigError, match=r"settings\.per_second: expected a number above 0, got"):
        number_of(host, "per_second", 7.0)
    if given == 0:
        assert number_of(host, "per_second", 7.0, may_be_zero=True) == 0.0
    else:
        with pytest.raises(ConfigError, match="expected a number of at least 0, got"):
            number_of(host, "per_second", 7.0, may_be_zero=True)


class RadioPlatform(BotPlatform[str]):
    known_settings = ("frequency",)
    traits = Traits(max_chars=10, per_second=3.0)


def test_settings_replace_the_pace_of_a_bot_platform_and_unknown_ones_are_an_error() -> None:
    settings = {"frequency": "7", "per_second": 9, "edit_seconds": 0, "max_edits": "4"}
    traits = RadioPlatform("radio", FakeHost(settings=settings)).traits
    assert (traits.max_chars, traits.per_second, traits.edit_seconds, traits.max_edits) == (10, 9.0, 0.0, 4)
    assert RadioPlatform("radio", FakeHost()).traits.per_second == 3.0
    with pytest.raises(ConfigError, match="unknown setting; did you mean frequency"):
        RadioPlatform("radio", FakeHost(settings={"freqency": "7"}))


class Unreachable(Exception):
    pass


class WirePlatform(IntakePlatform[str]):
    """A service that shows a message each time that it is sent, and loses acknowledgements while ``is_deaf`` is set."""

    is_deaf = False

    async def connect(self) -> str:
        self._client = "wire"
        self.shown: list[str] = []
        self._intake = Intake(self._host, self._missed, (Unreachable,))
        self._receive = self._begin
        self._lost, self._not_sent = (Unreachable,), lambda error: NotSent(str(error), perhaps_sent=True)
        return "me"

    def _now(self) -> str:
        return "0"

    async def _begin(self) -> None:
        self._hold()
        self._taking.resume([])
        await asyncio.Event().wait()

    async def _missed(self, channel: str, after: str) -> list[tuple[str, Inbound | None]]:
        return []

    async def _note(self, out: Outbound) -> str:
        return str(len(self.shown))

    async def _find(self, out: Outbound, note: str) -> str:
        return note if len(self.shown) > int(note) else ""

    async def _post(self, out: Outbound) -> str:
        self.shown.append(out.text)
        if self.is_deaf:
            raise Unreachable("no acknowledgement")
        return str(len(self.shown) - 1)

    async def _edit(self, out: Outbound, message_id: str) -> str:
        self.shown[int(message_id)] = out.text
        return message_id


async def test_an_intake_platform_shows_each_key_once_also_if_the_acknowledgement_was_lost() -> None:
    platform, chat = WirePlatform("wire", FakeHost()), Chat("c")
    await platform.connect()
    await platform.start()
    assert await platform.send(Outbound(chat, "one", "k1")) == "0"
    assert await platform.send(Outbound(chat, "one", "k1")) == "0"
    platform.is_deaf = True
    with pytest.raises(NotSent, match="no acknowledgement"):
        await platform.send(Outbound(chat, "two", "k2"))
    platform.is_deaf = False
    assert await platform.send(Outbound(chat, "2", "k2", is_again=True)) == "1"
    assert platform.shown == ["one", "2"]
    for text in ("", "x" * 4_001):
        with pytest.raises(NotSent) as caught:
            await platform.send(Outbound(chat, text, "k3"))
        assert caught.value.for_good
    await platform.stop()
    with pytest.raises(NotSent, match="not connected"):
        _ = platform._api


def test_a_button_brings_back_its_choice_and_the_key_if_both_fit() -> None:
    assert choice_and_key(button_data(Button("y", "Yes"), "k1", 4)) == ("y", "k1")
    assert choice_and_key(button_data(Button("y", "Yes"), "k12", 4)) == ("y", "")


def test_nothing_ends_a_block_of_code_that_it_stands_in() -> None:
    assert "```" not in without_fences("a````b")
    assert without_fences("a``b") == "a``b"
