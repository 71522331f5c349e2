"""A fake of Telegram's Bot API, on loopback, written from its public description, without code of Telegram's.

It has what the tests need: long polling whose offset acknowledges, messages in HTML, edits, inline keyboards, topics, files,
faults. It refuses what the real one is documented to refuse: unknown tags, long texts, unknown chats and messages.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qsl

TOKEN = "123456:a-token_of-the-fake"
ME = {
    "id": 123456, "is_bot": True, "first_name": "Crib", "username": "crib_bot", "can_join_groups": True,
    "can_read_all_group_messages": True, "supports_inline_queries": False,
}  # fmt: skip
_TAGS = {"b", "i", "u", "s", "code", "pre", "a", "blockquote"}


class Refused(Exception):
    """An error that the API returns."""

    def __init__(self, code: int, description: str, **parameters: int) -> None:
        super().__init__(description)
        self.code, self.description, self.parameters = code, description, parameters


@dataclass
class Fault:
    """The outcome of the next calls of a method ("" for any): an answer with ``code``, or a connection that is cut after the
    work.
    """

    method: str
    code: int = 0
    times: int = 1
    text: str = "fault"
    parameters: dict[str, int] = field(default_factory=dict)


class Markup(HTMLParser):
    """Parser of a message's HTML: its text, the code in it, and the addresses of its links. Raises Refused."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text, self.open, self.links = "", [], []  # type: ignore[var-annotated]  # names of tags, addresses
        self.bare = ""
        self.feed(text)
        self.close()
        if self.open:
            raise Refused(400, "Bad Request: can't parse entities: a tag is not closed")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _TAGS or (tag == "blockquote" and "blockquote" in self.open):
            raise Refused(400, f"Bad Request: can't parse entities: unsupported start tag {tag}")
        self.open.append(tag)
        self.links += [value or "" for name, value in attrs if name == "href"]

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            raise Refused(400, "Bad Request: can't parse entities: unexpected end tag")

    def handle_data(self, data: str) -> None:
        self.text += data
        self.bare += "\n" if {"code", "pre"} & set(self.open) else data


