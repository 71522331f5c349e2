"""Requests to the fake of Discord's API: their kinds, fields and answers, and their faults."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web


class Refused(Exception):
    """An error that the API returns."""

    def __init__(self, status: int, code: int, message: str, **more: Any) -> None:
        super().__init__(message)
        self.status, self.body = status, {"code": code, "message": message, **more}


@dataclass
class Fault:
    """The outcome of the next requests of a kind: an answer with ``status``; 0 cuts the connection after the work is done."""

    kind: str
    status: int = 0
    times: int = 1
    retry_after: float = 0.3
    is_global: bool = False
    by_proxy: bool = False
    """True if a proxy before Discord answers, without JSON."""
    then: Callable[[], object] = bool
    """Called before the connection is cut."""


def answer_of(data: Any, status: int = 200) -> web.Response:
    more = {"Retry-After": str(data["retry_after"]), "Via": "1.1 fake"} if status == 429 else {}
    return web.Response(body=json.dumps(data).encode(), status=status, headers={"Content-Type": "application/json", **more})


def kind_of(method: str, path: list[str]) -> str:
    match method, path:
        case "GET", ["users", "@me"]:
            return "me"
        case "GET", ["guilds", _, "members", _]:
            return "member"
        case "GET", ["channels", _]:
            return "channel"
        case "PATCH", ["channels", _]:
            return "thread"
        case "GET", ["channels", _, "messages"]:
            return "history"
        case "GET", ["channels", _, "messages", _]:
            return "message"
        case "POST", ["channels", _, "messages"]:
            return "create"
        case "PATCH", ["channels", _, "messages", _]:
            return "edit"
        case "POST", ["channels", _, "typing"]:
            return "typing"
        case "POST", ["interactions", _, _, "callback"]:
            return "callback"
        case "POST", ["webhooks", *_]:
            return "followup"
    return "application" if "applications" in path else "other"


async def fields_of(request: web.Request) -> tuple[Any, list[tuple[str, bytes]]]:
    if request.content_type == "application/json":
        body = await request.read()
        return (json.loads(body) if body else {}), []
    if request.content_type.startswith("multipart"):
        form = await request.post()
        files = [(one.filename, one.file.read()) for one in form.values() if isinstance(one, web.FileField)]
        return json.loads(str(form.get("payload_json", "{}"))), files
    return {}, []
