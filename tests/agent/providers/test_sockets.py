"""Connections to model servers: kept, closed, encrypted, and never read for another request's response."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from agent.providers import _sockets
from agent.providers.endpoint import Endpoint
from agent.providers.http import HttpClient, HttpLimits
from toolcrib import ConnectionFailed, StreamBroken

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n%02d"
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def get(client: HttpClient) -> bytes:
    async with client.get("models") as reply:
        return await reply.whole()


def asked(talk: Talk, go: Callable[[HttpClient], Awaitable[None]], context: ssl.SSLContext | None = None) -> None:
    """Run a client against a server."""

    async def both() -> None:
        tasks = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            tasks.append(asyncio.current_task())
            try:
                await talk(reader, writer)
            except (asyncio.IncompleteReadError, OSError):
                return
            finally:
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
        async with server:
            address = f"{'https' if context else 'http'}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            client = HttpClient(Endpoint(address, "m"), {}, HttpLimits(connect=20, first_byte=20, between=20))
            try:
                await go(client)
            finally:
                await client.aclose()
                for task in tasks:
                    assert task is not None
                    task.cancel()
                await asyncio.gather(*(task for task in tasks if task is not None), return_exceptions=True)

    asyncio.run(both())


async def head(reader: asyncio.StreamReader) -> bytes:
    return await reader.readuntil(b"\r\n\r\n")


@pytest.mark.parametrize("late", [b"", b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n", OK % 99])
def test_what_comes_between_two_requests_answers_neither(late: bytes) -> None:
    connections = 0
    said = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await head(reader)
        writer.write(OK % connections)
        await writer.drain()
        if connections == 1:
            await asyncio.sleep(0.05)
            writer.write(late)
            if not late:
                writer.write_eof()
            await writer.drain()
            said.set()
        await reader.read()

    async def go(client: HttpClient) -> None:
        assert await get(client) == b"01"
        await said.wait()
        await asyncio.sleep(0.05)
        assert await get(client) == b"02"

    asked(talk, go)
    assert connections == 2


def test_a_connection_is_used_again() -> None:
    connections = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while await head(reader):
            writer.write(OK % connections)

    async def go(client: HttpClient) -> None:
        assert [await get(client) for _ in range(5)] == [b"01"] * 5

    asked(talk, go)


def test_a_server_that_sends_faster_than_we_read_has_to_wait() -> None:
    sent, piece, many = 0, b"x" * 65_536, 400

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (len(piece) * many))
        for _ in range(many):
            writer.write(piece)
            await writer.drain()
            sent += 1

    async def go(client: HttpClient) -> None:
        async with client.get("models") as reply:
            pieces = reply.chunks()
            size = len(await anext(pieces))
            seen = -1
            while sent != seen:  # until the flow is blocked
                seen = sent
                await asyncio.sleep(0.2)
            assert sent < many
            async for more in pieces:
                size += len(more)
        assert size == len(piece) * many

    asked(talk, go)


def test_a_connection_that_breaks_within_an_answer() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        await writer.drain()
        writer.transport.abort()

    async def go(client: HttpClient) -> None:
        with pytest.raises(StreamBroken, match="was lost in the middle"):
            await get(client)

    asked(talk, go)


def test_nobody_listens() -> None:
    async def go() -> None:
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        client = HttpClient(Endpoint(f"http://127.0.0.1:{port}", "m"), {})
        with pytest.raises(ConnectionFailed, match="Connection refused; check that the model server runs"):
            await get(client)
        await client.aclose()

    asyncio.run(go())


def test_a_proxy_of_the_environment_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines.append((await head(reader)).partition(b"\r\n")[0])
        writer.write(OK % 1)
        await writer.drain()

    async def go(client: HttpClient) -> None:
        monkeypatch.setenv("http_proxy", client.endpoint.base_url)
        through = HttpClient(Endpoint("http://model.invalid", "m"), {})
        assert await get(through) == b"01"
        await through.aclose()

    for name in ("no_proxy", "NO_PROXY", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    asked(talk, go)
    assert lines == [b"GET http://model.invalid/models HTTP/1.1"]


# -- encrypted ---------------------------------------------------------------------------------------------------


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Return key and certificate of a server at 127.0.0.1, which is its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "toolcrib test")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "both.pem"
    plain = serialization.NoEncryption()
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return path


def serving(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def test_an_encrypted_connection_is_read_and_used_again(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    connections = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while await head(reader):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + b"y" * 1_000_000)
            await writer.drain()

    async def go(client: HttpClient) -> None:
        for _ in range(2):
            assert await get(client) == b"y" * 1_000_000

    asked(talk, go, serving(certificate))
    assert connections == 1


def test_a_server_that_ends_an_encrypted_connection_is_asked_on_another(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    connections = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await head(reader)
        writer.write(OK % connections)
        await writer.drain()

    async def go(client: HttpClient) -> None:
        assert await get(client) == b"01"
        await asyncio.sleep(0.2)
        assert await get(client) == b"02"

    asked(talk, go, serving(certificate))


def test_a_certificate_of_nobody_we_know(certificate: Path) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head(reader)

    async def go(client: HttpClient) -> None:
        with pytest.raises(ConnectionFailed, match="certificate is not trusted: check the address, or name your authority"):
            await get(client)

    asked(talk, go, serving(certificate))


def test_what_of_httpx_is_used_is_there() -> None:
    """The transport sets an undocumented attribute of httpx."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    assert vars(httpx.AsyncHTTPTransport(verify=context)).keys() == vars(_sockets.AsyncioTransport(context)).keys()
