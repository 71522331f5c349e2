"""Conversion of Telegram's messages and presses to those of the gateway."""

from __future__ import annotations

from collections.abc import Iterator
from mimetypes import guess_extension
from typing import TYPE_CHECKING

from toolcrib.chat import Attachment, Chat, Inbound, Press
from toolcrib.contract.regex import Regex
from toolcrib.platforms import choice_and_key

if TYPE_CHECKING:
    import telegram

_COMMAND = Regex(r"/(\w+)@(\w+)")
_FILES = {
    "audio": "audio/mpeg", "video": "video/mp4", "voice": "audio/ogg", "video_note": "video/mp4", "animation": "video/mp4",
    "document": "application/octet-stream",
}  # fmt: skip


def inbound_of(message: telegram.Message, me: telegram.User, *, is_edit: bool) -> Inbound | None:
    """Return a user's message, or None if it is a command to another bot or has no text and no files (joins, pins, polls)."""
    user = message.from_user
    text, files = message.text or message.caption or "", tuple(_files(message))
    if user is None or not (text or files):
        return None
    is_named = _names(message, me)
    if (command := _COMMAND.match(text)) is not None:
        if command[2].casefold() != (me.username or "").casefold():
            return None
        text, is_named = f"/{command[1]}{text[command.end() :]}", True
    answered = message.reply_to_message
    if answered is not None and message.is_topic_message and answered.message_id == message.message_thread_id:
        answered = None  # the first message of a topic: Telegram marks all others there as replies to it
    is_reply = answered is not None and answered.from_user is not None and answered.from_user.id == me.id
    edited = message.edit_date.timestamp() if is_edit and message.edit_date is not None else 0
    return Inbound(
        chat_of(message),
        str(user.id),
        f"{message.message_id}:{edited:.0f}" if is_edit else str(message.message_id),
        text,
        name=user.full_name,
        attachments=files,
        reply_to="" if answered is None else str(answered.message_id),
        edits=str(message.message_id) if is_edit else "",
        is_addressed=is_named or is_reply,
        # A user who writes as a channel or group is unknown, and a message that another bot composed has no author.
        is_bot=user.is_bot or message.sender_chat is not None or message.via_bot is not None,
        at=message.date.timestamp(),
    )


def press_of(query: telegram.CallbackQuery) -> Press | None:
    """Return a press, or None if Telegram sent it without its message or its data."""
    if query.message is None or not query.data:
        return None
    user, message = query.from_user, query.message
    choice, key = choice_and_key(query.data)
    return Press(chat_of(message), str(user.id), str(message.message_id), choice, query.id, name=user.full_name, key=key)


def chat_of(message: telegram.MaybeInaccessibleMessage) -> Chat:
    """Return the chat of a message."""
    chat = message.chat
    thread = getattr(message, "message_thread_id", None) if getattr(message, "is_topic_message", False) else None
    return Chat(str(chat.id), str(thread or ""), is_group=chat.type != "private", title=chat.title or "")


def _names(message: telegram.Message, me: telegram.User) -> bool:
    """Return whether the message mentions the account."""
    if message.text:
        entities = message.parse_entities(["mention", "text_mention"])
    else:
        entities = message.parse_caption_entities(["mention", "text_mention"]) if message.caption else {}
    ours = f"@{me.username}".casefold()
    return any(words.casefold() == ours or (one.user is not None and one.user.id == me.id) for one, words in entities.items())


def _files(message: telegram.Message) -> Iterator[Attachment]:
    if message.photo:
        largest = max(message.photo, key=lambda one: one.width * one.height)
        yield Attachment("photo.jpg", "image/jpeg", largest.file_size, {"id": largest.file_id})
    for kind, usual in _FILES.items():
        found = getattr(message, kind)
        if found is None or (kind == "document" and message.animation is not None):  # an animation is listed as both
            continue
        media_type = getattr(found, "mime_type", None) or usual
        name = getattr(found, "file_name", None) or f"{kind}{guess_extension(media_type) or ''}"
        yield Attachment(name, media_type, found.file_size, {"id": found.file_id})
