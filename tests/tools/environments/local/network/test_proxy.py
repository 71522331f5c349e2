"""The proxy's two protocols, as the bytes that clients send and hosts receive."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.environments.local.network import connections, mover, proxy
from tools.environments.local.network.connections import Connections
from tools.environments.local.network.hosts import HostPolicy
from tools.environments.local.network.mover import Mover
from tools.environments.local.network.proxy import HostProxy
from tools.environments.local.network.requests import HEAD_LIMIT, ProxyRequest, RequestRefusedError, parse_http

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def _no_own_port(port: int) -> socket.socket | None:
    return None


class _Place:
    """A proxy at ``port``, and a host at ``host`` that it may connect to; ``accepted`` has the host's connections."""

    def __init__(self, port: int, host: int, accepted: asyncio.Queue[Streams], policy: HostPolicy) -> None:
        self.port, self.host, self.accepted, self.policy = port, host, accepted, policy

    async def client(self, data: bytes = b"") -> Streams:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(data)
        return reader, writer

    async def answer(self, data: bytes) -> bytes:
        """Return the complete answer to a client that sends ``data``."""
        reader, writer = await self.client(data)
        try:
            return await reader.read()
        finally:
            await _closed(writer)


async def _closed(*writers: asyncio.StreamWriter) -> None:
    for writer in writers:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


@contextlib.asynccontextmanager
async def _place(*allow: str) -> AsyncIterator[_Place]:
    accepted: asyncio.Queue[Streams] = asyncio.Queue()
    host = await asyncio.start_server(lambda reader, writer: accepted.put_nowait((reader, writer)), "127.0.0.1", 0)
    port = host.sockets[0].getsockname()[1]
    policy = HostPolicy([f"localhost:{port}", *allow])
    made: list[Connections] = []

    def close_idle() -> None:
        for one in made:
            one.close_idle()

    shared = Mover.shared(close_idle)
    made.append(Connections(shared))
    listener = socket.create_server(("127.0.0.1", 0))
    made[0].serve(listener, HostProxy(policy, _no_own_port).answer)
    try:
        yield _Place(listener.getsockname()[1], port, accepted, policy)
    finally:
        made[0].close()
        shared.release(close_idle)
        host.close()


def _run(scenario: Callable[[_Place], Awaitable[None]], *allow: str) -> None:
    async def run() -> None:
        async with asyncio.timeout(120), _place(*allow) as place:
            await scenario(place)

    asyncio.run(run())


def test_a_connection_is_a_tunnel_for_any_bytes_and_each_way_ends_by_itself() -> None:
    async def scenario(place: _Place) -> None:
        reader, writer = await place.client(b"CONNECT localhost:%d HTTP/1.1\r\nHost: x\r\n\r\nearly " % place.host)
        inside, outside = await place.accepted.get()
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 200 Connection established\r\n\r\n"
        writer.write(bytes(range(256)))
        writer.write_eof()
        assert await inside.read() == b"early " + bytes(range(256))
        outside.write(b"the answer after the end of the question")
        await _closed(outside)
        assert await reader.read() == b"the answer after the end of the question"
        await _closed(writer)

    _run(scenario)


def test_socks_by_name_and_by_both_kinds_of_address() -> None:
    async def scenario(place: _Place) -> None:
        port = place.host.to_bytes(2, "big")
        for address in (b"\x03\x09localhost", b"\x01\x7f\x00\x00\x01", b"\x04" + bytes(10) + b"\xff\xff\x7f\x00\x00\x01"):
            reader, writer = await place.client(b"\x05\x02\x01\x00")
            assert await reader.readexactly(2) == b"\x05\x00"
            writer.write(b"\x05\x01\x00" + address + port + b"hello")
            assert await reader.readexactly(10) == b"\x05\x00\x00\x01" + bytes(6)
            inside, outside = await place.accepted.get()
            assert await inside.readexactly(5) == b"hello"
            await _closed(writer, outside)

    _run(scenario)


@pytest.mark.parametrize(
    ("sent", "got"),
    [
        (b"\x05\x01\x02", b"\x05\xff"),  # only login with a password
        (b"\x05\x01\x00\x05\x02\x00\x01\x7f\x00\x00\x01\x00\x50", b"\x05\x00" + b"\x05\x07\x00\x01" + bytes(6)),  # BIND
        (b"\x05\x01\x00\x05\x01\x00\x03\x09other.org\x00\x50", b"\x05\x00" + b"\x05\x02\x00\x01" + bytes(6)),
        (b"\x05\x01\x00\x05\x01\x00\x03\x00\x00\x50", b"\x05\x00" + b"\x05\x07\x00\x01" + bytes(6)),
        (b"\x05\x01\x00\x05\x01\x00\x03\x03a\xff/\x00\x50", b"\x05\x00" + b"\x05\x02\x00\x01" + bytes(6)),
    ],
)
def test_what_socks_refuses(sent: bytes, got: bytes) -> None:
    async def scenario(place: _Place) -> None:
        assert await place.answer(sent) == got

    _run(scenario)


