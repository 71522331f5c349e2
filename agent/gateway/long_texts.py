"""Texts of any length in chats: in several messages, and beyond a limit in a file."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.gateway.forms import body_of
from agent.gateway.outbox import Outbox
from agent.gateway.splitting import split
from toolcrib.contract.chat import Chat
from toolcrib.contract.errors import ToolError

if TYPE_CHECKING:
    from agent.gateway.sending import ChatFiles

_log = logging.getLogger(__name__)
MESSAGES = 10
"""Maximum messages of one turn or job; a longer text continues in a file, or is cut."""
_TAKEN_BACK = "_(withdrawn: the answer was restarted)_"


class LongTexts:
    """Shows long texts on one platform. ``most``: the maximum characters of a message."""

    def __init__(self, outbox: Outbox, files: ChatFiles, most: int) -> None:
        self._outbox = outbox
        self._files = files
        self._most = most

    async def put(self, chat: Chat, session_id: str, key: str, text: str, *, is_jobs: bool = False) -> None:
        """Queue the messages of a text, and withdraw surplus messages of an earlier try.

        A text that needs too many messages continues in a file if the platform accepts files, else it is cut. ``is_jobs``: the
        session belongs to a job, not to the chat, and the posts are deleted with the session.
        """
        text = self._outbox.redact(text)  # the whole text, as a cut may split a secret
        parts: Sequence[str] = split(text, self._most)
        whose = session_id if is_jobs else ""
        if len(parts) > MESSAGES:
            parts = [*parts[: MESSAGES - 1], await self._rest(chat, session_id, key, text, len(parts))]
        for number, part in enumerate(parts):
            await self._outbox.put(chat.key, f"{key}:{number}", body_of(chat, part), session_id=whose)
        number = len(parts)
        while await self._outbox.is_known(f"{key}:{number}"):
            if await self._outbox.is_begun(f"{key}:{number}"):
                await self._outbox.put(chat.key, f"{key}:{number}", body_of(chat, _TAKEN_BACK), session_id=whose)
            else:
                await self._outbox.withdraw(chat.key, f"{key}:{number}")
            number += 1

    async def _rest(self, chat: Chat, session_id: str, key: str, text: str, many: int) -> str:
        """Put a long text into a file, if possible, and return the note that is shown at the cut."""
        told = f"_(cut here; all of it would take {many:,} messages"
        if not self._files.takes_files:
            return f"{told})_"
        try:
            is_whole = await self._files.show_text(chat, session_id, f"{key}:whole", text)
        except ToolError as error:  # no copy could be kept
            _log.warning("a long answer was cut: %s", error)
            return f"{told})_"
        return f"{told}; the file has {'all of it' if is_whole else 'its beginning'})_"
