"""The webhook platform passes the suite for chat platforms, with a receiver in this process."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from plugins.webhook.platform import WebhookPlatform
from plugins.webhook.signing import HEADER, problem_of, signature
from tests.infra.served import NO_TLS, free_port
from toolcrib.chat import Chat
from toolcrib.platforms import server_of
from toolcrib.testing import PlatformDesk, PlatformSuite, SeenMessage

SECRET = "a secret between us"


@dataclass
class Post:
    chat: str
    seen: SeenMessage
    keys: list[str] = field(default_factory=list)


class WebhookDesk(PlatformDesk):
    """A service that shows the messages, and repeats unacknowledged ones."""

    factory = WebhookPlatform
    secrets: Mapping[str, Any] = {"WEBHOOK_SECRET": SECRET}
    direct = Chat("direct")
    group = Chat("room", "thread", is_group=True)
    gone = Chat("gone")
    user, other = "ann", "bob"

    def __init__(self) -> None:
        self._posts: list[Post] = []
        self._ids = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._queue = asyncio.Lock()
        self._ours, self._theirs = free_port(), free_port()
        self.settings = {"url": f"http://127.0.0.1:{self._ours}/", "port": str(self._theirs)}
        self._client = httpx.AsyncClient(verify=NO_TLS)

    async def revive(self) -> None:
        self._server = server_of([Route("/", self._take, methods=["POST"])])
        listening = socket.create_server(("127.0.0.1", self._ours))
        self._serving = asyncio.create_task(self._server.serve(sockets=[listening]))
        while not self._server.started:
            await asyncio.sleep(0.01)

    async def kill(self) -> None:
        self._server.should_exit = self._server.force_exit = True
        await self._serving

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.kill()
        await self._client.aclose()

    async def _take(self, request: Request) -> JSONResponse:
        body = await request.body()
        assert problem_of(SECRET, body, request.headers[HEADER]) == ""
        data = json.loads(body)
        old = next((one for one in self._posts if data["key"] in one.keys or one.seen.id == data["edits"]), None)
        if data["chat"] == "gone" or (data["edits"] and old is None):
            return JSONResponse({}, 404)
        if old is None:
            old = Post(data["chat"], SeenMessage(f"m{next(self._ids)}", ""))
            self._posts.append(old)
        files = {one["name"]: base64.b64decode(one["data"]) for one in data["files"]}
        old.seen = SeenMessage(old.seen.id, data["text"], [one["choice"] for one in data["buttons"]], files)
        old.keys.append(data["key"])
        return JSONResponse({"id": old.seen.id})

    async def shown(self, chat: Chat) -> Sequence[SeenMessage]:
        return [one.seen for one in self._posts if one.chat == chat.id]

    async def write(self, chat: Chat, text: str, *, user: str, reply_to: str = "", is_addressed: bool = False) -> str:
        ours = reply_to in [one.seen.id for one in self._posts]
        return self._say(chat, text, user=user, reply_to=reply_to, is_addressed=is_addressed or ours)

    async def write_file(self, chat: Chat, name: str, data: bytes, *, user: str) -> str:
        return self._say(chat, "", user=user, attachments=[{"name": name, "data": base64.b64encode(data).decode()}])

    async def edit(self, chat: Chat, message_id: str, text: str, *, user: str) -> None:
        self._say(chat, text, user=user, edits=message_id)

    async def bot_writes(self, chat: Chat, text: str) -> None:
        self._say(chat, text, user="robot", is_bot=True)

    async def press(self, chat: Chat, message_id: str, choice: str, *, user: str) -> str:
        data = {"message_id": message_id, "choice": choice, "user": user, "press_id": f"p{next(self._ids)}"}
        answer = await self._post("/v1/presses", {**_where(chat), **data})
        return str(answer.json()["notice"])

    def _say(self, chat: Chat, text: str, **more: Any) -> str:
        data = {**_where(chat), "message_id": f"u{next(self._ids)}", "text": text, **more}
        task = asyncio.get_running_loop().create_task(self._until_taken(data))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return str(data["message_id"])

    async def _until_taken(self, data: Mapping[str, Any]) -> None:
        async with self._queue:
            while True:
                with contextlib.suppress(httpx.TransportError):
                    if (await self._post("/v1/messages", data)).status_code == 200:
                        return
                await asyncio.sleep(0.02)

    async def _post(self, path: str, data: Mapping[str, Any]) -> httpx.Response:
        body = json.dumps(data).encode()
        url = f"http://127.0.0.1:{self._theirs}{path}"
        return await self._client.post(url, content=body, headers={HEADER: signature(SECRET, body)})


def _where(chat: Chat) -> dict[str, Any]:
    return {"chat": chat.id, "thread": chat.thread, "is_group": chat.is_group}


class TestWebhook(PlatformSuite):
    @asynccontextmanager
    async def desk(self) -> AsyncIterator[WebhookDesk]:
        desk = WebhookDesk()
        await desk.revive()
        try:
            yield desk
        finally:
            await desk.close()
