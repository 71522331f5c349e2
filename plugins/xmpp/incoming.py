"""Parser of stanzas. It trusts no field: any client may have written anything."""

from __future__ import annotations

from collections.abc import Iterator
from mimetypes import guess_type
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from toolcrib.chat import Attachment
from toolcrib.contract.dataclass import dataclass

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

CLIENT, SID, MAM, MUC_USER = "{jabber:client}", "{urn:xmpp:sid:0}", "{urn:xmpp:mam:2}", "{http://jabber.org/protocol/muc#user}"
_REPLY = "urn:xmpp:reply:0"
_FALLBACK = "{urn:xmpp:fallback:0}"
_REACTIONS = "{urn:xmpp:reactions:0}"
_SILENT = (
    "{jabber:x:conference}x",  # an invitation
    "{urn:xmpp:message-retract:1}retract", "{urn:xmpp:message-retract:0}retract", "{urn:xmpp:fasten:0}apply-to",
)  # fmt: skip
_ENCRYPTED = (
    "{eu.siacs.conversations.axolotl}encrypted/{eu.siacs.conversations.axolotl}payload",
    "{urn:xmpp:omemo:2}encrypted/{urn:xmpp:omemo:2}payload", "{urn:xmpp:omemo:1}encrypted/{urn:xmpp:omemo:1}payload",
    "{urn:xmpp:openpgp:0}openpgp", "{jabber:x:encrypted}x",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class XmppMessage:
    """A message in a stanza. ``origin_id`` is the id that its sender gave it; ``reply_by`` is the author of the message that it
    claims to answer.
    """

    origin_id: str
    text: str = ""
    attachments: tuple[Attachment, ...] = ()
    reply_to: str = ""
    reply_by: str = ""
    edits: str = ""
    reacts_to: str = ""
    emoji: tuple[str, ...] = ()
    is_encrypted: bool = False


def message_of(stanza: Element) -> XmppMessage | None:
    """Return the message in a stanza, or None for a stanza without one (such as an error, a receipt, typing, an invitation)."""
    origin = stanza.get("id", "")
    if stanza.get("type") == "error" or any(stanza.find(one) is not None for one in _SILENT):
        return None  # its body, if any, is for apps that do not know the extension
    if any(stanza.find(one) is not None for one in _ENCRYPTED):
        return XmppMessage(origin, is_encrypted=True)
    reactions = stanza.find(f"{_REACTIONS}reactions")
    if reactions is not None:
        emoji = tuple(bare_emoji(one.text or "") for one in reactions.findall(f"{_REACTIONS}reaction"))
        return XmppMessage(origin, reacts_to=reactions.get("id", ""), emoji=emoji)
    found = stanza.find(f"{CLIENT}body")
    body = (found.text or "") if found is not None else ""
    files = tuple(_files(stanza))
    replaced, reply = stanza.find("{urn:xmpp:message-correct:0}replace"), stanza.find(f"{{{_REPLY}}}reply")
    text = "" if any(one.ref["url"] == body.strip() for one in files) else _without_quote(stanza, body)
    if not (text or files):
        return None
    return XmppMessage(
        origin,
        text,
        files,
        reply_to="" if reply is None else reply.get("id", ""),
        reply_by="" if reply is None else reply.get("to", ""),
        edits="" if replaced is None else replaced.get("id", "") or "unknown",
    )


def archive_id(stanza: Element, archive: str) -> str:
    """Return the id that an archive gave a message, or "" for none or several: the server of the archive removes forged ids."""
    found = [one.get("id", "") for one in stanza.findall(f"{SID}stanza-id") if one.get("by") == archive]
    return found[0] if len(found) == 1 else ""


def real_jid(stanza: Element) -> str:
    """Return the bare address of an occupant as the room reports it, or "" if it reports none or several."""
    found = [item.get("jid", "") for x in stanza.findall(f"{MUC_USER}x") for item in x.findall(f"{MUC_USER}item")]
    return found[0].partition("/")[0] if len(found) == 1 else ""


def is_history(stanza: Element, room: str) -> bool:
    """Return whether a room repeats an earlier message, perhaps by an earlier owner of the nick; the archive has that message."""
    return any(one.get("from", "").partition("/")[0] == room for one in stanza.findall("{urn:xmpp:delay}delay"))


def room_of(text: str) -> str:
    """Return the address of a room in its normal form, or "" if it is invalid."""
    from slixmpp import JID, InvalidJID

    try:
        found = JID(text)
    except InvalidJID:
        return ""
    return found.bare if found.local and found.domain and not found.resource else ""


def statuses(stanza: Element) -> set[str]:
    """Return the status codes in a room's presence."""
    return {one.get("code", "") for x in stanza.findall(f"{MUC_USER}x") for one in x.findall(f"{MUC_USER}status")}


def bare_emoji(emoji: str) -> str:
    """Return an emoji without the variation selector, which some clients add and others omit."""
    return emoji.strip().replace("\ufe0f", "")


def _files(stanza: Element) -> Iterator[Attachment]:
    for oob in stanza.findall("{jabber:x:oob}x"):
        url = (oob.findtext("{jabber:x:oob}url") or "").strip()
        if url.startswith(("https://", "http://")):
            name = unquote(urlsplit(url).path.rpartition("/")[2])
            yield Attachment(name or "file", guess_type(name)[0] or "application/octet-stream", None, {"url": url})


def _without_quote(stanza: Element, body: str) -> str:
    """Return the body of a reply without its quotation of the answered message."""
    for fallback in stanza.findall(f"{_FALLBACK}fallback"):
        part = fallback.find(f"{_FALLBACK}body")
        if fallback.get("for") == _REPLY and part is not None:
            start, end = part.get("start", ""), part.get("end", "")
            if start.isascii() and start.isdecimal() and end.isascii() and end.isdecimal() and len(start + end) < 15:
                return body[: int(start)] + body[max(int(start), int(end)) :]
    return body
