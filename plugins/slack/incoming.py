"""Conversion of Slack's messages to those of the gateway."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from toolcrib.chat import Attachment, Chat, Inbound
from toolcrib.contract.regex import Regex

_WRITTEN = (None, "file_share", "thread_broadcast", "me_message", "bot_message")
_TOKEN = Regex(r"<([^<>]*)>")
_TIME = Regex(r"\d{1,12}\.\d{1,9}\Z")
_ID = Regex(r"[A-Z0-9]{2,30}\Z")


def inbound_of(event: Mapping[str, Any], channel: str, me: str, *, is_direct: bool) -> Inbound | None:
    """Return a user's message, or None for an empty message or another event (a join, an edit, a removed message)."""
    ts, text = event.get("ts"), event.get("text") or ""
    user, root = event.get("user") or event.get("bot_id"), event.get("thread_ts")
    subtype, told = event.get("subtype"), event.get("files")
    if not (is_time(ts) and is_id(user) and is_id(channel) and isinstance(text, str)) or subtype not in _WRITTEN:
        return None
    listed = told if isinstance(told, list) else []
    files = tuple(_file(one) for one in listed if isinstance(one, Mapping) and is_id(one.get("id")))
    if not (text or files):
        return None
    in_thread = is_time(root) and root != ts
    of_ours = in_thread and event.get("parent_user_id") == me
    # A reply in the thread of a message of ours belongs to the channel's chat; any other thread is a chat of its own.
    thread = root if in_thread and not of_ours else ""
    return Inbound(
        Chat(channel, str(thread), is_group=not is_direct),
        str(user),
        str(ts),
        said(text, me),
        attachments=files,
        reply_to=str(root) if of_ours or (in_thread and not is_direct) else "",
        is_addressed=bool(of_ours) or f"<@{me}>" in text or f"<@{me}|" in text,
        is_bot=subtype == "bot_message" or bool(event.get("bot_id")),
        at=float(str(ts)),
    )


def said(text: str, me: str) -> str:
    """Return the text of a message as it was typed, without a mention of us at its beginning, or blanks before a command."""
    text = re.sub(rf"^\s*<@{re.escape(me)}(?:\|[^<>]*)?>\s*", "", text)
    text = _TOKEN.sub(_typed, text)
    text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    bare = text.lstrip()
    return bare if bare.startswith("/") else text  # users put a blank before it, or Slack would take it as its own


def is_time(value: object) -> bool:
    """Return whether a value has the form of a message's id."""
    return isinstance(value, str) and _TIME.match(value) is not None


def is_id(value: object) -> bool:
    """Return whether a value has the form of the id of a user, a channel or a file."""
    return isinstance(value, str) and _ID.match(value) is not None


def _typed(found: re.Match[str]) -> str:
    inside, _, label = found[1].partition("|")
    if inside.startswith(("@", "#", "!")):
        return f"{inside[0]}{label.removeprefix(inside[0]) or inside[1:]}" if inside[0] != "!" else f"@{inside[1:]}"
    bare = inside.removeprefix("mailto:")
    if not label or label == bare or bare.endswith(f"//{label}"):
        return label or bare
    return f"{label} ({bare})"


def _file(file: Mapping[str, Any]) -> Attachment:
    size, kind, name = file.get("size"), file.get("mimetype"), file.get("name")
    is_size = isinstance(size, int) and not isinstance(size, bool) and size >= 0
    kind = kind if isinstance(kind, str) else "application/octet-stream"
    return Attachment(str(name or "file"), kind, size if is_size else None, {"id": str(file["id"])})
