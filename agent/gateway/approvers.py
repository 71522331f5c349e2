"""Users who may decide the requests of others, and their direct chats with the bot."""

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
"""Maximum number of chats that a question is copied to."""
_PAGE, _PAGES = 1_000, 5
"""Size and maximum number of pages in the search for direct chats, which begins with the most recent chats."""


DirectChats: TypeAlias = Callable[[], Awaitable[Mapping[str, Chat]]]


class RememberedChats:
    """Finds the direct chats once, on the first call, because there may be ten thousand."""

    def __init__(self, find: DirectChats) -> None:
        self._find = find
        self._found: Mapping[str, Chat] | None = None

    async def __call__(self) -> Mapping[str, Chat]:
        if self._found is None:
            self._found = await self._find()
        return self._found


class Approvers:
    """The approvers of one platform."""

    def __init__(self, platform: str, store: Store, admission: Admission, rights: ApprovalRights) -> None:
        self._platform = platform
        self._mail = store.mail
        self._admission = admission
        self._rights = rights

    async def chats(self) -> dict[str, Chat]:
        """Return the latest direct chat of each user who has a role by id or by pairing. Raises StoreFailed.

        Users whose role comes from the platform when they write are left out, because they may have lost it since.
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
        """Return the direct chats of users who may decide a ticket; none if its asker may decide it and sees all of it.

        ``there``: the chat of the question. If it shows less than the ticket has, an asker who may decide gets a copy too.
        ``chats`` replaces ``self.chats``. Raises StoreFailed.
        """
        if record.ticket.resume_mode != "replay":  # only its asker answers a tool's question
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
        """Return whether a ticket may be shown in full in the chat that it was asked in. Raises StoreFailed.

        A ticket with a part for approvers only is shown in full only to an asker who may decide it, in a direct chat.
        """
        if "prompt_aside" not in record.ticket.parameters:
            return True
        if there.is_group or asked is None or not self._may(record, asked):
            return False
        found = await self._mail.chat(self._platform, there.key)
        return found is not None and _alone_in(found) == asked.person

    def _may(self, record: TicketRecord, asked: Principal | None) -> bool:
        """Return whether the asker of a ticket may decide it."""
        if asked is None or asked.is_local:  # the local user decides at a terminal
            return False
        return self._rights.may(asked, ApprovalRequest(record, asked))


def _alone_in(record: ChatRecord) -> str:
    """Return the user of a direct chat, "" for a group."""
    return "" if record.body["chat"]["is_group"] else str(record.body["user"])
