"""Sending of messages, corrections, files and reactions: each is confirmed by the server, and recognised after a restart."""

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
    """Sends messages over the current ``link`` and ``files``. Our ids are digests of a message's key and text, so they are
    equal in all processes.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self.link: XmppLink | None = None
        self.files: XmppFiles | None = None
        self.rooms: Sequence[str] = ()
        """Rooms that are entered with each connection."""
        self._looked: set[str] = set()
        """Chats whose archive was searched for messages that an earlier process showed."""
        self.shown: Recent[tuple[str, str], str] = Recent(10_000)
        """Our ids of messages that were shown, by the chat and either the id in the room's archive or our own id."""
        self._perhaps: Recent[tuple[str, str], bool] = Recent(10_000)
        """Our ids of messages that a room showed for our nick without reporting the address of the nick's owner."""
        self._asked: dict[str, dict[str, Any]] = {}
        self._waiting: dict[tuple[str, str], asyncio.Future[str]] = {}
        """Messages that wait for confirmation, by the confirming address and their ids."""

    async def load(self) -> None:
        """Load the questions that an earlier process stored, with the meaning of their reactions. Raises StoreFailed."""
        self._asked = dict(await self._host.recall(_ASKED) or {})

    def sent(self, room: str, stanza: Element) -> None:
        """Record a message of ours that a room shows."""
        ours, known = stanza.get("id", ""), archive_id(stanza, room)
        if known:
            self.shown[room, known] = ours
        if (waiting := self._waiting.get((room, ours))) is not None and not waiting.done():
            waiting.set_result(known)

    def refused(self, stanza: Element) -> None:
        """Record an error for a message of ours, if it comes from the message's receiver: anyone can send an error."""
        waiting = self._waiting.get((stanza.get("from", ""), stanza.get("id", "")))
        is_late = waiting is None and (stanza.get("from", ""), stanza.get("id", "")) in self.shown
        if is_late or (waiting is not None and not waiting.done()):
            error = stanza.find("{jabber:client}error")
            names = [one.tag.rpartition("}")[2] for one in error or () if one.tag.endswith("}text") is False]
            name = names[0] if names else "error"
            if waiting is None:  # servers report later that a receiver can't be reached
                _log.warning("%s did not get a message: %s", Chat(stanza.get("from", "")), name)
                return
            is_brief = error is not None and error.get("type") == "wait"
            waiting.set_exception(
                NotSent(f"the server reports {name}", for_good=not is_brief and name not in _FOR_LATER, code=name)
            )

    async def question(self, chat: str, is_group: bool, message_id: str) -> tuple[str, dict[str, Any]]:
        """Return (our id, the question) for a message that a user reacts to, or ("", {}) if it is not a question in this chat."""
        ours = await self.ours(chat, message_id) if is_group else message_id
        asked = self._asked.get(ours, {})
        return (ours, asked) if asked.get("chat") == chat else ("", {})

    async def ours(self, room: str, known: str) -> str:
        """Return our id of the message that the room's archive knows as ``known``, or "" for none. Raises XmppLost, NotSent."""
        if (room, known) not in self.shown and room not in self._looked:
            with contextlib.suppress(XmppSilent):
                await self._look(room, is_group=True)
        return self.shown.get((room, known), "")

    # -- sending -------------------------------------------------------------------------------------------------

    async def send(self, out: Outbound) -> str:
        """Show or correct a message: the text, then the files. Raises NotSent, XmppLost, XmppSilent, StoreFailed."""
        link, chat = self._up, out.chat.id
        if out.chat.is_group and chat not in link.nicks:
            raise NotSent("the bot is not in the room", for_good=chat not in (*link.rooms, *self.rooms))
        ours = out.edits or stanza_id(out.key)
        if out.buttons:
            await self._keep_asked(ours, {"chat": chat, "key": out.key, "emoji": choices_of(out)})
        shown = ours
        nicks = tuple(one for one in link.rooms.get(chat, ()) if one != link.nicks.get(chat))
        if out.text.strip() or not out.files:
            body, replaces = body_of(out, nicks), out.edits
            is_shown = not out.edits and await self._is_shown(out, ours)
            if is_shown and out.is_again:  # an earlier attempt may have shown another text
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
        """Send a stanza. Return when the room has shown it or, in a direct chat, when our server has processed it."""
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
                waiting.exception()  # prevents a warning about an unread exception

    async def _react(self, out: Outbound, ours: str) -> None:
        """Add our own reactions to a question, so that users can add the same ones. Without buttons, remove them."""
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
            await link.ping()  # so that a user who sees the question also sees its answers

    async def _keep_asked(self, ours: str, asked: dict[str, Any]) -> None:
        """Store the meaning of reactions before any user can add them. Raises StoreFailed."""
        self._asked = dict([*((one, known) for one, known in self._asked.items() if one != ours), (ours, asked)][-_MOST_ASKED:])
        await self._host.keep(_ASKED, self._asked)

    # -- earlier messages ----------------------------------------------------------------------------------------

    async def _is_shown(self, out: Outbound, ours: str) -> bool:
        """Return whether a message was shown. If an earlier process or a lost connection may have sent it, search the archive
        first.
        """
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
                        self._perhaps[chat, ours] = True  # another user may have had the nick, and repeated our id
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
