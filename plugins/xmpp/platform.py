"""The platform: one account, its direct chats and its rooms."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from plugins.xmpp.files import XmppFiles
from plugins.xmpp.incoming import MUC_USER, XmppMessage, archive_id, is_history, message_of, real_jid, room_of
from plugins.xmpp.link import XmppLink, XmppLost, XmppSilent
from plugins.xmpp.sending import XmppSender
from plugins.xmpp.writing import quiet
from toolcrib import ConfigError, StoreFailed, ToolcribError
from toolcrib.chat import Attachment, Chat, Host, Inbound, NotSent, Outbound, Press, Traits, settings_of
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.regex import Regex
from toolcrib.platforms import Recent, keep_receiving, number_of

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_log = logging.getLogger(__name__)
_SETTINGS = ("user", "server", "direct_tls", "ca_file", "nick", "rooms", "per_second", "edit_seconds")
_JID = Regex(r"[^@/\s]+@[^@/\s]+\Z")
_SERVER = Regex(r"[^\s:]+:\d{1,5}\Z|\[[0-9a-fA-F:]+\]:\d{1,5}\Z")
_MOST_FILE_BYTES = 50 * 1024 * 1024
_QUEUE = 10_000
_ROOMS_SECONDS, _TOLD_SECONDS = 120.0, 3600.0
_MOST_PAGES = 200
"""Limit of pages of a room's archive that are read at once: a foreign server may have an endless one."""
_UNREADABLE = "I can't read encrypted messages. Please turn encryption off for this chat and send the message again."
_NONANONYMOUS = "muc_nonanonymous"


@dataclass(frozen=True, slots=True)
class _Came:
    """A stanza with facts from its arrival: its archive and id there ("" for none), its sender ("" if unknown) and nick."""

    stanza: Element
    archive: str
    known_as: str
    user: str
    nick: str = ""


