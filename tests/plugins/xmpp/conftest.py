"""A real Prosody, users on it who write by plain stanzas, and a gateway whose configuration enables the platform."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import itertools
import json
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import httpx
import pytest

from agent.api import assemble
from agent.config import load_config
from agent.conversation.session import Session
from agent.gateway.gateway import Gateway
from agent.process import Crib
from agent.store.memory import MemoryStore
from plugins.xmpp.platform import XmppPlatform
from tests.agent.gateway.conftest import Parrot
from tests.infra.served import NO_TLS
from toolcrib.testing import FakeHost

_LIMIT = 60.0
_NAMES = itertools.count(1)
MESSAGE = "{jabber:client}message"


class Prosody:
    """The server of tests/infra/prosody.py."""

    def __init__(self) -> None:
        script = Path(__file__).parents[2] / "infra" / "prosody.py"
        self._process = subprocess.Popen(
            [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        word, _, rest = self._answer().partition(" ")
        if word != "ready":
            self.close()
            if word == "missing":
                pytest.skip(rest)
            pytest.fail(f"Prosody did not start: {rest or word}")
        port, self.certificate, _, component = rest.split(" ")
        self.port, self.component = int(port), int(component)

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def control(self, command: str) -> None:
        """Send ``kill``, ``stop``, ``start`` or ``register NAME``."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        assert self._answer().startswith("ok")

    def register(self, name: str) -> str:
        """Register an account, and return its address; its password is its name with pw after it."""
        name = f"{name}{next(_NAMES)}"
        self.control(f"register {name}")
        return f"{name}@localhost"

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait(_LIMIT)
        self._process.stdout.close()

    def settings(self, account: str, **more: str) -> dict[str, str]:
        where = {"server": f"127.0.0.1:{self.port}", "ca_file": self.certificate}
        return {"user": account, **where, "per_second": "1000", "edit_seconds": "0.1", **more}


@dataclass
class Said:
    """A message of the bot in its present form; ``known_as`` is its id for a room, or for the sender."""

    id: str
    known_as: str
    forms: list[str] = field(default_factory=list)
    url: str = ""
    reactions: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return self.forms[-1]


