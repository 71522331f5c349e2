"""Sending of messages, corrections, files and reactions, each confirmed by the server, and known again after a restart."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from plugins.xmpp.files import XmppFiles
from plugins.xmpp.incoming import archive_id, real_jid
from plugins.xmpp.link import XmppLink, XmppSilent
from plugins.xmpp.writing import body_of, choices_of, emoji_of, stanza_id
from toolcrib.chat import Chat, Host, NotSent, Outbound, OutFile
from toolcrib.platforms import Recent

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_log = logging.getLogger(__name__)
_ASKED = "asked"
_MOST_ASKED = 200
_FOR_LATER = {"recipient-unavailable", "remote-server-timeout", "resource-constraint", "policy-violation", "not-acceptable"}


class XmppSender:
    """``link`` and ``files`` are those of the moment. Ids of ours follow from what is said, in whichever process."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.link: XmppLink | None = None
        self.files: XmppFiles | None = None
        self.rooms: Sequence[str] = ()
        """Rooms that are entered with each connection."""
        self._looked: set[str] = set()
        """Chats whose archive was searched for what an earlier process showed."""
        self.shown: Recent[tuple[str, str], str] = Recent(10_000)
        """Ids of ours that were shown, by chat and by the id in the archive of a room, or else our own."""
        self._perhaps: Recent[tuple[str, str], bool] = Recent(10_000)
        """Ids of ours that a room showed for somebody with our nick, where it does not tell who that was."""
        self._asked: dict[str, dict[str, Any]] = {}
        self._waiting: dict[tuple[str, str], asyncio.Future[str]] = {}
        """Messages that are to be confirmed, by who can do so and their ids."""

    async def load(self) -> None:
        """Read which reactions an earlier process asked for. Raises StoreFailed."""
        self._asked = dict(await self._host.recall(_ASKED) or {})

    def sent(self, room: str, stanza: Element) -> None:
        """Take a message of ours as a room shows it."""
        ours, known = stanza.get("id", ""), archive_id(stanza, room)
        if known:
            self.shown[room, known] = ours
        if (waiting := self._waiting.get((room, ours))) is not None and not waiting.done():
            waiting.set_result(known)

    def refused(self, stanza: Element) -> None:
        """Take an error that came for a message of ours, from whom that was for: anybody can say that it failed."""
        waiting = self._waiting.get((stanza.get("from", ""), stanza.get("id", "")))
        is_late = waiting is None and (stanza.get("from", ""), stanza.get("id", "")) in self.shown
        if is_late or (waiting is not None and not waiting.done()):
            error = stanza.find("{jabber:client}error")
            names = [one.tag.rpartition("}")[2] for one in error or () if one.tag.endswith("}text") is False]
            name = names[0] if names else "error"
            if waiting is None:  # servers that can't be reached say so later
                _log.warning("%s did not get a message: %s", Chat(stanza.get("from", "")), name)
                return
            is_brief = error is not None and error.get("type") == "wait"
            waiting.set_exception(NotSent(f"the server says {name}", for_good=not is_brief and name not in _FOR_LATER, code=name))

    async def question(self, chat: str, is_group: bool, message_id: str) -> tuple[str, dict[str, Any]]:
        """Return (our id, what was asked) of a message that somebody reacts to; ("", {}) for one that asks nothing here."""
        ours = await self.ours(chat, message_id) if is_group else message_id
        asked = self._asked.get(ours, {})
        return (ours, asked) if asked.get("chat") == chat else ("", {})

    async def ours(self, room: str, known: str) -> str:
        """Return our id of a message of ours that a room knows by its own, "" for none. Raises XmppLost."""
        if (room, known) not in self.shown and room not in self._looked:
            with contextlib.suppress(XmppSilent):
                await self._look(room, is_group=True)
        return self.shown.get((room, known), "")

    # -- sending -------------------------------------------------------------------------------------------------

    async def send(self, out: Outbound) -> str:
        """Show a message or correct one: the text, then the files. Raises NotSent, XmppLost, XmppSilent, StoreFailed."""
        link, chat = self._up, out.chat.id
        if out.chat.is_group and chat not in link.nicks:
            raise NotSent("we are not in the room", for_good=chat not in (*link.rooms, *self.rooms))
        ours = out.edits or stanza_id(out.key)
        if out.buttons:
            await self._keep_asked(ours, {"chat": chat, "key": out.key, "emoji": choices_of(out)})
        shown = ours
        nicks = tuple(one for one in link.rooms.get(chat, ()) if one != link.nicks.get(chat))
        if out.text.strip() or not out.files:
            body, replaces = body_of(out, nicks), out.edits
            is_shown = not out.edits and await self._is_shown(out, ours)
            if is_shown and out.is_again:  # perhaps with another text
                replaces = ours
            if replaces or not is_shown:
                this = stanza_id(out.key, replaces, body) if replaces else ours
                await self._put(out, this, body, replaces=replaces)
        else:
            shown = stanza_id(out.key, "file", "0")
        for number, file in enumerate(out.files):
            await self._file(out, stanza_id(out.key, "file", str(number)), file)
        if out.buttons or (out.edits and out.edits in self._asked):
            await self._react(out, ours)
        return shown

    async def _file(self, out: Outbound, ours: str, file: OutFile) -> None:
        if self.files is None:
            raise NotSent("it is not connected")
        if not await self._is_shown(out, ours):
            url = await self.files.put(file)
            await self._put(out, ours, url, url=url)

    async def _put(self, out: Outbound, ours: str, body: str, *, replaces: str = "", url: str = "") -> None:
        """Send a stanza, and return once the server has shown it."""
        from xml.etree.ElementTree import SubElement

        link, chat = self._up, out.chat.id
        message = link.client.make_message(mto=chat, mbody=body, mtype="groupchat" if out.chat.is_group else "chat")
        message["id"] = ours
        SubElement(message.xml, "{urn:xmpp:sid:0}origin-id", id=ours)
        SubElement(message.xml, "{urn:xmpp:hints}store")
        if replaces:
            SubElement(message.xml, "{urn:xmpp:message-correct:0}replace", id=replaces)
        elif out.reply_to:
            answered = next(
                (known for (where, known), one in self.shown.items() if where == chat and one == out.reply_to), out.reply_to
            )
            SubElement(message.xml, "{urn:xmpp:reply:0}reply", id=answered, to=chat)
        if url:
            SubElement(SubElement(message.xml, "{jabber:x:oob}x"), "{jabber:x:oob}url").text = url
        elif out.is_plain:
            SubElement(message.xml, "{urn:xmpp:styling:0}unstyled")
        waiting = self._waiting[chat, ours] = asyncio.get_running_loop().create_future()
        try:
            message.send()
            if not out.chat.is_group:
                await link.ping()
                if waiting.done():
                    waiting.result()
                self.shown[chat, ours] = ours
            else:
                await link.done(asyncio.shield(waiting), of=chat)
        finally:
            self._waiting.pop((chat, ours), None)
            if waiting.done() and not waiting.cancelled():
                waiting.exception()  # so that nobody is told that it was not asked for

    async def _react(self, out: Outbound, ours: str) -> None:
        """Give our own reactions, for people to give too; none where nothing is asked any more."""
        from xml.etree.ElementTree import SubElement

        link, chat = self._up, out.chat.id
        known = next((one for (where, one), mine in self.shown.items() if where == chat and mine == ours), "")
        if known:
            message = link.client.make_message(mto=chat, mtype="groupchat" if out.chat.is_group else "chat")
            reactions = SubElement(message.xml, "{urn:xmpp:reactions:0}reactions", id=known)
            for number, button in enumerate(out.buttons):
                SubElement(reactions, "{urn:xmpp:reactions:0}reaction").text = emoji_of(button, number)
            SubElement(message.xml, "{urn:xmpp:hints}store")
            message.send()
            await link.ping()  # so that whoever sees the question sees how to answer it

    async def _keep_asked(self, ours: str, asked: dict[str, Any]) -> None:
        """Keep what reactions mean before anybody can give them. Raises StoreFailed."""
        self._asked = dict([*((one, known) for one, known in self._asked.items() if one != ours), (ours, asked)][-_MOST_ASKED:])
        await self._host.keep(_ASKED, self._asked)

    # -- what was shown before -----------------------------------------------------------------------------------

    async def _is_shown(self, out: Outbound, ours: str) -> bool:
        """Return whether a message is there, by the archive where an earlier process or a lost connection may have sent it."""
        chat = out.chat.id
        if out.is_again or chat not in self._looked:
            await self._look(chat, is_group=out.chat.is_group)
        return (chat, ours) in self._perhaps or any(where == chat and one == ours for (where, _), one in self.shown.items())

    async def _look(self, chat: str, *, is_group: bool) -> None:
        from slixmpp.exceptions import IqError

        link, before = self._up, ""
        try:
            for _ in range(4):
                archive = chat if is_group else link.account
                found, is_all = await link.page(archive, "" if is_group else chat, before=before)
                for known, stanza in found:
                    sender, ours = stanza.get("from", ""), stanza.get("id", "")
                    who = real_jid(stanza) if is_group else sender.partition("/")[0]
                    if ours and who == link.account:
                        self.shown[chat, known if is_group else ours] = ours
                    elif ours and is_group and not who and sender == f"{chat}/{link.nicks.get(chat)}":
                        self._perhaps[chat, ours] = True  # another may have had the nick, and repeated an id of ours
                if is_all or not found:
                    break
                before = found[0][0]
        except IqError:  # there is no archive, or no such room
            pass
        self._looked.add(chat)

    @property
    def _up(self) -> XmppLink:
        if self.link is None or not self.link.is_up:
            raise NotSent("it is not connected")
        return self.link
