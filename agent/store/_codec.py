"""Records as JSON text, and back, exactly. Text with lone surrogates, which SQLite does not accept, is stored as bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from toolcrib.contract.dataclass import replace
from toolcrib.contract.image import Image
from toolcrib.contract.records import NO_ENTRIES
from toolcrib.contract.store import Grant, InboxItem
from toolcrib.contract.types import Answer, Failure, Json, SuspendTicket, ToolCall, ToolResult, ToolStatus

Stored: TypeAlias = str | bytes
_SHARED_MAX = 4096


def text(value: str) -> Stored:
    """Return a str as a column's value."""
    if value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogatepass")
    return value


def plain(stored: Stored) -> str:
    return stored if isinstance(stored, str) else stored.decode("utf-8", "surrogatepass")


def _mapping(value: object) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_mapping)
_SORTING = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_mapping, sort_keys=True)


def dump(value: Json) -> Stored:
    """Return a value as JSON text. Raises TypeError, ValueError or RecursionError for anything that is not JSON."""
    return text(_ENCODER.encode(value))


def dump_body(body: Mapping[str, Json]) -> Stored:
    """Return a JSON object as text; equal objects have equal texts. Raises what ``dump`` raises."""
    return text(_SORTING.encode(_mapping(body)))


def load(stored: Stored) -> Any:
    return json.loads(plain(stored))


class Sharing:
    """A decoder for many similar objects, which keeps keys and repeated texts in memory once."""

    def __init__(self) -> None:
        self._short: dict[str, str] = {}
        self._long: dict[str, str] = {}
        self._decoder = json.JSONDecoder(object_pairs_hook=self._object)

    def load(self, stored: Stored) -> Any:
        self._long.clear()
        if len(self._short) > _SHARED_MAX:
            self._short.clear()
        return self._decoder.decode(plain(stored))

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        short = self._short
        return {short.setdefault(key, key): self._once(value) if type(value) is str else value for key, value in pairs}

    def _once(self, value: str) -> str:
        known = self._short if len(value) <= 64 else self._long
        return known.setdefault(value, value)


def dump_call(call: ToolCall, turn: str = "") -> Stored:
    return dump({"name": call.name, "args": call.args, "fault": call.fault, **({"turn": turn} if turn else {})})


def load_call(call_id: Stored, stored: Stored) -> tuple[ToolCall, str]:
    """Return the call and its turn."""
    data = load(stored)
    return ToolCall(plain(call_id), data["name"], data["args"], data["fault"]), data.get("turn", "")


def _ticket(ticket: SuspendTicket) -> Json:
    return {**ticket.to_json(), "fault": None if ticket.call is None else ticket.call.fault}


def _to_ticket(data: Json) -> SuspendTicket:
    ticket = SuspendTicket.from_json(data)
    return ticket if ticket.call is None else replace(ticket, call=replace(ticket.call, fault=data["fault"]))


def dump_ticket(ticket: SuspendTicket) -> Stored:
    return dump(_ticket(ticket))


def load_ticket(stored: Stored) -> SuspendTicket:
    return _to_ticket(load(stored))


def dump_result(result: ToolResult, end_run: bool = False, state: Mapping[str, Json] = NO_ENTRIES) -> Stored:
    failure = result.failure
    return dump(
        {
            "tool_name": result.tool_name,
            "status": result.status.value,
            "data": result.data,
            "message": result.message,
            "suspension": None if result.suspension is None else _ticket(result.suspension),
            "views": result.views,
            "failure": None if failure is None else [failure.inside, failure.kind, failure.text],
            **({"images": [image.to_json() for image in result.images]} if result.images else {}),
            **({"end_run": True} if end_run else {}),
            **({"state": dict(state)} if state else {}),
        }
    )


def load_result(stored: Stored | None) -> tuple[ToolResult | None, bool, Mapping[str, Json]]:
    """Return the result, whether a gate ended the run with it, and the state of the waiting call."""
    if stored is None:
        return None, False, {}
    data = load(stored)
    result = ToolResult(
        data["tool_name"],
        ToolStatus(data["status"]),
        data["data"],
        data["message"],
        None if data["suspension"] is None else _to_ticket(data["suspension"]),
        data["views"],
        None if data["failure"] is None else Failure(*data["failure"]),
        tuple(map(Image.from_json, data.get("images", ()))),
    )
    return result, data.get("end_run", False), data.get("state", {})


def dump_answer(answer: Answer) -> Stored:
    return dump(
        {
            "ticket_id": answer.ticket_id,
            "action": answer.action,
            "payload": answer.payload,
            "reason": answer.reason,
            "by": answer.by,
            "at": answer.at,
            "decision_id": answer.decision_id,
        }
    )


def load_answer(stored: Stored) -> Answer:
    return Answer(**load(stored))


def dump_grant(grant: Grant) -> Stored:
    """Return a grant as JSON without the fields that have columns: id, session, scope, uses and principal."""
    data: dict[str, Json] = {
        "key": grant.key,
        "root": grant.root,
        "task_id": grant.task_id,
        "argv": grant.argv,
        "until": grant.until,
        "by": grant.by,
        "at": grant.at,
    }
    if grant.links:
        data["links"] = grant.links
    return dump(data)


def load_grant(
    grant_id: Stored, session_id: Stored, scope: Any, uses_left: int | None, principal: Stored, stored: Stored
) -> Grant:
    data = load(stored)
    data["argv"] = tuple(data["argv"])
    data["links"] = tuple((path, there) for path, there in data.get("links", ()))
    return Grant(
        id=plain(grant_id), session_id=plain(session_id), scope=scope, uses_left=uses_left, principal=plain(principal), **data
    )


def dump_item(item: InboxItem) -> Stored:
    """Return an inbox item as JSON without the fields that have columns: id, session, key and time."""
    return dump(
        {
            "text": item.text,
            "mode": item.mode,
            "principal": item.principal,
            "images": list(item.images),
            "options": item.options,
        }
    )


def load_item(number: int, session_id: Stored, key: Stored, at: float, stored: Stored) -> InboxItem:
    data = load(stored)
    data["images"] = tuple(data["images"])
    return InboxItem(plain(session_id), key=plain(key), at=at, id=number, **data)
