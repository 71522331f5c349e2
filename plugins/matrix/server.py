"""The homeserver: one logged-in client, its requests, and the meaning of refusals."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from toolcrib import ConfigError, ToolcribError
from toolcrib.chat import Host, NotSent

if TYPE_CHECKING:
    from .keys import MatrixKeys

_FOR_GOOD = {"M_FORBIDDEN", "M_NOT_FOUND", "M_TOO_LARGE", "M_BAD_JSON", "M_INVALID_PARAM", "M_USER_DEACTIVATED"}
LIMIT = "M_LIMIT_EXCEEDED"
GONE = "M_UNKNOWN_TOKEN"
_MEDIA_SECONDS = 300


class MatrixRefused(ToolcribError):
    """The server refused a request. ``retry_after``: seconds to wait if a rate limit was exceeded, else None."""

    def __init__(self, code: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(f"{code}: {message}" if code else message)
        self.code = code
        self.retry_after = (retry_after or 5.0) if code == LIMIT else None

    def not_sent(self) -> NotSent:
        """Return the NotSent for this refusal of a message."""
        is_ours = self.code in _FOR_GOOD or self.code == LIMIT
        for_good = self.code in _FOR_GOOD
        return NotSent(str(self), retry_after=self.retry_after, for_good=for_good, perhaps_sent=not is_ours, code=self.code)


class MatrixServer:
    """A connection made by ``login``. If it is lost, methods raise OSError or TimeoutError."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.keys: MatrixKeys | None = None
        """Keys of encrypted rooms, or None if these can't be read."""

    @classmethod
    async def login(cls, host: Host) -> MatrixServer:
        """Log in with the token, else with the password as the same device as last time. Raises ConfigError, MatrixRefused,
        OSError.
        """
        try:
            from nio import AsyncClient, AsyncClientConfig
        except ImportError as error:
            raise ConfigError("the matrix platform needs the extra: pip install 'toolcrib[matrix]'") from error
        url, user = str(host.settings.get("homeserver", "")).rstrip("/"), str(host.settings.get("user", ""))
        if not url.startswith(("https://", "http://")):
            raise ConfigError("platforms.matrix.settings.homeserver: expected an address such as https://matrix.example.org")
        # We handle refusals ourselves: the client would wait silently, and block later messages.
        options = AsyncClientConfig(max_limit_exceeded=0, max_timeouts=0, encryption_enabled=False, store_sync_tokens=False)
        server = cls(AsyncClient(url, user, config=options))
        try:
            await server._log_in(host, user)
        except BaseException:
            await server.close()
            raise
        return server

    async def _log_in(self, host: Host, user: str) -> None:
        client = self.client
        try:
            client.access_token = host.secret("MATRIX_TOKEN")
        except ConfigError as no_token:
            if not user:
                raise
            place = f"device:{user}"
            try:
                password = host.secret("MATRIX_PASSWORD")
            except ConfigError:
                raise ConfigError(f"{no_token}; or MATRIX_PASSWORD, to log in with a password") from None
            client.device_id = await host.recall(place)  # otherwise each start would create another device
            await self.taken(client.login(password, device_name="toolcrib"))
            await host.keep(place, client.device_id)
        try:
            me = await self.call("GET", "account", "whoami")
        except MatrixRefused as error:
            if error.code != GONE:
                raise
            raise ConfigError("the homeserver rejects MATRIX_TOKEN: create a new one, and put it into secrets.env") from None
        if user and user not in (me["user_id"], me["user_id"][1:].partition(":")[0]):
            raise ConfigError(f"MATRIX_TOKEN belongs to {me['user_id']}, but platforms.matrix.settings.user is {user}")
        client.user_id, client.device_id = me["user_id"], me.get("device_id", "")

    @property
    def account(self) -> str:
        """The account's user id."""
        return str(self.client.user_id)

    async def close(self) -> None:
        """Close the connections."""
        if self.keys is not None:
            self.keys.close()
        await self.client.close()

    async def taken(self, asked: Any) -> Any:
        """Return the response to a request of the client. Raises MatrixRefused."""
        from nio.responses import ErrorResponse

        with _lost():
            answer = await asked
        if isinstance(answer, ErrorResponse):
            wait = answer.retry_after_ms
            raise MatrixRefused(str(answer.status_code or ""), answer.message, wait and wait / 1000)
        return answer

    async def call(self, method: str, *path: str, body: Any = None, version: str = "v3", **query: Any) -> Any:
        """Send a request that the client has no method for, and return the JSON of the response. Raises MatrixRefused."""
        found: Any = None
        where = "/".join(quote(part, safe="") for part in path)
        url = f"/_matrix/client/{version}/{where}" + (f"?{urlencode(query)}" if query else "")
        data = None if body is None else json.dumps(body)
        with _lost():
            async with await self.client.send(method, url, data, self._headers()) as answer:
                text = await answer.text()
        with contextlib.suppress(ValueError):
            found = json.loads(text)
            if answer.status < 300:
                return found
        said = found if isinstance(found, dict) else {}
        wait = said.get("retry_after_ms")
        code = str(said.get("errcode") or (LIMIT if answer.status == 429 else ""))
        raise MatrixRefused(
            code, str(said.get("error") or f"status {answer.status}"), wait / 1000 if isinstance(wait, int) else None
        )

    async def event(self, room: str, event_id: str) -> Mapping[str, Any]:
        """Return an event, decrypted as by ``clear``. Raises MatrixRefused."""
        return await self.clear(room, await self.call("GET", "rooms", room, "event", event_id))

    async def clear(self, room: str, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return an event decrypted, or unchanged if that is not possible. Raises MatrixRefused."""
        if self.keys is None or event.get("type") != "m.room.encrypted":
            return event
        from .keys import MatrixNoKeyError

        with contextlib.suppress(MatrixNoKeyError):
            return await self.keys.decrypt(room, event) or event
        return event

    async def media(self, mxc: str) -> AsyncIterator[bytes]:
        """Yield the content of an uploaded file in pieces. Raises MatrixRefused."""
        where = "/".join(quote(part, safe="") for part in mxc.removeprefix("mxc://").split("/", 1))
        url = f"/_matrix/client/v1/media/download/{where}"
        with _lost():
            async with await self.client.send("GET", url, None, self._headers(), timeout=_MEDIA_SECONDS) as answer:
                if answer.status != 200:
                    raise MatrixRefused("", f"the server does not provide the file (status {answer.status})")
                async for piece in answer.content.iter_chunked(65_536):
                    yield piece

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.client.access_token}"}


@contextlib.contextmanager
def _lost() -> Iterator[None]:
    """Convert the library's connection errors to Python's."""
    from aiohttp import ClientError

    try:
        yield
    except ClientError as error:
        raise ConnectionError(f"{type(error).__name__}: {error}") from None
