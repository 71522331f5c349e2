"""A fake of Discord's gateway and REST API, on loopback, written from its public description, without code of Discord's.

It has what the tests need: HELLO, IDENTIFY and RESUME with missed events, direct and server channels, threads, history, buttons,
files, enforced nonces, faults. It refuses what the real one is documented to refuse.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
from collections.abc import Mapping
from typing import Any

from aiohttp import WSMsgType, web

from tests.plugins.discord.requests import Fault, Refused, answer_of, fields_of, kind_of

TOKEN = "a-token.of-the.fake"
ME, GUILD = "1", "100"
_EPOCH_MS = 1_420_070_400_000
_TYPES = {"direct": 1, "text": 0, "thread": 11}


class FakeDiscord:
    """The server. ``messages`` are all messages by id; ``calls`` the requests, ``faults`` the planned failures."""

    def __init__(self) -> None:
        self.messages: dict[str, dict[str, Any]] = {}
        self.pings: dict[str, list[str]] = {}
        self.channels: dict[str, dict[str, Any]] = {}
        self.roles: dict[str, list[str]] = {}
        self.files: dict[str, bytes] = {}
        self.calls: list[tuple[str, Any]] = []
        self.answers: dict[str, list[Any]] = {}
        """Answers to a press, by its id: the types of callbacks, and the texts that only the presser sees."""
        self.faults: list[Fault] = []
        self.flags = 1 << 18
        self.sessions: list[str] = []
        """``identify`` and ``resume``, in order."""
        self.loses_sessions = False
        self.ends_resumes = 0
        """Close code for clients that resume, 0 for none."""
        self.resumes_at = ""
        """The address for resuming, "" for this server's."""
        self.port = 0
        self._nonces: dict[str, str] = {}
        self._events: list[dict[str, Any]] = []
        self._numbers = itertools.count(1)
        self._open: set[web.WebSocketResponse] = set()
        self._listening: set[web.WebSocketResponse] = set()
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/api/v10"

    @property
    def gateway(self) -> str:
        return f"ws://127.0.0.1:{self.port}/gateway/"

    async def revive(self) -> None:
        app = web.Application(client_max_size=60 * 2**20)
        app.add_routes([web.get("/gateway/", self._gateway), web.route("*", "/api/v10/{path:.+}", self._api)])
        app.add_routes([web.get("/cdn/{file}", self._cdn)])
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def kill(self) -> None:
        """Cut all connections. The server's data stays."""
        runner, self._runner = self._runner, None
        self.cut()
        if runner is not None:
            await runner.cleanup()

    def cut(self) -> None:
        """Cut the connections of the gateway."""
        for ws in list(self._open):
            transport = ws._req.transport if ws._req is not None else None
            if transport is not None:
                transport.abort()
        self._listening.clear()

    def minutes_later(self) -> None:
        """Forget all nonces, as Discord does after some minutes."""
        self._nonces.clear()

    # -- people --------------------------------------------------------------------------------------------------

    def person(self, user: str) -> dict[str, Any]:
        is_bot = user == ME or user.startswith("9")
        name = {"id": user, "username": f"p{user}", "global_name": f"P{user}", "avatar": None, "discriminator": "0"}
        return name | {"bot": is_bot}

    def member(self, user: str) -> dict[str, Any]:
        roles = self.roles.get(user, [])
        return {"roles": roles, "joined_at": "2024-01-01T00:00:00+00:00", "deaf": False, "mute": False, "flags": 0}

    def channel(self, channel: str, kind: str, parent: str | None = None) -> str:
        made: dict[str, Any] = {"id": channel, "type": _TYPES[kind], "last_message_id": None, "flags": 0}
        if kind == "direct":
            made["recipients"] = [self.person("11")]
        else:
            made |= {"guild_id": GUILD, "name": "the-room", "parent_id": parent, "position": 0, "permission_overwrites": []}
        if kind == "thread":
            meta = {"archived": False, "auto_archive_duration": 60, "archive_timestamp": "2024-01-01T00:00:00+00:00"}
            made |= {"owner_id": "11", "message_count": 0, "member_count": 1, "rate_limit_per_user": 0}
            made["thread_metadata"] = meta | {"locked": False}
        self.channels[channel] = made
        return channel

    def write(self, channel: str, user: str, text: str = "", **more: Any) -> str:
        """Write a message as a user, and return its id; ``more`` are fields of the message."""
        if isinstance(more.get("message_reference"), str):
            answered = more["message_reference"]
            more["message_reference"] = {"message_id": answered, "channel_id": channel, "type": 0}
            more |= {"referenced_message": dict(self.messages[answered]), "type": 19}
        more.setdefault("mentions", [self.person(one) for one in re.findall(r"<@(\d+)>", text)])
        return self._message(channel, user, content=text, **more)["id"]

    def keep(self, name: str, data: bytes) -> dict[str, Any]:
        """Store a file, and return its entry in messages."""
        file_id = self.new_id()
        self.files[file_id] = data
        url = f"http://127.0.0.1:{self.port}/cdn/{file_id}"
        return {"id": file_id, "filename": name, "size": len(data), "url": url, "proxy_url": url}

    def edit(self, message_id: str, text: str) -> None:
        message = self.messages[message_id]
        message |= {"content": text, "edited_timestamp": _now()}
        self.emit("MESSAGE_UPDATE", self._told(message))

    def press(self, message_id: str, user: str, data: str, more: Mapping[str, Any] | None = None) -> str:
        """Press a button as a user, and return the press's id. The data is what the user's program sends, as are ``more``."""
        press, message = self.new_id(), self.messages[message_id]
        channel = self.channels[message["channel_id"]]
        told: dict[str, Any] = {"id": press, "application_id": ME, "type": 3, "token": f"tok{press}", "version": 1}
        told |= {"data": {"custom_id": data, "component_type": 2}, "channel_id": channel["id"], "channel": channel}
        told |= {"message": dict(message), "app_permissions": "8", "locale": "en-US", "entitlements": [], "context": 0}
        told |= {"authorizing_integration_owners": {}, "attachment_size_limit": 10 * 2**20}
        if channel["type"] == 1:
            told["user"] = self.person(user)
        else:
            told |= {"guild_id": GUILD, "member": {**self.member(user), "user": self.person(user), "permissions": "8"}}
        self.answers[press] = []
        self.emit("INTERACTION_CREATE", {name: value for name, value in {**told, **(more or {})}.items() if value is not None})
        return press

    def emit(self, kind: str, data: Any) -> None:
        """Send an event, now and to clients that resume."""
        self._events.append({"op": 0, "t": kind, "s": len(self._events) + 1, "d": data})
        text = json.dumps(self._events[-1])
        for ws in list(self._listening):
            asyncio.get_running_loop().create_task(_tell(ws, text))

    async def send_frame(self, frame: str | bytes) -> None:
        """Send a frame over all connections, whatever it is."""
        for ws in list(self._listening):
            await (ws.send_str(frame) if isinstance(frame, str) else ws.send_bytes(frame))

    def new_id(self) -> str:
        return str((int(time.time() * 1000 - _EPOCH_MS) << 22) + next(self._numbers))

    def of(self, channel: str, user: str = ME) -> list[dict[str, Any]]:
        """Return the messages of an author in a channel."""
        return [one for one in self.messages.values() if (one["channel_id"], one["author"]["id"]) == (channel, user)]

    def _message(self, channel: str, user: str, **more: Any) -> dict[str, Any]:
        made: dict[str, Any] = {"id": self.new_id(), "channel_id": channel, "author": self.person(user), "content": ""}
        made |= {"timestamp": _now(), "edited_timestamp": None, "tts": False, "mention_everyone": False, "mentions": []}
        made |= {"mention_roles": [], "attachments": [], "embeds": [], "pinned": False, "type": 0, "components": [], **more}
        self.messages[made["id"]] = made
        self.channels[channel]["last_message_id"] = made["id"]
        self.emit("MESSAGE_CREATE", self._told(made))
        return made

    def _told(self, message: dict[str, Any]) -> dict[str, Any]:
        if self.channels[message["channel_id"]]["type"] == 1:
            return dict(message)
        return {**message, "guild_id": GUILD, "member": self.member(message["author"]["id"])}

    # -- the gateway ---------------------------------------------------------------------------------------------

    async def _gateway(self, request: web.Request) -> web.WebSocketResponse:
        ws = web.WebSocketResponse(max_msg_size=0)
        await ws.prepare(request)
        self._open.add(ws)
        try:
            await ws.send_json({"op": 10, "d": {"heartbeat_interval": 30_000}})
            async for one in ws:
                if one.type is WSMsgType.TEXT:
                    await self._heard(ws, json.loads(one.data))
        except ConnectionError:
            pass
        finally:
            self._open.discard(ws)
            self._listening.discard(ws)
        return ws

    async def _heard(self, ws: web.WebSocketResponse, said: dict[str, Any]) -> None:
        if said["op"] == 1:
            await ws.send_json({"op": 11})
        elif said["op"] == 2:
            if said["d"]["token"] != TOKEN:
                await ws.close(code=4004)
                return
            self.sessions.append("identify")
            self._events.clear()
            self._listening.add(ws)
            self.emit("READY", self._begins())
            self.emit("GUILD_CREATE", self._guild())
        elif said["op"] == 6:
            self.sessions.append("resume")
            if self.ends_resumes:
                await ws.close(code=self.ends_resumes)
                return
            if self.loses_sessions:
                await ws.send_json({"op": 9, "d": False})
                return
            for event in self._events[said["d"]["seq"] :]:
                await ws.send_json(event)
            self._listening.add(ws)
            self.emit("RESUMED", {})

    def _begins(self) -> dict[str, Any]:
        more = {"session_id": f"s{next(self._numbers)}", "resume_gateway_url": self.resumes_at or self.gateway}
        about = {"v": 10, "user": self.person(ME), "guilds": [{"id": GUILD, "unavailable": True}], "private_channels": []}
        return {**about, **more, "application": {"id": ME, "flags": self.flags}}

    def _guild(self) -> dict[str, Any]:
        everyone = {"id": GUILD, "name": "@everyone", "permissions": "8", "color": 0, "hoist": False, "position": 0}
        roles = [{**everyone, **one, "managed": False, "mentionable": False} for one in ({}, {"id": "501", "name": "Mods"})]
        roles.append({**everyone, "id": "502", "name": "crib", "managed": True, "mentionable": False, "tags": {"bot_id": ME}})
        places = [one for one in self.channels.values() if one["type"] == 0]
        threads = [one for one in self.channels.values() if one["type"] == 11]
        told: dict[str, Any] = {
            "id": GUILD,
            "name": "g",
            "owner_id": "11",
            "roles": roles,
            "channels": places,
            "threads": threads,
        }
        empty = ("emojis", "stickers", "features", "members", "voice_states", "presences", "stage_instances")
        told |= {name: [] for name in empty}
        told |= {"member_count": 2, "verification_level": 0, "preferred_locale": "en-US", "premium_tier": 0, "unavailable": False}
        told |= dict.fromkeys(("default_message_notifications", "explicit_content_filter", "mfa_level", "nsfw_level"), 0)
        return told | {"afk_timeout": 0, "system_channel_flags": 0, "premium_progress_bar_enabled": False, "icon": None}

    # -- REST ----------------------------------------------------------------------------------------------------

    async def _cdn(self, request: web.Request) -> web.StreamResponse:
        data = self.files.get(request.match_info["file"])
        return web.Response(status=404) if data is None else web.Response(body=data)

    async def _api(self, request: web.Request) -> web.StreamResponse:
        path = request.match_info["path"].split("/")
        asked, files = await fields_of(request)
        kind = kind_of(request.method, path)
        self.calls.append((kind, asked))
        fault = next((one for one in self.faults if one.kind == kind), None)
        if fault is not None:
            fault.times -= 1
            if not fault.times:
                self.faults.remove(fault)
        try:
            if path[0] not in ("interactions", "webhooks") and request.headers.get("Authorization") != f"Bot {TOKEN}":
                raise Refused(401, 0, "401: Unauthorized")
            if fault is not None and fault.by_proxy:
                return web.Response(
                    text="error code: 1015", status=fault.status, headers={"Retry-After": f"{fault.retry_after:.0f}"}
                )
            if fault is not None and fault.status:
                more = {"retry_after": fault.retry_after, "global": fault.is_global} if fault.status == 429 else {}
                raise Refused(fault.status, 0, "fault", **more)
            found = self._asked(kind, path, asked, files, request)
        except Refused as error:
            return answer_of(error.body, error.status)
        if fault is not None and request.transport is not None:
            fault.then()
            request.transport.abort()
            await asyncio.sleep(0)
        return web.Response(status=204) if found is None else answer_of(found)

    def _asked(self, kind: str, path: list[str], asked: Any, files: list[tuple[str, bytes]], request: web.Request) -> Any:
        match kind:
            case "me":
                return self.person(ME)
            case "application":
                about = {"id": ME, "name": "crib", "owner": self.person("11"), "icon": None, "description": "", "verify_key": ""}
                return about | {"flags": self.flags, "bot_public": False, "bot_require_code_grant": False, "rpc_origins": []}
            case "member":
                return {**self.member(path[3]), "user": self.person(path[3])}
            case "channel":
                return self._known(path[1])
            case "thread":
                self._known(path[1])["thread_metadata"] |= asked
                return self._known(path[1])
            case "history":
                return self._history(self._known(path[1])["id"], request.query)
            case "message":
                return self._found(path)
            case "create":
                return self._create(self._known(path[1])["id"], asked, files)
            case "edit":
                return self._changed(self._found(path), asked)
            case "callback":
                self.answers[path[1]].append(asked["type"])
                return {"interaction": {"id": path[1], "type": 3}, "resource": {"type": asked["type"]}}
            case "followup":
                self.answers[path[2].removeprefix("tok")].append(asked["content"])
                assert asked["flags"] & 64
                return self.messages[next(iter(self.messages))]
        return None

    def _known(self, channel: str) -> dict[str, Any]:
        if channel not in self.channels:
            raise Refused(404, 10003, "Unknown Channel")
        return self.channels[channel]

    def _found(self, path: list[str]) -> dict[str, Any]:
        message = self.messages.get(path[3])
        if message is None or message["channel_id"] != path[1]:
            raise Refused(404, 10008, "Unknown Message")
        return message

    def _history(self, channel: str, query: Any) -> list[Any]:
        found = [one for one in self.messages.values() if one["channel_id"] == channel]
        most = int(query.get("limit", 50))
        newer = [one for one in found if int(one["id"]) > int(query.get("after", 0))]
        found = newer[:most] if "after" in query else found[-most:]
        return [{name: value for name, value in one.items() if name != "nonce"} for one in reversed(found)]

    def _create(self, channel: str, asked: Any, files: list[tuple[str, bytes]]) -> dict[str, Any]:
        text = self._checked(asked, files)
        nonce = str(asked.get("nonce", ""))
        if len(nonce) > 25:
            raise Refused(400, 50035, "Invalid Form Body")
        if nonce and asked.get("enforce_nonce") and nonce in self._nonces:
            return self.messages[self._nonces[nonce]]
        reference = asked.get("message_reference")
        if reference and reference["message_id"] not in self.messages and reference.get("fail_if_not_exists", True):
            raise Refused(400, 50035, "Unknown message")
        told = [self.keep(name, data) for name, data in files]
        more = {"content": text, "components": asked.get("components") or [], "attachments": told, "nonce": nonce}
        more |= {"message_reference": reference} if reference else {}
        message = self._message(channel, ME, **more, flags=asked.get("flags", 0))
        self._nonces[nonce] = message["id"]
        self.pings[message["id"]] = self._named(text, asked)
        return message

    def _changed(self, message: dict[str, Any], asked: Any) -> dict[str, Any]:
        if message["author"]["id"] != ME:
            raise Refused(403, 50005, "Cannot edit a message authored by another user")
        if self.channels[message["channel_id"]].get("thread_metadata", {}).get("archived"):
            raise Refused(400, 50083, "Thread is archived")
        if "content" in asked:
            message["content"] = self._checked(asked, [])
            self.pings[message["id"]] = self._named(message["content"], asked)
        if "components" in asked:
            message["components"] = asked["components"]
        self.emit("MESSAGE_UPDATE", self._told(message))
        return message

    def _checked(self, asked: Any, files: list[tuple[str, bytes]]) -> str:
        text = asked.get("content") or ""
        buttons = [one for row in asked.get("components") or [] for one in row["components"]]
        if len(text) > 2_000 or not (text.strip() or files) or any(len(one["custom_id"]) > 100 for one in buttons):
            raise Refused(400, 50035, "Invalid Form Body")
        return str(text)

    def _named(self, text: str, asked: Any) -> list[str]:
        """Return the users whom a message notifies, with regard to its code and its escapes."""
        if asked.get("allowed_mentions", {}).get("parse", ["everyone"]) == []:
            return []
        bare = re.sub(r"\\.", "", re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL))
        return re.findall(r"<@!?\d+>|@everyone|@here", bare)


async def _tell(ws: web.WebSocketResponse, text: str) -> None:
    try:
        await ws.send_str(text)
    except ConnectionError:
        return


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
