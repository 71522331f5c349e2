"""JSON of requests and responses. README.md beside this file is the specification."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from toolcrib.chat import Attachment, Chat, Inbound, Outbound, Press, without_controls
from toolcrib.contract.suggest import near

MOST_ATTACHMENTS = 10
_LENGTHS = {"chat": 500, "thread": 500, "user": 200, "name": 200, "message_id": 200, "press_id": 200, "title": 200, "choice": 64}
_LONGEST_NAME = 60
_PLACE = ("chat", "thread", "is_group", "title", "user", "name", "roles", "message_id")
_MESSAGE = (*_PLACE, "text", "attachments", "reply_to", "edits", "is_addressed", "is_bot")
_PRESS = (*_PLACE, "choice", "press_id")
_ATTACHMENT = ("name", "media_type", "data")


class Malformed(ValueError):
    """A field is missing or malformed; the text names it."""


def parsed(body: bytes) -> Any:
    """Return the parsed body. Raises Malformed for invalid or unreadable JSON."""
    try:
        return json.loads(body.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise Malformed(f"byte {error.start + 1} of the body is not UTF-8") from error
    except json.JSONDecodeError as error:
        raise Malformed(f"the body is not JSON: line {error.lineno}, column {error.colno}") from error
    except RecursionError as error:
        raise Malformed("the body is nested too deeply") from error
    except ValueError as error:
        raise Malformed("the body has a number with too many digits") from error


def inbound_of(data: Any) -> Inbound:
    """Return the message in a request. Raises Malformed."""
    fields = _object(data, _MESSAGE)
    files = fields.get("attachments", [])
    if not isinstance(files, list) or len(files) > MOST_ATTACHMENTS:
        raise Malformed(f"attachments: expected a list of at most {MOST_ATTACHMENTS}")
    return Inbound(
        _chat(fields),
        _text(fields, "user"),
        _text(fields, "message_id"),
        _text(fields, "text", ""),
        name=_text(fields, "name", ""),
        roles=_roles(fields),
        attachments=[_attachment(one) for one in files],
        reply_to=_text(fields, "reply_to", ""),
        edits=_text(fields, "edits", ""),
        is_addressed=_flag(fields, "is_addressed"),
        is_bot=_flag(fields, "is_bot"),
    )


def press_of(data: Any) -> Press:
    """Return the press in a request. Raises Malformed."""
    fields = _object(data, _PRESS)
    return Press(
        _chat(fields),
        _text(fields, "user"),
        _text(fields, "message_id"),
        _text(fields, "choice"),
        _text(fields, "press_id"),
        name=_text(fields, "name", ""),
        roles=_roles(fields),
    )


def outbound_json(out: Outbound) -> dict[str, Any]:
    """Return the JSON of the request that shows a message. Raises OSError for a file that can't be read."""
    return {
        "chat": out.chat.id,
        "thread": out.chat.thread,
        "key": out.key,
        "edits": out.edits,
        "reply_to": out.reply_to,
        "text": without_controls(out.text),
        "is_plain": out.is_plain,
        "buttons": [{"choice": one.choice, "label": one.label} for one in out.buttons],
        "files": [
            {"name": one.name, "media_type": one.media_type, "data": base64.b64encode(one.path.read_bytes()).decode()}
            for one in out.files
        ],
    }


def _chat(fields: Mapping[str, Any]) -> Chat:
    return Chat(_text(fields, "chat"), _text(fields, "thread", ""), _flag(fields, "is_group"), _text(fields, "title", ""))


def _attachment(data: Any) -> Attachment:
    fields = _object(data, _ATTACHMENT)
    text = _text(fields, "data", "" if "data" in fields else None)  # a file may be empty
    try:
        size = len(base64.b64decode(text, validate=True))
    except ValueError as error:
        raise Malformed("attachments: data: expected base64") from error
    kind = _text(fields, "media_type", "application/octet-stream")
    return Attachment(_text(fields, "name", "file"), kind, size, {"data": text})


def _object(data: Any, known: Sequence[str]) -> Mapping[str, Any]:
    """Return the fields. Raises Malformed for an unknown one, because a misspelt field would otherwise be ignored silently."""
    if not isinstance(data, Mapping):
        raise Malformed("expected a JSON object")
    for key in data:
        if key not in known:
            alike = near(key[:_LONGEST_NAME], known)
            raise Malformed(f"{key[:_LONGEST_NAME]}: unknown field" + (f"; did you mean {alike[0]}?" if alike else ""))
    return data


def _text(fields: Mapping[str, Any], key: str, default: str | None = None) -> str:
    found = fields.get(key, default)
    if not isinstance(found, str) or (default is None and not found):
        raise Malformed(f"{key}: expected a text{'' if default is not None else ' that is not empty'}")
    if len(found) > _LENGTHS.get(key, len(found)):
        raise Malformed(f"{key}: longer than {_LENGTHS[key]} characters")
    return found


def _flag(fields: Mapping[str, Any], key: str) -> bool:
    found = fields.get(key, False)
    if not isinstance(found, bool):
        raise Malformed(f"{key}: expected true or false")
    return found


def _roles(fields: Mapping[str, Any]) -> list[str]:
    found = fields.get("roles", [])
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found) or len(found) > 50:
        raise Malformed("roles: expected a list of texts")
    return found
