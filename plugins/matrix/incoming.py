"""Parser of a room's events. It trusts no field: any client may have written anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcrib.chat import Attachment
from toolcrib.contract.dataclass import dataclass

_FILES = ("m.image", "m.file", "m.audio", "m.video")
_TYPES = {"m.image": "image/png", "m.audio": "audio/ogg", "m.video": "video/mp4"}


@dataclass(frozen=True, slots=True)
class MatrixMessage:
    """A message in an event. ``answers`` is the id of the message that it replies to; ``reply_to`` is the same, but "" if the
    author's client, not the author, chose that message, as clients do in threads.
    """

    text: str = ""
    attachments: tuple[Attachment, ...] = ()
    thread: str = ""
    reply_to: str = ""
    answers: str = ""
    edits: str = ""
    mentions: bool = False
    is_notice: bool = False


def message_of(event: Mapping[str, Any], account: str) -> MatrixMessage | None:
    """Return the message in an event, or None if it has none, as after the message was removed. ``account`` is ours."""
    content = _mapping(event.get("content"))
    related = _mapping(content.get("m.relates_to"))
    edits = _text(related.get("event_id")) if related.get("rel_type") == "m.replace" else ""
    if edits:
        content = _mapping(content.get("m.new_content"))
    kind = "m.image" if event.get("type") == "m.sticker" else _text(content.get("msgtype"))
    body = _text(content.get("body"))
    if not kind or not body:
        return None
    answers = _text(_mapping(related.get("m.in_reply_to")).get("event_id"))
    in_thread = related.get("rel_type") == "m.thread"
    is_file = kind in _FILES
    return MatrixMessage(
        text=_caption(content, body) if is_file else _unquoted(body) if answers else body,
        attachments=_files(content, kind, body) if is_file else (),
        thread=_text(related.get("event_id")) if in_thread else "",
        reply_to="" if in_thread and related.get("is_falling_back") is True else answers,
        answers=answers,
        edits=edits,
        mentions=_mentions(content, body, account),
        is_notice=kind == "m.notice",
    )


def reaction_of(event: Mapping[str, Any]) -> tuple[str, str]:
    """Return (the message's id, the emoji); both are "" if the event is no reaction or a removed one."""
    related = _mapping(_mapping(event.get("content")).get("m.relates_to"))
    if related.get("rel_type") != "m.annotation":
        return "", ""
    return _text(related.get("event_id")), bare(_text(related.get("key")))


def bare(emoji: str) -> str:
    """Return an emoji without the variation selector, which some clients add and others omit."""
    return emoji.replace("\ufe0f", "")


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _mentions(content: Mapping[str, Any], body: str, account: str) -> bool:
    said = content.get("m.mentions")
    if isinstance(said, Mapping):
        users = said.get("user_ids")
        return isinstance(users, list) and account in users
    return account in body or f"https://matrix.to/#/{account}" in _text(content.get("formatted_body"))  # clients of before 2023


def _unquoted(body: str) -> str:
    """Return the body without the message that older clients quote above a reply."""
    if not body.startswith("> <"):
        return body
    quoted, _, rest = body.partition("\n\n")
    return rest if all(line.startswith(">") for line in quoted.split("\n")) else body


def _caption(content: Mapping[str, Any], body: str) -> str:
    name = _text(content.get("filename"))
    return body if name and name != body else ""


def _files(content: Mapping[str, Any], kind: str, body: str) -> tuple[Attachment, ...]:
    file, info = _mapping(content.get("file")), _mapping(content.get("info"))  # only an encrypted file has "file"
    url, key = _text((file or content).get("url")), _text(_mapping(file.get("key")).get("k"))
    lock = {"key": key, "iv": _text(file.get("iv")), "sha256": _text(_mapping(file.get("hashes")).get("sha256"))} if file else {}
    if not url.startswith("mxc://") or ".." in url:
        return ()
    size, media_type = info.get("size"), _text(info.get("mimetype")) or _TYPES.get(kind, "application/octet-stream")
    is_size = isinstance(size, int) and not isinstance(size, bool) and size >= 0
    return (Attachment(_text(content.get("filename")) or body, media_type, size if is_size else None, {"mxc": url, **lock}),)
