"""Compressed replies: read in one coding, and never decoded into more memory than the limits allow."""

from __future__ import annotations

import asyncio
import gzip
import json
import tracemalloc
import zlib
from functools import cache

import pytest

from agent.providers import Endpoint, HttpClient, HttpLimits
from agent.providers.openai_chat import OpenAIChatSession
from toolcrib import BadRequest, Overloaded, ProviderTurn, StreamBroken
from toolcrib.testing import ChatServer, Response

MIB = 1024 * 1024
REPLY = ChatServer.text("Well, yes.").body


def ask(server: ChatServer, limits: HttpLimits | None = None) -> ProviderTurn:
    async def go() -> ProviderTurn:
        session = OpenAIChatSession(HttpClient(Endpoint(server.base_url, "m"), {}, limits), model="m")
        try:
            session.say("go")
            return await session.stream_turn(lambda event: None)
        finally:
            await session.close()

    return asyncio.run(go())


def coded(body: bytes, coding: str, status: int = 200) -> Response:
    return Response(body, status=status, headers={"Content-Encoding": coding})


def bare_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(body) + packer.flush()


@pytest.mark.parametrize(
    ("body", "coding"),
    [
        (gzip.compress(REPLY), "gzip"),
        (gzip.compress(REPLY), "x-gzip, identity"),
        (zlib.compress(REPLY), "deflate"),
        (bare_deflate(REPLY), "Deflate"),
        (REPLY, "identity"),
    ],
    ids=["gzip", "x-gzip", "deflate", "bare deflate", "identity"],  # gzip's output contains the time
)
@pytest.mark.parametrize("pieces", [0, 1, 7])
def test_one_coding_is_read_however_it_is_cut(body: bytes, coding: str, pieces: int) -> None:
    response = Response(body, headers={"Content-Encoding": coding}, pieces=pieces)
    with ChatServer(response) as server:
        assert ask(server).assistant_text == "Well, yes."


def test_a_long_reply_is_read_whole() -> None:
    """The pieces of the body end inside compressed blocks."""
    text = "".join(f"{number} " for number in range(200_000))
    body = ChatServer.text(text, piece=4000).body
    with ChatServer(coded(gzip.compress(body), "gzip")) as server:
        assert ask(server).assistant_text == text


@pytest.mark.parametrize("coding", ["gzip, gzip", "deflate, gzip", "gzip,gzip,gzip", "br", "zstd", "gzip, identity, br"])
def test_more_than_one_coding_or_another_is_refused(coding: str) -> None:
    with ChatServer(coded(gzip.compress(gzip.compress(REPLY)), coding)) as server:
        with pytest.raises(StreamBroken, match=r"in the coding .*turn off compression") as caught:
            ask(server)
        assert not caught.value.retryable
        assert server.headers[-1]["accept-encoding"] == "gzip, deflate"


def test_what_is_not_in_its_coding_is_told() -> None:
    with ChatServer(coded(REPLY, "gzip")) as server, pytest.raises(StreamBroken, match="labelled gzip but is not"):
        ask(server)


@cache
def packed_bomb(kind: str) -> bytes:
    match kind:
        case "twice":
            return gzip.compress(gzip.compress(b"x" * 64 * MIB))
        case "comments":
            return gzip.compress(b": comment\n" * (6 * MIB))
        case _:
            return gzip.compress(b'data: {"choices": [{"delta": {"content": "' + b"x" * 64 * MIB)


@pytest.mark.parametrize("kind", ["twice", "comments", "one event"])
@pytest.mark.parametrize("status", [200, 400, 500])
def test_a_bomb_is_not_decoded_into_memory(kind: str, status: int) -> None:
    body = packed_bomb(kind)
    coding = "gzip, gzip" if len(body) < 10_000 else "gzip"
    with ChatServer(coded(body, coding, status)) as server:
        tracemalloc.start()
        try:
            with pytest.raises((StreamBroken, BadRequest, Overloaded)):
                ask(server, HttpLimits(max_body=MIB))
            assert tracemalloc.get_traced_memory()[1] < 24 * MIB
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_refusal_may_be_compressed_too(coding: str) -> None:
    body = json.dumps({"error": {"message": "too warm in here"}}).encode()
    packed = gzip.compress(body) if coding == "gzip" else zlib.compress(body)
    with ChatServer(coded(packed, coding, 400)) as server, pytest.raises(BadRequest, match="too warm in here"):
        ask(server)