@pytest.mark.parametrize(
    ("sent", "status", "text"),
    [
        (b"CONNECT other.org:443 HTTP/1.1\r\n\r\n", 403, "toolcrib: other.org is not an allowed host"),
        (b"GET http://other.org/ HTTP/1.1\r\n\r\n", 403, "toolcrib: other.org is not an allowed host"),
        (b"CONNECT 169.254.169.254:80 HTTP/1.1\r\n\r\n", 403, "toolcrib: 169.254.169.254 is an address of the machine's own"),
        (b"CONNECT a_b%$.org:443 HTTP/1.1\r\n\r\n", 403, "toolcrib: 'a_b%$.org' is not a host's name or address"),
        (b"CONNECT other.org HTTP/1.1\r\n\r\n", 400, "the request names no host, or no port"),
        (b"CONNECT other.org:0 HTTP/1.1\r\n\r\n", 400, "the request names no host, or no port"),
        (b"CONNECT [::1:80 HTTP/1.1\r\n\r\n", 400, "write an IPv6 address with a port"),
        (b"GET http://other.org:99999/ HTTP/1.1\r\n\r\n", 400, "toolcrib: "),
        (b"GET / HTTP/1.1\r\nHost: other.org\r\n\r\n", 400, "it takes absolute http:// addresses"),
        (b"GET ftp://other.org/ HTTP/1.1\r\n\r\n", 400, "it takes absolute http:// addresses"),
        (b"GET http://other.org/ HTTP/1.1\r\nA: b\r\n folded\r\n\r\n", 400, "the request is neither"),
        (b"GET http://other.org/ HTTP/1.1\r\nA : b\r\n\r\n", 400, "the request is neither"),
        (b"GET http://other.org/ HTTP/1.1\r\nA: b\nHost: c\r\n\r\n", 400, "the request is neither"),
        (b"GET http://other.org/ HTTP/2.0\r\n\r\n", 400, "the request is neither"),
        (b"\x16\x03\x01\x02\x00\x01", 400, "the request is neither"),
        (b"\x04\x01\x00\x50\x7f\x00\x00\x01\x00", 400, "the request is neither"),
        (b"GET http://other.org/ HTTP/1.1\r\n" + b"A: b\r\n" * HEAD_LIMIT, 431, "the head of a request may have"),
    ],
)
def test_what_http_refuses(sent: bytes, status: int, text: str) -> None:
    async def scenario(place: _Place) -> None:
        head, _, body = (await place.answer(sent)).decode().partition("\r\n\r\n")
        assert head.startswith(f"HTTP/1.1 {status} ")
        assert text in body
        assert f"Content-Length: {len(body)}\r\n" in head
        assert [one.port for one in place.policy.denials(0)] == ([] if status != 403 else [80 if b":443" not in sent else 443])

    _run(scenario)


def test_a_service_that_is_not_there_is_named() -> None:
    async def scenario(place: _Place) -> None:
        with socket.create_server(("127.0.0.1", 0)) as gone:
            port = gone.getsockname()[1]
        place.policy.allow(f"localhost:{port}")
        assert (
            f"toolcrib: localhost:{port} can't be reached: "
            in (await place.answer(b"CONNECT localhost:%d HTTP/1.1\r\n\r\n" % port)).decode()
        )
        reply = await place.answer(b"\x05\x01\x00\x05\x01\x00\x03\x09localhost" + port.to_bytes(2, "big"))
        assert reply == b"\x05\x00\x05\x04\x00\x01" + bytes(6)

    _run(scenario)


