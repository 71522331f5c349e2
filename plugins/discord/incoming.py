"""Conversion of Discord's messages and presses to those of the gateway."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import discord

from toolcrib.chat import Attachment, Chat, Inbound, Press
from toolcrib.platforms import choice_and_key

_WRITTEN = (discord.MessageType.default, discord.MessageType.reply)


def chat_of(channel: object) -> Chat | None:
    """Return the chat of a channel, or None for an unknown channel, such as a thread that was inactive."""
    match channel:
        case discord.DMChannel():
            return Chat(str(channel.id))
        case discord.Thread():
            return Chat(str(channel.parent_id), str(channel.id), is_group=True, title=channel.name)
        case discord.abc.GuildChannel():
            return Chat(str(channel.id), is_group=True, title=channel.name)
    return None


def inbound_of(message: discord.Message, chat: Chat, me: int, roles: Iterable[int]) -> Inbound | None:
    """Return a user's message, or None for a message without content (joins, pins, threads that begin)."""
    if message.type not in _WRITTEN:
        return None
    text, ours = message.content, [role.id for role in message.role_mentions if role.tags is not None and role.tags.bot_id == me]
    for mention in (f"<@{me}>", f"<@!{me}>", *(f"<@&{role}>" for role in ours)):  # usually a mention before a command
        text = text.removeprefix(mention).lstrip() if text.startswith(mention) else text
    files = tuple(_file(message, one) for one in message.attachments)
    if not (message.content or files):
        return None
    reference = message.reference
    is_reply = reference is not None and reference.type is discord.MessageReferenceType.reply and message.type is _WRITTEN[1]
    answered = reference.resolved if reference is not None and is_reply else None
    is_ours = isinstance(answered, discord.Message) and answered.author.id == me
    return Inbound(
        chat,
        str(message.author.id),
        str(message.id),
        text,
        name=message.author.display_name,
        roles=[str(role) for role in roles],
        attachments=files,
        reply_to=str(reference.message_id) if reference is not None and is_reply else "",
        is_addressed=is_ours or bool(ours) or any(one.id == me for one in message.mentions),
        is_bot=message.author.bot or message.webhook_id is not None,
        at=message.created_at.timestamp(),
    )


def roles_of(person: object) -> list[int]:
    """Return the ids of a user's roles on the server. Their names would prove nothing: anyone can create a server with any role
    names.
    """
    return [role.id for role in person.roles if not role.is_default()] if isinstance(person, discord.Member) else []


def press_of(interaction: discord.Interaction, chat: Chat) -> Press | None:
    """Return a press, or None if the interaction is not a button below a message."""
    data: Mapping[str, Any] = interaction.data or {}
    message, custom_id = interaction.message, data.get("custom_id")
    if interaction.type is not discord.InteractionType.component or message is None or not isinstance(custom_id, str):
        return None
    choice, key = choice_and_key(custom_id)
    who = interaction.user
    roles = [str(role) for role in roles_of(who)]
    return Press(chat, str(who.id), str(message.id), choice, str(interaction.id), name=who.display_name, roles=roles, key=key)


def _file(message: discord.Message, file: discord.Attachment) -> Attachment:
    # Addresses expire after a day: fetch asks for the message again to get a fresh one.
    ref = {"channel": str(message.channel.id), "message": str(message.id), "file": str(file.id)}
    media_type = (file.content_type or "application/octet-stream").partition(";")[0]
    return Attachment(file.filename, media_type, file.size, ref)
