"""Files that come with messages: pictures go to the model, other files to the environment, renamed and marked as downloaded."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

from agent.gateway.forms import one_line
from toolcrib.contract.chat import Attachment, Inbound, Platform
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.image import IMAGE_BYTES, MEDIA_TYPES, Image
from toolcrib.contract.passing import raise_passing
from toolcrib.contract.regex import Regex

if TYPE_CHECKING:
    from agent.conversation.session import Session

_log = logging.getLogger(__name__)
FILE_BYTES = 20 * 1024 * 1024
_MOST = 10
"""Maximum number of files of one message that are accepted."""
_FOLDER = "received"
_BAD = Regex(r"[^A-Za-z0-9._-]+")


class Media:
    """The attachments of one platform. ``opened`` opens a session by its id."""

    def __init__(self, platform: Platform, opened: Callable[[str], Awaitable[Session]]) -> None:
        self._platform = platform
        self._opened = opened

    async def taken(self, message: Inbound, session_id: str) -> tuple[str, list[Image], str]:
        """Return (text for the model, pictures, note for the sender about refused files).

        A file that can't be downloaded or stored is refused. Temporary faults of this machine are raised instead.
        """
        images: list[Image] = []
        notes: list[str] = []
        refused: list[str] = []
        for number, one in enumerate(message.attachments[:_MOST]):
            name, said = _name(one, number, message.message_id), one_line(one.name)
            try:
                data = await self._fetched(one)
                if one.media_type in MEDIA_TYPES:
                    images.append(Image.of(data))
                else:
                    notes.append(await self._stored(session_id, name, data))
            except ToolcribError as error:
                raise_passing(error)
                refused.append(f"{said}: {error}")
            except Exception as error:  # noqa: BLE001 - foreign code: the text is answered anyway
                raise_passing(error)  # the whole message is retried
                _log.warning("a file from %s was not accepted: %s", self._platform.name, error)
                refused.append(f"{said}: it could not be downloaded")
        if (more := len(message.attachments) - _MOST) > 0:
            refused.append(f"{more} more: the limit is {_MOST} files in a message")
        text = "\n".join([message.text, *(f"[the file {note} came with this message]" for note in notes)]).strip()
        told = "\n".join(f"⚠ not accepted: {line}" for line in refused)
        return text, images, told

    async def _fetched(self, one: Attachment) -> bytes:
        most = IMAGE_BYTES if one.media_type in MEDIA_TYPES else FILE_BYTES
        if one.size is not None and one.size > most:
            raise ToolcribError(f"it is larger than {most // 2**20} MiB")
        found = bytearray()
        pieces: AsyncIterator[bytes] = self._platform.fetch(one)
        async for piece in pieces:  # the size that the platform states is not trusted
            found += piece
            if len(found) > most:
                raise ToolcribError(f"it is larger than {most // 2**20} MiB")
        return bytes(found)

    async def _stored(self, session_id: str, name: str, data: bytes) -> str:
        session = await self._opened(session_id)
        if not any(one.changes == "command" or (one.kind == "read" and one.file) for one in session.entries):
            raise ToolcribError("this chat has no tool that could read it")
        environment = session.scope.environment
        path = await environment.resolve(f"{_FOLDER}/{name}")
        await _downloaded(session, path)  # first: every file in the folder must be marked as downloaded
        await environment.write_file(path, data, mode=0o600)
        return path


async def _downloaded(session: Session, path: str) -> None:
    """Record that others made this file, so that running it needs approval. Raises StoreFailed."""
    from tools.approval.policy import Policy
    from tools.judge.meaning.value import Taint

    policy = session.scope.policy
    if isinstance(policy, Policy):
        await policy.files.remember(session.id, {path: Taint.REMOTE})


def _name(one: Attachment, number: int, message_id: str) -> str:
    """Return a safe name for a file, which can't leave the folder, be hidden, or replace another file."""
    stem = _BAD.sub("_", one.name.replace("\\", "/").rpartition("/")[2]).strip("._") or "file"
    mark = _BAD.sub("_", message_id)[-12:] or "0"
    return f"{mark}-{number}-{stem[-80:]}"
