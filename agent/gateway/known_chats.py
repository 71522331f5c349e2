"""Chats of a platform, by the sessions that they have or had."""

from __future__ import annotations

from agent.gateway.forms import chat_of
from toolcrib.contract.chat import Chat
from toolcrib.contract.store import Store


class KnownChats:
    """The chats of one platform. Once a session's chat was found in the store, it is not looked up again."""

    def __init__(self, platform: str, store: Store) -> None:
        self._platform = platform
        self._mail = store.mail
        self._chats: dict[str, Chat] = {}

    def add(self, session_id: str, chat: Chat) -> None:
        """Record the chat of a session."""
        self._chats[session_id] = chat

    async def chat_of(self, session_id: str) -> Chat | None:
        """Return the chat that has or had a session, None if no chat of this platform did. Raises StoreFailed."""
        if session_id not in self._chats:
            record = await self._mail.chat_of(session_id)
            if record is None or record.platform != self._platform:
                return None
            self._chats[session_id] = chat_of(record.body["chat"])
        return self._chats[session_id]

    async def is_left(self, session_id: str) -> bool:
        """Return whether a session's chat has another session now, so that the old one must not continue. Raises StoreFailed."""
        chat = await self.chat_of(session_id)
        record = None if chat is None else await self._mail.chat(self._platform, chat.key)
        return record is not None and record.session_id != session_id

    def known(self, session_id: str) -> Chat | None:
        """Return the chat of a session without asking the store, None if it is not in memory."""
        return self._chats.get(session_id)
