"""Hostile requests to the webhook platform's server, through the whole gateway: each is refused, and the next one is answered."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent.api import assemble
from agent.config import load_config
from agent.gateway import outbox, questions
from agent.gateway.gateway import Gateway
from agent.store.memory import MemoryStore
from plugins.webhook import platform as module
from plugins.webhook.forms import outbound_json
from plugins.webhook.platform import BODY_BYTES, WebhookPlatform
from plugins.webhook.signing import HEADER, signature
from tests.agent.gateway.conftest import House, line_of
from tests.infra.served import NO_TLS
from tests.plugins.houses import case
from tests.plugins.webhook.test_webhook import Receiver
from tests.plugins.webhook.test_webhook import receiver as receiver
from toolcrib.chat import Chat, Outbound

SECRET = "a secret between us"
OWNED = """
plugins: {{enabled: [webhook]}}
platforms:
  webhook:
    roles: {{owner: [ann]}}
    allowed_users: [bob]
    allowed_chats: ['room']
    allow_local: true
    settings: {{url: '{url}', port: '0'}}
"""
MESSAGE = {"chat": "ann's", "user": "ann", "message_id": "1", "text": "let me in"}


class WebhookHouse(House):
    """A house whose chats use signed requests, with the service that shows the messages."""

    receiver: Receiver
    address: str

    def gateway(self) -> Gateway:
        crib = assemble(config=load_config(self.config), project_dir=self.folder, store=self.store)
        self.cribs.append(crib)
        return Gateway(crib, names=["webhook"], prepare=self.prepare)

    @asynccontextmanager
    async def running(self, more: str = "") -> AsyncIterator[Gateway]:
        self.configure(OWNED.format(url=self.receiver.url) + more)
        async with self.gateway() as gateway:
            platform = line_of(gateway)._platform
            assert isinstance(platform, WebhookPlatform)
            self.address = f"http://127.0.0.1:{platform.port}"
            yield gateway

    async def post(self, path: str, data: Any, header: str | None = None, **more: Any) -> httpx.Response:
        body = data if isinstance(data, bytes) else json.dumps(data).encode()
        signed = signature(SECRET, body) if header is None else header
        async with httpx.AsyncClient(verify=NO_TLS) as client:
            return await client.post(f"{self.address}{path}", content=body, headers={HEADER: signed, **more})

    def shown(self, chat: str) -> dict[str, dict[str, Any]]:
        """Return the messages of a chat as shown, by the ids that the service assigned."""
        found: dict[str, dict[str, Any]] = {}
        for number, one in enumerate(self.receiver.got, 1):
            if one["chat"] == chat:
                found[one["edits"] or f"m{number}"] = one
        return found

    async def answered(self) -> None:
        """Check that the gateway answers an allowed user."""

        def answers() -> int:
            return sum(one["text"] == "re are you well?" for one in self.shown("good").values())

        before = answers()
        good = {**MESSAGE, "message_id": f"good{time.monotonic_ns()}", "text": "are you well?", "chat": "good"}
        assert (await self.post("/v1/messages", good)).json() == {"state": "kept"}
        await self.until(lambda: answers() > before)


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, receiver: Receiver) -> Iterator[WebhookHouse]:
    monkeypatch.setenv("TOOLCRIB_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("WEBHOOK_SECRET", SECRET)
    (tmp_path / "project").mkdir()
    made = WebhookHouse(tmp_path / "project", MemoryStore())
    made.receiver = receiver
    yield made
    for crib in made.cribs:
        crib.close()


def _signed(data: Any, secret: str = SECRET, at: float | None = None) -> str:
    return signature(secret, json.dumps(data).encode(), at)


OTHER = {**MESSAGE, "text": "something else"}
FORGED: dict[str, tuple[Any, Callable[[], str] | None, int]] = {
    "no signature": (MESSAGE, lambda: "", 401),
    "a signature by another secret": (MESSAGE, lambda: _signed(MESSAGE, "guessed"), 401),
    "a signature by an empty secret": (MESSAGE, lambda: _signed(MESSAGE, ""), 401),
    "a signature of another body": (MESSAGE, lambda: _signed(OTHER), 401),
    "a signature of an hour ago": (MESSAGE, lambda: _signed(MESSAGE, at=time.time() - 3_600), 401),
    "a signature of tomorrow": (MESSAGE, lambda: _signed(MESSAGE, at=time.time() + 86_400), 401),
    "an old signature with a new time": (
        MESSAGE, lambda: f"t={int(time.time())},{_signed(MESSAGE, at=1_000).partition(',')[2]}", 401,
    ),
    "two times": (MESSAGE, lambda: f"t={int(time.time())},{_signed(MESSAGE, at=1_000)}", 401),
    "two signatures": (MESSAGE, lambda: f"{_signed(MESSAGE)},v1={'0' * 64}", 401),
    "another version": (MESSAGE, lambda: _signed(MESSAGE).replace("v1=", "v0="), 401),
    "half a signature": (MESSAGE, lambda: _signed(MESSAGE)[:-32], 401),
    "a time without end": (MESSAGE, lambda: f"t={'9' * 5_000},v1={'0' * 64}", 401),
    "a negative time": (MESSAGE, lambda: f"t=-1,v1={'0' * 64}", 401),
    "a body without end": (b" " * (BODY_BYTES + 1), None, 413),
    "no JSON": (b"let me in", None, 400),
    "nothing": (b"", None, 400),
    "no object": (["let me in"], None, 400),
    "a number of five thousand digits": (b'{"chat": ' + b"9" * 5_000 + b"}", None, 400),
    "brackets without end": (b"[" * 100_000, None, 400),
    "our own message, sent back": (
        outbound_json(Outbound(Chat("ann's"), "yes", "k")), None, 400,
    ),
    "a user who is a list": ({**MESSAGE, "user": ["ann"]}, None, 400),
    "a user who is a number": ({**MESSAGE, "user": 1}, None, 400),
    "roles that are one text": ({**MESSAGE, "roles": "owner"}, None, 400),
    "a group that is a word": ({**MESSAGE, "is_group": "false"}, None, 400),
    "a name without end": ({**MESSAGE, "name": "x" * 201}, None, 400),
    "files that are none": ({**MESSAGE, "attachments": "x"}, None, 400),
    "a file that is no base64": ({**MESSAGE, "attachments": [{"data": "../../etc/passwd"}]}, None, 400),
    "a stranger": ({**MESSAGE, "user": "eve"}, None, 200),
    "a stranger with roles of their own": ({**MESSAGE, "user": "eve", "roles": ["owner"]}, None, 200),
    "a stranger's file": ({**MESSAGE, "user": "eve", "attachments": [{"data": base64.b64encode(b"x").decode()}]}, None, 200),
    "a group as a user": ({**MESSAGE, "user": "room:room"}, None, 200),
    "a chat that passes for a thread": ({**MESSAGE, "chat": "room\0t"}, None, 200),
    "a group that is not allowed": ({**MESSAGE, "chat": "other", "is_group": True, "is_addressed": True}, None, 200),
    "a program": ({**MESSAGE, "is_bot": True}, None, 200),
    "an edit": ({**MESSAGE, "edits": "0"}, None, 200),
}  # fmt: skip


async def test_a_request_is_refused(house: WebhookHouse) -> None:
    async with house.running() as gateway:
        for number, (name, (data, header, status)) in enumerate(FORGED.items()):
            with case(name):
                answer = await house.post("/v1/messages", data, None if header is None else header())
                assert answer.status_code == status
                assert answer.json() == {"state": "refused"} if status == 200 else answer.json()["error"]
                assert SECRET not in answer.text
                assert [one for one in await house.store.mail.waiting("webhook") if one.chat != "good"] == []
                assert [one for one in house.receiver.got if one["chat"] != "good"] == []
                assert house.asked == ["are you well?"] * number
                await house.answered()
                assert line_of(gateway).door.counts["kept"] == len(house.asked) == number + 1
                assert set(house.asked) == {"are you well?"}


async def test_a_replayed_request_counts_once(house: WebhookHouse) -> None:
    async with house.running():
        header = _signed(MESSAGE)
        states = [(await house.post("/v1/messages", MESSAGE, header)).json()["state"] for _ in range(3)]
        await house.answered()
        assert states == ["kept", "known", "known"]
        assert house.asked.count("let me in") == 1


@pytest.mark.parametrize(
    "path", ["/", "/v1", "/v1/messages/", "/v1/presses/%2e%2e/messages", "//v1/messages", "/metrics", "/v2/messages"]
)
async def test_there_is_no_other_way_in(house: WebhookHouse, path: str) -> None:
    async with house.running():
        answer = await house.post(path, MESSAGE)
        assert answer.status_code >= 300
        async with httpx.AsyncClient(verify=NO_TLS) as client:
            assert (await client.get(f"{house.address}/v1/messages")).status_code == 405
        await house.answered()
    assert house.asked == ["are you well?"]


async def test_half_a_request_keeps_nobody_waiting(house: WebhookHouse) -> None:
    async with house.running() as gateway:
        platform = line_of(gateway)._platform
        assert isinstance(platform, WebhookPlatform)
        for head in (b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{", b"\0\xff\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", platform.port)) as half:
                half.sendall(head)
                await house.answered()


async def test_ids_that_no_header_takes_keep_back_no_answer(house: WebhookHouse) -> None:
    async with house.running("    strangers: told\n    messages_per_hour: 1\n") as gateway:
        for message_id in ("1", "\u00e9\r\nx-evil: 1", "\ud800 %"):
            data = {**MESSAGE, "user": "bob", "chat": "bobs", "message_id": message_id}
            assert (await house.post("/v1/messages", data)).status_code == 200
        await house.post("/v1/messages", {**MESSAGE, "user": "\u0435ve\n", "chat": "eves"})
        await house.until(lambda: any("which is the limit" in one["text"] for one in house.shown("bobs").values()))
        await house.until(lambda: any("private" in one["text"] for one in house.shown("eves").values()))
        await house.answered()
        assert line_of(gateway).outbox.waiting == 0


async def test_bodies_that_are_being_read_are_bounded(house: WebhookHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UNREAD_BYTES", 1_000)
    monkeypatch.setattr(module, "_BODY_SECONDS", 2.0)
    async with house.running() as gateway:
        platform = line_of(gateway)._platform
        assert isinstance(platform, WebhookPlatform)
        reader, writer = await asyncio.open_connection("127.0.0.1", platform.port)
        writer.write(b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 5000\r\n\r\n" + b"x" * 900)
        await house.until(lambda: platform._unread == 900)
        assert (await house.post("/v1/messages", MESSAGE | {"text": "x" * 500})).status_code == 503
        assert b" 408 " in await reader.readline()  # the incomplete request timed out
        writer.close()
        assert platform._unread == 0
        await house.answered()


PRESSES: dict[str, tuple[dict[str, Any], int, str]] = {
    "a stranger": ({"user": "eve"}, 200, ""),
    "a user who may only speak": ({"user": "bob"}, 200, "You may not decide"),
    "a user who may only speak, with claimed roles": ({"user": "bob", "roles": ["owner"]}, 200, "You may not decide"),
    "another chat": ({"chat": "bobs"}, 200, "no such question"),
    "a message that there is not": ({"message_id": "m77"}, 200, "no such question"),
    "a choice that there is not": ({"choice": "always"}, 200, "no such question"),
    "a number that is none": ({"choice": "c\u00b2"}, 200, "no such question"),
    "a choice without end": ({"choice": "y" * 65}, 400, "choice"),
    "no choice": ({"choice": ""}, 400, "choice"),
    "no press": ({"press_id": ""}, 400, "press_id"),
}


async def test_a_press_settles_nothing(house: WebhookHouse) -> None:
    """003-25"""
    (house.folder / "build").mkdir()
    async with house.running():
        await house.post("/v1/messages", {**MESSAGE, "text": f"rm -rf {house.folder}/build"})
        await house.until(lambda: any(one["buttons"] for one in house.shown("ann's").values()))
        [number] = [number for number, one in house.shown("ann's").items() if one["buttons"]]
        owners = {"chat": "ann's", "user": "ann", "message_id": number, "choice": "y", "press_id": "owner's"}
        for name, (changes, status, says) in PRESSES.items():
            with case(name):
                press = {**owners, "press_id": name, **changes}
                answer = await _pressed(house, press)
                assert answer.status_code == status
                assert says in answer.text
                forged = await house.post(
                    "/v1/presses", {**press, **MESSAGE, "user": "ann", "message_id": number}, _signed(press, "guessed")
                )
                assert forged.status_code == 401
                await house.answered()
                assert (house.folder / "build").is_dir()
        assert (await _pressed(house, owners)).json() == {"notice": ""}
        await house.until(lambda: not (house.folder / "build").exists())


async def test_a_press_that_comes_too_early_is_to_be_offered_again(house: WebhookHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """003-25"""
    monkeypatch.setattr(questions, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(questions, "_PUT_OFF", 1_000)
    monkeypatch.setattr(outbox, "_FIRST_PAUSE", 3.0)
    (house.folder / "build").mkdir()
    house.receiver.answers = [(0, {})]  # the service shows the question, but its answer is lost
    async with house.running():
        await house.post("/v1/messages", {**MESSAGE, "text": f"rm -rf {house.folder}/build"})
        await house.until(lambda: house.receiver.got)
        press = {"chat": "ann's", "user": "ann", "message_id": "m2", "choice": "y", "press_id": "p"}
        early = await house.post("/v1/presses", press)
        assert (early.status_code, early.headers["retry-after"]) == (503, "5")
        assert (house.folder / "build").is_dir()
        assert (await _pressed(house, press)).json() == {"notice": ""}
        await house.until(lambda: not (house.folder / "build").exists())


async def _pressed(house: WebhookHouse, press: dict[str, Any]) -> httpx.Response:
    """Press, and retry while the answer is 503 because the question's id is not stored yet, as a service does."""
    while (answer := await house.post("/v1/presses", press)).status_code == 503:
        await asyncio.sleep(0.05)
    return answer


async def test_who_sends_too_much_is_told_apart_from_strangers(house: WebhookHouse) -> None:
    async with house.running("    messages_per_hour: 1\n"):
        data = {**MESSAGE, "user": "bob", "chat": "bobs"}
        states = [(await house.post("/v1/messages", {**data, "message_id": str(one)})).json()["state"] for one in range(3)]
        assert states == ["kept", "limited", "limited"]
        assert (await house.post("/v1/messages", {**data, "message_id": "4", "text": "/stop"})).json() == {"state": "kept"}
        assert (await house.post("/v1/messages", {**data, "user": "eve"})).json() == {"state": "refused"}
