"""Requests that open the sessions of chats: their principal, their environment, and their tools."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from agent.config import PlatformConfig, state_dir
from agent.desk.approvals import OWNER
from agent.desk.request import SessionRequest
from agent.gateway.admission import ROOM, Admission, Admitted
from agent.gateway.forms import chat_of
from agent.gateway.known_chats import KnownChats
from agent.gateway.sending import TOOL
from agent.policy.host_rights import WithheldTools, withheld_from_chat
from toolcrib.contract.chat import Chat
from toolcrib.contract.context import Principal
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.paths import real_path, with_home
from toolcrib.contract.types import Handler

if TYPE_CHECKING:
    from agent.model_choice.models import ModelChoice
    from agent.process import Crib
    from agent.workspace import Workspace
    from toolcrib.contract.mail import ChatRecord
    from toolcrib.contract.store import SessionInfo

_MAX_TURNS = 50
PROMPT = (
    "You answer in a chat on {platform}. People read it on phones: be brief, and use plain Markdown without wide tables. "
    "If a call needs approval, the gateway asks for it in the chat."
)
PROMPT_OF_GROUPS = " Several people write here; each message begins with its writer's name, which is no proof of who it is."
PROMPT_WITHOUT_PLACE = (
    " No tool here reads, changes or runs anything on a machine: the operator has given this chat no environment for that."
    " If a user asks for that, answer that it is off here, and that /tools shows the owner which setting allows it."
)


class ChatRequests:
    """The session requests of one platform.

    ``choice`` is the model of new sessions. ``handlers`` run the tools that only chats have. ``admits``: see
    SessionRequest.admits. ``admission``: a session continues only while its user is admitted; None skips that check.
    """

    def __init__(
        self,
        crib: Crib,
        platform: str,
        config: PlatformConfig,
        *,
        choice: ModelChoice | None = None,
        chats: KnownChats | None = None,
        handlers: Mapping[str, Handler] | None = None,
        admits: Callable[[Principal], Awaitable[None]] | None = None,
        admission: Admission | None = None,
    ) -> None:
        self._crib = crib
        self._platform = platform
        self._config = config
        self._choice = choice
        self._mail = crib.store.mail
        self._handlers = handlers or {}
        self._admits = admits
        self._admission = admission
        self.chats = chats or KnownChats(platform, crib.store)

    def use(self, config: PlatformConfig) -> None:
        """Use another configuration for sessions that are opened from now on."""
        self._config = config

    def principal(self, chat: Chat, who: Admitted) -> Principal:
        """Return the principal of a message. A group is a principal of its own, with the user as its speaker."""
        if chat.is_group:
            return Principal(self._platform, f"{ROOM}{chat.id}", who.roles, speaker=who.user)
        return Principal(self._platform, who.user, who.roles)

    async def request(self, session_id: str) -> SessionRequest:
        """Return the request that opens the session of a chat. Raises ToolcribError for an unknown chat, and StoreFailed."""
        record = await self._mail.chat_of(session_id)
        if record is None:
            raise ToolcribError(f"no chat of {self._platform} has the session {session_id[:12]}")
        chat, user = chat_of(record.body["chat"]), str(record.body["user"])
        if self.chats.known(session_id) is None:
            self.chats.add(session_id, chat)
        info = await self._crib.store.sessions.get(session_id)
        roles = await self._roles_in(record) or ()  # a session whose user lost access is opened only to end it
        here, never = self.place_of(chat, roles, info)
        no_place = PROMPT_WITHOUT_PLACE if never.names else ""
        return SessionRequest(
            platform=self._platform,
            user=f"{ROOM}{chat.id}" if chat.is_group else user,
            roles=() if chat.is_group else roles,
            suspends=True,
            named=session_id,
            choice=self._choice,
            instructions=PROMPT.format(platform=self._platform) + PROMPT_OF_GROUPS * chat.is_group + no_place,
            folder=here.project_dir,
            backend=self._config.backend,
            without=frozenset({TOOL} - set(self._handlers)) | never.names,
            handlers=self._handlers,
            max_turns=_MAX_TURNS,
            admits=self._admits,
        )

    async def is_left(self, session_id: str) -> bool:
        """Return True if a session must not continue: its chat has another session, or its user may no longer write there.

        Raises StoreFailed.
        """
        if await self.chats.is_left(session_id):
            return True
        record = await self._mail.chat_of(session_id)
        return record is not None and await self._roles_in(record) is None

    async def _roles_in(self, record: ChatRecord) -> tuple[str, ...] | None:
        """Return the current roles of a chat's user, or None if the user may no longer write there. Raises StoreFailed."""
        chat, stored = chat_of(record.body["chat"]), tuple(record.body["roles"])
        if self._admission is None:
            return stored
        if chat.is_group:
            return () if self._admission.admits_chat(chat) else None
        reported = record.body.get("reported")
        if reported is None:  # stored by an earlier version; the user's next message adds ``reported``
            return stored
        found = await self._admission.admit(chat, str(record.body["user"]), reported)
        return found.roles if isinstance(found, Admitted) else None

    def place_of(self, chat: Chat, roles: Collection[str], info: SessionInfo | None = None) -> tuple[Workspace, WithheldTools]:
        """Return the workspace of a chat's sessions, and the tools that they never have there, for a user with these roles.

        A stored session, ``info``, may run in a different backend than a new one. Raises ConfigError, and ToolcribError if that
        backend is unavailable.
        """
        folder = self.folder(chat)
        here = self._crib.workspaces.find(folder) if folder != self._crib.project_dir else self._crib.default
        rights = {"is_owner": OWNER in roles, "is_group": chat.is_group}
        is_contained = here.is_contained(self._config.backend, info)
        return here, withheld_from_chat(here.registry, self._platform, self._config, is_contained=is_contained, **rights)

    def folder(self, chat: Chat) -> Path:
        """Return the folder that a chat works in; the chat's own folder is created if needed."""
        mapped = self._config.folders.get(chat.id)
        if mapped is not None:
            return real_path(with_home(mapped))
        name = hashlib.sha256(chat.key.encode("utf-8", "surrogatepass")).hexdigest()[:24]
        chats = state_dir().with_name(f"{state_dir().name}-chats")
        chats.parent.mkdir(parents=True, exist_ok=True)
        for one in (chats, chats / self._platform):
            one.mkdir(exist_ok=True, mode=0o700)
            if one.stat().st_mode & 0o077:  # created by an earlier version; other users must not see how many chats there are
                one.chmod(0o700)
        folder = chats / self._platform / name
        folder.mkdir(exist_ok=True, mode=0o700)
        return real_path(folder)

    async def why_without_place(self, session_id: str) -> str:
        """Return why a chat's session lacks the tools that need an environment, and which setting helps; "" if it has them."""
        record, chat = await self._mail.chat_of(session_id), await self.chats.chat_of(session_id)
        if record is None or chat is None:
            return ""
        info = await self._crib.store.sessions.get(session_id)
        withheld = self.place_of(chat, tuple(record.body["roles"]), info)[1]
        if not withheld.names:
            return ""
        return f"Tools that read, change or run something are off: they are {withheld.reason}. To enable them: {withheld.fix}."
