"""Gateways for a chat server that the platform chooses, and its users."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.api import assemble
from agent.config import load_config
from agent.conversation.session import Session
from agent.gateway.gateway import Gateway
from agent.store.memory import MemoryStore
from tests.agent.gateway.conftest import House, Parrot, line_of
from toolcrib import ProviderTurn
from toolcrib.contract.session import OnEvent, StreamEvent
from toolcrib.contract.store import Store

OWNED = """
plugins: {{enabled: [{name}]}}
platforms:
  {name}:
    roles: {{owner: ['{ann}']}}
    allowed_users: ['{bob}']
    allowed_chats: ['*']
    allow_local: true
    settings: {settings}
"""


async def holds(what: Callable[[], Any], seconds: float = 60.0) -> None:
    async with asyncio.timeout(seconds):
        while not what():
            await asyncio.sleep(0.02)


@contextmanager
def case(name: str) -> Iterator[None]:
    """Name one of many cases that a gateway goes through, if it fails."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"the case: {name}")
        raise


async def all_asked(store: Store, platform: str) -> None:
    """Wait until the gateway knows that its questions are shown, which users may see earlier."""
    async with asyncio.timeout(60):
        while any(one.state != "shown" for one in await store.mail.questions(platform)):
            await asyncio.sleep(0.02)


class SlowParrot(Parrot):
    """A model that answers slowly."""

    async def stream_turn(self, on_event: OnEvent) -> ProviderTurn:
        turn = await super().stream_turn(lambda event: None)
        for word in turn.assistant_text.split(" "):
            on_event(StreamEvent("assistant_delta", f"{word} "))
            await asyncio.sleep(0.01)
        return turn


class ChatHouse(House):
    """A house whose chats are on a fake: ``direct`` is ann's, ``another`` bob's, ``room`` has both. eve may not speak."""

    name: str
    ann: str
    bob: str
    eve: str
    direct: str
    another: str
    room: str
    secrets: Mapping[str, str]
    creates: str
    """The request that shows a message, by the fake's name."""
    edits: str
    fake: Any

    def open_fake(self) -> Any:
        """Return a fake with its chats."""
        raise NotImplementedError

    def settings(self) -> str:
        raise NotImplementedError

    def before(self) -> str:
        """Return code that makes a process's library use the fake, if no setting can."""
        return ""

    def say(self, chat: str, user: str, text: str, *, reply_to: str = "", is_addressed: bool = False) -> str:
        raise NotImplementedError

    def send_file(self, chat: str, user: str, text: str, name: str, data: bytes, size: int | None = None) -> None:
        raise NotImplementedError

    def text_of(self, message: dict[str, Any]) -> str:
        raise NotImplementedError

    def buttons_of(self, message: dict[str, Any]) -> list[str]:
        raise NotImplementedError

    def id_of(self, message: dict[str, Any]) -> str:
        raise NotImplementedError

    def press(self, message: dict[str, Any], user: str, data: str) -> None:
        raise NotImplementedError

    def lines(self) -> list[str]:
        """Return the lines that were shown to users who pressed."""
        raise NotImplementedError

    def files_of(self, message: dict[str, Any]) -> dict[str, bytes]:
        raise NotImplementedError

    def loses_acknowledgement(self, then: Callable[[], object] = bool) -> None:
        """Make the next message be shown and its acknowledgement be lost; ``then`` is called between the two."""
        raise NotImplementedError

    def loses_file_acknowledgement(self) -> None:
        self.loses_acknowledgement()

    def floods(self, kind: str) -> None:
        """Make the next request of a kind be refused with a wait of a second."""
        raise NotImplementedError

    # -- common parts --------------------------------------------------------------------------------------------

    def prepare(self, session: Session) -> None:
        session.link.use(self.parrots.setdefault(session.id, SlowParrot(self)))

    def gateway(self) -> Gateway:
        crib = assemble(config=load_config(self.config), project_dir=self.folder, store=self.store)
        self.cribs.append(crib)
        return Gateway(crib, names=[self.name], prepare=self.prepare)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Gateway]:
        """Open the fake and a gateway for it."""
        self.fake = self.open_fake()
        await self.fake.revive()
        self.configure(OWNED.format(name=self.name, ann=self.ann, bob=self.bob, settings=self.settings()))
        async with self.again() as gateway:
            yield gateway

    @asynccontextmanager
    async def again(self) -> AsyncIterator[Gateway]:
        """Open a gateway for the present fake."""
        try:
            async with self.gateway() as gateway:
                line_of(gateway)
                yield gateway
        finally:
            await self.fake.kill()

    def ours(self, chat: str = "") -> list[dict[str, Any]]:
        return list(self.fake.of(chat or self.direct))

    def said(self, chat: str = "") -> list[str]:
        return [self.text_of(one) for one in self.ours(chat)]

    async def question(self, chat: str = "") -> dict[str, Any]:
        await holds(lambda: any(self.buttons_of(one) for one in self.ours(chat)))
        return next(one for one in self.ours(chat) if self.buttons_of(one))

    def button(self, message: dict[str, Any], choice: str) -> str:
        return next(one for one in self.buttons_of(message) if one.partition("\n")[0] == choice)

    async def press_and_read(self, message: dict[str, Any], user: str, data: str) -> str:
        """Press a button, and return the line that is shown."""
        before = len(self.lines())
        self.press(message, user, data)
        await holds(lambda: len(self.lines()) > before)
        return self.lines()[-1]

    async def is_idle(self, gateway: Gateway) -> None:
        """Wait until nothing runs, so that earlier messages cause no later work."""
        [record, *_] = await self.store.mail.chats()
        await holds(lambda: not line_of(gateway).manager.at_work(record.session_id))

    @property
    def doomed(self) -> Path:
        return self.folder / "build"

    def dooms(self) -> str:
        self.doomed.mkdir()
        return f"rm -rf {self.doomed}"


def house_of(kind: type[ChatHouse], folder: Path, patch: pytest.MonkeyPatch) -> ChatHouse:
    """Return a house with its own state."""
    patch.setenv("TOOLCRIB_STATE", str(folder / "state"))
    for name, value in kind.secrets.items():
        patch.setenv(name, value)
    (folder / "project").mkdir()
    return kind(folder / "project", MemoryStore())
