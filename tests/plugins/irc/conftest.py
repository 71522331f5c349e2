"""A real ngircd with services that report logged-in users, a fake with account-tag and SASL, users, and a gateway."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import itertools
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from agent.api import assemble
from agent.config import load_config
from agent.conversation.session import Session
from agent.gateway.gateway import Gateway
from agent.process import Crib
from agent.store.memory import MemoryStore
from plugins.irc.platform import IrcPlatform
from tests.agent.gateway.conftest import Parrot
from tests.plugins.irc.fake import FakeIrc
from toolcrib.testing import FakeHost

_LIMIT = 60.0
_NAMES = itertools.count(1)


class Ngircd:
    """The server of tests/infra/ngircd.py."""

    def __init__(self, *options: str) -> None:
        argv = [sys.executable, "-m", "tests.infra.ngircd", *options]
        root = Path(__file__).parents[3]
        self._process = subprocess.Popen(argv, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        word, _, rest = self._answer().partition(" ")
        if word != "ready":
            self.close()
            if word == "missing":
                pytest.skip(rest)
            pytest.fail(f"ngircd did not start: {rest or word}")
        port, tls_port, folder = rest.split(" ", 2)
        self.port, self.tls_port, self.folder = int(port), int(tls_port), Path(folder)

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def control(self, command: str) -> None:
        """Send ``kill``, ``stop`` or ``start``."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        assert self._answer().startswith("ok")

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait(_LIMIT)
        self._process.stdout.close()


def settings_of(port: int, nick: str, *channels: str, **more: str) -> dict[str, str]:
    """Return settings for the real server; those for the fake differ by ``more``."""
    found = {"server": f"127.0.0.1:{port}", "tls": "false", "nick": nick, "login": "none", "accounts": "whois"}
    return {**found, "per_second": "1000", "burst": "100", "channels": " ".join(channels), **more}


class _Line:
    """A connection with plain lines; ``lines`` are all received lines."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.lines: list[str] = []
        self._numbers = itertools.count(1)

    async def open(self, *first: str) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._task = asyncio.create_task(self._read(self._reader))
        for line in first:
            self.send(line)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.readline():
                line = data.decode(errors="replace").rstrip("\r\n")
                if line.startswith("PING"):
                    self.send(f"PONG {line[5:]}")
                self.lines.append(line)

    def send(self, line: str) -> None:
        self._writer.write(f"{line}\r\n".encode())

    async def settled(self) -> None:
        """Wait until the server has processed all earlier lines."""
        token = f"t{next(self._numbers)}"
        self.send(f"PING {token}")
        await self.until(lambda: any("PONG" in line and line.endswith(token) for line in self.lines))

    async def leave(self) -> None:
        self._writer.close()
        await asyncio.gather(self._task, return_exceptions=True)

    async def until(self, holds: Callable[[], object], seconds: float = _LIMIT) -> Any:
        give_up = asyncio.get_running_loop().time() + seconds
        while not (found := holds()):
            if asyncio.get_running_loop().time() > give_up:
                raise AssertionError(self.lines[-12:])
            await asyncio.sleep(0.01)
        return found


class Services(_Line):
    """A server linked to the real one, like services."""

    async def __aenter__(self) -> Services:
        await self.link()
        return self

    async def link(self) -> None:
        self.lines.clear()
        await self.open("PASS linkpw 0210-IRC+ toolcrib|0:CHLMSXo P", "SERVER services.test :services")
        await self.until(lambda: any(" 376 " in line for line in self.lines))
        self.send(":services.test 376 irc.test :End of MOTD command")

    async def __aexit__(self, *_: object) -> None:
        await self.leave()

    async def login(self, nick: str, account: str) -> None:
        """Report the account of a nick."""
        await self.until(lambda: any(f" NICK {nick} " in line or f" NICK :{nick}" in line for line in self.lines))
        self.send(f":services.test METADATA {nick} accountname :{account}")


class Person(_Line):
    """A user on a server, with a nick."""

    def __init__(self, port: int, nick: str) -> None:
        super().__init__(port)
        self.nick = f"{nick}{next(_NAMES)}"
        self.id = f"account-of-{nick[0]}{next(_NAMES)}"

    async def __aenter__(self) -> Person:
        await self.enter()
        return self

    async def enter(self) -> None:
        self.lines.clear()
        await self.open(f"NICK {self.nick}", "USER u 0 * :x")
        await self.until(lambda: any(" 001 " in line for line in self.lines))

    async def __aexit__(self, *_: object) -> None:
        await self.leave()

    async def joins(self, *channels: str) -> None:
        for one in channels:
            self.send(f"JOIN {one}")
        await self.settled()

    async def says(self, target: str, text: str) -> None:
        self.send(f"PRIVMSG {target} :{text}")
        await self.settled()

    def heard(self, nick: str, target: str = "") -> list[str]:
        """Return a nick's messages to this user, or in a channel."""
        start = f" PRIVMSG {target or self.nick} :"
        return [line.partition(start)[2] for line in self.lines if f":{nick}!" in line.split(" PRIVMSG ")[0] and start in line]


