"""Sessions of chats: which one a chat has, whose it is, and how it is opened."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from agent.backends import BUBBLEWRAP, DOCKER, SSH
from agent.config import PlatformConfig, state_dir
from agent.conversation.limits import RunLimits
from agent.conversation.manager import session_id_of
from agent.gateway.admission import OWNER, ROOM, Admitted
from agent.gateway.forms import chat_json, chat_of
from agent.gateway.sending import TOOL
from toolcrib.contract.chat import Chat
from toolcrib.contract.context import Principal
from toolcrib.contract.dataclass import dataclass, replace
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.mail import ChatRecord
from toolcrib.contract.types import Handler, Json
from tools.approval.grants import end_session_grants

if TYPE_CHECKING:
    from agent.conversation.session import Session
    from agent.gateway.limits import Quotas
    from agent.gateway.sessions import ChatSessions
    from agent.model_choice.models import ModelChoice
    from agent.process import Crib
    from agent.workspace import Workspace

SAFE_BACKENDS = (BUBBLEWRAP, DOCKER, SSH)
"""Kinds of backends in which toolcrib's own files are out of reach."""
_MAX_TURNS = 50
_PLACE_TOOLSETS = frozenset({"file", "terminal", "chat"})
PROMPT = (
    "You answer in a chat on {platform}. People read it on phones: be brief, and use plain Markdown without wide tables. "
    "What needs somebody's approval is asked in the chat by itself."
)
PROMPT_OF_GROUPS = " Several people write here; each message begins with its writer's name, which is no proof of who it is."
PROMPT_WITHOUT_PLACE = (
    " No tool here reads, changes or runs something on a machine: whoever operates this has given the chat no place for that."
    " Where somebody wants it, say so, and that /tools tells the owner which setting it takes."
)


@dataclass(frozen=True, slots=True)
class ChatRoom:
    """A chat with the session that it has now."""

    chat: Chat
    session_id: str
    is_new: bool = False
    busy: str = ""
    """Setting of the chat for messages that come while a run is under way; "" for the platform's."""


