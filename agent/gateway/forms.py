"""Messages and chats as JSON, for the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from toolcrib.contract.chat import Attachment, Button, Chat, Inbound, Outbound, OutFile, without_controls
from toolcrib.contract.types import Json


def one_line(text: str, most: int = 60) -> str:
    """Return at most ``most`` characters of a foreign text, such as a name, without line breaks and control characters."""
    return without_controls(" ".join(text.split()))[:most]


def chat_json(chat: Chat) -> dict[str, Json]:
    """Return a chat as JSON."""
    return {"id": chat.id, "thread": chat.thread, "is_group": chat.is_group, "title": chat.title}


def chat_of(data: Mapping[str, Json]) -> Chat:
    """Return the chat that ``chat_json`` encoded."""
    return Chat(data["id"], data["thread"], data["is_group"], data["title"])


def inbound_json(message: Inbound) -> dict[str, Json]:
    """Return a message as JSON."""
    return {
        "chat": chat_json(message.chat),
        "user": message.user,
        "message_id": message.message_id,
        "text": message.text,
        "name": message.name,
        "roles": list(message.roles),
        "attachments": [
            {"name": one.name, "media_type": one.media_type, "size": one.size, "ref": dict(one.ref)}
            for one in message.attachments
        ],
        "reply_to": message.reply_to,
        "edits": message.edits,
        "is_addressed": message.is_addressed,
        "is_bot": message.is_bot,
        "at": message.at,
        "locked": message.locked,
    }


def inbound_of(data: Mapping[str, Json]) -> Inbound:
    """Return the message that ``inbound_json`` encoded."""
    files = tuple(Attachment(**{**one, "ref": dict(one["ref"])}) for one in data["attachments"])
    return Inbound(**{**data, "chat": chat_of(data["chat"]), "attachments": files, "roles": tuple(data["roles"])})


def body_of(
    chat: Chat,
    text: str,
    *,
    buttons: Sequence[Button] = (),
    files: Sequence[OutFile] = (),
    reply_to: str = "",
    is_plain: bool = False,
) -> dict[str, Json]:
    """Return the body of a post."""
    return {
        "chat": chat_json(chat),
        "text": text,
        "buttons": [[one.choice, one.label, one.emoji] for one in buttons],
        "files": [[str(one.path), one.name, one.media_type] for one in files],
        "reply_to": reply_to,
        "is_plain": is_plain,
    }


def outbound_of(body: Mapping[str, Json], key: str, edits: str, note: str = "", *, is_again: bool = False) -> Outbound:
    """Return the message of a post's body. ``note`` is put below its text."""
    return Outbound(
        chat_of(body["chat"]),
        f"{body['text']}\n\n{note}" if note else body["text"],
        key,
        edits=edits,
        reply_to=body["reply_to"],
        buttons=tuple(Button(*one) for one in body["buttons"]),
        files=() if edits else tuple(OutFile(Path(path), name, kind) for path, name, kind in body["files"]),
        is_plain=body["is_plain"],
        is_again=is_again,
    )
