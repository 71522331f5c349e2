"""Sessions of chats: which session a chat has, and when it gets a new one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from agent.config import PlatformConfig
from agent.conversation.manager import session_id_of
from agent.desk.approvals import OWNER
from agent.gateway.admission import Admitted
from agent.gateway.forms import chat_json
from toolcrib.contract.chat import Chat
from toolcrib.contract.dataclass import dataclass, replace
from toolcrib.contract.mail import ChatRecord
from toolcrib.contract.types import Json
from tools.approval.grants import end_session_grants

if TYPE_CHECKING:
    from agent.desk.hosted_sessions import HostedSessions
    from agent.gateway.chat_requests import ChatRequests
    from toolcrib.contract.store import Store


@dataclass(frozen=True, slots=True)
class ChatRoom:
    """A chat with its current session."""

    chat: Chat
    session_id: str
    is_new: bool = False
    busy: str = ""
    """Setting of the chat for messages that arrive during a run; "" for the platform's."""


class Rooms:
    """The rooms of one platform. ``sessions`` ends the remaining work in sessions that chats leave."""

    def __init__(
        self, platform: str, store: Store, config: PlatformConfig, requests: ChatRequests, sessions: HostedSessions
    ) -> None:
        self._platform = platform
        self._store = store
        self._mail = store.mail
        self._config = config
        self._sessions = sessions
        self.requests = requests
        self.chats = requests.chats

    def use(self, config: PlatformConfig) -> None:
        """Use another configuration from the next message on."""
        self._config = config
        self.requests.use(config)

    async def enter(self, chat: Chat, who: Admitted) -> ChatRoom:
        """Return the chat's room for an admitted user.

        Begins a new session if there is none, if it was idle for too long, or if this user must not continue it. A session with
        a current run or a waiting message is not idle.
        """
        record, now = await self._mail.chat(self._platform, chat.key), time.time()
        if record is None:
            return await self._begin(chat, who, 1)
        idle = self._config.renew_hours * 3600
        if self._is_anothers(record, chat, who):
            return await self._begin(chat, who, int(record.body["generation"]) + 1)
        rests = idle and now - record.used_at > idle and not await self._sessions.has_left(record.session_id)
        if rests or not record.session_id:  # an empty id: the session was deleted
            return await self.renew(chat, who)
        self.chats.add(record.session_id, chat)
        body = self._body(chat, who, int(record.body["generation"]), _busy_in(record))
        if body != record.body or now - record.used_at > 60:
            await self._mail.enter(replace(record, body=body, used_at=now))
        return ChatRoom(chat, record.session_id, busy=_busy_in(record))

    async def busy(self, chat: Chat, who: Admitted) -> str:
        """Return the chat's mode for messages that arrive during a run."""
        return (await self.enter(chat, who)).busy or self._config.busy

    async def set_busy(self, chat: Chat, who: Admitted, mode: str) -> None:
        """Set the chat's mode for messages that arrive during a run. New sessions of the chat keep it."""
        await self.enter(chat, who)
        record = await self._mail.chat(self._platform, chat.key)
        if record is not None:
            await self._mail.enter(replace(record, body={**record.body, "busy": mode}))

    def _is_anothers(self, record: ChatRecord, chat: Chat, who: Admitted) -> bool:
        """Return whether a chat's session must not continue for the user who speaks now.

        Users who join later must not see a conversation with one user, and one member alone must not continue a group's
        session. Nor may a user continue another user's session, or a session from before the user gained or lost the owner's
        rights: the session's tools depend on these rights.
        """
        was_group = record.body["chat"]["is_group"]
        if was_group or chat.is_group:
            return bool(was_group != chat.is_group)
        return bool(record.body["user"] != who.user or (OWNER in record.body["roles"]) != who.is_owner)

    async def renew(self, chat: Chat, who: Admitted) -> ChatRoom:
        """Begin a new session in a chat, and end the remaining work of the previous one."""
        record = await self._mail.chat(self._platform, chat.key)
        generation = 1 if record is None else int(record.body["generation"]) + 1
        return await self._begin(chat, who, generation, "" if record is None else _busy_in(record))

    async def _begin(self, chat: Chat, who: Admitted, generation: int, busy: str = "") -> ChatRoom:
        """Begin a session in a chat. Once it is stored, no work continues in the previous one: see ``KnownChats.is_left``."""
        session_id = session_id_of(self._platform, f"{chat.key}\0{generation}")
        before = await self._mail.chat(self._platform, chat.key)
        left = "" if before is None or before.session_id == session_id else before.session_id
        if left:
            await end_session_grants(self._store.grants, left)
        body = self._body(chat, who, generation, busy)
        record = ChatRecord(self._platform, chat.key, session_id, body, used_at=time.time())
        await self._mail.enter(record)
        self.chats.add(session_id, chat)
        if left:
            await self._sessions.end(left)
        return ChatRoom(chat, session_id, is_new=True, busy=busy)

    def _body(self, chat: Chat, who: Admitted, generation: int, busy: str) -> dict[str, Json]:
        known = {"user": who.user, "roles": list(who.roles), "reported": list(who.reported)}
        theirs = {"user": "", "roles": []} if chat.is_group else known
        return {"chat": chat_json(chat), "generation": generation, **theirs, **({"busy": busy} if busy else {})}


def _busy_in(record: ChatRecord) -> str:
    return str(record.body.get("busy", ""))