def test_what_a_host_gets_of_a_request() -> None:
    """The host is that of the address, not of the client's header; headers between client and proxy are removed."""
    asked = parse_http(
        b"POST http://me:secret@one.org:81/a?b#c HTTP/1.1\r\nHost: two.org\r\nProxy-Authorization: Basic x\r\nX-Mine: 1\r\n"
        b"Connection: keep-alive, X-Hop\r\nX-Hop: 2\r\nUpgrade: h2c\r\nContent-Length: 4\r\n\r\n",
        b"body",
    )
    assert asked == ProxyRequest(
        "one.org",
        81,
        b"POST /a?b HTTP/1.1\r\nHost: one.org:81\r\nX-Mine: 1\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody",
        b"",
    )
    assert parse_http(b"GET http://one.org HTTP/1.1\r\n\r\n").first.startswith(b"GET / HTTP/1.1\r\nHost: one.org\r\n")
    assert parse_http(b"GET http://[::1]?x HTTP/1.1\r\n\r\n").first.startswith(b"GET /?x HTTP/1.1\r\nHost: [::1]\r\n")


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60) | st.text("GETCONhtp:/ .1[]@#?%\r\n\0x", max_size=60).map(str.encode))
def test_any_head_is_read_or_refused(head: bytes) -> None:
    for data in (head, b"CONNECT " + head, b"GET http://" + head + b" HTTP/1.1\r\n\r\n"):
        with contextlib.suppress(RequestRefusedError):
            asked = parse_http(data)
            assert asked.host
            assert 0 < asked.port < 65536
            assert b"\n" not in asked.first.replace(b"\r\n", b"")


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=80) | st.binary(max_size=40).map(lambda data: b"\x05\x01\x00" + data))
def test_any_first_bytes_end_without_a_connection(data: bytes) -> None:
    async def scenario(place: _Place) -> None:
        reader, writer = await place.client(data)
        writer.write_eof()
        await reader.read()
        await _closed(writer)
        reader, writer = await place.client(b"CONNECT localhost:%d HTTP/1.1\r\n\r\n" % place.host)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        _, outside = await place.accepted.get()
        assert place.accepted.empty()
        await _closed(writer, outside)

    _run(scenario)


def test_a_slow_client_is_served_and_a_silent_one_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    async def slow(place: _Place) -> None:
        reader, writer = await place.client()
        for byte in b"CONNECT localhost:%d HTTP/1.1\r\n\r\n" % place.host:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        _, outside = await place.accepted.get()
        await _closed(writer, outside)

    async def silent(place: _Place) -> None:
        assert await place.answer(b"CONNECT localhost") == b""
        assert await place.answer(b"") == b""

    _run(slow)
    monkeypatch.setattr(proxy, "HEAD_SECONDS", 0.05)
    _run(silent)


def test_a_tunnel_that_carries_nothing_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "IDLE", 0.0)
    monkeypatch.setattr(mover, "LOOK", 0.05)

    async def scenario(place: _Place) -> None:
        reader, writer = await place.client(b"CONNECT localhost:%d HTTP/1.1\r\n\r\n" % place.host)
        inside, outside = await place.accepted.get()
        assert await inside.read() == b""
        assert (await reader.read()).startswith(b"HTTP/1.1 200")
        await _closed(writer, outside)

    _run(scenario)


def test_connections_beyond_the_bound_wait_for_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST", 2)

    async def scenario(place: _Place) -> None:
        request = b"CONNECT localhost:%d HTTP/1.1\r\n\r\n" % place.host
        clients = [await place.client(request) for _ in range(3)]
        outside = [(await place.accepted.get())[1] for _ in range(2)]
        await asyncio.sleep(0.1)
        assert place.accepted.empty()
        await _closed(outside[0])
        for _, writer in clients[:2]:
            await _closed(writer)
        outside.append((await place.accepted.get())[1])
        assert (await clients[2][0].readline()).startswith(b"HTTP/1.1 200")
        await _closed(clients[2][1], *outside[1:])

    _run(scenario)


def test_a_side_that_reads_nothing_stops_the_other() -> None:
    """The proxy buffers a limited amount; all of it arrives in order once the other side reads."""

    async def scenario(place: _Place) -> None:
        reader, writer = await place.client(b"CONNECT localhost:%d HTTP/1.1\r\n\r\n" % place.host)
        inside, outside = await place.accepted.get()
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        block = bytes(range(256)) * 4096
        raw = outside.get_extra_info("socket")
        sent = 0
        quiet = 0
        while quiet < 20:  # until the socket has accepted no data for a while
            try:
                sent += raw._sock.send(block[sent % len(block) :])
                quiet = 0
            except BlockingIOError:
                quiet += 1
                await asyncio.sleep(0.01)
        assert sent < 64 * len(block)
        received = await reader.readexactly(sent)
        assert received == (block * (sent // len(block) + 1))[:sent]
        await _closed(writer, outside)
        assert await inside.read() == b""

    _run(scenario)


def test_when_one_side_is_reset_the_other_ends() -> None:
    async def scenario(place: _Place) -> None:
        reader, writer = await place.client(b"CONNECT localhost:%d HTTP/1.1\r\n\r\n" % place.host)
        _inside, outside = await place.accepted.get()
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        linger: Any = b"\x01\x00\x00\x00\x00\x00\x00\x00"
        outside.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        outside.transport.abort()
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        await _closed(writer)

    _run(scenario)
