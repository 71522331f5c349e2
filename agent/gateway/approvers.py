"""People who may settle what others asked for, and the chats that they have with the bot alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from agent.desk.approvals import ApprovalRequest, ApprovalRights
from agent.gateway.admission import Admission, Admitted
from agent.gateway.forms import chat_of
from toolcrib.contract.chat import Chat
from toolcrib.contract.context import Principal
from toolcrib.contract.mail import ChatRecord
from toolcrib.contract.store import Store, TicketRecord

_MOST = 5
"""Chats that a question is copied to."""
_PAGE, _PAGES = 1_000, 5
"""Chats that are looked through for those of known people, the ones used last first."""


DirectChats: TypeAlias = Callable[[], Awaitable[Mapping[str, Chat]]]


class RememberedChats:
    """Finds chats once, and only where they are asked for: of ten thousand."""

    def __init__(self, find: DirectChats) -> None:
        self._find = find
        self._found: Mapping[str, Chat] | None = None

    async def __call__(self) -> Mapping[str, Chat]:
        if self._found is None:
            self._found = await self._find()
        return self._found


class Deciders:
    """For one platform."""

    def __init__(self, platform: str, store: Store, admission: Admission, rights: ApprovalRights) -> None:
        self._platform = platform
        self._mail = store.mail
        self._admission = admission
        self._rights = rights

    async def chats(self) -> dict[str, Chat]:
        """Return by user the chats of those who have a role by their id or by pairing, each one's last. Raises StoreFailed.

        Whoever has a role only by what the platform says when they write is left out: it may be theirs no longer.
        """
        wanted, found = await self._admission.with_roles(), dict[str, Chat]()
        for page in range(_PAGES):
            records = await self._mail.chats(self._platform, limit=_PAGE, offset=page * _PAGE)
            for record in records:
                user = _alone_in(record)
                if user in wanted:
                    found.setdefault(user, chat_of(record.body["chat"]))
            if len(records) < _PAGE or len(found) == len(wanted):
                break
        return found

    async def for_ticket(
        self, record: TicketRecord, asked: Principal | None, there: Chat, chats: DirectChats | None = None
    ) -> list[Chat]:
        """Return the chats of those who may settle a ticket that was asked ``there``, by somebody who may not; else none. One of
        which less is shown there goes to whoever asked too.

        ``chats`` finds what ``self.chats`` does. Raises StoreFailed.
        """
        if record.ticket.resume_mode != "replay":  # a tool's question is for whoever asked
            return []
        if self._may(record, asked) and await self.shows_all(record, asked, there):
            return []
        found: list[Chat] = []
        request = ApprovalRequest(record, asked)
        for user, chat in (await (chats or self.chats)()).items():
            who = await self._admission.admit(chat, user, ())
            if chat.key == there.key or not isinstance(who, Admitted):
                continue
            if self._rights.may(who.principal(self._platform), request):
                found.append(chat)
        return found[:_MOST]

    async def shows_all(self, record: TicketRecord, asked: Principal | None, there: Chat) -> bool:
        """Return whether a ticket may show all that is asked where it is asked: one with more for those who may agree shows it
        to whoever asked only if they may, in a chat of theirs alone. Raises StoreFailed.
        """
        if "prompt_aside" not in record.ticket.parameters:
            return True
        if there.is_group or asked is None or not self._may(record, asked):
            return False
        found = await self._mail.chat(self._platform, there.key)
        return found is not None and _alone_in(found) == asked.person

    def _may(self, record: TicketRecord, asked: Principal | None) -> bool:
        """Return whether whoever asked for a ticket may settle it."""
        if asked is None or asked.is_local:  # the local user decides at a terminal
            return False
        return self._rights.may(asked, ApprovalRequest(record, asked))


def _alone_in(record: ChatRecord) -> str:
    """Return who writes in a chat of one person, "" for any other."""
    return "" if record.body["chat"]["is_group"] else str(record.body["user"])
