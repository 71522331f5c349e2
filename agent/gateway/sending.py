"""Files for chats: files that a model sends with ``send_file``, and pictures that it makes. Copies are kept for two days."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.config import state_dir
from agent.gateway.forms import body_of, one_line
from toolcrib.contract.chat import Chat, OutFile, Platform
from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.effects import ReadsFile
from toolcrib.contract.errors import Denied, ExecutionFailed, InvalidArguments, StoreFailed
from toolcrib.contract.image import Image
from toolcrib.contract.registry import ToolRegistry
from toolcrib.contract.types import ToolResult
from tools.files import late

if TYPE_CHECKING:
    from agent.gateway.outbox import Outbox

TOOL = "send_file"
_KEPT_SECONDS = 2 * 86_400.0
"""Seconds that a copy is kept; a post that can't be shown within one day fails."""
_MEDIA_TYPES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp"}


def offer(tools: ToolRegistry) -> None:
    """Register the tool, once."""
    if tools.get(TOOL) is None:
        tools.register(
            name=TOOL,
            toolset="chat",
            schema={
                "description": "Send a file to the chat, for people to look at: a path alone is of no use to them.",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "path": {"type": "string"},
                        "text": {"type": "string", "default": "", "description": "A line above it."},
                    },
                    "required": ["path"],
                    "additionalProperties": False,
                },
            },
            handler=None,
            kind="read",
            effects=late("read", "effects"),
            emoji="📎",
        )


class ChatFiles:
    """Sends files on one platform. ``chat_of`` returns the chat of a session."""

    def __init__(self, platform: Platform, outbox: Outbox, chat_of: Callable[[str], Awaitable[Chat | None]]) -> None:
        self._most = platform.traits.max_file_bytes
        self._outbox = outbox
        self._chat_of = chat_of
        self._folder = state_dir() / "outgoing" / platform.name

    async def handle(self, args: dict[str, Any], ctx: ToolCallContext) -> ToolResult:
        """Send a file to the session's chat. ``data``: {sent, bytes}.

        Raises NotFound; InvalidArguments if the path is not a file or the file is too large; Denied if the session has no chat
        (a delegate's has none) or its chat accepts no files; and ExecutionFailed if no copy can be kept.
        """
        from tools.files.places import files_of, judged, missing, translate_file_errors, unmoved

        session_id = ctx.run_identity.session_id
        chat = await self._chat_of(session_id)
        if chat is None or not self._most:
            raise Denied("this session has no chat that accepts files; quote the important parts in the answer")
        path = judged(ctx, ReadsFile).path
        files = files_of(ctx, path)
        with translate_file_errors(path):
            info = await files.stat(path)
            if info is None:
                raise await missing(files, path)
            await unmoved(files, path)
            if info.kind != "file":
                raise InvalidArguments(f"{path} is not a regular file; pack a folder into an archive first")
            data = await files.read_file(path, limit=self._most + 1)
        if len(data) > self._most:
            raise InvalidArguments(
                f"{path} is larger than the {self._most:,} bytes that this chat accepts; compress or split it first"
            )
        name = one_line(path.rpartition("/")[2]) or "file"
        kind = _MEDIA_TYPES.get(Path(name).suffix.lower(), "application/octet-stream")
        text = str(args.get("text", ""))
        # A provider may reuse a call id within a run or in the next one, for another file.
        what = hashlib.sha256(b"%b\0%b\0%b" % (*(one.encode("utf-8", "surrogatepass") for one in (path, text)), data)).hexdigest()
        key = f"file:{session_id}:{ctx.run_identity.run_id}:{ctx.call_id}:{what[:16]}"
        await self._post(chat, session_id, key, text, OutFile(Path(), name, kind), data)
        return ToolResult.success(ctx.tool_name, {"sent": name, "bytes": len(data)})

    @property
    def takes_files(self) -> bool:
        """True if the platform accepts files."""
        return self._most > 0

    async def show_text(self, chat: Chat, session_id: str, key: str, text: str) -> bool:
        """Show a text as a file, cut to the platform's limit, and return whether it is complete.

        Raises StoreFailed, and ExecutionFailed if no copy can be kept.
        """
        data = text.encode("utf-8", "replace")
        cut = data[: self._most].decode("utf-8", "ignore").encode() if len(data) > self._most else data
        await self._post(chat, session_id, key, "", OutFile(Path(), "answer.md", "text/markdown"), cut)
        return cut == data

    async def show(self, session_id: str, run_id: str, image: Image) -> None:
        """Show a picture that the model made in a run, or a line if it is too large for the platform.

        Raises StoreFailed, and ExecutionFailed if no copy can be kept.
        """
        chat = await self._chat_of(session_id)
        if chat is None:
            return
        key = f"image:{run_id}:{hashlib.sha256(image.data).hexdigest()[:16]}"
        if len(image.data) > self._most:
            text = f"⚠ a picture is too large for this chat: {image}"
            await self._outbox.put(chat.key, key, body_of(chat, text), session_id=session_id)
            return
        name = f"picture.{image.media_type.rpartition('/')[2]}"
        await self._post(chat, session_id, key, "", OutFile(Path(), name, image.media_type), image.data)

    async def _post(self, chat: Chat, session_id: str, key: str, text: str, file: OutFile, data: bytes) -> None:
        """Keep a copy of the file, then queue the post. Idempotent by ``key``."""
        path = self._folder / hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        try:
            await asyncio.to_thread(write_copy, path, data)
        except OSError as error:
            raise ExecutionFailed(f"a copy for the chat can't be written: {error.strerror or error}") from error
        body = body_of(chat, text, files=(OutFile(path, file.name, file.media_type),))
        try:
            await self._outbox.put(chat.key, key, body, session_id=session_id)
        except StoreFailed:
            path.unlink(missing_ok=True)
            raise

    def sweep(self) -> None:
        """Delete copies older than two days: their posts were shown or have failed."""
        before = time.time() - _KEPT_SECONDS
        for file in self._folder.glob("*"):
            if file.stat().st_mtime < before:
                file.unlink(missing_ok=True)


def write_copy(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(data)
