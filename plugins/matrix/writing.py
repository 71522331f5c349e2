"""Content of the events that show our messages."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from toolcrib.chat import Button, Outbound, OutFile, without_controls

from .incoming import bare

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

BUTTONS = "toolcrib.buttons"
"""Field of our messages that maps reactions to choices, so that the choices are known after a restart."""
_MOST_BYTES = 45_000
"""Size limit of a content in bytes. Servers accept events of 65,536 bytes, and encryption adds a third."""
_NO_PINGS: Mapping[str, Any] = {"m.mentions": {}, "com.beeper.linkpreviews": []}


def transaction(*parts: str) -> str:
    """Return the transaction id of a request: the same for the same parts, in every process."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:40]


def emoji_of(button: Button, number: int) -> str:
    """Return the reaction that stands for a button."""
    return button.emoji or f"{number + 1}\ufe0f\u20e3"


def text_content(out: Outbound, kind: str) -> dict[str, Any]:
    """Return the content of a message, or of the edit that replaces one."""
    text = without_controls(out.text)
    content: dict[str, Any] = {"msgtype": kind, "body": text, **_NO_PINGS}
    if html := _html(text, is_plain=out.is_plain):
        content |= {"format": "org.matrix.custom.html", "formatted_body": html}
    if out.buttons:
        content[BUTTONS] = {bare(emoji_of(one, number)): one.choice for number, one in enumerate(out.buttons)}
    if _size(content) > _MOST_BYTES // 2:
        content = {key: value for key, value in content.items() if key not in ("format", "formatted_body")}
    if not out.edits:
        return content | _place(out)
    shown_by_old_clients = {"msgtype": kind, "body": f"* {text}", **_NO_PINGS}
    if _size(content) > _MOST_BYTES // 2:
        shown_by_old_clients["body"] = "* …"
    return {**shown_by_old_clients, "m.new_content": content, "m.relates_to": {"rel_type": "m.replace", "event_id": out.edits}}


def file_content(out: Outbound, file: OutFile, uploaded: Mapping[str, Any], size: int) -> dict[str, Any]:
    """Return the content of the message that shows a file. ``uploaded`` contains its address and, if it is encrypted, its key."""
    kind = file.media_type.partition("/")[0]
    msgtype = f"m.{kind}" if kind in ("image", "audio", "video") else "m.file"
    name, info = without_controls(file.name), {"mimetype": file.media_type, "size": size}
    return {"msgtype": msgtype, "body": name, "filename": name, **uploaded, "info": info, **_NO_PINGS} | _place(out)


def _place(out: Outbound) -> dict[str, Any]:
    """Return the relation of a new message to the message that it answers, and to its thread; {} for neither."""
    reply = {"m.in_reply_to": {"event_id": out.reply_to}} if out.reply_to else {}
    if thread := out.chat.thread:
        latest = reply or {"m.in_reply_to": {"event_id": thread}}
        return {"m.relates_to": {"rel_type": "m.thread", "event_id": thread, "is_falling_back": not out.reply_to, **latest}}
    return {"m.relates_to": reply} if reply else {}


def _html(text: str, *, is_plain: bool) -> str:
    """Return a text as HTML, or "" if it looks the same without HTML. The HTML contains nothing that the Markdown does not
    express.
    """
    if is_plain:
        return f"<pre><code>{escape(text)}</code></pre>"
    html: str = _markdown().render(text).strip()
    return "" if html == f"<p>{escape(text)}</p>" else html


@functools.cache
def _markdown() -> MarkdownIt:
    from markdown_it import MarkdownIt

    made = MarkdownIt("commonmark", {"html": False, "breaks": True})
    return made.enable(["table", "strikethrough"]).disable("image")  # loading a remote picture would reveal who reads the message


def _size(content: Mapping[str, Any]) -> int:
    return len(json.dumps(content, ensure_ascii=False).encode())


def choices_in(contents: Sequence[Any]) -> dict[str, str]:
    """Return the choices that reactions to a message of ours stand for, from the contents that the message had."""
    found: dict[str, str] = {}
    for content in contents:
        if isinstance(content, Mapping) and isinstance(content.get(BUTTONS), Mapping):
            found |= {str(emoji): str(choice) for emoji, choice in content[BUTTONS].items()}
    return found
