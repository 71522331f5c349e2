"""A platform whose server is a folder: people append lines of JSON to ``in.jsonl``, the bot appends to ``CHAT.jsonl``.

The folder's permissions decide who can write. Each of these users can write messages in any author's name.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from toolcrib import ConfigError, StoreFailed
from toolcrib.chat import Attachment, Chat, Host, Inbound, NotSent, Outbound, Press, Traits, settings_of, without_controls

_PAUSE = 0.1


class FolderPlatform:
    """``settings.folder`` is the folder. A chat exists if it has a file ``CHAT.jsonl``, which is empty at first."""

    def __init__(self, name: str, host: Host, **more: Any) -> None:
        self.name = name
        self.traits = Traits(max_chars=2_000, edit_seconds=0.5, buttons=True, idempotent=True, per_second=1_000)
        self._host = host
        self._folder = Path(settings_of(host, ("folder",)).get("folder", ""))
        self._task: asyncio.Task[None] | None = None

    async def connect(self) -> str:
        """Check that the folder exists. Raises ConfigError."""
        if not self._folder.name or not self._folder.is_dir():
            raise ConfigError(f"{self._host.names_setting('folder')}: expected a folder that exists")
        return str(self._folder.resolve())

    async def start(self) -> None:
        """Begin to read."""
        self._task = asyncio.create_task(self._read())

    async def stop(self) -> None:
        """Stop reading."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # -- receiving -----------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        while True:
            with contextlib.suppress(OSError, StoreFailed):  # folder missing, or disk full: read the same line again
                await self._read_on(int(await self._host.recall("at") or 0))
            await asyncio.sleep(_PAUSE)

    async def _read_on(self, at: int) -> None:
        with Path(self._folder, "in.jsonl").open("rb") as file:  # noqa: ASYNC230 - a small local file
            file.seek(at)
            for line in file:
                if not line.endswith(b"\n"):
                    return  # the line is incomplete
                with contextlib.suppress(ValueError, KeyError, TypeError):  # not a message
                    await self._take(json.loads(line))
                at += len(line)
                await self._host.keep("at", at)  # after the message was stored: a line that was not is read again

    async def _take(self, said: dict[str, Any]) -> None:
        chat = Chat(str(said["chat"]))
        if "press" in said:
            press = Press(chat, str(said["user"]), str(said["message"]), str(said["press"]), str(said["id"]))
            await self._host.press(press)
            return
        await self._host.receive(Inbound(chat, str(said["user"]), str(said["id"]), str(said["text"])))

    async def fetch(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """Raise NotImplementedError: no message here has files."""
        raise NotImplementedError
        yield b""

    # -- sending -------------------------------------------------------------------------------------------------

    async def send(self, out: Outbound) -> str:
        """Append a message. The newest line with an id is its present form. Raises NotSent."""
        if len(out.text) > self.traits.max_chars:
            raise NotSent(f"more than {self.traits.max_chars} characters", for_good=True)
        if not self._folder.is_dir():
            raise NotSent(f"{self._folder} does not exist")
        file = self._folder / f"{out.chat.id}.jsonl"
        if out.chat.id == "in" or "/" in out.chat.id or not file.is_file():
            raise NotSent(f"there is no chat {out.chat.id!r}", for_good=True)
        message = {
            "id": out.edits or out.key,  # the key is the id, so a message that is sent again has the same id
            "text": without_controls(out.text),
            "buttons": [one.choice for one in out.buttons],
        }
        try:
            with file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(message) + "\n")
        except OSError as error:
            raise NotSent(str(error)) from error
        return str(message["id"])
