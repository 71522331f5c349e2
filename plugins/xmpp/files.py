"""Upload and download of files on web servers (XEP-0363, XEP-0066)."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

from plugins.xmpp.link import XmppLink
from plugins.xmpp.writing import sendable
from toolcrib import ToolcribError
from toolcrib.chat import NotSent, OutFile
from toolcrib.contract.passing import raise_passing
from toolcrib.platforms import is_loopback

_SECONDS = 60.0


class XmppFiles:
    """Uploads and downloads of a connection. ``service`` is the server's upload component, "" if there is none."""

    def __init__(self, link: XmppLink, service: str, ca_file: str = "") -> None:
        self._link = link
        self.service = service
        self._context = ssl.create_default_context()  # for any web server: the system's certificates, and ca_file
        if ca_file:
            self._context.load_verify_locations(ca_file)

    async def put(self, file: OutFile) -> str:
        """Upload a file, and return its address. Raises NotSent, XmppLost, XmppSilent."""
        import httpx

        try:
            data = await asyncio.to_thread(file.path.read_bytes)
        except OSError as error:
            raise_passing(error)
            raise NotSent(f"{file.name} no longer exists", for_good=True) from error
        place, headers, url = await self._slot(sendable(file.name), len(data), file.media_type)
        if not place.startswith("https://") and not is_loopback(urlsplit(place).hostname or ""):
            raise NotSent("the server accepts files only without TLS", for_good=True)
        try:
            async with httpx.AsyncClient(verify=self._context, timeout=_SECONDS) as http:
                answer = await http.put(place, content=data, headers={**headers, "Content-Type": file.media_type})
        except httpx.HTTPError as error:
            raise NotSent("the file could not be uploaded", code=type(error).__name__) from error
        if answer.status_code not in (200, 201):
            raise NotSent("the file could not be uploaded", code=str(answer.status_code))
        return url

    async def _slot(self, name: str, size: int, media_type: str) -> tuple[str, dict[str, str], str]:
        from slixmpp.exceptions import IqError

        if not self.service:
            raise NotSent("the server accepts no files", for_good=True)
        try:
            answer = await self._link.done(
                self._link.client.plugin["xep_0363"].request_slot(self.service, name, size, media_type), of=self.service
            )
        except IqError as error:
            raise NotSent(f"the server rejects the file: {error.condition}", for_good=error.etype == "modify") from error
        slot: Any = answer["http_upload_slot"]
        return slot["put"]["url"], {one["name"]: one["value"] for one in slot["put"]["headers"]}, slot["get"]["url"]

    async def get(self, url: str) -> AsyncIterator[bytes]:
        """Yield the content of the file at an address. The user who sent the address must not make us access this machine or its
        network, so only public addresses with TLS and our own server's storage are allowed. Raises ToolcribError.
        """
        import httpx

        try:
            parts, port = urlsplit(url), urlsplit(url).port or 443
        except ValueError as error:
            raise ToolcribError("its address is invalid") from error
        if self.service and f"{parts.scheme}://{parts.netloc}" == await self._origin():
            pass
        elif parts.scheme != "https" or not await _is_public(parts.hostname or "", port):
            raise ToolcribError("it is not at a public https address")
        try:
            async with (
                httpx.AsyncClient(verify=self._context, timeout=_SECONDS, trust_env=False) as http,
                http.stream("GET", url) as answer,
            ):
                if answer.status_code != 200:  # redirects are not followed
                    raise ToolcribError(f"the download failed (status {answer.status_code})")
                async for piece in answer.aiter_bytes(65_536):
                    yield piece
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ToolcribError(f"the download failed ({type(error).__name__})") from error

    async def _origin(self) -> str:
        parts = urlsplit((await self._slot("x", 1, "application/octet-stream"))[2])
        return f"{parts.scheme}://{parts.netloc}"


async def _is_public(host: str, port: int) -> bool:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise_passing(error)
        return False
    return bool(found) and all(ipaddress.ip_address(one[4][0]).is_global for one in found)