class Person:
    """A user on the server. ``seen`` has the received messages."""

    def __init__(self, server: Prosody, name: str) -> None:
        self.server = server
        self.id = server.register(name)
        self.name = self.id.partition("@")[0]
        self.seen: list[Element] = []
        self._numbers = itertools.count(1)

    async def __aenter__(self) -> Person:
        await self.enter()
        return self

    async def enter(self) -> None:
        from slixmpp import ClientXMPP
        from slixmpp.xmlstream.handler import Callback
        from slixmpp.xmlstream.matcher import MatchXPath

        self.client: Any = ClientXMPP(f"{self.id}/{next(self._numbers)}", f"{self.name}pw")
        self.client.ssl_context = ssl.create_default_context(cafile=self.server.certificate)
        self.client.enable_direct_tls = self.client.enable_plaintext = False
        for name in ("xep_0030", "xep_0045", "xep_0199", "xep_0313", "xep_0363"):
            self.client.register_plugin(name)
        self.client.register_handler(Callback("all", MatchXPath(MESSAGE), lambda got: self.seen.append(got.xml)))
        self.client.connect("127.0.0.1", self.server.port)
        await self.client.wait_until("session_start", _LIMIT)
        self.client.send_presence()

    async def __aexit__(self, *_: object) -> None:
        await self.leave()

    async def leave(self) -> None:
        self.client.cancel_connection_attempt()
        await self.client.disconnect(wait=1.0)
        self.client.cancel_connection_attempt()
        self.client.abort()
        filters = self.client._run_out_filters
        filters.cancel()
        await asyncio.gather(filters, return_exceptions=True)

    # -- actions -------------------------------------------------------------------------------------------------

    async def room(self, *others: Person, name: str = "") -> str:
        """Create a room that reports its occupants' addresses, and add others."""
        room = f"{name or 'room'}{next(_NAMES)}@rooms.localhost"
        for one in (self, *others):
            await one.join(room)
            if one is self:
                form = await self.client.plugin["xep_0045"].get_room_config(room)
                form.set_values({**form.get_values(), "muc#roomconfig_whois": "anyone"}) if hasattr(form, "set_values") else None
                await self.client.plugin["xep_0045"].set_room_config(room, form)
        return room

    async def join(self, room: str) -> None:
        from slixmpp import JID

        await self.client.plugin["xep_0045"].join_muc_wait(JID(room), self.name, maxstanzas=0, timeout=_LIMIT)

    async def says(self, to: str, text: str, more: str = "", *, number: str = "") -> str:
        """Write a message, and return its own id; ``more`` is XML."""
        kind = "groupchat" if "@rooms." in to else "chat"
        ours = number or f"{self.name}-{next(self._numbers)}"
        body = f"<body>{_escaped(text)}</body>" if text else ""
        self.client.send_raw(f'<message to="{to}" type="{kind}" id="{ours}">{body}{more}</message>')
        await self.client.plugin["xep_0199"].send_ping("localhost", timeout=_LIMIT)
        return ours

    async def corrects(self, to: str, ours: str, text: str) -> None:
        await self.says(to, text, f'<replace xmlns="urn:xmpp:message-correct:0" id="{ours}"/>')

    async def answers(self, to: str, known_as: str, text: str) -> str:
        return await self.says(to, text, f'<reply xmlns="urn:xmpp:reply:0" id="{known_as}"/>')

    async def reacts(self, to: str, known_as: str, *emoji: str) -> None:
        given = "".join(f"<reaction>{one}</reaction>" for one in emoji)
        hint = '<store xmlns="urn:xmpp:hints"/>'
        await self.says(to, "", f'<reactions xmlns="urn:xmpp:reactions:0" id="{known_as}">{given}</reactions>{hint}')

    async def invites(self, user: str, room: str) -> None:
        self.client.send_raw(f'<message to="{user}"><x xmlns="jabber:x:conference" jid="{room}"/></message>')

    async def gives(self, to: str, name: str, data: bytes, text: str = "") -> str:
        slot = await self.client.plugin["xep_0363"].request_slot("up.localhost", name, len(data), "application/octet-stream")
        place = slot["http_upload_slot"]["put"]
        headers = {one["name"]: one["value"] for one in place["headers"]} | {"Content-Type": "application/octet-stream"}
        async with httpx.AsyncClient(verify=NO_TLS) as http:
            (await http.put(place["url"], content=data, headers=headers)).raise_for_status()
        url = slot["http_upload_slot"]["get"]["url"]
        return await self.says(to, text or url, f'<x xmlns="jabber:x:oob"><url>{url}</url></x>')

    # -- observations --------------------------------------------------------------------------------------------

    def said(self, where: str, bot: str = "") -> list[Said]:
        """Return the bot's messages in a room, or in the chat with that account, in their present form."""
        sender = f"{where}/{bot}" if "@rooms." in where else where
        return folded([one for one in self.seen if one.get("from", "").partition("/")[0] == where], sender)

    def texts(self, where: str, bot: str = "") -> list[str]:
        return [one.text for one in self.said(where, bot)]

    async def until(self, holds: Callable[[], object], seconds: float = _LIMIT) -> Any:
        give_up = asyncio.get_running_loop().time() + seconds
        while not (found := holds()):
            if asyncio.get_running_loop().time() > give_up:
                raise AssertionError([(one.get("from"), one.findtext("{jabber:client}body")) for one in self.seen[-8:]])
            await asyncio.sleep(0.02)
        return found


class Foreign:
    """A foreign server, foreign.localhost. ``answer`` gets each stanza, and returns XML to send, "" for none; ``seen`` has all
    received stanzas.
    """

    def __init__(self, server: Prosody) -> None:
        self.server = server
        self.seen: list[Element] = []
        self.answer: Callable[[Element], str] = lambda _: ""

    async def __aenter__(self) -> Foreign:
        from slixmpp import ComponentXMPP

        self.client: Any = ComponentXMPP("foreign.localhost", "foreignpw", "127.0.0.1", self.server.component)
        self.client.enable_direct_tls = False
        self.client.add_filter("in", self._took)
        self.client.connect()
        await self.client.wait_until("session_start", _LIMIT)
        return self

    def _took(self, stanza: Any) -> Any:
        if not stanza.xml.tag.endswith(("}message", "}presence", "}iq")):
            return stanza
        self.seen.append(stanza.xml)
        one = stanza.xml
        if one.tag.endswith("}iq") and one.get("to") == "foreign.localhost":
            self.says(f'<iq type="result" from="foreign.localhost" to="{one.get("from")}" id="{one.get("id")}"/>')
        elif said := self.answer(one):
            self.says(said)
        return None  # so that the library answers nothing

    def says(self, xml: str) -> None:
        self.client.send_raw(xml)

    async def __aexit__(self, *_: object) -> None:
        self.client.cancel_connection_attempt()
        await self.client.disconnect(wait=1.0)
        self.client.cancel_connection_attempt()
        self.client.abort()
        filters = self.client._run_out_filters
        filters.cancel()
        await asyncio.gather(filters, return_exceptions=True)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


