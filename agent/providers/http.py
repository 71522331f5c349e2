"""Sends all HTTP requests to model servers, with limits of time and size. Failed requests raise subclasses of ProviderError."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from agent.deadline import Deadline
from agent.providers._coding import ACCEPTED, decoded
from agent.providers._faults import OversizedReply, from_status
from agent.providers._pace import HttpLimits, Pace, no_reply
from agent.providers.clients import ClientPool, SharedClient, shared_clients
from agent.providers.endpoint import Endpoint, read_key, without_key
from toolcrib.contract.errors import BadRequest, ConnectionFailed, ProviderError, StreamBroken
from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.passing import SHORTAGE, is_passing

if TYPE_CHECKING:
    import httpx

__all__ = ["HttpClient", "HttpLimits", "Reply", "ServerAnswer"]
_MAX_ERROR = 64 * 1024
_ERROR_SECONDS = 10.0
"""Seconds that it may take to read the beginning of a body: of an error, or of any answer in ``ask``."""
_AFTER_DONE = 0.05


class ServerAnswer(NamedTuple):
    """A server's answer to a GET: ``body`` is the beginning of its text, ``at`` when its headers arrived here (Unix seconds)."""

    status: int
    headers: Mapping[str, str]
    body: str
    at: float


class HttpClient:
    """Sends requests to one Endpoint, over a client that ``pool`` shares. Holds the key and never shows it.

    Connections are reused within one event loop. ``aclose`` returns the client; a later request takes another client.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        environ: Mapping[str, str] | None = None,
        limits: HttpLimits | None = None,
        pool: ClientPool | None = None,
    ) -> None:
        """Read the key. Raises ConfigError if the endpoint's key variable is empty, or does not contain a key.

        A session sets ``key_header`` to its wire's header for the key, and ``headers`` to more headers for each request.
        """
        self.endpoint = endpoint
        self.key_header = "Authorization"
        self.headers: dict[str, str] = {}
        self.limits = limits or HttpLimits()
        self._key = read_key(endpoint, os.environ if environ is None else environ)
        self._pool = shared_clients() if pool is None else pool
        self._taken: SharedClient | None = None
        self._cookies: httpx.Cookies | None = None

    def __repr__(self) -> str:
        return f"HttpClient({self.endpoint!r})"

    @asynccontextmanager
    async def post(self, path: str, body: bytes) -> AsyncIterator[Reply]:
        """Send JSON and yield the reply, which is closed at the end of the block. Raises a subclass of ProviderError."""
        async with self._open("POST", path, body) as reply:
            yield reply

    @asynccontextmanager
    async def get(self, path: str) -> AsyncIterator[Reply]:
        async with self._open("GET", path, None) as reply:
            yield reply

    async def ask(self, path: str) -> ServerAnswer:
        """GET a path and return the answer, whatever its status. Raises a subclass of ProviderError if there is no answer."""
        client = await self._ready()
        response, asked = await self._send(
            client, client.build_request("GET", self.endpoint.url(path), headers=self._headers(None))
        )
        reply = Reply(response, self, asked)
        try:
            at = time.time()
            return ServerAnswer(reply.status, reply.headers, self.clean(await reply.beginning(_MAX_ERROR)), at)
        finally:
            await reply.aclose()

    async def aclose(self) -> None:
        """Return the shared client to the pool. May be called twice."""
        taken, self._taken = self._taken, None
        if taken is not None:
            await self._pool.give_back(self, taken)

    @asynccontextmanager
    async def _open(self, method: str, path: str, body: bytes | None) -> AsyncIterator[Reply]:
        client = await self._ready()
        cookies = self._own_cookies()
        request = client.build_request(method, self.endpoint.url(path), content=body, headers=self._headers(body))
        cookies.set_cookie_header(request)
        response, asked = await self._send(client, request)
        cookies.extract_cookies(response)
        reply = Reply(response, self, asked)
        try:
            if response.status_code != 200:
                raise await self._refusal(reply)
            yield reply
        finally:
            await reply.aclose()

    def _headers(self, body: bytes | None) -> dict[str, str]:
        headers = {
            "Accept": "application/json, text/event-stream",
            "Accept-Encoding": ACCEPTED,
            "User-Agent": "toolcrib",
            **self.headers,
        }
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self._key is not None:
            headers[self.key_header] = f"Bearer {self._key}" if self.key_header == "Authorization" else self._key
        return headers

    async def _ready(self) -> httpx.AsyncClient:
        if self._taken is not None and self._taken.loop is not asyncio.get_running_loop():
            await self.aclose()
        if self._taken is None:
            self._taken = self._pool.take(self, self.endpoint, self.limits.connect, self.limits.between)
        return self._taken.client

    def _own_cookies(self) -> httpx.Cookies:
        """Return the cookies of this conversation; some servers use them to find its cache."""
        if self._cookies is None:
            import httpx

            self._cookies = httpx.Cookies()
        return self._cookies

    async def _send(self, client: httpx.AsyncClient, request: httpx.Request) -> tuple[httpx.Response, float]:
        """Send a request. Return the response, and the time by the loop's clock when the whole request had been sent."""
        import httpx

        limits, server = self.limits, self.endpoint.server
        try:
            async with asyncio.timeout(limits.connect + limits.first_byte) as timer:
                request.extensions["trace"] = _when_sent(timer, limits.first_byte)
                response = await client.send(request, stream=True)
                return response, (timer.when() or 0.0) - limits.first_byte
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            why = f"no connection in {limits.connect:g} s" if isinstance(error, httpx.ConnectTimeout) else str(error)
            hint = _hint(self.endpoint, error, why)
            raise ConnectionFailed(f"could not connect to {server}: {why}; {hint}") from None
        except (TimeoutError, httpx.TimeoutException):
            raise no_reply(limits, server) from None
        except httpx.HTTPError as error:
            raise ConnectionFailed(
                f"the connection to {server} was lost before it answered: {self.clean(_words(error))}"
            ) from None
        except (httpx.InvalidURL, UnicodeError) as error:
            raise BadRequest(f"the address of {server}, or of the proxy to it, is not usable: {error}") from None

    async def _refusal(self, reply: Reply) -> ProviderError:
        status, server = reply.status, self.endpoint.server
        body = await reply.beginning(_MAX_ERROR)
        if 300 <= status < 400:
            where = _bare(reply.headers.get("location", "nowhere"))
            text = (
                f"{server} redirects to {where}, which toolcrib does not follow. If you trust that address, make it the base URL"
            )
            return BadRequest(f"{text} ({status})", status=status, body=self.clean(body))
        key = "" if self.endpoint.key_env is None else f"check the key in {self.endpoint.key_env}, and that it may use this model"
        found = from_status(status, body, reply.headers, server=server, key=key, clean=self.clean)
        if status == 404:
            found.args = (f"{found}; check the base URL ({_bare(self.endpoint.base_url)}) and the model's name",)
        return found

    def clean(self, text: str) -> str:
        """Return ``text`` without the key, which some servers repeat."""
        return without_key(text, self._key)


