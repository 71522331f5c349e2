"""Requests to the fake of Discord's API: what they are, what they say, and their answers."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web


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
