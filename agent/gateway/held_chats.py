"""Chats whose runs must wait until older messages, such as a /stop that an ended process left, are handled."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from agent.gateway.known_chats import KnownChats


class HeldChats:
    """The held chats of one platform, in one event loop; chats are named by Chat.key."""

    def __init__(self, chats: KnownChats) -> None:
        self._chats = chats
        self._held: dict[str, asyncio.Event] = {}

    def hold(self, chats: Iterable[str]) -> None:
        """Hold exactly these chats: the runs of each chat wait until the chat is released."""
        self._held = {chat: asyncio.Event() for chat in chats}

    def __contains__(self, chat: str) -> bool:
        """Return whether a chat is held."""
        return chat in self._held

    def release(self, chat: str) -> None:
        """Release a held chat, so that its runs resume."""
        self._held.pop(chat).set()

    async def wait(self, session_id: str) -> None:
        """Return once the chat of a session is not held. Raises StoreFailed."""
        chat = await self._chats.chat_of(session_id) if self._held else None
        if chat is not None and (held := self._held.get(chat.key)) is not None:
            await held.wait()
