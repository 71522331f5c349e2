"""The answer of an authorization server: the browser brings it to a loopback address, or the user pastes that address."""

from __future__ import annotations

import asyncio
import secrets
import socket
from types import TracebackType
from urllib.parse import parse_qs, urlsplit

from mcp.shared.auth import AuthorizationCodeResult

from agent.mcp.logins import LoginFailed

_HOST = "127.0.0.1"
_PATH = "/callback"
_MOST_BYTES = 16_000
_PAGE = "<!doctype html><meta charset=utf-8><title>toolcrib</title><p>{}</p>"


class Callback:
    """Waits for one answer at a loopback address. An async context manager."""

    def __init__(self, port: int = 0) -> None:
        """Bind the address, at ``port`` if that is free. Raises LoginFailed."""
        self._socket = _bound(port) or _bound(0)
        if self._socket is None:
            raise LoginFailed(f"no port of {_HOST} is free")
        self.address = f"http://{_HOST}:{self._socket.getsockname()[1]}{_PATH}"
        self._state = ""
        self._answer: asyncio.Future[AuthorizationCodeResult]
        self._server: asyncio.Server

    async def __aenter__(self) -> Callback:
        self._answer = asyncio.get_running_loop().create_future()
        self._server = await asyncio.start_server(self._serve, sock=self._socket, limit=_MOST_BYTES)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.close()
        if not self._answer.cancel():
            self._answer.exception()  # it may have no waiter

    def expect(self, url: str) -> None:
        """Accept only the answer to this authorization request."""
        self._state = parse_qs(urlsplit(url).query)["state"][0]

    async def wait(self, seconds: float | None) -> AuthorizationCodeResult:
        """Return the answer. Raises LoginFailed."""
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(self._answer)
        except TimeoutError:
            raise LoginFailed(f"no answer from the browser within {seconds} seconds") from None

    def parsed(self, address: str) -> AuthorizationCodeResult:
        """Return the answer in an address. Raises LoginFailed."""
        found = {key: values[0] for key, values in parse_qs(urlsplit(address.strip()).query).items()}
        if not (found.get("code") or found.get("error")):
            raise LoginFailed(f"this is not the address that the login leads to: it begins with {self.address}?")
        if not self._state or not secrets.compare_digest(found.get("state", "").encode(), self._state.encode()):
            raise LoginFailed("the answer belongs to another login (its state is wrong); start again")
        if "error" in found:
            about = found.get("error_description")
            raise LoginFailed(f"refused: {found['error']}{f' ({about})' if about else ''}"[:300])
        return AuthorizationCodeResult(code=found["code"], state=found["state"], iss=found.get("iss"))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            method, target, _ = head.split(b"\r\n")[0].decode("ascii").split(" ")
            if method == "GET" and urlsplit(target).path == _PATH and not self._answer.done():
                status, said = 200, self._take(target)
            else:
                status, said = 404, "There is nothing here."
            page = _PAGE.format(said).encode()
            writer.write(f"HTTP/1.1 {status} \r\nContent-Type: text/html\r\nContent-Length: {len(page)}\r\n".encode())
            writer.write(b"Connection: close\r\n\r\n" + page)
            await writer.drain()
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # not a browser
        finally:
            writer.close()

    def _take(self, target: str) -> str:
        try:
            self._answer.set_result(self.parsed(target))
        except LoginFailed as error:
            self._answer.set_exception(error)
            return "The login failed: see toolcrib in the terminal."
        return "toolcrib has the answer. You can close this page."


def _bound(port: int) -> socket.socket | None:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.bind((_HOST, port))
    except OSError:
        made.close()
        return None
    return made


def port_of(redirects: object) -> int:
    """Return the port of a registered redirect address, which a new login must use again; 0 for none."""
    for one in redirects if isinstance(redirects, list) else ():
        parts = urlsplit(str(one))
        if parts.hostname == _HOST and parts.path == _PATH:
            return parts.port or 0
    return 0
