"""The suite that every platform must pass, with a folder as the server: `pytest examples/hello-platform`."""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hello_platform.folder import FolderPlatform

from toolcrib.chat import Chat
from toolcrib.testing import PlatformDesk, PlatformSuite, SeenMessage


class FolderDesk(PlatformDesk):
    factory = FolderPlatform
    direct, gone = Chat("ann"), Chat("nobody")
    user, other = "ann", "bob"

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "chats"
        self.folder.mkdir()
        (self.folder / "ann.jsonl").touch()
        self.settings = {"folder": str(self.folder)}
        self._ids = itertools.count(1)

    async def write(self, chat: Chat, text: str, *, user: str, **more: Any) -> str:
        return (
            self._append(chat=chat.id, user=user, text=text) if not more else await super().write(chat, text, user=user, **more)
        )

    async def press(self, chat: Chat, message_id: str, choice: str, *, user: str) -> None:
        self._append(chat=chat.id, user=user, message=message_id, press=choice)

    def _append(self, **said: str) -> str:
        said["id"] = f"u{next(self._ids)}"
        with (self.folder / "in.jsonl").open("a") as file:
            file.write(json.dumps(said) + "\n")
        return said["id"]

    async def shown(self, chat: Chat) -> Sequence[SeenMessage]:
        lines = map(json.loads, (self.folder / f"{chat.id}.jsonl").read_text().splitlines())
        newest = {line["id"]: SeenMessage(line["id"], line["text"], line["buttons"]) for line in lines}
        return list(newest.values())

    async def kill(self) -> None:
        self.folder.rename(f"{self.folder}.away")

    async def revive(self) -> None:
        Path(f"{self.folder}.away").rename(self.folder)  # noqa: ASYNC240 - a test may wait


class TestFolder(PlatformSuite):
    @asynccontextmanager
    async def desk(self) -> AsyncIterator[FolderDesk]:
        with tempfile.TemporaryDirectory() as folder:
            yield FolderDesk(Path(folder))
