"""Decodes the content coding of a reply in pieces of bounded size: a few bytes of gzip may expand to gigabytes."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Iterator, Sequence

from agent.providers._faults import UnreadableReply

ACCEPTED = "gzip, deflate"
"""The accepted codings. No others are decoded, as other decoders do not bound their output."""

_PIECE = 256 * 1024
"""Maximum number of bytes of a decoded body that are held at a time."""

_HEADER = 2
"""Bytes that are needed to recognise zlib's header."""

_WINDOWS = {"gzip": zlib.MAX_WBITS | 16, "x-gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}


def decoded(raw: AsyncIterator[bytes], coding: str, server: str) -> AsyncIterator[bytes]:
    """Return the body in pieces as they arrive. ``coding`` is the reply's Content-Encoding.

    Reading it raises UnreadableReply for a coding outside ACCEPTED, for several codings, and for invalid bytes.
    """
    named = [name for one in coding.lower().split(",") if (name := one.strip()) not in ("", "identity")]
    return _decoded(raw, named, server) if named else raw


async def _decoded(raw: AsyncIterator[bytes], named: Sequence[str], server: str) -> AsyncIterator[bytes]:
    window = _WINDOWS.get(named[0]) if len(named) == 1 else None
    if window is None:
        raise UnreadableReply(
            f"{server} sent its answer in the coding {', '.join(named)[:100]!r}, but only one layer of gzip or deflate can be"
            " read; turn off compression in that server or its proxy"
        )
    decoder = _Decoder(window)
    async for piece in raw:
        try:
            for part in decoder.parts(piece):
                yield part
        except zlib.error as error:
            raise UnreadableReply(f"{server} sent an answer that is labelled {named[0]} but is not: {error}") from None


class _Decoder:
    """Decompresses one body, at most _PIECE bytes at a time."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._zlib = zlib.decompressobj(window)
        self._first = b""
        self._begun = False

    def parts(self, data: bytes) -> Iterator[bytes]:
        while data and not self._zlib.eof:
            part = self._decompress(data)
            data = self._zlib.unconsumed_tail
            if part:
                yield part
            while len(part) == _PIECE and not data:  # zlib has consumed all input and may still hold output
                part = self._zlib.decompress(b"", _PIECE)
                if part:
                    yield part

    def _decompress(self, data: bytes) -> bytes:
        if self._begun:
            return self._zlib.decompress(data, _PIECE)
        data = self._first + data
        if len(data) < _HEADER:
            self._first = data
            return b""
        self._begun = True
        try:
            return self._zlib.decompress(data, _PIECE)
        except zlib.error:
            if self._window != zlib.MAX_WBITS:
                raise
            self._zlib = zlib.decompressobj(-zlib.MAX_WBITS)  # some servers send deflate without zlib's header
            return self._zlib.decompress(data, _PIECE)
