"""The platform: what arrives in rooms goes to the gateway, and what it says is shown there."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Mapping
from typing import Any, BinaryIO

from toolcrib import ConfigError
from toolcrib.chat import Attachment, Chat, Host, Inbound, NotSent, Outbound, OutFile, Press, Traits

from .buttons import MatrixButtons
from .reading import message_of, reaction_of
from .rooms import MatrixRooms
from .server import MatrixRefused, MatrixServer
from .syncing import CONNECTION, MatrixSync
from .writing import file_content, text_content, transaction

_log = logging.getLogger(__name__)
_MESSAGES = ("m.room.message", "m.sticker")
_TYPING_MS = 10_000
_MOST_FILE_BYTES = 50 * 1024 * 1024
_OURS = 10_000
_ENCRYPTED = "I can't read this room, since it is encrypted. Please write to me in one that is not."


class MatrixPlatform:
    """Implements toolcrib.chat.Platform and ShowsTyping. Without settings it keeps to Synapse's default limits."""

    def __init__(self, name: str, host: Host, **_: Any) -> None:
        self.name = name
        self.traits = Traits()
        self._host = host
        self._task: asyncio.Task[None] | None = None
        self._server: MatrixServer | None = None
        self._ours: dict[str, bool] = {}
        """Messages that were answered, and whether they are ours."""

    async def connect(self) -> str:
        """Log in. Raises ConfigError, MatrixRefused, OSError."""
        per_second, burst = self._number("per_second", 0.2), self._number("burst", 10)
        edit_seconds = self._number("edit_seconds", max(1.0, 1 / max(per_second, 0.01)))
        server = self._server = await MatrixServer.login(self._host)
        with contextlib.suppress(MatrixRefused):
            most = (await server.call("GET", "media", "config", version="v1")).get("m.upload.size")
        size = min(most, _MOST_FILE_BYTES) if isinstance(most, int) else _MOST_FILE_BYTES
        self.traits = Traits(
            max_chars=4_000,
            edit_seconds=edit_seconds,
            buttons=True,
            reactions=True,
            idempotent=True,
            max_file_bytes=size,
            per_second=per_second,
            burst=int(burst),
        )
        self._kind = "m.notice" if str(self._host.settings.get("notices", "")).lower() == "true" else "m.text"
        self.rooms, self.buttons = MatrixRooms(server), MatrixButtons(server)
        return server.account

    async def start(self) -> None:
        """Begin to receive."""
        await self.rooms.start()
        sync = MatrixSync(self._connected, self.rooms, self._host, self.take)
        await sync.begin()
        self._task = asyncio.get_running_loop().create_task(sync.run())

    async def stop(self) -> None:
        """Receive nothing more, and close the connections."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        server, self._server = self._server, None
        if server is not None:
            await self.buttons.close()
            await server.close()

    # -- what arrives --------------------------------------------------------------------------------------------

    async def take(self, room: str, event: Mapping[str, Any]) -> None:
        """Take an event of a room. One that can't be read is left. Raises StoreFailed, and what is the connection's."""
        kind, sender, event_id = event.get("type"), event.get("sender"), event.get("event_id")
        if not isinstance(sender, str) or not isinstance(event_id, str):
            return
        try:
            if kind in _MESSAGES:
                await self._message(room, event, sender, event_id)
            elif sender == self._connected.account:
                return
            elif kind == "m.reaction":
                await self._reaction(room, event, sender, event_id)
            elif kind == "m.room.encrypted":
                await self._encrypted(room, sender)
        except CONNECTION:
            raise
        except Exception:  # noqa: BLE001 - anybody can write any event: it must not keep back the others
            _log.exception("an event of %s could not be taken", room)

    async def _message(self, room: str, event: Mapping[str, Any], sender: str, event_id: str) -> None:
        account = self._connected.account
        found = message_of(event, account)
        if found is None:
            return
        is_bot = sender == account or found.is_notice
        known = await self.rooms.room(room)
        at = event.get("origin_server_ts")
        message = Inbound(
            Chat(room, found.thread, known.is_group, known.title),
            sender,
            event_id,
            found.text,
            name="" if is_bot else await self.rooms.name(room, sender),
            attachments=found.attachments,
            reply_to=found.reply_to,
            edits=found.edits,
            is_addressed=found.mentions or (known.is_group and not is_bot and await self._is_ours(room, found.answers)),
            is_bot=is_bot,
            at=at / 1000 if isinstance(at, int) else 0.0,
        )
        await self._host.receive(message)

    async def _reaction(self, room: str, event: Mapping[str, Any], sender: str, event_id: str) -> None:
        message, emoji = reaction_of(event)
        choice = await self.buttons.choice(room, message, emoji) if message else ""
        if not choice:
            return
        known, name = await self.rooms.room(room), await self.rooms.name(room, sender)
        thread = await self._thread_of(room, message)
        chat = Chat(room, thread, known.is_group, known.title)
        line = await self._host.press(Press(chat, sender, message, choice, event_id, name))
        if line:
            with contextlib.suppress(NotSent):
                await self.send(Outbound(chat, f"{name or sender}: {line}", f"press:{event_id}", is_plain=False))

    async def _is_ours(self, room: str, event_id: str) -> bool:
        if not event_id:
            return False
        if event_id not in self._ours:
            event = await self._event(room, event_id)
            self._note(event_id, event.get("sender") == self._connected.account)
        return self._ours[event_id]

    async def _thread_of(self, room: str, event_id: str) -> str:
        found = message_of(await self._event(room, event_id), self._connected.account)
        return found.thread if found is not None else ""

    async def _event(self, room: str, event_id: str) -> Mapping[str, Any]:
        try:
            found = await self._connected.call("GET", "rooms", room, "event", event_id)
        except MatrixRefused as error:
            if error.retry_after is not None:
                raise
            return {}
        return found if isinstance(found, Mapping) else {}

    def _note(self, event_id: str, is_ours: bool) -> None:
        if len(self._ours) >= _OURS:
            self._ours.clear()
        self._ours[event_id] = is_ours

    async def _encrypted(self, room: str, sender: str) -> None:
        """Say once in a room that it can't be read, to somebody who is listened to."""
        place, known = f"told:{room}", await self.rooms.room(room)
        if not await self._host.recall(place) and await self._host.listens(Chat(room, "", known.is_group), sender):
            with contextlib.suppress(NotSent):
                await self.send(Outbound(Chat(room), _ENCRYPTED, place))
            await self._host.keep(place, True)

    async def fetch(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """Yield a file that came."""
        async for piece in self._connected.media(str(attachment.ref["mxc"])):
            yield piece

    # -- what is shown -------------------------------------------------------------------------------------------

    async def send(self, out: Outbound) -> str:
        """Show a message or replace one: the text first, then the files. Raises NotSent."""
        if len(out.text) > self.traits.max_chars:
            raise NotSent(f"{len(out.text)} characters are more than {self.traits.max_chars}", for_good=True)
        try:
            return await self._send(out)
        except MatrixRefused as error:
            raise error.not_sent() from error
        except (OSError, TimeoutError) as error:
            raise NotSent(f"the homeserver did not answer: {str(error) or 'in time'}", perhaps_sent=True) from error

    async def _send(self, out: Outbound) -> str:
        shown = ""
        if out.text.strip() or not out.files:
            content = text_content(out, self._kind)
            # An edit is known by what it says too: the same message has many.
            shown = await self._put(out.chat.id, content, transaction(out.key, out.edits, str(content) if out.edits else ""))
        if out.is_again and shown and not out.edits:  # the server may have an earlier text under this key
            again = Outbound(out.chat, out.text, out.key, shown, buttons=out.buttons, is_plain=out.is_plain)
            content = text_content(again, self._kind)
            await self._put(out.chat.id, content, transaction(out.key, shown, str(content)))
        if shown:
            self.buttons.show(out.chat.id, out.edits or shown, out.buttons, is_new=not (out.edits or out.is_again))
        for number, file in enumerate(out.files):
            url, size = await self._upload(file)
            where = transaction(out.key, out.edits, "file", str(number))
            shown_file = await self._put(out.chat.id, file_content(out, file, url, size), where)
            shown = shown or shown_file
        return out.edits or shown

    async def _put(self, room: str, content: Mapping[str, Any], where: str) -> str:
        sent = self._connected.client.room_send(room, "m.room.message", dict(content), tx_id=where)
        event_id = str((await self._connected.taken(sent)).event_id)
        self._note(event_id, True)
        return event_id

    async def _upload(self, file: OutFile) -> tuple[str, int]:
        if not file.path.is_file():
            raise NotSent(f"{file.name} is no longer there", for_good=True)
        size = file.path.stat().st_size
        with file.path.open("rb") as content:  # what the client opens itself it leaves open once the server has had enough

            def begun(*_: int) -> BinaryIO:
                content.seek(0)
                return content

            uploading = self._connected.client.upload(begun, file.media_type, file.name, filesize=size)
            return str((await self._connected.taken(_first(uploading))).content_uri), size

    async def typing(self, chat: Chat, is_on: bool) -> None:
        """Show that an answer is being written, for ten seconds, or no longer."""
        body = {"typing": True, "timeout": _TYPING_MS} if is_on else {"typing": False}
        await self._connected.call("PUT", "rooms", chat.id, "typing", self._connected.account, body=body)

    # -- what it stands on ---------------------------------------------------------------------------------------

    @property
    def _connected(self) -> MatrixServer:
        if self._server is None:
            raise NotSent("it is not connected")
        return self._server

    def _number(self, name: str, default: float) -> float:
        given = self._host.settings.get(name, default)
        try:
            found = float(given)
        except (TypeError, ValueError):
            found = -1.0
        if not 0 < found < float("inf"):
            raise ConfigError(f"platforms.matrix.settings.{name}: a number above 0, not {given!r}")
        return found


async def _first(asked: Awaitable[tuple[Any, Any]]) -> Any:
    return (await asked)[0]
