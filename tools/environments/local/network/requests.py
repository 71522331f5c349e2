"""Requests to the proxy: HTTP CONNECT, HTTP with an absolute URI, and SOCKS5, distinguished by the first byte."""

from __future__ import annotations

import errno
import ipaddress
import socket
import time
from urllib.parse import urlsplit

from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.regex import Regex
from tools.environments.local.network.hosts import split_port

HEAD_LIMIT = 32768
"""Maximum bytes of a request's head."""
SOCKS = b"\x05"
"""First byte of SOCKS5."""
_LINE = Regex(r"([A-Z]{1,20}) ([\x21-\x7e]+) HTTP/1\.[01]")
_HEADER = Regex(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[\t\x20-\x7e\x80-\xff]*")
_HOP_BY_HOP = frozenset({"host", "connection", "keep-alive", "proxy-connection", "proxy-authorization", "te", "upgrade"})
_SOCKS_CODES = {403: 2, 502: 4, 504: 4, 400: 7}
_PHRASES = {400: "Bad Request", 403: "Forbidden", 431: "Request Header Fields Too Large", 502: "Bad Gateway"}


class RequestRefusedError(ToolcribError):
    """A request that is not served. ``status`` is an HTTP status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class ProxyRequest(NamedTuple):
    """Request to the proxy: its host and port, the first bytes for the host, and the reply to the client after connecting."""

    host: str
    port: int
    first: bytes = b""
    connected: bytes = b""


class RequestReader:
    """Bytes that a client sends within ``seconds``. Reads after that time, or after the client has ended, raise OSError."""

    def __init__(self, client: socket.socket, seconds: float) -> None:
        self.client, self._until = client, time.monotonic() + seconds
        self.seen = b""
        self.is_socks = False

    def more(self) -> None:
        """Receive more bytes."""
        self.client.settimeout(max(self._until - time.monotonic(), 0.001))  # 0 would make the socket non-blocking
        received = self.client.recv(HEAD_LIMIT)
        if not received:
            raise ConnectionAbortedError(errno.ECONNABORTED, "the client has ended")
        self.seen += received

    def take(self, number: int) -> bytes:
        """Return the next ``number`` bytes."""
        while len(self.seen) < number:
            self.more()
        taken, self.seen = self.seen[:number], self.seen[number:]
        return taken


def read_request(reader: RequestReader) -> ProxyRequest:
    """Return a client's request. Raises RequestRefusedError, and the OSError of ``reader``."""
    reader.more()
    reader.is_socks = reader.seen[:1] == SOCKS
    if reader.is_socks:
        return _read_socks(reader)
    while (end := reader.seen.find(b"\r\n\r\n")) < 0 and reader.seen[:1].isalpha():
        if len(reader.seen) >= HEAD_LIMIT:
            raise RequestRefusedError(431, f"toolcrib: the head of a request may have at most {HEAD_LIMIT} bytes")
        reader.more()
    return parse_http(reader.seen[: end + 4], reader.seen[end + 4 :])


def parse_http(head: bytes, rest: bytes = b"") -> ProxyRequest:
    """Return the request in an HTTP head; ``rest`` is the data after it. Raises RequestRefusedError.

    A connection carries one request: "Connection: close" keeps a second request, for another host, from reaching this host.
    """
    first, *headers = head.decode("latin-1").split("\r\n")
    request = _LINE.fullmatch(first)
    lines = [line for line in headers if line]
    named = [header[1].lower() if (header := _HEADER.fullmatch(line)) else "" for line in lines]
    if request is None or "" in named:
        raise RequestRefusedError(400, "toolcrib: this is a proxy for HTTP/1 and SOCKS5, and the request is neither")
    method, target = request[1], request[2]
    try:
        if method == "CONNECT":
            host, port = split_port(target)
            return _checked(host, port, rest, b"HTTP/1.1 200 Connection established\r\n\r\n")
        parts = urlsplit(target)
        host, port = parts.hostname or "", 80 if parts.port is None else parts.port
    except ValueError as error:
        raise RequestRefusedError(400, f"toolcrib: {error}") from None
    if parts.scheme != "http":
        raise RequestRefusedError(400, "toolcrib: this is a proxy; it takes absolute http:// addresses, and CONNECT for others")
    authority = parts.netloc.rpartition("@")[2]
    listed = {each.strip().lower() for name, line in zip(named, lines, strict=True) if name == "connection"
              for each in line.partition(":")[2].split(",")}  # fmt: skip
    kept = [line for name, line in zip(named, lines, strict=True) if name not in _HOP_BY_HOP and name not in listed]
    path = target.partition("://")[2].partition("#")[0][len(parts.netloc) :] or "/"
    path = f"/{path}" if path.startswith("?") else path
    version = first.rpartition(" ")[2]
    text = "\r\n".join([f"{method} {path} {version}", f"Host: {authority}", *kept, "Connection: close", "", ""])
    return _checked(host, port, text.encode("latin-1") + rest, b"")


def _checked(host: str, port: int | None, first: bytes, connected: bytes) -> ProxyRequest:
    if not host or not port:
        raise RequestRefusedError(400, "toolcrib: the request names no host, or no port between 1 and 65535")
    return ProxyRequest(host, port, first, connected)


def _read_socks(reader: RequestReader) -> ProxyRequest:
    methods = reader.take(reader.take(2)[1])
    reader.client.sendall(b"\x05\x00" if 0 in methods else b"\x05\xff")
    if 0 not in methods:
        raise ConnectionAbortedError(errno.ECONNABORTED, "the client wants to be authenticated")
    version, command, _, kind = reader.take(4)
    if version != SOCKS[0] or command != 1 or kind not in (1, 3, 4):
        raise RequestRefusedError(400, "toolcrib: of SOCKS5, only the command CONNECT to a name or address is supported")
    if kind == 3:
        host = reader.take(reader.take(1)[0]).decode("latin-1")
    else:
        host = str(ipaddress.ip_address(reader.take(4 if kind == 1 else 16)))
    port = int.from_bytes(reader.take(2), "big")
    return _checked(host, port, reader.seen, socks_reply(0))


def refusal(status: int, text: str, socks: bool) -> bytes:
    """Return the answer for a refused request. With HTTP the status line names the reason, because programs print that line."""
    if socks:
        return socks_reply(_SOCKS_CODES.get(status, 1))
    shown = text.encode("ascii", "backslashreplace").decode()
    body = f"{shown}\n"
    phrase = shown.partition(";")[0].replace("\r", " ").replace("\n", " ") if status == 403 else _PHRASES.get(status, "Error")
    head = f"HTTP/1.1 {status} {phrase}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return (head + body).encode()


def socks_reply(code: int) -> bytes:
    """Return a SOCKS5 reply without an address."""
    return bytes([*SOCKS, code, 0, 1, 0, 0, 0, 0, 0, 0])
