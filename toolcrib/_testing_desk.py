"""The test bench of PlatformSuite: the desk that a platform's author writes, and the stage that connects it to the platform."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from unittest import SkipTest

from toolcrib._testing_host import FakeHost
from toolcrib.chat import Chat, Inbound, NotSent, Outbound, Platform
from toolcrib.contract.types import Json

_PAUSE = 0.02


@dataclass(frozen=True, slots=True)
class SeenMessage:
    """A message of the bot as people see it. ``buttons`` are the available choices, ``pings`` the users that it notified."""

    id: str
    text: str
    buttons: Sequence[str] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    pings: Sequence[str] = ()


class PlatformDesk:
    """A chat server, real or fake, and its users: what a platform's author writes for PlatformSuite.

    ``factory`` makes the platform, and gets a host with these ``settings`` and ``secrets``. ``direct`` is a chat with ``user``
    alone, ``group`` one with ``user`` and ``other`` (None if the service has no groups), ``gone`` one that does not exist. Ids
    are the platform's own. A method that the server can't support raises unittest.SkipTest with the reason, as the methods here
    do.
    """

    factory: Callable[..., Platform]
    settings: Mapping[str, Json] = {}
    secrets: Mapping[str, str] = {}
    direct: Chat
    group: Chat | None = None
    gone: Chat
    user: str
    other: str

    async def write(self, chat: Chat, text: str, *, user: str, reply_to: str = "", is_addressed: bool = False) -> str:
        """Write a message as a user, and return its id. If the server pushes messages, it pushes this one until it is taken."""
        raise NotImplementedError

    async def write_file(self, chat: Chat, name: str, data: bytes, *, user: str) -> str:
        """Send a file as a user, and return the message's id."""
        raise SkipTest("people can't send files here")

    async def shown(self, chat: Chat) -> Sequence[SeenMessage]:
        """Return the bot's messages in a chat, in order, in their current form."""
        raise NotImplementedError

    async def edit(self, chat: Chat, message_id: str, text: str, *, user: str) -> None:
        """Change a message of a user as that user."""
        raise SkipTest("people can't edit here")

    async def press(self, chat: Chat, message_id: str, choice: str, *, user: str) -> str | None:
        """Press a button as a user, and return the line that the user is shown, or None if the service can't show one."""
        raise SkipTest("there are no buttons here")

    async def bot_writes(self, chat: Chat, text: str) -> None:
        """Write a message as another program."""
        raise SkipTest("no other programs write here")

    async def kill(self) -> None:
        """End the server abruptly."""
        raise SkipTest("the server can't be ended")

    async def revive(self) -> None:
        """Start the server again at the same address, with the data that it had."""
        raise NotImplementedError


class _SuiteHost(FakeHost):
    """A host that also records what was offered to it."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.offered: list[Inbound] = []

    async def receive(self, message: Inbound) -> Literal["kept", "known", "refused"]:
        self.offered.append(message)
        return await super().receive(message)


class Stage:
    """A desk, a host, and the platform between them, which may be stopped and created again."""

    def __init__(self, desk: PlatformDesk, folder: Path, seconds: float, quiet: float) -> None:
        self.desk = desk
        self.host = _SuiteHost(settings=desk.settings, secrets=desk.secrets, folder=folder)
        self.platform = self.made()
        self._seconds = seconds
        self._quiet = quiet
        self._keys = itertools.count(1)

    def made(self) -> Platform:
        return self.desk.factory(name="suite", host=self.host, something_new=True)

    async def open(self) -> None:
        account = await self.platform.connect()
        assert account, "connect() returns the account's id"
        await self.platform.start()

    async def reopen(self) -> None:
        await self.platform.stop()
        self.platform = self.made()
        await self.open()

    async def say(self, text: str, **more: Any) -> str:
        """Write a message as the user of the direct chat."""
        return await self.desk.write(self.desk.direct, text, user=self.desk.user, **more)

    async def show(self, text: str, **more: Any) -> str:
        key = more.pop("key", f"key{next(self._keys)}")
        found = await self.platform.send(Outbound(more.pop("chat", self.desk.direct), text, key, **more))
        assert found, "send() returns the message's id"
        return found

    async def until(self, what: str, holds: Callable[[], bool | Awaitable[bool]]) -> None:
        try:
            async with asyncio.timeout(self._seconds):
                while not (now if isinstance(now := holds(), bool) else await now):  # noqa: ASYNC110 - the condition sets no event
                    await asyncio.sleep(_PAUSE)
        except TimeoutError:
            raise AssertionError(f"within {self._seconds:g} s: {what}") from None

    async def received(self, many: int) -> list[Inbound]:
        """Return the messages that arrived from people, after checking that they are exactly ``many``."""
        await self.until(f"{many} messages arrive", lambda: len(self.of_people()) >= many)
        await asyncio.sleep(self._quiet)
        found = self.of_people()
        assert len(found) == many, f"{many} messages were written, and these arrived: {[one.text for one in found]}"
        return found

    def of_people(self) -> list[Inbound]:
        return [one for one in self.host.received if not one.is_bot and not one.edits]

    async def seen(self, message_id: str, chat: Chat | None = None) -> SeenMessage:
        found = await self.desk.shown(chat or self.desk.direct)
        assert message_id in [one.id for one in found], f"{message_id} is not shown: {found}"
        return next(one for one in found if one.id == message_id)

    async def not_sent(self, out: Outbound) -> NotSent:
        try:
            await self.platform.send(out)
        except NotSent as error:
            return error
        most = self.platform.traits.max_chars
        raise AssertionError(f"send() has to raise NotSent: {len(out.text)} of {most} characters, to the chat {out.chat.id!r}")

    async def fetched(self, message: Inbound) -> list[bytes]:
        return [b"".join([piece async for piece in self.platform.fetch(one)]) for one in message.attachments]