class Reply:
    """A reply of any status. Its body is read on demand."""

    def __init__(self, response: httpx.Response, client: HttpClient, asked: float) -> None:
        self._response = response
        self._raw = response.aiter_raw()
        self._pieces = decoded(self._raw, response.headers.get("content-encoding", ""), client.endpoint.server)
        self._client = client
        self._deadline = Deadline()
        self._pace = Pace(client.limits, client.endpoint.server, asked, asyncio.get_running_loop().time)
        self._size = 0
        self._counted_at = client.limits.max_text
        """Size of the body, in bytes, above which its characters are counted again: a character takes at least one byte."""
        self._has_begun = False
        self.status: int = response.status_code
        self.headers: Mapping[str, str] = response.headers

    async def chunks(self, came: Callable[[], int] | None = None) -> AsyncIterator[bytes]:
        """Yield the decoded body in pieces as they arrive.

        ``came`` returns the size of the content that has arrived. Without it, the reply has begun when a piece contains more than
        white space. Raises StreamBroken if the reply is interrupted, stalls, exceeds a limit or cannot be decoded, and
        ConnectionFailed if it does not begin in time.
        """
        import httpx

        limits, server, pace = self._client.limits, self._client.endpoint.server, self._pace
        while True:
            try:
                with self._deadline.within(pace.wait()):
                    piece = await anext(self._pieces, None)
            except (TimeoutError, httpx.TimeoutException):
                raise pace.late() from None
            except (httpx.HTTPError, httpx.StreamError) as error:
                raise StreamBroken(f"the connection to {server} was lost in the middle of its answer: {_words(error)}") from None
            if piece is None:
                return
            self._size += len(piece)
            if self._size > limits.max_body:
                raise OversizedReply(f"{server} sent more than {limits.max_body:,} bytes in one answer; the rest was dropped")
            yield piece
            if came is not None and self._size > self._counted_at:
                self._counted_at = self._size + self.require_bounded(came())
            self._has_begun = self._has_begun or not piece.isspace()
            pace.record_piece(came or self._begun)

    def require_bounded(self, came: int) -> int:
        """Return how many more characters may follow. Raises OversizedReply if the limit is exceeded."""
        limits, server = self._client.limits, self._client.endpoint.server
        if came > limits.max_text:
            raise OversizedReply(f"{server} sent more than {limits.max_text:,} characters in one answer; the rest was dropped")
        return limits.max_text - came

    def _begun(self) -> int:
        return int(self._has_begun)

    def end_soon(self) -> None:
        """Wait only a few seconds for the rest of the body: the reply in it is complete."""
        self._pace.end_soon()

    async def whole(self) -> bytes:
        return b"".join([piece async for piece in self.chunks()])

    async def beginning(self, size: int) -> str:
        """Return the first ``size`` bytes of the body as text, or fewer if the body is shorter or its rest does not arrive."""
        found = b""
        try:
            async with asyncio.timeout(_ERROR_SECONDS):
                async for piece in self.chunks():
                    found += piece
                    if len(found) >= size:
                        break
        except (StreamBroken, ConnectionFailed, TimeoutError):
            pass  # a truncated refusal is still a refusal: its status is known
        return found[:size].decode("utf-8", "replace")

    async def aclose(self) -> None:
        self._deadline.close()
        await self._response.aclose()

    async def drain(self) -> None:
        """Read the rest of the body after the last event, so that the connection can be reused; stop after a short time."""
        import httpx

        try:
            async with asyncio.timeout(_AFTER_DONE):
                async for _ in self._raw:
                    pass
        except (TimeoutError, httpx.HTTPError, httpx.StreamError):
            return  # the connection is closed instead of reused, which does no harm


def _hint(endpoint: Endpoint, error: Exception, why: str) -> str:
    if is_passing(error):
        return SHORTAGE
    if "CERTIFICATE_VERIFY_FAILED" in why:
        return "its certificate is not trusted: check the address, or name your authority's file in SSL_CERT_FILE"
    if endpoint.is_loopback:
        return "check that the model server runs and listens on that port"
    return "check the base URL, the network and the proxy settings"


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__


def _bare(url: str) -> str:
    """Return ``url`` without user name, password and query, which may hold secrets."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an unreadable address"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _when_sent(timer: asyncio.Timeout, seconds: float) -> Callable[[str, object], Awaitable[None]]:
    """Return a trace function that sets ``timer`` to expire ``seconds`` after the request has been sent."""

    async def trace(event: str, _info: object) -> None:
        if event.endswith("send_request_body.complete"):
            timer.reschedule(asyncio.get_running_loop().time() + seconds)

    return trace