def folded(stanzas: Sequence[Element], sender: str) -> list[Said]:
    """Return the messages of a sender among stanzas, with the sender's corrections and reactions."""
    found: dict[str, Said] = {}
    for one in stanzas:
        who = one.get("from", "")
        if who != sender and who.partition("/")[0] != sender:
            continue
        ours, body = one.get("id", ""), one.findtext("{jabber:client}body")
        replaced = one.find("{urn:xmpp:message-correct:0}replace")
        reactions = one.find("{urn:xmpp:reactions:0}reactions")
        if reactions is not None:
            for shown in found.values():
                if shown.known_as == reactions.get("id"):
                    shown.reactions = [child.text or "" for child in reactions]
        elif replaced is not None and body is not None:
            found[replaced.get("id", "")].forms.append(body)
        elif body is not None and one.get("type") != "error":
            known = one.find("{urn:xmpp:sid:0}stanza-id")
            in_room = one.get("type") == "groupchat" and known is not None
            number = f"{ours}~{len(found)}" if ours in found else ours  # shown twice
            url = one.findtext("{jabber:x:oob}x/{jabber:x:oob}url") or ""
            found[number] = Said(ours, known.get("id", "") if in_room and known is not None else ours, [body], url)
    return list(found.values())


class XmppHouse:
    """Opens gateways with one store and one account of the server. ``asked`` are the models' messages."""

    def __init__(self, folder: Path, server: Prosody) -> None:
        self.folder = folder
        self.server = server
        self.store = MemoryStore()
        self.bot = server.register("bot")
        self.nick = self.bot.partition("@")[0]
        self.asked: list[str] = []
        self.ran: set[str] = set()
        self.may = asyncio.Event()
        self.models: dict[str, Parrot] = {}
        self.cribs: list[Crib] = []

    def configure(self, owner: str, *allowed: str, chats: Sequence[str] = ("*",), rooms: str = "") -> None:
        xmpp = {
            "roles": {"owner": [owner]},
            "allowed_users": list(allowed),
            "allowed_chats": list(chats),
            "allow_local": True,
            "settings": self.server.settings(self.bot, **({"rooms": rooms} if rooms else {})),
        }
        config = {"plugins": {"enabled": ["xmpp"]}, "platforms": {"xmpp": xmpp}}
        (self.folder / "config.yaml").write_text(json.dumps(config))  # JSON is YAML too

    def gateway(self) -> Gateway:
        crib = assemble(config=load_config(self.folder / "config.yaml"), project_dir=self.folder, store=self.store)
        self.cribs.append(crib)
        return Gateway(crib, names=["xmpp"], prepare=self.prepare)

    def prepare(self, session: Session) -> None:
        session.link.use(self.models.setdefault(session.id, Parrot(self, streams=True)))

    def person(self, name: str) -> Person:
        return Person(self.server, name)


@pytest.fixture(scope="session")
def prosody() -> Iterator[Prosody]:
    """A server; a test that ends it must start it again."""
    if importlib.util.find_spec("slixmpp") is None:
        pytest.skip("needs slixmpp")
    server = Prosody()
    yield server
    server.close()


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prosody: Prosody) -> Iterator[XmppHouse]:
    monkeypatch.setenv("TOOLCRIB_STATE", str(tmp_path / "state"))
    project = tmp_path / "project"
    project.mkdir()
    made = XmppHouse(project, prosody)
    monkeypatch.setenv("XMPP_PASSWORD", f"{made.nick}pw")
    yield made
    for crib in made.cribs:
        crib.close()


@contextlib.asynccontextmanager
async def platform_of(host: FakeHost) -> AsyncIterator[XmppPlatform]:
    """Yield the platform alone, with a host in memory."""
    platform = XmppPlatform("xmpp", host)
    try:
        await platform.connect()
        await platform.start()
        yield platform
    finally:
        await platform.stop()
