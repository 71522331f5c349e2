"""The webhook platform: a small HTTP server that receives messages, and requests that send them."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from plugins.webhook.forms import inbound_of, outbound_json, parsed, press_of
from plugins.webhook.signing import HEADER, problem_of, signature
from toolcrib import ConfigError, StoreFailed
from toolcrib.chat import Attachment, Chat, Host, NotSent, Outbound, Traits, settings_of
from toolcrib.platforms import listening_at, server_of

if TYPE_CHECKING:
    import httpx
    import uvicorn
    from starlette.requests import Request
    from starlette.responses import Response

SECRET = "WEBHOOK_SECRET"  # noqa: S105 - the name of a variable
BODY_BYTES = 16 * 1024 * 1024
UNREAD_BYTES = 8 * BODY_BYTES
_SECONDS = 20.0
_BODY_SECONDS = 30.0
_IN_HEADERS = "!\"#$&'()*+,/:;<=>?@[\\]^`{|}~ "
"""Characters that an idempotency key contains unescaped, besides letters, digits and ``_.-``."""
_DIGEST = 24
"""Number of characters kept of a body's digest."""
_MOST_SECONDS = 3_600.0
_SECRET_CHARS = 16
_SETTINGS = ("url", "host", "port", "max_chars", "edit_seconds")
_TRY_AGAIN = (408, 425, 429)


