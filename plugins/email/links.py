"""Links to a page that decides a question: signed, for one user and one question, usable once.

The question of a link is in its own file until the link is used or expires. Opening a link only shows the question, because some
programs follow the links in mail. The form on the page decides it.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import html
import json
import secrets
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from toolcrib import StoreFailed
from toolcrib.chat import Chat, Outbound, Press, without_controls
from toolcrib.contract.regex import Regex

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_TOKEN = Regex(r"[0-9a-f]{32}\.[0-9a-f]{64}\Z")
_FORM = 1_000
"""Number of bytes of a form that are read."""
_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-robots-tag": "noindex",
}
_GONE = "This link was used already, has expired, or is invalid. /approvals lists open requests."


class DecisionLinks:
    """Links and their page. ``folder`` is the platform's own; ``press`` takes the decisions, as ``Host.press`` does."""

    def __init__(self, folder: Path, hours: float, press: Callable[[Press], Awaitable[str]]) -> None:
        self._folder = folder / "links"
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._seconds = hours * 3600
        self._press = press
        self._deciding = asyncio.Lock()
        self._key = _key(folder / "links.key")

    def token_for(self, out: Outbound, message_id: str) -> str:
        """Return the token at the end of a question's link: the same for the same question until it is used."""
        self._sweep()
        name = self._sign(json.dumps([out.chat.key, out.key, out.text]))[:32]
        kept = self._read(name)
        if kept is None:
            asked = {
                "chat": [out.chat.id, out.chat.thread, out.chat.title],
                "key": out.key,
                "message_id": message_id,
                "text": out.text,
                "choices": {one.choice: one.label for one in out.buttons},
                "until": time.time() + self._seconds,
            }
            kept = json.dumps(asked)
            path = self._folder / f".{name}"
            path.touch(mode=0o600)
            path.write_text(kept, encoding="utf-8")
            path.replace(self._folder / name)
        return f"{name}.{self._sign(f'{name}.{kept}')}"

    def _sweep(self) -> None:
        before = time.time() - self._seconds
        for path in self._folder.iterdir():
            if path.stat().st_mtime < before:
                path.unlink(missing_ok=True)

    def _sign(self, text: str) -> str:
        return hmac.new(self._key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()

    def _read(self, name: str) -> str | None:
        try:
            return (self._folder / name).read_text(encoding="utf-8")
        except (FileNotFoundError, UnicodeDecodeError):
            return None

    def asked_by(self, token: str) -> dict[str, Any] | None:
        """Return the question of a link, or None if the link was used, is too old, or was not signed here."""
        if not _TOKEN.match(token):
            return None
        name, _, signature = token.partition(".")
        kept = self._read(name)
        if kept is None or not hmac.compare_digest(signature, self._sign(f"{name}.{kept}")):
            return None
        asked: dict[str, Any] = json.loads(kept)
        return asked if asked["until"] > time.time() else None

    async def page(self, request: Request) -> Response:
        """Show the question, or take the decision that the page's form sends."""
        token = str(request.path_params["token"])
        asked = self.asked_by(token)
        if asked is None:
            return _page(410, _text(_GONE))
        if request.method != "POST":
            return _page(200, _question(asked))
        choice = await _choice_in(request)
        if choice not in asked["choices"]:
            return _page(400, _text("Choose one of the answers on the page."))
        async with self._deciding:  # the second of two concurrent requests finds the link used
            if self.asked_by(token) is None:
                return _page(410, _text(_GONE))
            chat_id, thread, title = asked["chat"]
            chat, name = Chat(chat_id, thread, title=title), token.partition(".")[0]
            press = Press(chat, chat_id, asked["message_id"], choice, f"link:{name}:{choice}", key=asked["key"])
            try:
                said = await self._press(press)
            except StoreFailed:
                return _page(503, _text("The answer could not be recorded. Try again in a moment."))
            (self._folder / name).unlink(missing_ok=True)
        return _page(200, _text(said or f"Recorded: {asked['choices'][choice]}."))


async def _choice_in(request: Request) -> str:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > _FORM:
            return ""
    return parse_qs(body.decode("utf-8", "replace")).get("choice", [""])[0]


def _question(asked: dict[str, Any]) -> str:
    buttons = "".join(
        f'<button name="choice" value="{html.escape(choice)}">{html.escape(label)}</button> '
        for choice, label in asked["choices"].items()
    )
    return f'<pre>{html.escape(without_controls(asked["text"]))}</pre><form method="post">{buttons}</form>'


def _text(text: str) -> str:
    return f"<p>{html.escape(text)}</p>"


def _page(status: int, body: str) -> Response:
    from starlette.responses import HTMLResponse

    head = '<meta name="viewport" content="width=device-width"><title>toolcrib</title>'
    return HTMLResponse(f"<!doctype html><html><head>{head}</head><body>{body}</body></html>", status, _HEADERS)


def _key(path: Path) -> bytes:
    """Return the key that signs links, made at the first start in a private file."""
    if not path.exists():
        beside = path.with_suffix(".new")
        beside.touch(mode=0o600)
        beside.write_bytes(secrets.token_bytes(32))
        beside.replace(path)
    return path.read_bytes()
