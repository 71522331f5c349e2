"""A platform's host: admits or refuses everything that arrives, and passes on only messages of admitted users."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agent.config import Config, PlatformConfig, secret, secrets_path, state_dir
from agent.gateway.admission import Admission, Admitted, is_nobodys
from agent.gateway.commands import takes_back
from agent.gateway.failures import retried_if_passing
from agent.gateway.forms import body_of, inbound_json
from agent.gateway.pairing import Pairings
from toolcrib.contract.chat import Chat, Inbound, Press
from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import ConfigError, StoreFailed
from toolcrib.contract.mail import Mail
from toolcrib.contract.regex import Regex
from toolcrib.contract.state import StateWrite
from toolcrib.contract.store import Store
from toolcrib.contract.types import Json

if TYPE_CHECKING:
    from agent.gateway.assembly import LineParts

_STRANGER = "This bot is private. If it is yours, run `toolcrib gateway pair` and send the code here."
_PAIRED = "You are paired. Write what you want done; /help lists commands."
_TEXT = 100_000
"""Maximum number of characters of a message that are kept."""
_NO_TEXT = Regex("[\0\ud800-\udfff]")
"""Characters that are not valid in text and that model servers reject."""
_REPEATS, _MOST = 3_600.0, 10_000
"""Limits, in seconds and in messages, within which a duplicate is recognised without asking the store."""
Taken = Literal["kept", "known", "refused", "limited"]


class GatewayHost:
    """Implements toolcrib.chat.Host for one platform."""

    def __init__(self, platform: str, config: Config, store: Store, admission: Admission, pairings: Pairings) -> None:
        self._platform = platform
        self._config = config.platforms.get(platform, PlatformConfig())
        self._folder = config.folder
        self._origins = config.origins
        self._store = store
        self._admission = admission
        self._pairings = pairings
        self._parts: LineParts
        self.counts: dict[str, int] = {"kept": 0, "known": 0, "refused": 0}
        self._given: dict[str, str] = {}
        self._lately: dict[tuple[str, str], float] = {}
        """Time when each message was last kept or recognised as a duplicate, the oldest first."""

    def serve(self, parts: LineParts) -> None:
        """Pass incoming messages to these parts from now on. The parts come later: they need a platform, which needs the host."""
        self._parts = parts

    def use(self, config: PlatformConfig) -> None:
        """Use another configuration from now on."""
        self._config = config

    def is_outdated(self, config: PlatformConfig) -> bool:
        """Return whether settings or secrets that the platform received have changed since. Raises ConfigError."""
        given = any(secret(name, folder=self._folder) != value for name, value in self._given.items())
        return given or config.settings != self._config.settings

    async def receive(self, message: Inbound) -> Taken:
        """See toolcrib.chat.Host."""
        with retried_if_passing():
            taken = await self._received(message)
        self.counts["refused" if taken == "limited" else taken] += 1
        return taken

    async def _received(self, message: Inbound) -> Taken:
        if message.is_bot or message.edits or not message.message_id or _is_forged(message.chat, message.user):
            return "refused"
        if message.locked and not message.chat.is_group and await self._pairings.is_code(message.text):
            await self._say(message, "locked", message.locked)
            return "refused"
        if await self._has_code(message):
            return "kept"
        who = await self._admission.admit(message.chat, message.user, message.roles, message.locked)
        if not isinstance(who, Admitted):
            return await self._stranger(message, who)
        if message.chat.is_group and not self._is_for_us(message):
            return "refused"
        if not message.text.strip() and not message.attachments:
            return "refused"
        if self._is_repeated(message):
            return "known"
        quotas = self._parts.quotas
        if not who.is_owner and quotas.over(who.user) and not (await self._ends(message) and quotas.may_end(who.user)):
            if told := quotas.limit_notice(who.user):
                await self._say(message, "busy", told)
            return "limited"
        body = inbound_json(message) | {"text": _NO_TEXT.sub("\ufffd", message.text[:_TEXT])}
        kept = await self._store.mail.arrived(Mail(self._platform, message.chat.key, message.message_id, body))
        self._lately[message.chat.key, message.message_id] = time.monotonic()
        if kept is None:
            return "known"
        self._parts.mailbox.add(kept)
        return "kept"

    def _is_repeated(self, message: Inbound) -> bool:
        """Return whether the same message was kept, or recognised as a duplicate, within the last hour."""
        before = time.monotonic() - _REPEATS
        while self._lately and (next(iter(self._lately.values())) < before or len(self._lately) > _MOST):
            del self._lately[next(iter(self._lately))]
        return (message.chat.key, message.message_id) in self._lately

    async def _ends(self, message: Inbound) -> bool:
        """Return whether a message only stops a run or denies a request; these messages are counted against a separate limit."""
        return takes_back(message.text) or await self._parts.questions.denies(message)

    async def _has_code(self, message: Inbound) -> bool:
        """Return whether a message is a pairing code, and use the code or make it void.

        A code pairs any user who sends it in a direct chat. If it is posted in a group, it becomes void. The message is not kept.
        """
        if message.chat.is_group:
            return await self._pairings.void(message.text)
        if is_nobodys(message.user) or await self._pairings.take(message.text, message.user) is None:
            return False
        await self._say(message, "paired", _PAIRED)
        return True

    async def _stranger(self, message: Inbound, why: Literal["stranger", "group"]) -> Taken:
        """Refuse a message, and reply if its sender should learn about pairing. Nothing that a stranger writes is kept."""
        if await self._admission.refuse(message.chat, message.user, why):
            await self._put(message, f"stranger:{message.user}:{time.strftime('%F')}", _STRANGER)
        return "refused"

    def _is_for_us(self, message: Inbound) -> bool:
        return message.is_addressed or self._config.groups == "all" or message.text.startswith("/")

    async def _say(self, message: Inbound, kind: str, text: str) -> None:
        """Reply to a message. The chat is part of the key, as platforms may number the messages of each chat separately."""
        await self._put(message, f"{kind}:{message.chat.key}:{message.message_id}", text)

    async def _put(self, message: Inbound, key: str, text: str) -> None:
        with contextlib.suppress(StoreFailed):
            await self._parts.outbox.put(message.chat.key, key, body_of(message.chat, text))

    async def press(self, press: Press) -> str:
        """See toolcrib.chat.Host."""
        if _is_forged(press.chat, press.user):
            return ""
        with retried_if_passing():
            who = await self._admission.admit(press.chat, press.user, press.roles, press.locked)
            if not isinstance(who, Admitted):
                await self._admission.refuse(press.chat, press.user, who)
                return ""
            return await self._parts.questions.pressed(press, who)

    async def listens(self, chat: Chat, user: str, roles: Sequence[str] = ()) -> bool:
        """See toolcrib.chat.Host."""
        if _is_forged(chat, user):
            return False
        who = await self._admission.admit(chat, user, roles)
        if not isinstance(who, Admitted):
            await self._admission.refuse(chat, user, who)
            return False
        return True

    async def follows(self, chat: Chat, user: str, roles: Sequence[str] = ()) -> bool:
        """See toolcrib.chat.Host."""
        if _is_forged(chat, user):
            return False
        who = await self._admission.admit(replace(chat, is_group=False), user, roles)
        if isinstance(who, Admitted) or chat.id in self._config.allowed_chats:
            return True
        if not chat.is_group and await self._pairings.is_open():  # the user may be about to send the code
            return True
        await self._admission.refuse(chat, user, who)
        return False

    @property
    def settings(self) -> Mapping[str, Json]:
        """See toolcrib.chat.Host."""
        return dict(self._config.settings)

    def names_setting(self, key: str) -> str:
        """See toolcrib.chat.Host."""
        name = f"platforms.{self._platform}.settings.{key}"
        return f"{origin}: {name}" if (origin := self._origins.get(name)) else name

    def secret(self, name: str) -> str:
        """See toolcrib.chat.Host."""
        found = secret(name, folder=self._folder)
        if not found:
            where = secrets_path(self._folder)
            raise ConfigError(f"{self._platform} needs {name}: put `{name}=...` into {where}, or set it in the environment")
        self._given[name] = found
        return found

    @property
    def folder(self) -> Path:
        """See toolcrib.chat.Host."""
        found = state_dir() / "platforms" / self._platform
        found.mkdir(parents=True, exist_ok=True)
        found.chmod(0o700)
        return found

    async def recall(self, name: str) -> Json:
        """See toolcrib.chat.Host."""
        found = (await self._store.state.of("profile", self._owner)).get(name)
        return None if found is None else found.value

    async def keep(self, name: str, value: Json) -> None:
        """See toolcrib.chat.Host."""
        await self._store.state.write([StateWrite("profile", self._owner, name, value)])

    @property
    def _owner(self) -> str:
        return f"platform:{self._platform}"


def _is_forged(chat: Chat, user: str) -> bool:
    """Return whether an id is missing or contains a NUL, which separates chat and thread in a key.

    With a NUL, a chat's key could equal the key of another chat.
    """
    return not user or not chat.id or "\0" in f"{user}{chat.id}{chat.thread}"