class WebhookPlatform:
    """The webhook platform. ``settings``: ``url`` (where messages are sent), ``host`` and ``port`` (where it listens;
    127.0.0.1 and 8790 by default), ``max_chars`` and ``edit_seconds`` (``none``: no edits are sent).
    """

    def __init__(self, name: str, host: Host, **more: Any) -> None:
        self.name = name
        self._host = host
        settings = settings_of(host, _SETTINGS)
        self._url = settings.get("url", "")
        self._address = settings.get("host", "127.0.0.1"), _number(settings, "port", 8790, most=65_535)
        edits = settings.get("edit_seconds", "0.5")
        self.traits = Traits(
            max_chars=_number(settings, "max_chars", 8_000),
            edit_seconds=None if edits in ("", "none") else _seconds(edits),
            max_edits=10_000,
            buttons=True,
            idempotent=True,
            max_file_bytes=8 * 1024 * 1024,
            per_second=10_000,
        )
        self._secret = ""
        self._unread = 0
        """Bytes received so far of the requests that are being read, whose signatures are not checked yet."""
        self._client: httpx.AsyncClient | None = None
        self._server: uvicorn.Server | None = None
        self._serving: asyncio.Task[None] | None = None
        self._listening: socket.socket | None = None

    async def connect(self) -> str:
        """Check the settings and the installation, and return the address to listen at. Raises ConfigError."""
        import httpx

        try:
            import starlette  # noqa: F401 - needed to start
            import uvicorn  # noqa: F401 - needed to start
        except ImportError as error:
            raise ConfigError("the webhook platform needs the extra: pip install 'toolcrib[gateway]'") from error
        if not self._url.startswith(("http://", "https://")):
            raise ConfigError(f"platforms.{self.name}.settings.url: expected the address that messages are sent to")
        self._secret = self._host.secret(SECRET)
        if len(self._secret) < _SECRET_CHARS:
            raise ConfigError(
                f"{SECRET} is shorter than {_SECRET_CHARS} characters, so it could be guessed and used to write as any user:"
                " set a random one, for instance from `openssl rand -hex 32`, here and in your service"
            )
        self._client = httpx.AsyncClient(timeout=_SECONDS, limits=httpx.Limits(max_connections=50))
        return f"{self._address[0]}:{self._address[1]}"

    async def start(self) -> None:
        """Listen. Raises OSError if the port is taken."""
        server = self._server = server_of(self._routes())
        self._listening = listening_at(*self._address, self._host.names_setting("port"), backlog=512)
        self._serving = asyncio.create_task(server.serve(sockets=[self._listening]))
        while not server.started and not self._serving.done():  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.01)

    @property
    def port(self) -> int:
        """The port that the server listens at."""
        return self._address[1] if self._listening is None else int(self._listening.getsockname()[1])

    async def stop(self) -> None:
        """Finish running requests, and close."""
        if self._server is not None and self._serving is not None:
            self._server.should_exit = True
            await asyncio.gather(self._serving, return_exceptions=True)
            self._server = self._serving = None
        if self._listening is not None:
            self._listening.close()
        if self._client is not None:
            await self._client.aclose()

    async def send(self, out: Outbound) -> str:
        """Send a message, and return the id of the message that it edits, else the id in the response, else its key. Raises
        NotSent.
        """
        import httpx

        assert self._client is not None, "connected"  # noqa: S101 - for the type checker
        if len(out.text) > self.traits.max_chars:
            raise NotSent(f"{len(out.text)} characters are more than {self.traits.max_chars}", for_good=True)
        body = json.dumps(outbound_json(out)).encode()
        headers = {"content-type": "application/json", HEADER: signature(self._secret, body), "idempotency-key": _key(out, body)}
        try:
            answer = await self._client.post(self._url, content=body, headers=headers)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise NotSent(f"{self._url} can't be reached: {error}") from error
        except httpx.HTTPError as error:
            raise NotSent(f"{type(error).__name__}: {error}", perhaps_sent=True) from error
        code = str(answer.status_code)
        if answer.status_code >= 500 or answer.status_code in _TRY_AGAIN:
            wait = answer.headers.get("retry-after", "")
            seconds = float(wait) if wait.isdecimal() else None
            raise NotSent(f"the receiver answered {code}", retry_after=seconds, code=code)
        if answer.status_code >= 300:
            raise NotSent(f"the receiver refused it with {code}", for_good=True, code=code)
        return out.edits or _id_of(answer) or out.key

    async def fetch(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """Yield the content of a file, which came with its message."""
        yield base64.b64decode(str(attachment.ref["data"]))

    async def typing(self, chat: Chat, is_on: bool) -> None:
        """Do nothing: the receiver gets the growing answer."""

    # -- receiving -----------------------------------------------------------------------------------------------

    def _routes(self) -> list[Any]:
        from starlette.routing import Route

        return [
            Route("/v1/messages", self._taking(self._message), methods=["POST"]),
            Route("/v1/presses", self._taking(self._press), methods=["POST"]),
        ]

    def _taking(self, take: Callable[[Any], Awaitable[dict[str, Any]]]) -> Callable[[Request], Awaitable[Response]]:
        from starlette.responses import JSONResponse

        async def endpoint(request: Request) -> Response:
            body, status, problem = await self._read(request)
            if not status and (problem := problem_of(self._secret, body, request.headers.get(HEADER, ""))):
                status = 401
            if status:
                return JSONResponse({"error": problem}, status)
            try:
                return JSONResponse(await take(parsed(body)))
            except ValueError as error:  # Malformed, and values that the store refuses
                return JSONResponse({"error": str(error)}, 400)
            except StoreFailed as error:
                return JSONResponse({"error": str(error)}, 503, {"retry-after": "5"})

        return endpoint

    async def _read(self, request: Request) -> tuple[bytes, int, str]:
        """Return a request's body, or the status and message of a refusal. Any client can send requests, so their total size is
        limited, and each has a time limit.
        """
        body = bytearray()
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                async for piece in request.stream():
                    body += piece
                    self._unread += len(piece)
                    if len(body) > BODY_BYTES:
                        return b"", 413, f"more than {BODY_BYTES // 2**20} MiB"
                    if self._unread > UNREAD_BYTES:
                        return b"", 503, "too many requests at once; retry later"
        except TimeoutError:
            return b"", 408, f"the body did not arrive within {_BODY_SECONDS:.0f} s"
        finally:
            self._unread -= len(body)
        return bytes(body), 0, ""

    async def _message(self, data: Any) -> dict[str, Any]:
        return {"state": await self._host.receive(inbound_of(data))}

    async def _press(self, data: Any) -> dict[str, Any]:
        return {"notice": await self._host.press(press_of(data))}


def _key(out: Outbound, body: bytes) -> str:
    """Return an idempotency key that is the same only for the same content. ``out.key`` is not enough, because the first and the
    last text of an answer share it.
    """
    key = quote(out.key, _IN_HEADERS, errors="surrogatepass")  # it contains other services' ids, which may be any text
    return f"{key}.{hashlib.sha256(body).hexdigest()[:_DIGEST]}"


def _id_of(answer: httpx.Response) -> str:
    try:
        found = answer.json()
    except ValueError:
        return ""
    return str(found["id"]) if isinstance(found, dict) and isinstance(found.get("id"), (str, int)) else ""


def _number(settings: dict[str, str], key: str, default: int, *, most: int = 1_000_000) -> int:
    text = settings.get(key, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text) <= most):
        raise ConfigError(f"platforms.webhook.settings.{key}: expected a whole number up to {most}, got {text[:40]!r}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < _MOST_SECONDS:
        raise ConfigError(f"platforms.webhook.settings.edit_seconds: expected seconds, or none, got {text[:40]!r}")
    return seconds
