"""The door of a platform: everything that arrives passes here, and nothing of a stranger's goes further."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agent.config import PlatformConfig, secret, secrets_path
from agent.gateway.admission import Admission, Admitted
from agent.gateway.forms import body_of, inbound_json
from agent.gateway.outbox import Outbox
from agent.gateway.pairing import Pairings
from toolcrib import ConfigError, StoreFailed
from toolcrib._mail import Mail
from toolcrib._regex import Regex
from toolcrib._state import StateWrite
from toolcrib._store import Store
from toolcrib._types import Json
from toolcrib.chat import Chat, Inbound, Press

if TYPE_CHECKING:
    from agent.gateway.limits import Quotas
    from agent.gateway.mailbox import Mailbox
    from agent.gateway.questions import ChatQuestions

_STRANGER = "This bot is private. If it is yours, `toolcrib gateway pair` shows a code to say here."
_PAIRED = "You are paired. Write what you want done; /help lists commands."
_TEXT = 100_000
"""Characters of a message that are kept."""
_NO_TEXT = Regex("[\0\ud800-\udfff]")
"""Signs that are in no text, and that no model server takes."""
Taken = Literal["kept", "known", "refused"]


class Door:
    """Implements toolcrib.chat.Host for one platform."""

    def __init__(
        self, platform: str, config: PlatformConfig, folder: Path, store: Store, admission: Admission, pairings: Pairings
    ) -> None:
        self._platform = platform
        self._config = config
        self._folder = folder
        self._store = store
        self._admission = admission
        self._pairings = pairings
        self.outbox: Outbox
        self.mailbox: Mailbox
        self.questions: ChatQuestions
        self.quotas: Quotas
        self.counts: dict[str, int] = {"kept": 0, "known": 0, "refused": 0}
        self._given: dict[str, str] = {}

    def use(self, config: PlatformConfig) -> None:
        """Go by another configuration from now on."""
        self._config = config

    def is_outdated(self, config: PlatformConfig) -> bool:
        """Return whether the platform was given settings or secrets that are others now. Raises ConfigError."""
        given = any(secret(name, folder=self._folder) != value for name, value in self._given.items())
        return given or config.settings != self._config.settings

    async def receive(self, message: Inbound) -> Taken:
        """See toolcrib.chat.Host."""
        taken = await self._received(message)
        self.counts[taken] += 1
        return taken

    async def _received(self, message: Inbound) -> Taken:
        if message.is_bot or message.edits or not message.message_id or _is_forged(message.chat, message.user):
            return "refused"
        if await self._has_code(message):
            return "kept"
        who = await self._admission.admit(message.chat, message.user, message.roles)
        if not isinstance(who, Admitted):
            return await self._stranger(message, who)
        if message.chat.is_group and not self._is_for_us(message):
            return "refused"
        if not message.text.strip() and not message.attachments:
            return "refused"
        if not who.is_owner and (told := self.quotas.over(who.user)):
            if told != "again":
                await self._say(message, f"busy:{message.message_id}", told)
            return "refused"
        body = inbound_json(message) | {"text": _NO_TEXT.sub("\ufffd", message.text[:_TEXT])}
        kept = await self._store.mail.arrived(Mail(self._platform, message.chat.key, message.message_id, body))
        if kept is None:
            return "known"
        self.mailbox.add(kept)
        return "kept"

    async def _has_code(self, message: Inbound) -> bool:
        """Return whether a message is the code of a pairing: it is taken here, from whomever, and nothing of it is kept. One that
        a whole room has read is void.
        """
        if message.chat.is_group:
            return await self._pairings.void(message.text)
        if await self._pairings.take(message.text, message.user) is None:
            return False
        await self._say(message, f"paired:{message.message_id}", _PAIRED)
        return True

    async def _stranger(self, message: Inbound, why: Literal["stranger", "group"]) -> Taken:
        """Refuse. Nothing that a stranger says is kept."""
        if await self._admission.refuse(message.chat, message.user, why):
            await self._say(message, f"stranger:{message.user}:{time.strftime('%F')}", _STRANGER)
        return "refused"

    def _is_for_us(self, message: Inbound) -> bool:
        return message.is_addressed or self._config.groups == "all" or message.text.startswith("/")

    async def _say(self, message: Inbound, key: str, text: str) -> None:
        with contextlib.suppress(StoreFailed):
            await self.outbox.put(message.chat.key, key, body_of(message.chat, text))

    async def press(self, press: Press) -> str:
        """See toolcrib.chat.Host."""
        if _is_forged(press.chat, press.user):
            return ""
        who = await self._admission.admit(press.chat, press.user, press.roles)
        if not isinstance(who, Admitted):
            await self._admission.refuse(press.chat, press.user, who)
            return ""
        return await self.questions.pressed(press.chat, press.message_id, press.choice, who, press.name, press.press_id)

    async def listens(self, chat: Chat, user: str, roles: Sequence[str] = ()) -> bool:
        """See toolcrib.chat.Host."""
        if _is_forged(chat, user):
            return False
        who = await self._admission.admit(chat, user, roles)
        if not isinstance(who, Admitted):
            await self._admission.refuse(chat, user, who)
            return False
        return True

    @property
    def settings(self) -> Mapping[str, Json]:
        """See toolcrib.chat.Host."""
        return dict(self._config.settings)

    def secret(self, name: str) -> str:
        """See toolcrib.chat.Host."""
        found = secret(name, folder=self._folder)
        if not found:
            where = secrets_path(self._folder)
            raise ConfigError(f"{self._platform} needs {name}: put `{name}=...` into {where}, or set it as a variable")
        self._given[name] = found
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
    """Return whether ids could pass for those of another chat: chat and thread are one key, with a NUL between them."""
    return not user or not chat.id or "\0" in f"{user}{chat.id}{chat.thread}"
