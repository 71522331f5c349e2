"""Conversion of mail to messages of the gateway: author, thread and text."""

from __future__ import annotations

import hashlib
from email.message import Message

from plugins.email.content import Unreadable, decoded, encoding_of, is_file, leaves, name_of, parsed, text_of
from plugins.email.senders import field
from plugins.email.writing import thread_in
from toolcrib.chat import Attachment, Chat, Inbound
from toolcrib.contract.regex import Regex

_ID = Regex(r"<([\x21-\x3b\x3d\x3f-\x7e]{1,200})>")
_RE = Regex(r"(?:\s*(?:re|aw|fwd?|wg|sv|tr|rv)\s*(?:\[\d+\])?:)+\s*", 2)
_SUBJECT, _MOST_FILES = 200, 50


def chat_of(mail: Message, address: str, message_id: str) -> Chat:
    """Return the chat of a mail: the author's address, and the mail's thread."""
    answered = [*_ID.findall(field(mail, "references")), *_ID.findall(field(mail, "in-reply-to"))]
    ours = next(filter(None, map(thread_in, reversed(answered))), "")
    subject = _RE.sub("", decoded(field(mail, "subject")), count=1)[:_SUBJECT]
    return Chat(address, ours or (answered[0] if answered else message_id), title=subject)


def message_id_of(mail: Message, place: str) -> str:
    """Return the id of a mail: its own, or one derived from its position in the mailbox."""
    found = _ID.match(field(mail, "message-id"))
    return found[1] if found is not None else f"{hashlib.sha256(place.encode()).hexdigest()[:32]}@unnamed.invalid"


def inbound_of(head: Message, raw: bytes, chat: Chat, message_id: str, place: tuple[int, int], *, takes_files: bool) -> Inbound:
    """Return a mail as a message. ``head`` are its fields, ``raw`` the fetched part, ``place`` its UIDVALIDITY and UID."""
    try:
        mail = parsed(raw)
        text, files = text_of(mail), _files(mail, place) if takes_files else []
    except Unreadable as error:
        text, files = f"[an unreadable mail: {error}]", []
    is_first = chat.thread == message_id
    if chat.title and is_first and not text.startswith("/") and len(text.split()) != 1:
        text = f"{chat.title}\n\n{text}".strip()
    answered = _ID.match(field(head, "in-reply-to"))
    name = decoded(field(head, "from").rpartition("<")[0]).strip(' "')[:100]
    reply_to = answered[1] if answered is not None else ""
    return Inbound(chat, chat.id, message_id, text, name=name, attachments=files, reply_to=reply_to)


def _files(mail: Message, place: tuple[int, int]) -> list[Attachment]:
    found: list[Attachment] = []
    for number, part in leaves(mail):
        if not is_file(part) or len(found) == _MOST_FILES:
            continue
        ref = {"validity": place[0], "uid": place[1], "part": number, "encoding": encoding_of(part)}
        found.append(Attachment(name_of(part) or part.get_content_type().replace("/", "."), part.get_content_type(), None, ref))
    return found