class IrcHouse:
    """Opens gateways with one store and one nick on a server. ``asked`` are the models' messages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = MemoryStore()
        self.nick = f"crib{next(_NAMES)}"
        self.channel = f"#room{next(_NAMES)}"
        self.asked: list[str] = []
        self.ran: set[str] = set()
        self.may = asyncio.Event()
        self.models: dict[str, Parrot] = {}
        self.cribs: list[Crib] = []

    def configure(self, port: int, owner: str, *allowed: str, chats: Sequence[str] = ("*",), **more: str) -> None:
        irc = {
            "roles": {"owner": [owner]},
            "allowed_users": list(allowed),
            "allowed_chats": list(chats),
            "allow_local": True,
            "settings": settings_of(port, self.nick, self.channel, **more),
        }
        config = {"plugins": {"enabled": ["irc"]}, "platforms": {"irc": irc}}
        (self.folder / "config.yaml").write_text(json.dumps(config))  # JSON is YAML too

    def gateway(self) -> Gateway:
        crib = assemble(config=load_config(self.folder / "config.yaml"), project_dir=self.folder, store=self.store)
        self.cribs.append(crib)
        return Gateway(crib, names=["irc"], prepare=self.prepare)

    def prepare(self, session: Session) -> None:
        session.link.use(self.models.setdefault(session.id, Parrot(self)))


@pytest.fixture(scope="session")
def ngircd() -> Iterator[Ngircd]:
    """A server without flood penalties; a test that ends it must start it again."""
    yield from _server()


@pytest.fixture(scope="session")
def strict_ngircd() -> Iterator[Ngircd]:
    """A server with ngircd's default flood penalties."""
    yield from _server("--limits")


def _server(*options: str) -> Iterator[Ngircd]:
    if importlib.util.find_spec("irc") is None:
        pytest.skip("needs the irc library")
    server = Ngircd(*options)
    yield server
    server.close()


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[IrcHouse]:
    if importlib.util.find_spec("irc") is None:
        pytest.skip("needs the irc library")
    monkeypatch.setenv("TOOLCRIB_STATE", str(tmp_path / "state"))
    project = tmp_path / "project"
    project.mkdir()
    made = IrcHouse(project)
    yield made
    for crib in made.cribs:
        crib.close()


@contextlib.asynccontextmanager
async def platform_of(host: FakeHost) -> AsyncIterator[IrcPlatform]:
    """Yield the platform alone, with a host in memory."""
    platform = IrcPlatform("irc", host)
    try:
        await platform.connect()
        await platform.start()
        yield platform
    finally:
        await platform.stop()


@contextlib.asynccontextmanager
async def fake_irc(**more: Any) -> AsyncIterator[FakeIrc]:
    fake = FakeIrc(**more)
    await fake.open()
    try:
        yield fake
    finally:
        await fake.close()
