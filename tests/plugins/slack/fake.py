"""A fake of Slack's Web API and socket mode, on loopback, written from its public description, without code of Slack's.

It has what the tests need: envelopes that are sent again until they are acknowledged, history and threads, blocks with buttons,
files by external uploads, metadata, faults. It refuses what the real one is documented to refuse.
"""

from __future__ import annotations

import asyncio
import contextlib
import html
import itertools
import json
import re
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import WSMsgType, web

BOT_TOKEN, APP_TOKEN = "xoxb-of-the-fake", "xapp-of-the-fake"
ME, TEAM = "UBOT", "T1"
_AGAIN_SECONDS = 0.5


class Refused(Exception):
    """An error that the API returns."""

    def __init__(self, code: str, status: int = 200, retry_after: int | None = None) -> None:
        super().__init__(code)
        self.code, self.status, self.retry_after = code, status, retry_after


@dataclass
class Fault:
    """The outcome of the next calls of a method: an answer with ``code``; "" cuts the connection after the work is done."""

    method: str
    code: str = ""
    status: int = 200
    times: int = 1
    retry_after: int | None = None
    page: str = ""
    """Plain text that a proxy before Slack answers."""
    then: Callable[[], object] = bool
    """Called before the connection is cut."""


class FakeSlack:
    """The server. ``messages`` are all messages by channel and ts; ``calls`` the requests, ``faults`` the planned failures."""

    def __init__(self) -> None:
        self.messages: dict[tuple[str, str], dict[str, Any]] = {}
        self.channels: dict[str, dict[str, Any]] = {}
        self.files: dict[str, dict[str, Any]] = {}
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.faults: list[Fault] = []
        self.whispers: list[tuple[str, str]] = []
        """(user, text) of messages that only one user sees."""
        self.confirmed: list[str] = []
        self.is_deaf = False
        """True while nothing is sent again, as Slack stops after a while."""
        self.port = 0
        self.refused = 0
        """Number of connections that were refused because their address had expired."""
        self.breaks = 0
        """Number of connections that will still break before they begin."""
        self._tickets: set[str] = set()
        self._waiting: dict[str, dict[str, Any]] = {}
        self._numbers = itertools.count(1)
        self._sockets: list[web.WebSocketResponse] = []
        self._runner: web.AppRunner | None = None
        self._telling: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/api"

    async def revive(self) -> None:
        app = web.Application(client_max_size=60 * 2**20)
        app.add_routes([web.get("/socket", self._socket), web.route("*", "/api/{method}", self._api)])
        app.add_routes([web.post("/upload/{file}", self._upload), web.get("/files/{file}", self._download)])
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def kill(self) -> None:
        """Cut all connections. The server's data stays, except unacknowledged events."""
        runner, self._runner = self._runner, None
        self.cut()
        self._waiting.clear()
        for task in self._telling:
            task.cancel()
        await asyncio.gather(*self._telling, return_exceptions=True)
        if runner is not None:
            await runner.cleanup()

    def cut(self) -> None:
        """Cut the sockets."""
        for ws in list(self._sockets):
            transport = ws._req.transport if ws._req is not None else None
            if transport is not None:
                transport.abort()
        self._sockets.clear()

    def minutes_later(self) -> None:
        """Drop unacknowledged events, as Slack does after some minutes."""
        self._waiting.clear()

    # -- people --------------------------------------------------------------------------------------------------

    def channel(self, channel: str, *, is_im: bool = False) -> str:
        self.channels[channel] = {"id": channel, "is_im": is_im, "is_member": True, "name": "the-room"}
        return channel

    def write(self, channel: str, user: str, text: str = "", **more: Any) -> str:
        """Write a message as a user, and return its ts; ``more`` are fields of the message."""
        message = self._message(channel, user=user, text=html.escape(text, quote=False), **more)
        self.tell_event(self.event_of(message))
        return str(message["ts"])

    def event_of(self, message: dict[str, Any]) -> dict[str, Any]:
        channel = message["channel"]
        kind = "im" if self.channels.get(channel, {}).get("is_im") else "channel"
        root = self.messages.get((channel, message.get("thread_ts", "")))
        more = {"parent_user_id": root["user"]} if root is not None and root is not message else {}
        return {**message, **more, "channel_type": kind, "event_ts": message["ts"]}

    def keep(self, name: str, data: bytes) -> dict[str, Any]:
        """Store a file, and return its entry in messages."""
        file_id = f"F{next(self._numbers):04}"
        url = f"http://127.0.0.1:{self.port}/files/{file_id}"
        about = {"id": file_id, "name": name, "mimetype": "application/octet-stream", "size": len(data), "shares": {}}
        self.files[file_id] = {**about, "url_private_download": url, "data": data}
        return about

    def edit(self, channel: str, ts: str, text: str) -> None:
        message = self.messages[channel, ts]
        before = dict(message)
        message["text"] = text
        told = {"type": "message", "subtype": "message_changed", "channel": channel, "channel_type": "im", "ts": self.new_ts()}
        self.tell_event({**told, "message": message, "previous_message": before})

    def press(self, channel: str, ts: str, user: str, value: str, changes: Mapping[str, Any] | None = None) -> None:
        """Press a button as a user. The value is what the user's program sends, as are ``changes``."""
        action = {"type": "button", "action_id": "choice0", "block_id": "b", "value": value, "action_ts": self.new_ts()}
        told = {"type": "block_actions", "user": {"id": user, "name": f"name-{user}", "team_id": TEAM}, "api_app_id": "A1"}
        about = {"team": {"id": TEAM}, "channel": {"id": channel, "name": "directmessage"}, "trigger_id": "1.1", "token": "x"}
        below = {"message": self.messages.get((channel, ts)), "actions": [action]}
        self.emit("interactive", {**told, **about, **below, **(changes or {})})

    def tell_event(self, event: Any, **more: Any) -> None:
        about = {"team_id": TEAM, "type": "event_callback", "event_id": f"Ev{next(self._numbers)}"}
        self.emit("events_api", {**about, "event": event, **more})

    def emit(self, kind: str, payload: Any) -> None:
        """Send an event again and again until it is acknowledged."""
        envelope = {"envelope_id": str(uuid.uuid4()), "type": kind, "payload": payload}
        self._waiting[envelope["envelope_id"]] = {**envelope, "accepts_response_payload": kind != "events_api"}
        task = asyncio.get_running_loop().create_task(self._deliver(envelope["envelope_id"]))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def send_frame(self, frame: str | bytes) -> None:
        """Send a frame over the connection, whatever it is."""
        await (self._sockets[-1].send_str(frame) if isinstance(frame, str) else self._sockets[-1].send_bytes(frame))

    async def _deliver(self, envelope_id: str) -> None:
        for attempt in range(1 if self.is_deaf else 60):
            envelope = self._waiting.get(envelope_id)
            if envelope is None:
                return
            if self._sockets:
                with contextlib.suppress(ConnectionError):
                    await self._sockets[-1].send_json({**envelope, "retry_attempt": attempt, "retry_reason": ""})
            await asyncio.sleep(_AGAIN_SECONDS)

    def new_ts(self) -> str:
        return f"{time.time():.3f}{next(self._numbers) % 1000:03}"

    def of(self, channel: str, user: str = ME) -> list[dict[str, Any]]:
        """Return the messages of an author in a channel."""
        return [one for one in self.messages.values() if (one["channel"], one["user"]) == (channel, user)]

    def text_of(self, message: dict[str, Any]) -> str:
        """Return the visible text of a message."""
        parts = [one["text"]["text"] for one in message.get("blocks") or () if one["type"] == "section"]
        return html.unescape("\n".join(parts) or message["text"])

    def buttons_of(self, message: dict[str, Any]) -> list[str]:
        rows = [one["elements"] for one in message.get("blocks") or () if one["type"] == "actions"]
        return [button["value"] for row in rows for button in row]

    def pings_of(self, message: dict[str, Any]) -> list[str]:
        texts = [message["text"], *(one["text"]["text"] for one in message.get("blocks") or () if one["type"] == "section")]
        loud = r"<@\w+[^>]*>|<!\w+[^>]*>" + (r"|@channel|@here|@everyone" if message.get("link_names") else "")
        return [found for text in texts for found in re.findall(loud, re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL))]

    def _message(self, channel: str, **more: Any) -> dict[str, Any]:
        ts = self.new_ts()
        made = {"type": "message", "channel": channel, "ts": ts, "text": "", "team": TEAM, **more}
        self.messages[channel, ts] = made
        root = self.messages.get((channel, made.get("thread_ts") or ""))
        if root is not None:
            root |= {"thread_ts": root["ts"], "reply_count": root.get("reply_count", 0) + 1, "latest_reply": ts}
        return made

    # -- the socket ----------------------------------------------------------------------------------------------

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        ticket = request.query["ticket"]
        if ticket not in self._tickets:
            self.refused += 1
            return web.Response(status=404)
        self._tickets.remove(ticket)
        if self.breaks and request.transport is not None:
            self.breaks -= 1
            request.transport.abort()
        ws = web.WebSocketResponse()
        await ws.prepare(request)
        try:
            await ws.send_json({"type": "hello", "num_connections": 1, "connection_info": {"app_id": "A1"}, "debug_info": {}})
            self._sockets.append(ws)
            async for one in ws:
                if one.type is WSMsgType.TEXT:
                    envelope = json.loads(one.data).get("envelope_id")
                    if self._waiting.pop(envelope, None) is not None:
                        self.confirmed.append(envelope)
        except ConnectionError:
            pass
        finally:
            if ws in self._sockets:
                self._sockets.remove(ws)
        return ws

    # -- the Web API ---------------------------------------------------------------------------------------------

    async def _upload(self, request: web.Request) -> web.Response:
        self.files[request.match_info["file"]]["data"] = await request.read()
        return web.Response(text="OK")

    async def _download(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {BOT_TOKEN}":
            return web.Response(status=302, headers={"Location": "/login"})
        return web.Response(body=self.files[request.match_info["file"]]["data"])

    async def _api(self, request: web.Request) -> web.StreamResponse:
        method, asked = request.match_info["method"], await _fields(request)
        self.calls.append((method, asked))
        fault = next((one for one in self.faults if one.method == method), None)
        if fault is not None:
            fault.times -= 1
            if not fault.times:
                self.faults.remove(fault)
        try:
            token = APP_TOKEN if method.startswith("apps.") else BOT_TOKEN
            if request.headers.get("Authorization") != f"Bearer {token}":
                raise Refused("invalid_auth")
            if fault is not None and fault.page:
                return web.Response(text=fault.page, status=fault.status)
            if fault is not None and fault.code:
                raise Refused(fault.code, fault.status, fault.retry_after)
            found = getattr(self, "_" + re.sub(r"[.]|(?=[A-Z])", "_", method).lower())(asked)
        except Refused as error:
            headers = {"Retry-After": str(error.retry_after)} if error.retry_after is not None else {}
            return web.json_response({"ok": False, "error": error.code}, status=error.status, headers=headers)
        if fault is not None and request.transport is not None:
            fault.then()
            request.transport.abort()
        return web.json_response({"ok": True, **found})

    def _auth_test(self, asked: dict[str, Any]) -> dict[str, Any]:
        return {"url": "http://x/", "team": "T", "user": "crib", "team_id": TEAM, "user_id": ME, "bot_id": "B1"}

    def _apps_connections_open(self, asked: dict[str, Any]) -> dict[str, Any]:
        ticket = str(uuid.uuid4())
        self._tickets.add(ticket)
        return {"url": f"ws://127.0.0.1:{self.port}/socket?ticket={ticket}"}

    def _users_conversations(self, asked: dict[str, Any]) -> dict[str, Any]:
        return {"channels": list(self.channels.values())}

    def _conversations_info(self, asked: dict[str, Any]) -> dict[str, Any]:
        return {"channel": self._known(asked)}

    def _conversations_history(self, asked: dict[str, Any]) -> dict[str, Any]:
        channel = self._known(asked)["id"]
        found = [one for one in self.messages.values() if one["channel"] == channel]
        found = [one for one in found if one.get("thread_ts", one["ts"]) == one["ts"]]
        return self._page([one for one in reversed(found) if one["ts"] > asked.get("oldest", "")], asked)

    def _conversations_replies(self, asked: dict[str, Any]) -> dict[str, Any]:
        channel, root = self._known(asked)["id"], asked["ts"]
        if (channel, root) not in self.messages:
            raise Refused("thread_not_found")
        found = [one for one in self.messages.values() if one["channel"] == channel and one.get("thread_ts") == root]
        found = [self.event_of(one) for one in found]
        return self._page([one for one in found if one["ts"] > asked.get("oldest", "") or one["ts"] == root], asked)

    def _page(self, found: list[dict[str, Any]], asked: dict[str, Any]) -> dict[str, Any]:
        start, most = int(asked.get("cursor") or 0), int(asked.get("limit", 100))
        hidden = () if asked.get("include_all_metadata") in (True, "1", "true", 1) else ("metadata",)
        page = [{name: value for name, value in one.items() if name not in hidden} for one in found[start : start + most]]
        cursor = str(start + most) if start + most < len(found) else ""
        return {"messages": page, "has_more": bool(cursor), "response_metadata": {"next_cursor": cursor}}

    def _chat_post_message(self, asked: dict[str, Any]) -> dict[str, Any]:
        channel = self._known(asked)["id"]
        kept = {name: asked[name] for name in ("blocks", "thread_ts", "metadata", "link_names") if asked.get(name)}
        quiet = {"unfurl_links": asked.get("unfurl_links"), "unfurl_media": asked.get("unfurl_media")}
        message = self._message(channel, user=ME, bot_id="B1", text=self._checked(asked, 40_000), **kept, **quiet)
        self.tell_event(self.event_of(message))
        return {"channel": channel, "ts": message["ts"], "message": message}

    def _chat_update(self, asked: dict[str, Any]) -> dict[str, Any]:
        message = self.messages.get((self._known(asked)["id"], asked["ts"]))
        if message is None or message["user"] != ME:
            raise Refused("message_not_found")
        message["text"] = self._checked(asked, 4_000)
        if "blocks" in asked:
            message["blocks"] = asked["blocks"]
        return {"channel": message["channel"], "ts": message["ts"], "text": message["text"]}

    def _checked(self, asked: dict[str, Any], most: int) -> str:
        text, blocks = str(asked.get("text") or ""), asked.get("blocks") or []
        if len(text) > most:
            raise Refused("msg_too_long")
        sections = [one["text"]["text"] for one in blocks if one["type"] == "section"]
        buttons = [one for row in blocks if row["type"] == "actions" for one in row["elements"]]
        ids = [one["action_id"] for one in buttons]
        is_long = any(len(one) > 3_000 for one in sections) or any(len(one["value"]) > 2_000 for one in buttons)
        if is_long or len(set(ids)) < len(ids):
            raise Refused("invalid_blocks")
        if not (text.strip() or blocks):
            raise Refused("no_text")
        return text

    def _chat_post_ephemeral(self, asked: dict[str, Any]) -> dict[str, Any]:
        self._known(asked)
        self.whispers.append((asked["user"], asked["text"]))
        return {"message_ts": self.new_ts()}

    def _files_info(self, asked: dict[str, Any]) -> dict[str, Any]:
        if asked["file"] not in self.files:
            raise Refused("file_not_found")
        return {"file": {name: value for name, value in self.files[asked["file"]].items() if name != "data"}}

    def _files_get_upload_u_r_l_external(self, asked: dict[str, Any]) -> dict[str, Any]:
        file = self.keep(asked["filename"], b"")
        return {"upload_url": f"http://127.0.0.1:{self.port}/upload/{file['id']}", "file_id": file["id"]}

    def _files_complete_upload_external(self, asked: dict[str, Any]) -> dict[str, Any]:
        told = asked["files"] if isinstance(asked["files"], list) else json.loads(asked["files"])
        channel = self._known({"channel": asked["channel_id"]})["id"]
        for one in told:
            file = self.files[one["id"]]
            about = {name: value for name, value in file.items() if name != "data"}
            more = {"thread_ts": asked["thread_ts"]} if asked.get("thread_ts") else {}
            message = self._message(channel, user=ME, bot_id="B1", subtype="file_share", files=[about], **more)
            file["shares"] = {"public": {channel: [{"ts": message["ts"]}]}}
        return {"files": told}

    def _known(self, asked: dict[str, Any]) -> dict[str, Any]:
        if asked.get("channel") not in self.channels:
            raise Refused("channel_not_found")
        return self.channels[asked["channel"]]


async def _fields(request: web.Request) -> dict[str, Any]:
    if request.content_type == "application/json":
        body = await request.read()
        return dict(json.loads(body)) if body else {}
    return {**request.query, **{name: str(value) for name, value in (await request.post()).items()}}