class FakeTelegram:
    """The server. ``messages`` are all messages by chat and id; ``calls`` the requests, ``faults`` the planned failures."""

    def __init__(self) -> None:
        self.messages: dict[tuple[int, int], dict[str, Any]] = {}
        self.pings: dict[tuple[int, int], list[str]] = {}
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.answered: dict[str, str] = {}
        self.files: dict[str, tuple[str, bytes]] = {}
        self.faults: list[Fault] = []
        self.updates: list[dict[str, Any]] = []
        self.chats: dict[int, dict[str, Any]] = {}
        self.users: dict[int, dict[str, Any]] = {}
        self.offset = 0
        self.webhook = ""
        self.port = 0
        self._numbers = itertools.count(1)
        self._woken = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def revive(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def kill(self) -> None:
        """Cut all connections. The server's data stays."""
        if self._server is not None:
            self._server.close()
        for task, writer in list(self._open.items()):
            writer.transport.abort()
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    # -- people --------------------------------------------------------------------------------------------------

    def person(self, user: int, **more: Any) -> dict[str, Any]:
        return self.users.setdefault(
            user, {"id": user, "is_bot": False, "first_name": f"P{user}", "username": f"p{user}", **more}
        )

    def chat(self, chat: int, kind: str = "") -> dict[str, Any]:
        made = {"id": chat, "type": kind or ("private" if chat > 0 else "supergroup")}
        return self.chats.setdefault(chat, made | ({"title": "The room"} if chat < 0 else {"first_name": "P"}))

    def write(self, chat: int, user: int, text: str = "", **more: Any) -> int:
        """Write a message as a user, and return its id; ``more`` are fields of the message."""
        sender = ME if user == ME["id"] else self.person(user)
        message = self._message(chat, sender, **({"text": text} if text else {}), **more)
        words = message.get("text", "")
        found = [("bot_command", r"^/\w+(?:@\w+)?"), ("mention", r"(?<!\w)@\w{3,}")]
        entities = [
            {"type": kind, "offset": _units(words[: one.start()]), "length": _units(one[0])}
            for kind, pattern in found
            for one in re.finditer(pattern, words)
        ]
        if entities:
            message.setdefault("entities", entities)
        self.push({"message": dict(message)})
        return int(message["message_id"])

    def edit(self, chat: int, message_id: int, text: str) -> None:
        message = self.messages[chat, message_id]
        message |= {"text": text, "edit_date": int(time.time())}
        self.push({"edited_message": dict(message)})

    def press(self, chat: int, user: int, message_id: int, data: str, query: str = "") -> str:
        """Press a button as a user, and return the press's id. The data is what the user's program sends."""
        query = query or f"q{next(self._numbers)}"
        message = self.messages[chat, message_id]
        told = {"id": query, "from": self.person(user), "chat_instance": "1", "data": data, "message": dict(message)}
        self.push({"callback_query": told})
        return query

    def keep(self, name: str, data: bytes) -> str:
        """Store a file, and return its id."""
        file_id = f"file{len(self.files)}"
        self.files[file_id] = name, data
        return file_id

    def push(self, update: dict[str, Any]) -> None:
        self.updates.append({"update_id": next(self._numbers), **update})
        self._woken.set()

    def _message(self, chat: int, sender: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        message_id = next(self._numbers)
        base = {"message_id": message_id, "date": int(time.time()), "chat": self.chat(chat), "from": sender}
        self.messages[chat, message_id] = message = {**base, **more}
        return message

    # -- HTTP ----------------------------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = writer
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                first, *lines = head.strip().split("\r\n")
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                path = re.sub(r"^http://[^/]*", "", first.split(" ")[1])  # a proxy gets whole addresses
                status, answer = await self._answer(path, headers.get("content-type", ""), body)
                if not status:
                    writer.transport.abort()
                    return
                writer.write(f"HTTP/1.1 {status} X\r\ncontent-length: {len(answer)}\r\n\r\n".encode() + answer)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            del self._open[task]

    async def _answer(self, path: str, kind: str, body: bytes) -> tuple[int, bytes]:
        if path.startswith(f"/file/bot{TOKEN}/"):
            return 200, self.files[path.rpartition("/")[2]][1]
        try:
            if not path.startswith(f"/bot{TOKEN}/"):
                raise Refused(401, "Unauthorized")
            method = path.rpartition("/")[2]
            asked, files = _fields(kind, body)
            fault = next((one for one in self.faults if one.method in ("", method)), None)
            if fault is not None:
                fault.times -= 1
                if not fault.times:
                    self.faults.remove(fault)
                if fault.code:
                    raise Refused(fault.code, fault.text, **fault.parameters)
            if method != "getUpdates":
                self.calls.append((method, asked))
            result = await getattr(self, "_" + re.sub("([A-Z])", r"_\1", method).lower())(asked, files)
            return (0, b"") if fault is not None else (200, json.dumps({"ok": True, "result": result}).encode())
        except Refused as error:
            said: dict[str, Any] = {"ok": False, "error_code": error.code, "description": error.description}
            return error.code, json.dumps(said | ({"parameters": error.parameters} if error.parameters else {})).encode()

    # -- methods -------------------------------------------------------------------------------------------------

    async def _get_me(self, asked: dict[str, Any], files: dict[str, Any]) -> Any:
        return ME

    async def _get_webhook_info(self, asked: dict[str, Any], files: dict[str, Any]) -> Any:
        return {"url": self.webhook, "has_custom_certificate": False, "pending_update_count": len(self.updates)}

    async def _get_updates(self, asked: dict[str, Any], files: dict[str, Any]) -> Any:
        self.offset = max(self.offset, int(asked.get("offset", 0)))
        until = time.monotonic() + float(asked.get("timeout", 0))
        while True:
            self.updates = [one for one in self.updates if one["update_id"] >= self.offset]
            if self.updates or time.monotonic() > until:
                return self.updates[:100]
            self._woken.clear()
            try:
                async with asyncio.timeout(max(0.01, until - time.monotonic())):
                    await self._woken.wait()
            except TimeoutError:
                continue

    async def _send_message(self, asked: dict[str, Any], files: dict[str, Any]) -> Any:
        chat = self._known(asked)
        seen = self._read(asked, "text", 4096)
        more: dict[str, Any] = {"text": seen.text}
        if asked.get("message_thread_id"):
            more |= {"message_thread_id": asked["message_thread_id"], "is_topic_message": True}
        return self._sent(chat, seen, asked, more)

    async def _edit_message_text(self, asked: dict[str, Any], files: dict[str, Any]) -> Any:
        chat = self._known(asked)
        message = self.messages.get((chat, int(asked["message_id"])))
        if message is None or message["from"] is not ME or "text" not in message:
            raise Refused(400, "Bad Request: message to edit not found")
        seen = self._read(asked, "text", 4096)
        if (message["text"], message.get("reply_markup")) == (seen.text, asked.get("reply_markup")):
            raise Refused(400, "Bad Request: message is not modified: the same content")
        message["text"] = seen.text
        message.pop("reply_markup", None)
        if asked.get("reply_markup"):
            message["reply_markup"] = asked["reply_markup"]
        self.pings[chat, message["message_id"]] += self._named(seen)
        return message

    async def _send_document(self, asked: dict[str, Any], files: dict[str, Any]) -> Any:
        [(name, data)] = files.values()
        file_id = self.keep(name, data)
        told = {"file_id": file_id, "file_unique_id": file_id, "file_name": name, "file_size": len(data)}
        return self._sent(self._known(asked), self._read(asked, "caption", 1024), asked, {"document": told})

    async def _send_photo(self, asked: dict[str, Any], files: dict[str, Any]) -> Any:
        [(name, data)] = files.values()
        if not data.startswith(b"\x89PNG"):
            raise Refused(400, "Bad Request: IMAGE_PROCESS_FAILED")
        file_id = self.keep(name, data)
        told = {"file_id": file_id, "file_unique_id": file_id, "width": 1, "height": 1, "file_size": len(data)}
        return self._sent(self._known(asked), self._read(asked, "caption", 1024), asked, {"photo": [told]})

    async def _get_file(self, asked: dict[str, Any], files: dict[str, Any]) -> Any:
        if asked["file_id"] not in self.files:
            raise Refused(400, "Bad Request: invalid file_id")
        size = len(self.files[asked["file_id"]][1])
        if size > 20 * 2**20:
            raise Refused(400, "Bad Request: file is too big")
        return {
            "file_id": asked["file_id"],
            "file_unique_id": "u",
            "file_size": size,
            "file_path": f"documents/{asked['file_id']}",
        }

    async def _answer_callback_query(self, asked: dict[str, Any], files: dict[str, Any]) -> Any:
        self.answered[asked["callback_query_id"]] = asked.get("text", "")
        return True

    async def _send_chat_action(self, asked: dict[str, Any], files: dict[str, Any]) -> Any:
        self._known(asked)
        return True

    def _known(self, asked: dict[str, Any]) -> int:
        chat = int(asked["chat_id"])
        if chat not in self.chats:
            raise Refused(400, "Bad Request: chat not found")
        return chat

    def _read(self, asked: dict[str, Any], key: str, most: int) -> Markup:
        seen = Markup(asked.get(key, "")) if asked.get("parse_mode") == "HTML" else Markup("")
        if _units(seen.text) > most:
            raise Refused(400, "Bad Request: message is too long")
        if key == "text" and not seen.text.strip():
            raise Refused(400, "Bad Request: message text is empty")
        return seen

    def _sent(self, chat: int, seen: Markup, asked: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
        for row in (asked.get("reply_markup") or {}).get("inline_keyboard", []):
            if any(len(one["callback_data"].encode()) > 64 for one in row):
                raise Refused(400, "Bad Request: BUTTON_DATA_INVALID")
        if asked.get("reply_markup"):
            more["reply_markup"] = asked["reply_markup"]
        message = self._message(chat, ME, **more)
        self.pings[chat, message["message_id"]] = self._named(seen)
        return message

    def _named(self, seen: Markup) -> list[str]:
        """Return the users whom a message notifies: ``@names`` outside of code, and links to users."""
        people = [one for one in seen.links if one.startswith("tg://")]
        return people + re.findall(r"(?<!\w)@\w+", seen.bare)


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _fields(kind: str, body: bytes) -> tuple[dict[str, Any], dict[str, tuple[str, bytes]]]:
    """Return a request's fields, and its files by field."""
    given: list[tuple[str, str]] = []
    files: dict[str, tuple[str, bytes]] = {}
    if kind.startswith("multipart/form-data"):
        boundary = b"--" + kind.partition("boundary=")[2].strip('"').encode()
        for part in (b"\r\n" + body).split(b"\r\n" + boundary)[1:-1]:
            head, _, data = part.partition(b"\r\n\r\n")
            names = dict(re.findall(r'(\w+)="([^"]*)"', head.decode()))
            if "filename" in names:
                files[names["name"]] = names["filename"], data
            else:
                given.append((names["name"], data.decode()))
    else:
        given = parse_qsl(body.decode(), keep_blank_values=True)
    asked: dict[str, Any] = {}
    for name, value in given:
        is_json = name not in ("text", "caption", "callback_query_id", "file_id")
        try:
            asked[name] = json.loads(value) if is_json else value
        except ValueError:
            asked[name] = value
    return asked, files
