"""A real Synapse, users on it who write by plain requests, and a gateway whose configuration enables the platform."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import itertools
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from agent.api import assemble
from agent.config import load_config
from agent.conversation.session import Session
from agent.gateway.gateway import Gateway
from agent.gateway.platform_runner import ChatLine
from agent.process import Crib
from agent.store.memory import MemoryStore
from plugins.matrix.platform import MatrixPlatform
from plugins.matrix.writing import BUTTONS
from tests.agent.gateway.conftest import Parrot
from tests.infra.served import NO_TLS
from toolcrib.testing import FakeHost

_LIMIT = 60.0
_NAMES = itertools.count(1)


class Synapse:
    """The server of tests/infra/synapse.py."""

    def __init__(self, *options: str) -> None:
        script = Path(__file__).parents[2] / "infra" / "synapse.py"
        self._process = subprocess.Popen(
            [sys.executable, str(script), *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        word, _, rest = self._answer().partition(" ")
        if word != "ready":
            self.close()
            if word == "missing":
                pytest.skip(rest)
            pytest.fail(f"Synapse did not start: {rest or word}")
        self.url, _, _ = rest.partition(" ")

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def control(self, command: str) -> None:
        """Send ``kill``, ``stop`` or ``start``."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        assert self._answer().startswith("ok")

    def register(self, name: str) -> tuple[str, str]:
        """Register an account, and return (user id, token)."""
        given = {"username": f"{name}{next(_NAMES)}", "password": "pw", "auth": {"type": "m.login.dummy"}}
        answer = httpx.post(f"{self.url}/_matrix/client/v3/register", json=given, timeout=_LIMIT, verify=NO_TLS)
        answer.raise_for_status()
        return answer.json()["user_id"], answer.json()["access_token"]

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait(_LIMIT)
        self._process.stdout.close()


