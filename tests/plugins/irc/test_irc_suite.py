"""The IRC platform passes the suite for chat platforms, on a real ngircd with services, and on a fake with account-tag."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any
from unittest import SkipTest

import pytest

from plugins.irc.platform import IrcPlatform
from tests.plugins.irc.conftest import _NAMES, Ngircd, Person, Services, fake_irc, settings_of
from tests.plugins.irc.fake import FakeIrc
from toolcrib.chat import Chat, Outbound
from toolcrib.testing import PlatformDesk, PlatformSuite, SeenMessage


class IrcDesk(PlatformDesk):
    """A channel and a direct chat. Lines that users receive count as shown; the desk records their ids, because IRC has none."""

    gone = Chat("nobody-account")

    def __init__(self, port: int, people: Sequence[Person], **more: str) -> None:
        self._user, self._other = people
        self._people = {one.id: one for one in people}
        self.user, self.other = self._people
        self.nick = f"crib{next(_NAMES)}"
        self.channel = f"#room{next(_NAMES)}"
        self.direct, self.group = Chat(self.user), Chat(self.channel, is_group=True)
        self.settings = settings_of(port, self.nick, self.channel, **more)
        self._platform: Any = None
        self._shown: list[tuple[str, str, str]] = []

    async def furnish(self) -> None:
        """Make the users join the channel and log in."""
        for one in self._people.values():
            await one.joins(self.channel)
            await self.login(one)

    async def login(self, person: Person) -> None:
        raise NotImplementedError

    def factory(self, **given: Any) -> IrcPlatform:
        desk = self

        class Noting(IrcPlatform):
            """Records the lines that users receive of each message."""

            async def send(self, out: Outbound) -> str:
                where = desk.channel if out.chat.is_group else ""
                before = len(desk._user.heard(desk.nick, where))
                ours = await super().send(out)
                await desk._user.settled()
                text = "\n".join(desk._user.heard(desk.nick, where)[before:])
                desk._shown.append((out.chat.id, ours, text))
                return ours

        given["host"].kept.setdefault("nicks", {self.user: self._user.nick})
        self._platform = Noting(**given)
        return self._platform

    async def write(self, chat: Chat, text: str, *, user: str, reply_to: str = "", is_addressed: bool = False) -> str:
        if reply_to:
            raise SkipTest("IRC has no replies")
        person, latest = self._people[user], self._platform.latest
        if self._platform._link is None:
            raise SkipTest("IRC loses messages while the bot is away")
        if chat.is_group and not is_addressed and self.settings["accounts"] == "whois":
            raise SkipTest("with WHOIS, only messages to the bot are identified")
        await person.says(self.channel if chat.is_group else self.nick, f"{self.nick}: {text}" if is_addressed else text)
        with suppress(AssertionError):
            await person.until(lambda: self._platform.latest != latest, 1.0)
        return str(self._platform.latest)

    async def shown(self, chat: Chat) -> Sequence[SeenMessage]:
        found = [(ours, text) for where, ours, text in self._shown if where == chat.id]
        return [
            SeenMessage(ours, text, (), {}, [one.nick for one in self._people.values() if one.nick in text])
            for ours, text in found
        ]

    async def bot_writes(self, chat: Chat, text: str) -> None:
        """Send a notice, as programs do."""
        self._user.send(f"NOTICE {self.channel if chat.is_group else self.nick} :{text}")
        await self._user.settled()


class NgircdDesk(IrcDesk):
    """Uses the real server, whose services report logged-in users."""

    def __init__(self, server: Ngircd, services: Services, people: Sequence[Person]) -> None:
        super().__init__(server.port, people)
        self._server = server
        self._services = services

    async def login(self, person: Person) -> None:
        await self._services.login(person.nick, person.id)

    async def kill(self) -> None:
        self._server.control("kill")
        for one in (self._services, *self._people.values()):
            await one.leave()

    async def revive(self) -> None:
        self._server.control("start")
        await self._services.link()
        for one in self._people.values():
            await one.enter()
        await self.furnish()


class FakeDesk(IrcDesk):
    """Uses the fake, which reports the account with each message."""

    def __init__(self, fake: FakeIrc, people: Sequence[Person]) -> None:
        super().__init__(fake.port, people, accounts="tags")
        self._fake = fake

    async def login(self, person: Person) -> None:
        self._fake.client(person.nick).account = person.id

    async def kill(self) -> None:
        await self._fake.close()
        for one in self._people.values():
            await one.leave()

    async def revive(self) -> None:
        await self._fake.open()
        for one in self._people.values():
            await one.enter()
        await self.furnish()


class TestIrcOnNgircd(PlatformSuite):
    @pytest.fixture(autouse=True)
    def _ngircd(self, ngircd: Ngircd) -> None:
        self._server = ngircd

    @asynccontextmanager
    async def desk(self) -> AsyncIterator[NgircdDesk]:
        async with AsyncExitStack() as stack:
            services = await stack.enter_async_context(Services(self._server.port))
            people = [await stack.enter_async_context(Person(self._server.port, name)) for name in ("alice", "bob")]
            desk = NgircdDesk(self._server, services, people)
            await desk.furnish()
            yield desk


class TestIrcOnAFake(PlatformSuite):
    @asynccontextmanager
    async def desk(self) -> AsyncIterator[FakeDesk]:
        async with AsyncExitStack() as stack:
            fake = await stack.enter_async_context(fake_irc())
            people = [await stack.enter_async_context(Person(fake.port, name)) for name in ("alice", "bob")]
            desk = FakeDesk(fake, people)
            await desk.furnish()
            yield desk
