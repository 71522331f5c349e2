"""The e-mail platform passes the suite for chat platforms, on real IMAP and SMTP servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from email.message import EmailMessage

import pytest

from plugins.email.platform import EmailPlatform
from tests.infra.mail import DOMAIN, PASSWORD
from tests.plugins.email.conftest import CHOICE, Person, Post, decide, link_in, link_settings, open_link, text_of
from toolcrib.chat import Chat
from toolcrib.testing import PlatformDesk, PlatformSuite, SeenMessage


class EmailDesk(PlatformDesk):
    """One thread of a user."""

    factory = EmailPlatform
    secrets: Mapping[str, str] = {"EMAIL_PASSWORD": PASSWORD}
    gone = Chat(f"nobody@{DOMAIN}", f"none@{DOMAIN}")

    def __init__(self, post: Post) -> None:
        addresses = post.accounts()
        self._post = post
        self._people = {one: Person(post, one, addresses["bot"]) for one in addresses.values()}
        self.settings = post.settings(addresses["bot"], **link_settings())
        self.user, self.other = addresses["ann"], addresses["bob"]
        self.direct = Chat(self.user, f"root@{DOMAIN}")

    async def write(self, chat: Chat, text: str, *, user: str, reply_to: str = "", is_addressed: bool = False) -> str:
        return await asyncio.to_thread(self._people[user].writes, text, answers=chat.thread)

    async def write_file(self, chat: Chat, name: str, data: bytes, *, user: str) -> str:
        return await asyncio.to_thread(self._people[user].writes, "", answers=chat.thread, files={name: data})

    async def bot_writes(self, chat: Chat, text: str) -> None:
        await asyncio.to_thread(self._people[self.user].writes, text, answers=chat.thread, Auto_Submitted="auto-replied")

    async def press(self, chat: Chat, message_id: str, choice: str, *, user: str) -> str:
        [mail] = [one for one in self._people[user].mail() if _id_of(one) == message_id]
        answer = await decide(link_in(mail), choice)
        return "settled" if "<p>settled</p>" in answer.text else answer.text

    async def shown(self, chat: Chat) -> Sequence[SeenMessage]:
        await asyncio.to_thread(self._post.wait_for_queue)
        return [await _seen(one) for one in self._people[self.user].mail()]

    async def kill(self) -> None:
        await asyncio.to_thread(self._post.control, "kill")

    async def revive(self) -> None:
        await asyncio.to_thread(self._post.control, "start")


def _id_of(mail: EmailMessage) -> str:
    return str(mail["Message-ID"]).strip("<>")


async def _seen(mail: EmailMessage) -> SeenMessage:
    files = {str(part.get_filename()): part.get_payload(decode=True) for part in mail.iter_attachments()}
    link = link_in(mail)
    choices = CHOICE.findall((await open_link(link)).text) if link else []
    return SeenMessage(_id_of(mail), text_of(mail), choices, files)  # type: ignore[arg-type]  # files are bytes


class TestEmail(PlatformSuite):
    seconds = 30.0

    @pytest.fixture(autouse=True)
    def _servers(self, mail_servers: Post) -> None:
        self._post = mail_servers

    @asynccontextmanager
    async def desk(self) -> AsyncIterator[EmailDesk]:
        yield EmailDesk(self._post)