class XmppPlatform:
    """The XMPP platform. README.md describes the ``settings``. Messages have the ids of the account's or a room's archive."""

    def __init__(self, name: str, host: Host, **more: Any) -> None:
        self.name = name
        self.traits = Traits()
        self._host = host
        self._task: asyncio.Task[None] | None = None
        self._link: XmppLink | None = None
        self._queue: asyncio.Queue[_Came | None] = asyncio.Queue()
        self._places: dict[str, str] = {}
        self._open: set[str] = set()
        """Rooms that report the addresses of their occupants."""
        self._ids: Recent[tuple[str, str], str] = Recent(10_000)
        """Archive ids of others' messages, by chat, sender and the sender's own id."""
        self._seen: Recent[tuple[str, str], bool] = Recent(10_000)
        self._told: Recent[str, float] = Recent(1_000)
        self._sender = XmppSender(host)
        self._behind = False

    # -- connection ----------------------------------------------------------------------------------------------

    async def connect(self) -> str:
        """Log in, and return the account's address. Raises ConfigError, XmppLost."""
        try:
            import slixmpp  # noqa: F401 - to report a missing library
        except ImportError as error:
            raise ConfigError("the xmpp platform needs the extra: pip install 'toolcrib[xmpp]'") from error
        self._given = given = settings_of(self._host, _SETTINGS)
        for key, form, what in (("user", _JID, "an address such as bot@example.org"), ("server", _SERVER, "HOST:PORT")):
            if not form.match(given.get(key, "" if key == "user" else "x:1")):
                raise ConfigError(f"{self._host.names_setting(key)}: expected {what}, got {given.get(key, '')!r}")
        rooms = given.get("rooms", "").replace(",", " ").split()
        if wrong := [one for one in rooms if not room_of(one)]:
            raise ConfigError(f"{self._host.names_setting('rooms')}: {wrong[0]!r} is not a room such as room@rooms.example.org")
        self._named = [room_of(one) for one in rooms]
        per_second, edit_seconds = number_of(self._host, "per_second", 5.0), number_of(self._host, "edit_seconds", 1.0)
        self._link = await self._opened()
        if not await self._link.knows(self._link.account, "urn:xmpp:mam:2"):
            raise ConfigError(
                "the account's server keeps no archive (XEP-0313), without which messages would be lost: enable it there"
            )
        size = await self._files()
        self.traits = Traits(
            max_chars=4_000, edit_seconds=edit_seconds, buttons=True, reactions=True, idempotent=True,
            max_file_bytes=size, per_second=per_second,
        )  # fmt: skip
        return self._link.account

    async def _opened(self) -> XmppLink:
        try:
            return await XmppLink.open(self._given, self._host.secret("XMPP_PASSWORD"), self._took)
        except OSError as error:  # ca_file can't be read
            raise ConfigError(f"{self._host.names_setting('ca_file')}: {error.strerror or error}") from error

    async def _files(self) -> int:
        """Find the server's upload service, and return its size limit in bytes."""
        link = self._up
        found = await link.done(link.client.plugin["xep_0363"].find_upload_service(timeout=10))
        self._sender.link = link
        self._sender.files = XmppFiles(link, "" if found is None else str(found["from"]), self._given.get("ca_file", ""))
        size = "" if found is None else _value(found.xml, "max-file-size")
        return 0 if found is None else min(int(size), _MOST_FILE_BYTES) if size.isdecimal() else _MOST_FILE_BYTES

    async def start(self) -> None:
        """Start receiving: on the very first start, messages from now on, otherwise all since the last one that was taken."""
        await self._sender.load()
        self._places = dict(await self._host.recall("places") or {})
        self._sender.rooms = self._rooms = list(dict.fromkeys([*self._named, *(await self._host.recall("rooms") or ())]))
        await self._enter()
        self._task = asyncio.get_running_loop().create_task(
            keep_receiving(self._receive, self.name, (StoreFailed, XmppLost, ConfigError), lambda _: None)
        )

    async def stop(self) -> None:
        """Stop receiving, and close the connection."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    @property
    def _up(self) -> XmppLink:
        if self._link is None or not self._link.is_up:
            raise XmppLost("it is not connected")
        return self._link

    # -- receiving -----------------------------------------------------------------------------------------------

    async def _receive(self) -> None:
        """Handle stanzas until the connection is lost or one can't be stored. The next call reads the rest from the archives."""
        if self._link is None or not self._link.is_up:
            if self._link is not None:
                await self._link.close()
            self._link = await self._opened()
            await self._files()
            await self._enter()
        link = self._link
        watching, keeping = asyncio.ensure_future(link.watch()), asyncio.ensure_future(self._keep_rooms(link))
        try:
            while link.is_up:
                self._behind = False
                for archive in (link.account, *link.nicks):
                    await self._catch_up(archive)
                while not self._behind and link.is_up:
                    getting = asyncio.ensure_future(self._queue.get())
                    ends: list[asyncio.Future[Any]] = [getting, link.lost, watching]
                    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                    if not getting.done():
                        getting.cancel()
                        break
                    if (came := getting.result()) is not None:
                        await self._take(came)
        finally:
            watching.cancel()
            keeping.cancel()
            await asyncio.gather(watching, keeping, return_exceptions=True)
        raise XmppLost("the connection was lost")

    async def _enter(self) -> None:
        """Send our presence, and enter the rooms."""
        link = self._up
        while not self._queue.empty():
            self._queue.get_nowait()  # the archive has this message too
        await self._begin_at(link.account)
        link.client.send_presence()
        await link.ping()  # from now on the server sends us all stanzas, also invitations, which no archive has
        await asyncio.gather(*(self._join(link, room) for room in self._rooms))

    async def _join(self, link: XmppLink, room: str) -> bool:
        """Enter a room, and return whether we are in it. Raises XmppLost, StoreFailed."""
        from slixmpp.exceptions import IqError, PresenceError

        try:
            await link.join(room, self._given.get("nick", self._given["user"].partition("@")[0]))
            self._open.discard(room)
            if await link.knows(room, _NONANONYMOUS):
                self._open.add(room)
            await self._begin_at(room)
        except (PresenceError, IqError, XmppSilent) as error:
            _log.warning("%s could not be joined: %s", Chat(room), getattr(error, "condition", error))
            if isinstance(error, XmppSilent):
                link.out_of(room)
        return room in link.nicks

    async def _keep_rooms(self, link: XmppLink) -> None:
        """Enter rooms again that could not be joined or that forgot us, but not rooms that removed us. Runs until cancelled."""
        while True:
            await asyncio.sleep(_ROOMS_SECONDS)
            for room in [one for one in self._rooms if one not in link.sent_away]:
                with contextlib.suppress(XmppSilent, XmppLost, StoreFailed):
                    if room in link.nicks:
                        if await link.is_in(room):
                            continue
                        link.out_of(room)
                    if await self._join(link, room):
                        self._behind = True
                        self._queue.put_nowait(None)

    async def _begin_at(self, archive: str) -> None:
        if archive not in self._places:
            found, _ = await self._up.page(archive, before="", max=1)
            await self._keep_place(archive, found[-1][0] if found else "")

    async def _keep_place(self, archive: str, place: str) -> None:
        self._places[archive] = place
        await self._host.keep("places", self._places)

    async def _catch_up(self, archive: str) -> None:
        """Take the messages that an archive has after the last taken one. Raises StoreFailed, XmppLost."""
        from slixmpp.exceptions import IqError

        link = self._up
        for number in itertools.count(1):
            place = self._places.get(archive, "")
            try:
                found, is_all = await link.page(archive, **({"after": place} if place else {}))
            except IqError as error:
                if error.condition != "item-not-found" or not place:
                    _log.warning("the archive of %s can't be read: %s", Chat(archive), error.condition)
                    return
                self._places[archive] = ""  # the archive deleted that message, and so all earlier ones: read what is left
                continue
            except XmppSilent as error:
                _log.warning("the archive of %s can't be read: %s", Chat(archive), error)
                link.out_of(archive)  # the room is entered again later
                return
            for known_as, stanza in found:
                await self._take(self._came(stanza, archive, known_as, is_live=False), is_place=False)
            if found:
                await self._keep_place(archive, found[-1][0])
            if is_all or not found:
                return
            if archive != link.account and number >= _MOST_PAGES:
                _log.warning("the rest of the archive of %s is read later: it has more than %d pages", Chat(archive), _MOST_PAGES)
                return

    def _took(self, stanza: Element, is_message: bool) -> None:
        """Queue a stanza with the user who is its sender now, or record the result of a message of ours. Never waits."""
        link = self._link
        if link is None or self._queue.qsize() > _QUEUE:
            self._behind = link is not None
            return
        sender, _, nick = stanza.get("from", "").partition("/")
        if not is_message:
            self._queue.put_nowait(_Came(stanza, "", "", sender))
        elif stanza.get("type") == "error":
            self._sender.refused(stanza)
        elif stanza.get("type") == "groupchat":
            if sender in link.rooms and nick == link.nicks.get(sender):
                self._sender.sent(sender, stanza)
            elif sender in link.rooms and nick and not is_history(stanza, sender):
                self._queue.put_nowait(self._came(stanza, sender, archive_id(stanza, sender), is_live=True))
        elif stanza.find("{jabber:x:conference}x") is not None:
            self._queue.put_nowait(_Came(stanza, "", "", sender))
        elif message_of(stanza) is not None:
            known_as = archive_id(stanza, link.account)
            if not known_as:  # stored while we were away: the archive has it too
                self._behind = True
                self._queue.put_nowait(None)
            else:
                self._queue.put_nowait(self._came(stanza, link.account, known_as, is_live=True))

    def _came(self, stanza: Element, archive: str, known_as: str, *, is_live: bool) -> _Came:
        """Return a message with its author. In a room, that is the user that the room reports for that moment, "" for none."""
        link = self._up
        sender, _, nick = stanza.get("from", "").partition("/")
        if archive == link.account:
            is_room = sender in link.rooms or stanza.find(f"{MUC_USER}x") is not None  # a room's private message is anonymous
            return _Came(stanza, archive, known_as, "" if is_room or sender == link.account else sender)
        if is_live:
            user = link.rooms.get(archive, {}).get(nick, "")
        else:  # the room recorded the author, if it reports authors at all
            user = real_jid(stanza) if archive in self._open and sender == archive else ""
        return _Came(stanza, archive, known_as, "" if user == link.account else user, nick)

    async def _take(self, came: _Came, *, is_place: bool = True) -> None:
        """Handle one stanza, unless it was handled before; skip it if that fails. Raises StoreFailed, XmppLost."""
        if (came.archive, came.known_as) in self._seen:
            return
        try:
            if not came.archive:
                await self._invited(came)
            elif came.user and came.known_as:
                await self._message(came)
        except (StoreFailed, XmppLost):
            raise
        except Exception:  # noqa: BLE001 - any user can send any stanza
            _log.exception("%s: a stanza could not be handled and is skipped", self.name)
        if came.archive and came.known_as:
            self._seen[came.archive, came.known_as] = True
            if is_place and came.user:
                await self._keep_place(came.archive, came.known_as)

    async def _invited(self, came: _Came) -> None:
        """Accept an invitation to a room, or a request to see our presence, if the host follows its sender."""
        link, asked = self._up, came.stanza.find("{jabber:x:conference}x")
        if asked is None:
            if await self._host.follows(Chat(came.user), came.user):
                link.client.send_presence(pto=came.user, ptype="subscribed")
            return
        room = room_of(asked.get("jid", ""))
        if not room or room in link.rooms or not await self._host.follows(Chat(room, is_group=True), came.user):
            return
        if await self._join(link, room) and room not in self._rooms:
            self._rooms.append(room)
            await self._host.keep("rooms", self._rooms)

    async def _message(self, came: _Came) -> None:
        found = message_of(came.stanza)
        if found is None:
            return
        link, is_group = self._up, came.archive != self._up.account
        chat = Chat(came.archive, is_group=True, title=came.archive.partition("@")[0]) if is_group else Chat(came.user)
        if found.is_encrypted:
            await self._unreadable(came, chat)
            return
        if found.reacts_to:
            await self._reaction(came, chat, found)
            return
        ours = await self._sender.ours(chat.id, found.reply_to) if is_group and found.reply_to else ""
        nick = link.nicks.get(chat.id, "")
        is_ours = is_group and (bool(ours) or found.reply_by == f"{chat.id}/{nick}" or quiet(found.text, [nick]) != found.text)
        mine = (chat.id, f"{came.user}\0{found.origin_id}")
        if found.origin_id and not found.edits:
            self._ids[mine] = came.known_as
        edits = self._ids.get((chat.id, f"{came.user}\0{found.edits}"), found.edits)
        message = Inbound(
            chat, came.user, came.known_as, found.text, came.nick or came.user.partition("@")[0], attachments=found.attachments,
            reply_to=ours or found.reply_to, edits=edits, is_addressed=is_ours,
        )  # fmt: skip
        await self._host.receive(message)

    async def _unreadable(self, came: _Came, chat: Chat) -> None:
        """Answer in a direct chat that encrypted messages can't be read, once an hour per user."""
        last = self._told.get(came.user, -_TOLD_SECONDS)
        if chat.is_group or time.monotonic() - last < _TOLD_SECONDS or not await self._host.listens(chat, came.user):
            return
        self._told[came.user] = time.monotonic()
        with contextlib.suppress(NotSent):
            await self.send(Outbound(chat, _UNREADABLE, f"unreadable:{came.known_as}"))

    async def _reaction(self, came: _Came, chat: Chat, found: XmppMessage) -> None:
        ours, asked = await self._sender.question(chat.id, chat.is_group, found.reacts_to)
        meant = {asked["emoji"][one] for one in found.emoji if one in asked.get("emoji", {})}
        if len(meant) != 1:  # none, or several at once
            return
        name = came.nick or came.user.partition("@")[0]
        line = await self._host.press(Press(chat, came.user, ours, meant.pop(), came.known_as, name, key=asked["key"]))
        if line:
            try:
                await self.send(Outbound(chat, f"{name}: {line}", f"press:{came.known_as}"))
            except NotSent:
                _log.warning("%s: the result of a press could not be sent", self.name)

    async def fetch(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """Yield the content of a received file. Raises ToolcribError."""
        if self._sender.files is None:
            raise ToolcribError("it is not connected")
        async for piece in self._sender.files.get(str(attachment.ref["url"])):
            yield piece

    # -- sending -------------------------------------------------------------------------------------------------

    async def send(self, out: Outbound) -> str:
        """Show or correct a message. Raises NotSent."""
        if len(out.text) > self.traits.max_chars:
            raise NotSent(f"{len(out.text)} characters are more than {self.traits.max_chars}", for_good=True)
        try:
            return await self._sender.send(out)
        except (XmppLost, XmppSilent) as error:
            raise NotSent(str(error), perhaps_sent=True) from error

    async def typing(self, chat: Chat, is_on: bool) -> None:
        """Show that an answer is being written, or stop showing it."""
        from xml.etree.ElementTree import SubElement

        message = self._up.client.make_message(mto=chat.id, mtype="groupchat" if chat.is_group else "chat")
        SubElement(message.xml, "{http://jabber.org/protocol/chatstates}" + ("composing" if is_on else "active"))
        SubElement(message.xml, "{urn:xmpp:hints}no-store")
        message.send()


def _value(form: Element, name: str) -> str:
    """Return the value of a form's field, or "" for none."""
    found = [one.findtext("{jabber:x:data}value") for one in form.iter("{jabber:x:data}field") if one.get("var") == name]
    return (found[0] or "") if found else ""
