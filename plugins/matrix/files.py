"""Download and upload of files, including those of encrypted rooms, which the server can't read."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import AsyncIterator, Awaitable
from typing import Any, BinaryIO

from toolcrib import ToolcribError
from toolcrib.chat import Attachment, NotSent, OutFile

from .server import MatrixServer

_NOISE = "application/octet-stream"


async def fetched(server: MatrixServer, attachment: Attachment) -> AsyncIterator[bytes]:
    """Yield the content of a received file. Raises MatrixRefused, and ToolcribError for an invalid key or, at the end, a wrong
    digest.
    """
    ref = {name: str(value) for name, value in attachment.ref.items()}
    pieces = server.media(ref["mxc"])
    async for piece in _decrypted(pieces, ref) if "key" in ref else pieces:
        yield piece


async def _decrypted(pieces: AsyncIterator[bytes], ref: dict[str, str]) -> AsyncIterator[bytes]:
    from Crypto.Cipher import AES

    try:
        start = _bytes(ref["iv"])
        cipher = AES.new(_bytes(ref["key"]), AES.MODE_CTR, nonce=start[:8], initial_value=start[8:16])
    except ValueError as error:
        raise ToolcribError("its key is invalid") from error
    digest = hashlib.sha256()
    async for piece in pieces:
        digest.update(piece)
        yield cipher.decrypt(piece)
    if digest.digest() != _bytes(ref["sha256"]):
        raise ToolcribError("it was changed in transit")


def _bytes(text: str) -> bytes:
    """Return the bytes of Base64 text in either alphabet, without padding. Raises ValueError."""
    return base64.b64decode(text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4), validate=True)


async def uploaded(server: MatrixServer, file: OutFile, *, is_encrypted: bool) -> tuple[dict[str, Any], int]:
    """Upload a file, and return the fields that describe it in a message, and its size. Raises NotSent and the errors of
    MatrixServer.taken.
    """
    if not file.path.is_file():
        raise NotSent(f"{file.name} no longer exists", for_good=True)
    size = file.path.stat().st_size
    with file.path.open("rb") as content:  # a file that the client opens stays open if the server stops early

        def begun(*_: int) -> BinaryIO:
            content.seek(0)
            return content

        media_type, name = (_NOISE, None) if is_encrypted else (file.media_type, file.name)
        asked = server.client.upload(begun, media_type, name, encrypt=is_encrypted, filesize=size)
        answer, lock = await _both(server, asked)
    url = str(answer.content_uri)
    return {"file": {"url": url, **lock}} if is_encrypted else {"url": url}, size


async def _both(server: MatrixServer, asked: Awaitable[tuple[Any, Any]]) -> tuple[Any, dict[str, Any]]:
    lock: dict[str, Any] = {}

    async def first() -> Any:
        answer, found = await asked
        lock.update(found or {})
        return answer

    return await server.taken(first()), lock
