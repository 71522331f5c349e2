"""Chats that ``send_message`` may send to: those of the sender, and those of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from agent.config import PlatformConfig
from agent.desk.approvals import OWNER
from agent.gateway.admission import ANYBODY, ROOM, Admission, Admitted
from agent.gateway.forms import chat_of, one_line
from agent.gateway.logs import chat_id
from agent.gateway.pairing import Pairings
from toolcrib.contract.chat import Chat
from toolcrib.contract.context import Principal
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import NotFound
from toolcrib.contract.mail import ChatRecord

if TYPE_CHECKING:
    from agent.config import Config
    from toolcrib.contract.store import Store

_PAGE, _PAGES = 1_000, 10
"""Size and maximum number of pages in the search for chats, which begins with the most recent ones."""
_SHOWN = 50
NO_CHAT = "no chat that this session may write to"
"""Name, for approvers, of a chat that is unknown or that the session may not reach."""


@dataclass(frozen=True, slots=True)
class Recipient:
    """A chat as a sender may name it. ``is_own``: it belongs to the sender. ``is_free``: sending needs no approval."""

    platform: str
    chat: Chat
    session_id: str
    user: str
    is_own: bool
    is_free: bool

    @property
    def name(self) -> str:
        """``PLATFORM/CHAT``. CHAT is the beginning of a digest, so it reveals no id."""
        return f"{self.platform}/{chat_id(self.chat.key)}"

    @property
    def whom(self) -> str:
        """A description of the chat for users, with its title, which other users may have chosen."""
        title = f" “{one_line(self.chat.title)}”" if self.chat.title else ""
        if self.chat.is_group:
            return f"the group{title or f' {one_line(self.chat.id)}'} on {self.platform}"
        return f"the direct chat{title} of {'the sender' if self.is_own else one_line(self.user)} on {self.platform}"

    @property
    def aside(self) -> str:
        """A description of the chat for approvers, in case the sender knows it by another name or only guesses it."""
        return f"{self.whom}, {self.name}"


class Recipients:
    """Finds chats in ``store``, by the current ``config``."""

    def __init__(self, store: Store, config: Config) -> None:
        self._store = store
        self._config = config

    async def listed(self, sender: Principal) -> list[Recipient]:
        """Return the chats that a sender may know of, the sender's own first. Raises StoreFailed.

        The owner gets all groups. Other chats are listed only if the operator allowed messages to them.
        """
        found = [one for one in await self._all(sender) if one.is_free or (is_owner(sender) and one.chat.is_group)]
        return sorted(found, key=lambda one: (not one.is_own, not one.is_free))[:_SHOWN]

    async def named(self, sender: Principal, name: str) -> Recipient | None:
        """Return the chat that a name refers to, or None. Raises NotFound and StoreFailed.

        A name is ``PLATFORM/CHAT`` or ``PLATFORM``. CHAT is as in ``listed``, or the platform's own id of a chat or of a direct
        chat's user. ``PLATFORM`` is the sender's only direct chat there. A sender who may not learn which chats exist gets None,
        not an error, if CHAT does not match exactly one chat, or if it is a direct chat and the sender speaks in a group.
        """
        platform, _, given = name.strip().partition("/")
        every = [one for one in await self._all(sender) if one.platform == platform]
        if given:
            found = [one for one in every if chat_id(one.chat.key) == given]
            found = found or [one for one in every if given == one.chat.id and not one.chat.thread]
            found = found or [one for one in every if given == one.user and not one.chat.is_group]
        else:
            found = [one for one in every if one.is_own and not one.chat.is_group]
        if given and not is_owner(sender) and not (found and all(one.is_free for one in found)):
            reaches = len(found) == 1 and (found[0].chat.is_group or not _is_room(sender))
            return found[0] if reaches else None
        if len(found) != 1:
            why = "several chats match" if found else "no chat matches"
            raise NotFound(f"{why} {one_line(name) or 'nothing'}; {await self._hint(sender)}")
        return found[0]

    async def _hint(self, sender: Principal) -> str:
        listed = await self.listed(sender)
        return (
            f"known: {'; '.join(f'{one.name} ({one.whom})' for one in listed)}"
            if listed
            else "there is no chat that you may write to"
        )

    async def _all(self, sender: Principal) -> list[Recipient]:
        records = await records_of(self._store)
        owners = await owners_of(self._store, self._config, records) if is_owner(sender) else {}
        return [_recipient(one, sender, owners, self._config.platforms.get(one.platform)) for one in records]


async def records_of(store: Store, platform: str = "") -> list[ChatRecord]:
    """Return the chats of all platforms or one, the most recent ones first. Raises StoreFailed."""
    found: list[ChatRecord] = []
    for page in range(_PAGES):
        records = await store.mail.chats(platform, limit=_PAGE, offset=page * _PAGE)
        found += [one for one in records if "chat" in one.body]
        if len(records) < _PAGE:
            break
    return found


async def owners_of(store: Store, config: Config, records: Sequence[ChatRecord]) -> Mapping[str, str]:
    """Return the user id of each platform's current owner, if that user has a direct chat. Raises StoreFailed.

    A platform with several owners is left out: they may be different people.
    """
    found: dict[str, set[str]] = {}
    for record in records:
        platform, user = config.platforms.get(record.platform, PlatformConfig()), str(record.body.get("user", ""))
        if not user or OWNER not in record.body.get("roles", ()) or user in found.get(record.platform, ()):
            continue
        admission = Admission(record.platform, platform, Pairings(store, record.platform), store)
        who = await admission.admit(chat_of(record.body["chat"]), user, ())
        if isinstance(who, Admitted) and who.is_owner:
            found.setdefault(record.platform, set()).add(user)
    return {platform: next(iter(users)) for platform, users in found.items() if len(users) == 1}


def is_owner(sender: Principal) -> bool:
    """Return whether a sender is the user of this machine, or the gateway's owner outside of a group."""
    return sender.is_local or (OWNER in sender.roles and not _is_room(sender))


def _is_room(sender: Principal) -> bool:
    return bool(sender.speaker) or sender.user.startswith(ROOM)


def _recipient(record: ChatRecord, sender: Principal, owners: Mapping[str, str], config: PlatformConfig | None) -> Recipient:
    chat, user = chat_of(record.body["chat"]), str(record.body.get("user", ""))
    if _is_room(sender):
        own = record.platform == sender.platform and chat.is_group and f"{ROOM}{chat.id}" == sender.user
    elif chat.is_group:
        own = False
    else:
        own = bool(user) and ((record.platform, user) == (sender.platform, sender.user) or owners.get(record.platform) == user)
    listens = config is not None and (not chat.is_group or {chat.id, ANYBODY} & set(config.allowed_chats))
    allowed = bool(listens) and config is not None and chat.id in config.messages_to
    return Recipient(record.platform, chat, record.session_id, user, own, own or allowed)
