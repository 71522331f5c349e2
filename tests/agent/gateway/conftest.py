"""A gateway with a store, platforms in memory and a scripted model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from agent.api import assemble
from agent.config import Config, load_config
from agent.conversation.session import Session
from agent.gateway.gateway import Gateway
from agent.gateway.platform_runner import ChatLine
from agent.process import Crib
from agent.store.memory import MemoryStore
from toolcrib import ProviderTurn, ToolCall
from toolcrib.contract.session import OnEvent, StreamEvent
from toolcrib.contract.store import Store
from toolcrib.testing import FakePlatform, ScriptedSession

OWNED = """
platforms:
  fake:
    roles: {owner: [ann]}
    allowed_users: [bob, carl]
    allowed_chats: ['*']
    allow_local: true
"""


class Heard(Protocol):
    """The part of a ``House`` that a Parrot uses."""

    asked: list[str]
    ran: set[str]
    may: asyncio.Event


class Parrot(ScriptedSession):
    """A model that repeats each message; ``rm`` is run as a command, ``wait`` waits for permission. With ``streams`` its answer
    comes word by word, for ``slow`` messages slowly.
    """

    def __init__(self, house: Heard, *, streams: bool = False) -> None:
        super().__init__()
        self._house = house
        self._streams = streams

    async def stream_turn(self, on_event: OnEvent) -> ProviderTurn:
        said = self.said[-1] if self.said else ""
        self._house.asked.append(said)
        if "wait" in said:
            await self._house.may.wait()
        if "rm " in said and said not in self._house.ran:
            self._house.ran.add(said)
            command = said[said.index("rm ") :]
            return ProviderTurn("", (ToolCall(ToolCall.new_id(), "terminal", {"command": command}),), "x")
        text = f"re {said}" if "rm " not in said else "ran it"
        for word in text.split(" ") if self._streams else ():
            on_event(StreamEvent("assistant_delta", f"{word} "))
            await asyncio.sleep(0.25 if "slow" in said else 0)
        return ProviderTurn(text, assistant_turn="x")


class House:
    """Opens gateways with one store and one configuration. ``asked`` are the models' messages, ``seen`` the platforms
    that ran.
    """

    def __init__(self, folder: Path, store: Store) -> None:
        self.folder = folder
        self.store = store
        self.config = folder / "config.yaml"
        self.asked: list[str] = []
        self.ran: set[str] = set()
        self.may = asyncio.Event()
        self.parrots: dict[str, Parrot] = {}
        self.cribs: list[Crib] = []
        self.platform = FakePlatform()
        self.more: dict[str, Any] = {}
        self.others: dict[str, Callable[..., FakePlatform]] = {}
        """Factories of further platforms, by name."""

    def configure(self, text: str) -> None:
        self.config.write_text(text)

    def factory(self, **given: Any) -> FakePlatform:
        """Return the one platform. It outlives the gateway, so shown messages remain."""
        self.platform.host = given["host"]
        return self.platform

    def gateway(self) -> Gateway:
        config: Config = load_config(self.config)
        crib = assemble(config=config, project_dir=self.folder, store=self.store)
        crib._add_platform("fake", self.factory)
        for name, factory in self.others.items():
            crib._add_platform(name, factory)
        self.cribs.append(crib)
        return Gateway(crib, prepare=self.prepare, **self.more)

    def prepare(self, session: Session) -> None:
        session.link.use(self.parrots.setdefault(session.id, Parrot(self)))

    async def texts(self, many: int, **chat: Any) -> list[str]:
        """Return the texts in a chat when it has ``many`` messages and no more will be shown."""
        await self.platform.until(lambda: len(self.platform.texts(**chat)) >= many)
        await asyncio.sleep(0.05)
        return self.platform.texts(**chat)

    async def until(self, holds: Callable[[], object]) -> None:
        await self.platform.until(holds)


def line_of(gateway: Gateway) -> ChatLine:
    assert gateway.lines[0].problem == ""
    return gateway.lines[0]


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    monkeypatch.setenv("TOOLCRIB_STATE", str(tmp_path / "state"))
    project = tmp_path / "project"
    project.mkdir()
    made = House(project, MemoryStore())
    made.configure(OWNED)
    yield made
    for crib in made.cribs:
        crib.close()
