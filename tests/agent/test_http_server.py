"""The web server that unknown clients may reach."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
from collections.abc import AsyncIterator
from typing import cast

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from agent import http_server as _web
from tests.infra.served import NO_TLS
from toolcrib.platforms import server_of

LONG = "x" * 20_000_000
HALF = b"POST / HTTP/1.1\r\nHost: x\r\n"


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[int]:
    async def answer(request: Request) -> PlainTextResponse:
        return PlainTextResponse(await request.body() or LONG)

    server = server_of([Route("/", answer, methods=["POST"])])
    listening = socket.create_server(("127.0.0.1", 0))
    task = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        await task
        listening.close()


async def ends(reader: asyncio.StreamReader) -> bytes:
    """Return what the server sends until it closes."""
    with contextlib.suppress(ConnectionError):
        return await asyncio.wait_for(reader.read(), 20)
    return b""


async def test_who_sends_no_whole_headers_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_web, "HEADER_SECONDS", 1.0)
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HALF)
        assert await ends(reader) == b""
        writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HALF + b"Content-Length: 2\r\n\r\n")
        await asyncio.sleep(1.5)  # the body has its own time limit
        writer.write(b"hi" + HALF)
        assert (await ends(reader)).endswith(b"\r\n\r\nhi")
        writer.close()
        async with httpx.AsyncClient(verify=NO_TLS) as http:
            for word in ("one", "two"):
                assert (await http.post(f"http://127.0.0.1:{port}/", content=word)).text == word


async def test_connections_leave_files_for_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_web, "_MOST", 2)
    monkeypatch.setattr(_web, "HEADER_SECONDS", 60.0)
    async with serving() as port:
        answered = await asyncio.open_connection("127.0.0.1", port)
        answered[1].write(HALF + b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        assert await answered[0].readuntil(b"100 Continue\r\n")
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        assert [await ends(reader) for reader, _ in held[:2]] == [b"", b""]  # the ones that waited longest
        async with httpx.AsyncClient(verify=NO_TLS) as http:
            assert (await http.post(f"http://127.0.0.1:{port}/", content="in")).text == "in"
        answered[1].write(b"hi")
        assert await answered[0].readuntil(b"hi")
        for _, writer in (answered, *held):
            writer.close()


async def test_where_all_are_being_answered_one_more_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_web, "_MOST", 2)
    async with serving() as port:
        begun = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        for _, writer in begun:
            writer.write(HALF + b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        for reader, _ in begun:
            assert await reader.readuntil(b"100 Continue\r\n")
        more = await asyncio.open_connection("127.0.0.1", port)
        assert await ends(more[0]) == b""
        for reader, writer in begun:
            writer.write(b"hi")
            assert await reader.readuntil(b"hi")
            writer.close()
        more[1].close()


async def unread(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Request a long response, and read none of it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(HALF + b"Content-Length: 0\r\n\r\n")
    assert await reader.readexactly(1)
    cast(asyncio.Transport, writer.transport).pause_reading()
    return reader, writer


async def test_who_reads_no_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_web, "ANSWER_SECONDS", 1.0)
    async with serving() as port:
        reader, writer = await unread(port)
        await asyncio.sleep(2)
        cast(asyncio.Transport, writer.transport).resume_reading()
        assert len(await ends(reader)) < len(LONG)
        writer.close()
        async with httpx.AsyncClient(verify=NO_TLS) as http:
            assert (await http.post(f"http://127.0.0.1:{port}/")).text == LONG


async def test_neither_who_reads_no_answer_nor_who_asks_nothing_more_keeps_others_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_web, "_MOST", 2)
    async with serving() as port:
        held = [await unread(port)]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HALF + b"Content-Length: 2\r\n\r\nhi")
        assert await reader.readuntil(b"\r\n\r\nhi")
        for word in ("one", "two"):
            async with httpx.AsyncClient(verify=NO_TLS) as http:
                assert (await http.post(f"http://127.0.0.1:{port}/", content=word)).text == word
        for _, one in (*held, (reader, writer)):
            one.close()


@pytest.mark.parametrize(("most", "at_once"), [(4, 16), (200, 100), (9_000, 512)])
def test_no_more_are_taken_at_once_than_there_are_files_for(most: int, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flood must not use up all file descriptors: for a second, nothing else could be read, sent or stored."""
    monkeypatch.setattr(resource, "getrlimit", lambda which: (most * 4, most * 4))
    assert server_of([]).config.backlog == at_once