class Rooms:
    """For one platform. ``choice`` is the model that new sessions ask."""

    def __init__(self, crib: Crib, platform: str, config: PlatformConfig, choice: ModelChoice | None) -> None:
        self._crib = crib
        self._platform = platform
        self._config = config
        self._choice = choice
        self._mail = crib.store.mail
        self._chats: dict[str, Chat] = {}
        """Chats by the sessions that were met here."""
        self.handlers: Mapping[str, Handler] = {}
        """Handlers of the tools that only chats have."""
        self.quotas: Quotas
        self.sessions: ChatSessions
        """Ends what is left in the sessions that chats leave."""

    def use(self, config: PlatformConfig) -> None:
        """Open sessions by another configuration from now on."""
        self._config = config

    async def enter(self, chat: Chat, who: Admitted) -> ChatRoom:
        """Return the chat's room for somebody who may speak; made where there is none, or where it rested too long: with nothing
        that runs, and nothing that waits for an answer.
        """
        record, now = await self._mail.chat(self._platform, chat.key), time.time()
        if record is None:
            return await self._begin(chat, who, 1)
        idle = self._config.renew_hours * 3600
        if self._is_anothers(record, chat, who):
            return await self._begin(chat, who, int(record.body["generation"]) + 1)
        rests = idle and now - record.used_at > idle and not await self.sessions.has_left(record.session_id)
        if rests or not record.session_id:  # it was deleted
            return await self.renew(chat, who)
        self._chats[record.session_id] = chat
        body = self._body(chat, who, int(record.body["generation"]), _busy_in(record))
        if body != record.body or now - record.used_at > 60:
            await self._mail.enter(replace(record, body=body, used_at=now))
        return ChatRoom(chat, record.session_id, busy=_busy_in(record))

    async def busy(self, chat: Chat, who: Admitted) -> str:
        """Return what a message in a chat does while a run is under way."""
        return (await self.enter(chat, who)).busy or self._config.busy

    async def set_busy(self, chat: Chat, who: Admitted, mode: str) -> None:
        """Set what a message in a chat does while a run is under way. A new session keeps it."""
        await self.enter(chat, who)
        record = await self._mail.chat(self._platform, chat.key)
        if record is not None:
            await self._mail.enter(replace(record, body={**record.body, "busy": mode}))

    def _is_anothers(self, record: ChatRecord, chat: Chat, who: Admitted) -> bool:
        """Return whether a chat's session is not for who speaks now: what somebody said alone is not for those who came later,
        nor a room's words for one of them; and its tools are those of its own person, who is the owner, or is not.
        """
        was_group = record.body["chat"]["is_group"]
        if was_group or chat.is_group:
            return bool(was_group != chat.is_group)
        return bool(record.body["user"] != who.user or (OWNER in record.body["roles"]) != who.is_owner)

    async def renew(self, chat: Chat, who: Admitted) -> ChatRoom:
        """Begin a new session in a chat. What is left of the one that it had is ended."""
        record = await self._mail.chat(self._platform, chat.key)
        generation = 1 if record is None else int(record.body["generation"]) + 1
        return await self._begin(chat, who, generation, "" if record is None else _busy_in(record))

    async def chat_of(self, session_id: str) -> Chat | None:
        """Return the chat that has a session, or had it."""
        if session_id not in self._chats:
            record = await self._mail.chat_of(session_id)
            if record is None or record.platform != self._platform:
                return None
            self._chats[session_id] = chat_of(record.body["chat"])
        return self._chats[session_id]

    async def is_left(self, session_id: str) -> bool:
        """Return whether the chat of a session has another one by now: nothing of it goes on, whichever process finds it. Raises
        StoreFailed.
        """
        chat = await self.chat_of(session_id)
        record = None if chat is None else await self._mail.chat(self._platform, chat.key)
        return record is not None and record.session_id != session_id

    def known(self, session_id: str) -> Chat | None:
        """Return the chat of a session that was met here, without a look into the store."""
        return self._chats.get(session_id)

    def principal(self, chat: Chat, who: Admitted) -> Principal:
        """Return whom a message is of. A group is a principal of its own, in which somebody speaks."""
        if chat.is_group:
            return Principal(self._platform, f"{ROOM}{chat.id}", who.roles, speaker=who.user)
        return Principal(self._platform, who.user, who.roles)

    async def open(self, session_id: str) -> Session:
        """Open a session for its chat, as the manager does. Raises as Crib.open, ToolcribError for a chat that is not known."""
        record = await self._mail.chat_of(session_id)
        if record is None:
            raise ToolcribError(f"no chat of {self._platform} has the session {session_id[:12]}")
        chat, user = chat_of(record.body["chat"]), str(record.body["user"])
        self._chats.setdefault(session_id, chat)
        here, never = self.place_of(chat, tuple(record.body["roles"]))
        session = await here.open(
            platform=self._platform,
            user=f"{ROOM}{chat.id}" if chat.is_group else user,
            roles=() if chat.is_group else tuple(record.body["roles"]),
            suspends=True,
            named=session_id,
            choice=self._choice,
            backend=self._config.backend,
            without=frozenset({TOOL} - set(self.handlers)) | never,
            handlers=self.handlers,
        )
        if here.config.origin("max_turns") == "default":
            session.limits = replace(RunLimits.of(here.config), max_turns=_MAX_TURNS)
        session.link.choice, session.link.admits = self._choice, self.quotas.admit
        no_place = PROMPT_WITHOUT_PLACE if never else ""
        session.link.instructions = PROMPT.format(platform=self._platform) + PROMPT_OF_GROUPS * chat.is_group + no_place
        return session

    def place_of(self, chat: Chat, roles: Collection[str]) -> tuple[Workspace, frozenset[str]]:
        """Return where a chat's sessions run, and the tools that they never have there, for somebody alone with these roles."""
        folder = self.folder(chat)
        here = self._crib.workspaces.find(folder) if folder != self._crib.project_dir else self._crib.default
        owners = not chat.is_group and OWNER in roles
        is_safe = here.backends.get(self._config.backend).kind in SAFE_BACKENDS
        return here, frozenset() if owners or is_safe or self._config.allow_local else self.needing_a_place()

    def folder(self, chat: Chat) -> Path:
        """Return the folder that a chat works in, made where it is the chat's own."""
        mapped = self._config.folders.get(chat.id)
        if mapped is not None:
            return Path(mapped).expanduser().resolve()
        name = hashlib.sha256(chat.key.encode("utf-8", "surrogatepass")).hexdigest()[:24]
        chats = state_dir().with_name(f"{state_dir().name}-chats")
        chats.parent.mkdir(parents=True, exist_ok=True)
        for one in (chats, chats / self._platform):
            one.mkdir(exist_ok=True, mode=0o700)
            if one.stat().st_mode & 0o077:  # of an earlier version; how many chats there are is nobody's business
                one.chmod(0o700)
        folder = chats / self._platform / name
        folder.mkdir(exist_ok=True, mode=0o700)
        return folder.resolve()

    def needing_a_place(self) -> frozenset[str]:
        """Return the tools that run, change or read something where the session runs."""
        entries = self._crib.registry.entries()
        return frozenset(one.name for one in entries if one.kind in ("edit", "execute") or one.toolset in _PLACE_TOOLSETS)

    async def why_without_place(self, session_id: str) -> str:
        """Return why a chat's session lacks the tools that need a place, and what gives it one; "" where it has them."""
        record, chat = await self._mail.chat_of(session_id), await self.chat_of(session_id)
        if record is None or chat is None:
            return ""
        if not self.place_of(chat, tuple(record.body["roles"]))[1]:
            return ""
        whose = "a group" if chat.is_group else "not the owner's chat"
        key = f"platforms.{self._platform}"
        return (
            f"Tools that read, change or run something are not granted, as this is {whose}: {key}.backend (docker, bubblewrap, or"
            f" a host by ssh) gives it a place for them, {key}.allow_local: true has them act on this machine."
        )

    async def _begin(self, chat: Chat, who: Admitted, generation: int, busy: str = "") -> ChatRoom:
        """From the moment that the new session is kept, nothing goes on in the one before: see ``is_left``."""
        session_id = session_id_of(self._platform, f"{chat.key}\0{generation}")
        before = await self._mail.chat(self._platform, chat.key)
        left = "" if before is None or before.session_id == session_id else before.session_id
        if left:
            await end_session_grants(self._crib.store.grants, left)
        body = self._body(chat, who, generation, busy)
        record = ChatRecord(self._platform, chat.key, session_id, body, used_at=time.time())
        await self._mail.enter(record)
        self._chats[session_id] = chat
        if left:
            await self.sessions.end(left)
        return ChatRoom(chat, session_id, is_new=True, busy=busy)

    def _body(self, chat: Chat, who: Admitted, generation: int, busy: str) -> dict[str, Json]:
        theirs = {"user": "", "roles": []} if chat.is_group else {"user": who.user, "roles": list(who.roles)}
        return {"chat": chat_json(chat), "generation": generation, **theirs, **({"busy": busy} if busy else {})}


def _busy_in(record: ChatRecord) -> str:
    return str(record.body.get("busy", ""))
