"""The platform: passes events of rooms to the gateway, and shows the gateway's messages in rooms."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from toolcrib.chat import Attachment, Chat, Host, Inbound, NotSent, Outbound, Press, Traits, settings_of
from toolcrib.platforms import Recent, number_of

from .buttons import MatrixButtons
from .files import fetched, uploaded
from .incoming import message_of, reaction_of
from .keys import ENCRYPTED, MatrixKeys, MatrixLack, MatrixNoKeyError, lack_before, open_keys
from .rooms import MatrixRooms
from .server import MatrixRefused, MatrixServer
from .syncing import CONNECTION, MatrixSync
from .waiting import MatrixWaiting
from .writing import file_content, text_content, transaction

_log = logging.getLogger(__name__)
_SETTINGS = ("homeserver", "user", "per_second", "burst", "edit_seconds", "notices", "blocked_devices")
_MESSAGES = ("m.room.message", "m.sticker")
_TYPING_MS = 10_000
_MOST_FILE_BYTES = 50 * 1024 * 1024
_OURS = 10_000
_UNREADABLE = (
    "This room is encrypted, and I can't read it: {reason}. Write to me in an unencrypted room, or ask my operator: {fix}."
)
_UNREAD = (
    "I could not read a message of {name}: its key has not arrived. I requested the key. If I don't answer, send the message"
    " again."
)


class MatrixPlatform:
    """Implements toolcrib.chat.Platform with its optional protocols. Without settings, it stays within Synapse's default
    rate limits."""

    def __init__(self, name: str, host: Host, **_: Any) -> None:
        self.name = name
        self.traits = Traits()
        self._host = host
        self._task: asyncio.Task[None] | None = None
        self._server: MatrixServer | None = None
        self._ours: Recent[str, bool] = Recent(_OURS)
        """Message id -> whether we sent the message. It has the messages that we sent, and the messages that users replied to."""
        self._lack: MatrixLack | None = lack_before()
        self._waiting = MatrixWaiting(host)

    async def connect(self) -> str:
        """Log in, and return the account's user id. Raises ConfigError, MatrixRefused, OSError."""
        settings_of(self._host, _SETTINGS)
        per_second, burst = number_of(self._host, "per_second", 0.2), number_of(self._host, "burst", 10)
        edit_seconds = number_of(self._host, "edit_seconds", max(1.0, 1 / max(per_second, 0.01)))
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
        keys = await open_keys(server, self._host)
        server.keys, self._lack = (keys, None) if isinstance(keys, MatrixKeys) else (None, keys)
        return server.account

    async def start(self) -> None:
        """Begin to receive."""
        await self.rooms.start()
        if (keys := self._connected.keys) is not None:
            keys.came.update(await self._waiting.load())
            await keys.upload()
        sync = MatrixSync(self._connected, self.rooms, self._host, self.take, self._look_again)
        await sync.begin()
        self._task = asyncio.get_running_loop().create_task(sync.run())

    async def stop(self) -> None:
        """Stop receiving, and close the connections."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        server, self._server = self._server, None
        if server is not None:
            await self.buttons.close()
            await server.close()

    # -- receiving -----------------------------------------------------------------------------------------------

    async def take(self, room: str, event: Mapping[str, Any]) -> None:
        """Handle an event of a room, or skip it if that fails. Raises StoreFailed, and errors of the connection."""
        sender, event_id = event.get("sender"), event.get("event_id")
        if not isinstance(sender, str) or not isinstance(event_id, str):
            return
        try:
            if event.get("type") == ENCRYPTED and sender != self._connected.account:
                event = await self._decrypted(room, event, sender) or {}
            kind = event.get("type")
            if kind in _MESSAGES:
                await self._message(room, event, sender, event_id)
            elif sender == self._connected.account:
                return
            elif kind == "m.reaction":
                await self._reaction(room, event, sender, event_id)
        except CONNECTION:
            raise
        except Exception:  # noqa: BLE001 - users can send any event: one must not block the others
            _log.exception("an event of %s could not be handled", Chat(room))

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
            self._ours[event_id] = event.get("sender") == self._connected.account
        return self._ours[event_id]

    async def _thread_of(self, room: str, event_id: str) -> str:
        found = message_of(await self._event(room, event_id), self._connected.account)
        return found.thread if found is not None else ""

    async def _event(self, room: str, event_id: str) -> Mapping[str, Any]:
        try:
            found = await self._connected.event(room, event_id)
        except MatrixRefused as error:
            if error.retry_after is not None:
                raise
            return {}
        return found if isinstance(found, Mapping) else {}

    async def _decrypted(self, room: str, event: Mapping[str, Any], sender: str) -> Mapping[str, Any] | None:
        """Return the decrypted event, or None if it can't be decrypted now. If its key has not arrived, record that it waits for
        the key. If we can't read encrypted rooms, report that once in the room.
        """
        keys = self._connected.keys
        if keys is not None and not isinstance(event.get("content"), Mapping):
            return None
        try:
            if keys is not None:
                return await keys.decrypt(room, event)
        except MatrixNoKeyError:
            if await self._listens(room, sender):
                await self._waiting.add(room, event)
            return None
        if self._lack is not None and not await self._host.recall(f"told:{room}") and await self._listens(room, sender):
            await self._say_once(room, f"told:{room}", _UNREADABLE.format(reason=self._lack.reason, fix=self._lack.fix))
            await self._host.keep(f"told:{room}", True)
        return None

    async def _look_again(self) -> bool:
        """Handle messages whose keys arrived, and request late keys. Return whether a missing key may have to be
        requested soon.
        """
        keys = self._connected.keys
        if keys is None:
            return False
        for room, event_id in self._waiting.readable(keys.came.__contains__):
            event = await self._event(room, event_id)
            if event.get("type") != ENCRYPTED:
                await self.take(room, event)
                await self._waiting.done(event_id)
        keys.came.clear()
        for room, event_id, session in self._waiting.overdue():
            event = await self._event(room, event_id)
            await self._waiting.mark_asked(session)
            if event.get("type") == ENCRYPTED:
                sender = event["sender"]
                await keys.ask(room, sender, event["content"])
                name = await self.rooms.name(room, sender) or sender
                await self._say_once(room, f"unread:{session}", _UNREAD.format(name=name))
        return self._waiting.is_pressing

    async def _listens(self, room: str, sender: str) -> bool:
        return await self._host.listens(Chat(room, "", (await self.rooms.room(room)).is_group), sender)

    async def _say_once(self, room: str, key: str, text: str) -> None:
        with contextlib.suppress(NotSent):
            await self._show(Outbound(Chat(room), text, key), is_note=True)

    async def fetch(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """Yield the content of a received file, as ``fetched`` does."""
        async for piece in fetched(self._connected, attachment):
            yield piece

    # -- sending -------------------------------------------------------------------------------------------------

    async def send(self, out: Outbound) -> str:
        """Show or replace a message: the text first, then the files. Raises NotSent."""
        return await self._show(out, is_note=False)

    async def _show(self, out: Outbound, *, is_note: bool) -> str:
        """Send a message, and return its id. A note may go unencrypted to an encrypted room, to report that we can't read it.
        Raises NotSent.
        """
        if len(out.text) > self.traits.max_chars:
            raise NotSent(f"{len(out.text)} characters are more than {self.traits.max_chars}", for_good=True)
        try:
            rules = await self.rooms.encryption(out.chat.id)
            if rules is not None and self._lack is not None and not is_note:
                raise NotSent(f"the room is encrypted, and {self._lack.reason}: {self._lack.fix}", for_good=True)
            return await self._send(out, rules if self._lack is None else None)
        except MatrixRefused as error:
            raise error.not_sent() from error
        except (OSError, TimeoutError) as error:
            raise NotSent(f"the homeserver did not answer: {str(error) or 'timed out'}", perhaps_sent=True) from error

    async def _send(self, out: Outbound, rules: Mapping[str, Any] | None) -> str:
        shown = ""
        if out.text.strip() or not out.files:
            content = text_content(out, self._kind)
            # The id of an edit includes its content, because a message has many edits.
            where = transaction(out.key, out.edits, str(content) if out.edits else "")
            shown = await self._put(out.chat.id, content, where, rules)
        if out.is_again and shown and not out.edits:  # the server may have an earlier text under this key
            again = Outbound(out.chat, out.text, out.key, shown, buttons=out.buttons, is_plain=out.is_plain)
            content = text_content(again, self._kind)
            await self._put(out.chat.id, content, transaction(out.key, shown, str(content)), rules)
        if shown:
            self.buttons.show(out.chat.id, out.edits or shown, out.buttons, is_new=not (out.edits or out.is_again))
        for number, file in enumerate(out.files):
            place, size = await uploaded(self._connected, file, is_encrypted=rules is not None)
            where = transaction(out.key, out.edits, "file", str(number))
            shown_file = await self._put(out.chat.id, file_content(out, file, place, size), where, rules)
            shown = shown or shown_file
        return out.edits or shown

    async def _put(self, room: str, content: Mapping[str, Any], where: str, rules: Mapping[str, Any] | None) -> str:
        kind, keys = "m.room.message", self._connected.keys
        if rules is not None and keys is not None:
            content = await keys.encrypt(room, kind, content, await self.rooms.people(room), rules)
            kind = ENCRYPTED
        answer = await self._connected.call("PUT", "rooms", room, "send", kind, where, body=content)
        event_id = str(answer["event_id"])
        self._ours[event_id] = True
        return event_id

    async def typing(self, chat: Chat, is_on: bool) -> None:
        """Show for ten seconds that an answer is being written, or stop showing it."""
        body = {"typing": True, "timeout": _TYPING_MS} if is_on else {"typing": False}
        await self._connected.call("PUT", "rooms", chat.id, "typing", self._connected.account, body=body)

    # -- state ---------------------------------------------------------------------------------------------------

    @property
    def shortcomings(self) -> Sequence[tuple[str, str]]:
        """The reason why encrypted rooms can't be read, and how to fix it; empty if they can be read."""
        return [(f"encrypted rooms can't be read: {self._lack.reason}", self._lack.fix)] if self._lack is not None else []

    @property
    def _connected(self) -> MatrixServer:
        if self._server is None:
            raise NotSent("it is not connected")
        return self._server