class Person:
    """A user on the server. ``seen`` has each received event, in order; it is empty if the user does not sync."""

    def __init__(self, synapse: Synapse, name: str, *, looks: bool = True) -> None:
        self._url = f"{synapse.url}/_matrix/client"
        self._looks = looks
        self.id, self.token = synapse.register(name)
        self.name = self.id[1:].partition(":")[0]
        self.seen: list[dict[str, Any]] = []
        self._since = ""
        self._numbers = itertools.count(1)

    async def __aenter__(self) -> Person:
        self._http = httpx.AsyncClient(verify=NO_TLS, headers={"Authorization": f"Bearer {self.token}"}, timeout=_LIMIT)
        self._tasks = [asyncio.create_task(self._look())] if self._looks else []
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._http.aclose()

    async def ask(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        answer = await self._http.request(method, f"{self._url}/{path}", json=body, params=query)
        assert answer.status_code < 300, answer.text
        return answer.json()

    async def _look(self) -> None:
        while True:
            try:
                found = await self.ask("GET", "v3/sync", timeout=5_000, **({"since": self._since} if self._since else {}))
            except (httpx.HTTPError, AssertionError):
                await asyncio.sleep(0.1)
                continue
            for room, info in found.get("rooms", {}).get("join", {}).items():
                self.seen += [event | {"room_id": room} for event in info["timeline"]["events"]]
            self._since = found["next_batch"]

    # -- actions -------------------------------------------------------------------------------------------------

    async def room(self, *others: str, is_direct: bool = True, **more: Any) -> str:
        room = await self.room_alone(*others, is_direct=is_direct, **more)
        await self.until(lambda: all(self.member(room, one) == "join" for one in others if "bot" in one))
        return room

    async def room_alone(self, *others: str, is_direct: bool = True, **more: Any) -> str:
        """Create a room without waiting until its invitations are accepted."""
        body = {"invite": list(others), "is_direct": is_direct, "preset": "private_chat", **more}
        return str((await self.ask("POST", "v3/createRoom", body))["room_id"])

    def member(self, room: str, user: str) -> str:
        found = [event for event in self.seen if event["room_id"] == room and event.get("state_key") == user]
        return found[-1]["content"].get("membership", "") if found else ""

    async def send(self, room: str, kind: str, content: Mapping[str, Any]) -> str:
        where = f"v3/rooms/{quote(room)}/send/{kind}/{next(self._numbers)}"
        return str((await self.ask("PUT", where, content))["event_id"])

    async def says(self, room: str, text: str, **more: Any) -> str:
        return await self.send(room, "m.room.message", {"msgtype": "m.text", "body": text, **more})

    async def answers(self, room: str, event: str, text: str) -> str:
        return await self.says(room, text, **{"m.relates_to": {"m.in_reply_to": {"event_id": event}}})

    async def reacts(self, room: str, event: str, emoji: str) -> str:
        related = {"rel_type": "m.annotation", "event_id": event, "key": emoji}
        return await self.send(room, "m.reaction", {"m.relates_to": related})

    async def uploads(self, name: str, data: bytes, media_type: str) -> str:
        where = f"{self._url.replace('/client', '/media')}/v3/upload"
        answer = await self._http.post(where, params={"filename": name}, content=data, headers={"Content-Type": media_type})
        return str(answer.json()["content_uri"])

    async def downloads(self, mxc: str) -> bytes:
        return (await self._http.get(f"{self._url}/v1/media/download/{mxc.removeprefix('mxc://')}")).content

    # -- observations --------------------------------------------------------------------------------------------

    def messages(self, room: str) -> list[dict[str, Any]]:
        """Return the bot's messages in a room in their present form: the newest content, with ``id`` and the ``forms`` of its
        text.
        """
        return folded(event for event in self.seen if event["room_id"] == room)

    def texts(self, room: str) -> list[str]:
        return [one["body"] for one in self.messages(room)]

    def reactions(self, event: str) -> list[str]:
        """Return the bot's reactions to a message that were not removed."""
        gone = {one.get("redacts") or one["content"].get("redacts") for one in self.seen if one["type"] == "m.room.redaction"}
        related = [
            one["content"].get("m.relates_to", {})
            for one in self.seen
            if one["type"] == "m.reaction" and one["event_id"] not in gone and one["sender"].startswith("@bot")
        ]
        return [one["key"] for one in related if one.get("event_id") == event]

    async def until(self, holds: Callable[[], object], seconds: float = _LIMIT) -> Any:
        """Return the result when the condition holds. Raises AssertionError with the seen events."""
        give_up = asyncio.get_running_loop().time() + seconds
        while not (found := holds()):
            if asyncio.get_running_loop().time() > give_up:
                raise AssertionError(json.dumps([one["content"] for one in self.seen[-8:]], ensure_ascii=False, indent=1))
            await asyncio.sleep(0.02)
        return found


def folded(events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the bot's messages among the events of a room, in the form of ``Person.messages``."""
    found: dict[str, dict[str, Any]] = {}
    for event in events:
        if event["type"] != "m.room.message" or not event["sender"].startswith("@bot"):
            continue
        content, related = event["content"], event["content"].get("m.relates_to", {})
        if related.get("rel_type") == "m.replace":
            shown, new = found[related["event_id"]], content["m.new_content"]
            found[related["event_id"]] = {**shown, **new, BUTTONS: new.get(BUTTONS, {}), "forms": [*shown["forms"], new["body"]]}
        elif event["event_id"] not in found:
            found[event["event_id"]] = {**content, "id": event["event_id"], "forms": [content["body"]]}
    return list(found.values())


class MatrixHouse:
    """Opens gateways with one store and one account of the server. ``asked`` are the models' messages."""

    def __init__(self, folder: Path, synapse: Synapse) -> None:
        self.folder = folder
        self.synapse = synapse
        self.store = MemoryStore()
        self.bot, self.token = synapse.register("bot")
        self.asked: list[str] = []
        self.ran: set[str] = set()
        self.may = asyncio.Event()
        self.models: dict[str, Parrot] = {}
        self.cribs: list[Crib] = []
        self.settings = {"homeserver": synapse.url, "per_second": "1000", "edit_seconds": "0.2"}

    def configure(self, owner: str, *allowed: str, chats: Sequence[str] = ("*",)) -> None:
        matrix = {
            "roles": {"owner": [owner]},
            "allowed_users": list(allowed),
            "allowed_chats": list(chats),
            "allow_local": True,
            "settings": self.settings,
        }
        config = {"plugins": {"enabled": ["matrix"]}, "platforms": {"matrix": matrix}}
        (self.folder / "config.yaml").write_text(json.dumps(config))  # JSON is YAML too

    def gateway(self) -> Gateway:
        crib = assemble(config=load_config(self.folder / "config.yaml"), project_dir=self.folder, store=self.store)
        self.cribs.append(crib)
        return Gateway(crib, names=["matrix"], prepare=self.prepare)

    def prepare(self, session: Session) -> None:
        session.link.use(self.models.setdefault(session.id, Parrot(self, streams=True)))

    def person(self, name: str) -> Person:
        return Person(self.synapse, name)


def line_of(gateway: Gateway) -> ChatLine:
    assert gateway.lines[0].problem == ""
    return gateway.lines[0]


@pytest.fixture(scope="session")
def synapse() -> Iterator[Synapse]:
    """A homeserver without rate limits; a test that ends it must start it again."""
    yield from _homeserver()


@pytest.fixture(scope="session")
def strict_synapse() -> Iterator[Synapse]:
    """A homeserver with Synapse's default rate limits."""
    yield from _homeserver("--limits")


def _homeserver(*options: str) -> Iterator[Synapse]:
    if importlib.util.find_spec("nio") is None:
        pytest.skip("needs matrix-nio")
    server = Synapse(*options)
    yield server
    server.close()


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, synapse: Synapse) -> Iterator[MatrixHouse]:
    monkeypatch.setenv("TOOLCRIB_STATE", str(tmp_path / "state"))
    project = tmp_path / "project"
    project.mkdir()
    made = MatrixHouse(project, synapse)
    monkeypatch.setenv("MATRIX_TOKEN", made.token)
    yield made
    for crib in made.cribs:
        crib.close()


@contextlib.asynccontextmanager
async def platform_of(host: FakeHost, synapse: Synapse, **settings: str) -> AsyncIterator[MatrixPlatform]:
    """Yield the platform alone, with a host in memory and an account of its own."""
    host.settings = {"homeserver": synapse.url, "per_second": "1000", **settings}
    platform = MatrixPlatform("matrix", host)
    try:
        await platform.connect()
        await platform.start()
        yield platform
    finally:
        await platform.stop()


class BotHost(FakeHost):
    """A host in memory whose platform has its own account."""

    def __init__(self, synapse: Synapse, folder: Path) -> None:
        self.account, token = synapse.register("bot")
        super().__init__(secrets={"MATRIX_TOKEN": token}, folder=folder)


@pytest.fixture
def host(synapse: Synapse, tmp_path: Path) -> BotHost:
    return BotHost(synapse, tmp_path)
