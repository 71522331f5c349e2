"""Tickets in chats: shown with buttons, answered by users who may decide them, and updated once they are decided anywhere."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from agent.conversation.answers import asked_of
from agent.cron.messages import asked_by
from agent.desk.approvals import ApprovalDesk, ApprovalRequest, is_denial
from agent.gateway.admission import Admitted
from agent.gateway.answer_words import ANSWERS, NO, WORDS
from agent.gateway.approvers import Approvers, DirectChats, RememberedChats
from agent.gateway.forms import body_of, chat_of, one_line
from agent.gateway.outbox import Outbox
from agent.gateway.showing import SHOWN_ID, buttons_of, foot_of, numbers_of, origin_of, outcome_of, pages_of
from toolcrib.contract.chat import Button, Chat, Inbound, Press, Traits
from toolcrib.contract.context import Principal
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import Denied, InvalidArguments, NotFound, StoreFailed, ToolcribError
from toolcrib.contract.mail import Post
from toolcrib.contract.store import Store, TicketRecord
from toolcrib.contract.types import Json

if TYPE_CHECKING:
    from collections.abc import Sequence

_KEY = "ticket:"
_LATE = "This was already decided."
_NOT_YOURS = "You may not decide this; {roles} may."
_NO_SUCH = "This chat has no such question."
_BY_PRESS = "A message cannot approve this."
_HOW_PRESSED = "Use the question's link or button, or `toolcrib approvals` at a terminal."
_HOW_ELSEWHERE = "Use `toolcrib approvals` at a terminal, or answer in another chat that shows the question."
_TOO_EARLY = "You wrote that before this question was shown. To approve it, send /approve {id}."
_NOT_YET = "This question is still being sent: press again in a moment."
_LOOKS, _LOOK_SECONDS = 50, 0.02
"""Number of times that a press checks for a question that is still being sent, and the seconds between two checks."""
_PUT_OFF = 3
"""Number of times that a press may be deferred, so that it does not delay later presses."""
_COPIES = 20
"""Maximum number of other users' open questions in one chat, so that many requests of one user do not flood it."""
_UNTOLD = 1.0
"""Seconds that a message may be visible before the platform has confirmed it."""


class NoSuchQuestion(ToolcribError):
    """Raised if no question matches, if several do, or if an approval was written too early. Its text is a line for users."""


@dataclass(slots=True)
class _Asked:
    """An open ticket: the posts that show it, by the keys of their chats, and whether approvers got copies."""

    shown: dict[str, str] = field(default_factory=dict)
    is_copied: bool = False


class ChatQuestions:
    """The questions of one platform."""

    def __init__(
        self, platform: str, store: Store, outbox: Outbox, approvals: ApprovalDesk, approvers: Approvers, traits: Traits
    ) -> None:
        self._platform = platform
        self._store = store
        self._outbox = outbox
        self._approvals = approvals
        self._approvers = approvers
        self._most = traits.max_chars
        self._traits = traits
        self._open: dict[str, dict[str, _Asked]] = {}
        """Tickets that are shown as open, by their session."""
        self._put_off: Counter[str] = Counter()

    @property
    def open(self) -> int:
        """The number of tickets that are shown as open."""
        return sum(map(len, self._open.values()))

    async def start(self, is_ours: Callable[[str], Awaitable[Chat | None]]) -> None:
        """Show pending tickets and update decided ones, after an earlier process ended. Raises StoreFailed.

        ``is_ours`` returns the chat that shows a session's tickets, or None.
        """
        chats = RememberedChats(self._approvers.chats)
        for record in await self._store.tickets.pending():
            if (chat := await is_ours(record.session_id)) is not None:
                await self.show(chat, record.ticket.id, chats)
        for post in await self._store.mail.questions(self._platform):
            record_now = await self._store.tickets.get(_ticket_in(post.key)) if post.body.get("buttons") else None
            if record_now is not None:  # copies too, even if their chat would get none now
                self._note(record_now, post.chat, post.key)
                if record_now.state != "pending":
                    await self.refresh(record_now.session_id)

    async def show(self, chat: Chat, ticket_id: str, chats: DirectChats | None = None) -> None:
        """Show a ticket in its chat, once, and to its approvers if the asker may not decide it.

        A long ticket takes several messages; the last one has the buttons. ``chats``: see ``Approvers.chats``.
        """
        record = await self._store.tickets.get(ticket_id)
        if record is None or record.state != "pending":
            return
        foot, buttons, asker = self._foot(record), buttons_of(record), await asked_of(self._store, record)
        whole = await self._approvers.shows_all(record, asker, chat)
        await self._outbox_parts(chat, record, foot, buttons, f"{_KEY}{ticket_id}", whole=whole)
        asked = self._note(record, chat.key, f"{_KEY}{ticket_id}")
        if asked.is_copied:
            return
        for other in await self._approvers.for_ticket(record, asker, chat, chats):
            if sum(other.key in one.shown for known in self._open.values() for one in known.values()) >= _COPIES:
                continue
            key = f"{_KEY}{ticket_id}:to:{hashlib.sha256(other.key.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
            await self._outbox_parts(other, record, foot, buttons, key, origin_of(chat, asker), whole=True)
            self._note(record, other.key, key)
        asked.is_copied = True

    async def remind(self, ticket_id: str) -> None:
        """Reply to each message that shows a ticket with a reminder that it is open. Raises StoreFailed."""
        record = await self._store.tickets.get(ticket_id)
        if record is None or record.state != "pending":
            return
        asked = self._open.get(record.session_id, {}).get(ticket_id, _Asked())
        for chat, key in list(asked.shown.items()):
            if (post := await self._store.mail.get(self._platform, key)) is not None:
                text = f"_A question still waits for an answer ({ticket_id[:SHOWN_ID]}). /approvals lists all._"
                reminder = f"reminder:{key.removeprefix(_KEY)}:{record.remind_at or 0.0:.3f}"  # one key for each reminder
                body = body_of(chat_of(post.body["chat"]), text, reply_to=post.shown_as)
                await self._outbox.put(chat, reminder, body, session_id=record.session_id)

    async def refresh(self, session_id: str) -> None:
        """Update the messages of a session's tickets that were decided, here or elsewhere. Raises StoreFailed."""
        for ticket_id in list(self._open.get(session_id, ())):
            record = await self._store.tickets.get(ticket_id)
            if record is not None and record.state == "pending":
                continue
            asked = self._open.get(session_id, {}).get(ticket_id, _Asked())
            for key in list(asked.shown.values()):
                post = await self._store.mail.get(self._platform, key)
                if post is not None and record is not None:
                    where, origin, whole = chat_of(post.body["chat"]), str(post.body.get("origin", "")), post.body.get("whole")
                    await self._outbox_parts(where, record, outcome_of(record), (), key, origin, whole=bool(whole))
            self._open.get(session_id, {}).pop(ticket_id, None)
        if not self._open.get(session_id, True):
            self._open.pop(session_id, None)

    async def expired(self) -> None:
        """Refresh all sessions, so that expired tickets are shown as such. Raises StoreFailed."""
        for session_id in list(self._open):
            await self.refresh(session_id)

    # -- answering -----------------------------------------------------------------------------------------------

    async def shown_as(self, chat: Chat, message_id: str) -> str:
        """Return the id of the ticket that a message of the bot shows; "" for any other message."""
        post = await self._store.mail.shown(self._platform, chat.key, message_id)
        return _ticket_in(post.key) if post is not None and post.key.startswith(_KEY) else ""

    async def shown_soon(self, chat: Chat, message_id: str) -> str | None:
        """Do the same as ``shown_as``, but return None if a question is being sent and has no known message id after a second."""
        for _ in range(_LOOKS):
            is_sending = await self._outbox.is_sending(chat.key, _KEY)
            if (ticket_id := await self.shown_as(chat, message_id)) or not is_sending:
                return ticket_id
            await asyncio.sleep(_LOOK_SECONDS)
        return None

    async def _sent(self, chat: Chat, key: str) -> Post | None:
        """Return a post; if it is being sent, wait for it as in ``shown_soon``, because a user may have read it already."""
        post = await self._store.mail.get(self._platform, key)
        for _ in range(_LOOKS):
            if post is None or post.state == "shown" or not await self._outbox.is_sending(chat.key, key):
                break
            await asyncio.sleep(_LOOK_SECONDS)
            post = await self._store.mail.get(self._platform, key)
        return post

    async def waiting(self, chat: Chat) -> list[TicketRecord]:
        """Return the open tickets that are shown in a chat, the oldest first."""
        found: list[TicketRecord] = []
        for ticket_id in [one for asked in self._open.values() for one, known in asked.items() if chat.key in known.shown]:
            record = await self._store.tickets.get(ticket_id)
            if record is not None and record.state == "pending":
                found.append(record)
        return sorted(found, key=lambda record: record.at)

    def open_in(self, session_id: str) -> list[str]:
        """Return the ids of a session's tickets that are shown as open."""
        return list(self._open.get(session_id, ()))

    async def asker_in(self, session_id: str) -> Principal | None:
        """Return the principal of a session's open ticket; None if there is no such ticket."""
        for ticket_id in self.open_in(session_id):
            if (record := await self._store.tickets.get(ticket_id)) is not None:
                return await asked_of(self._store, record)
        return None

    async def find(self, message: Inbound, prefix: str, *, approves: bool = False) -> TicketRecord:
        """Return the open ticket of the message's chat whose id starts with ``prefix``, or the only one for "".

        Raises NoSuchQuestion; also if the message ``approves`` without naming the ticket, and was written before the ticket was
        shown.
        """
        chat = message.chat
        found = [record for record in await self.waiting(chat) if record.ticket.id.startswith(prefix)]
        if len(found) == 1:
            key = self._open.get(found[0].session_id, {}).get(found[0].ticket.id, _Asked()).shown.get(chat.key, "")
            post = await self._store.mail.get(self._platform, key) if approves and not prefix else None
            if post is not None and not _is_after(message, post):
                raise NoSuchQuestion(_TOO_EARLY.format(id=found[0].ticket.id[:SHOWN_ID]))
            return found[0]
        if not found:
            raise NoSuchQuestion(_NO_SUCH if prefix else "Nothing here waits for an answer.")
        ids = ", ".join(record.ticket.id[:SHOWN_ID] for record in found)
        raise NoSuchQuestion(f"{len(found)} questions wait here ({ids}): name one by its id.")

    async def _copied(self, chat: Chat, key: str) -> str:
        """Return the id of the ticket that a chat's post with this key shows; "" if the chat has no such post.

        If the acknowledgement of a message was lost, the message's id is unknown, and only the key identifies it.
        """
        post = await self._store.mail.get(self._platform, key) if key.startswith(_KEY) else None
        return _ticket_in(key) if post is not None and post.chat == chat.key else ""

    async def pressed(self, press: Press, who: Admitted) -> str:
        """Handle the press of a button, and return a line for the user. Only the button's letter counts, not its label.

        ``press.key`` counts only if no known message has the id ``press.message_id``. Raises StoreFailed if that id may still
        become known: the platform must deliver the press again.
        """
        choice, name, press_id = press.choice, press.name, press.press_id
        known = await self.shown_as(press.chat, press.message_id) or await self._copied(press.chat, press.key)
        ticket_id = known or await self.shown_soon(press.chat, press.message_id)
        if ticket_id is None:
            return self._later(press_id)
        if not ticket_id:
            return _NO_SUCH
        record = await self._store.tickets.get(ticket_id)
        if record is None:
            return _NO_SUCH
        choices = record.ticket.parameters.get("choices") if record.ticket.resume_mode != "replay" else None
        if isinstance(choices, list):
            number = _number(choice[1:]) if choice[:1] == "c" else -1
            return await self.answer(record, who, name, choices[number], press_id) if 0 <= number < len(choices) else _NO_SUCH
        payload = ANSWERS.get(choice)
        return _NO_SUCH if payload is None else await self.answer(record, who, name, payload, press_id)

    def _later(self, press_id: str) -> str:
        """Defer a press by raising StoreFailed, or return the text to show if it was deferred a few times already."""
        if len(self._put_off) > 1_000:
            self._put_off.clear()
        self._put_off[press_id] += 1
        if self._put_off[press_id] <= _PUT_OFF:
            raise StoreFailed(_NOT_YET)
        return _NOT_YET

    async def replied(self, message: Inbound, ticket_id: str, who: Admitted) -> str | None:
        """Handle a reply to a message that shows a ticket, and return a line for the user, "" for none."""
        record = await self._store.tickets.get(ticket_id)
        if record is None:
            return _NO_SUCH
        word = message.text.strip()
        if record.ticket.resume_mode != "replay":
            choices = list(record.ticket.parameters.get("choices") or ())
            number = _number(word)
            given = choices[number - 1] if 0 < number <= len(choices) else word
            return await self.answer(record, who, message.name, given, message.message_id, is_written=True)
        payload = WORDS.get(word.lower().rstrip("."))
        if payload is None and not self._traits.written_approvals:
            return f"Answer with 3 (no), or /deny with a reason. {_BY_PRESS} {self._how}"
        if payload is None:
            return f"Answer with {numbers_of(record)}; or /deny with a reason."
        return await self.answer(record, who, message.name, payload, message.message_id, is_written=True)

    async def said_alone(self, message: Inbound, session_id: str, who: Admitted) -> str | None:
        """Handle a message, not a reply, that answers the only open question of the chat's session; None if it does not.

        A message is an answer if it has the text of a possible answer and was written after the question was shown, or if it
        denies. Only for chats with one user: in a group the message may be for another member.
        """
        asked = self._open.get(session_id, {})
        key = next(iter(asked.values())).shown.get(message.chat.key) if len(asked) == 1 else None
        post = None if key is None else await self._sent(message.chat, key)
        ticket_id = next(iter(asked), "")
        record = await self._store.tickets.get(ticket_id) if post is not None and post.state == "shown" else None
        if record is None or post is None or record.state != "pending":
            return None
        word = message.text.strip()
        if record.ticket.resume_mode == "replay":
            said = WORDS.get(word.lower().rstrip("."))
            is_answer = said is not None and (said is ANSWERS[NO] or _is_after(message, post))
        elif not _is_after(message, post):
            is_answer = False
        else:
            choices = [str(choice) for choice in record.ticket.parameters.get("choices") or ()]
            is_answer = not choices or word in choices or 0 < _number(word) <= len(choices)
        return await self.replied(message, ticket_id, who) if is_answer else None

    async def denies(self, message: Inbound) -> bool:
        """Return whether a message denies a question of its chat. Raises StoreFailed."""
        if WORDS.get(message.text.strip().lower().rstrip(".")) is not ANSWERS[NO]:
            return False
        if message.reply_to or message.chat.is_group:
            return bool(await self.shown_as(message.chat, message.reply_to))
        key = message.chat.key
        return any(one.shown.get(key) == f"{_KEY}{ticket}" for known in self._open.values() for ticket, one in known.items())

    async def answer(
        self, record: TicketRecord, who: Admitted, name: str, payload: Json, decision_id: str, *, is_written: bool = False
    ) -> str:
        """Decide a ticket for a user, and return a line for them. Late and unauthorised answers are refused.

        The user who asked may always deny. ``is_written``: the answer is a text message; on some platforms it can't approve.
        """
        request, principal = await self._approvals.request(record), who.principal(self._platform)
        rights, is_no = self._approvals.rights, is_denial(payload)
        if not rights.may(principal, request, payload):
            return _NOT_YOURS.format(roles=", ".join(rights.roles_of(request)))
        if who.locked and not is_no:
            return who.locked
        if is_written and not (request.is_question or is_no or self._traits.written_approvals):
            return f"{_BY_PRESS} {self._how}"
        if isinstance(payload, Mapping) and payload.get("approved") and payload.get("scope", "once") not in request.scopes:
            return f"That scope is not available here. Choose from: {', '.join(request.scopes)}."
        name = one_line(name)
        by, known = f"{name} ({principal.key})" if name else principal.key, f"{self._platform}:{decision_id}"
        try:
            settled = await self._approvals.decide(request, payload, who=principal, by=by, decision_id=known)
        except (Denied, NotFound):
            settled = "refused"
        except InvalidArguments as error:
            return str(error)
        await self.refresh(record.session_id)
        return _LATE if settled == "refused" else ""

    @property
    def _how(self) -> str:
        return _HOW_PRESSED if self._traits.buttons or self._traits.reactions else _HOW_ELSEWHERE

    # -- how a question is shown ---------------------------------------------------------------------------------

    def _foot(self, record: TicketRecord) -> str:
        by_press = "" if self._traits.written_approvals else self._how
        roles = self._approvals.rights.roles_of(ApprovalRequest(record, None))
        return foot_of(record, ", ".join(roles), by_press)

    def _note(self, record: TicketRecord, chat: str, key: str) -> _Asked:
        """Record which post shows an open ticket in a chat."""
        asked = self._open.setdefault(record.session_id, {}).setdefault(record.ticket.id, _Asked())
        asked.shown[chat] = key
        return asked

    async def _outbox_parts(
        self, chat: Chat, record: TicketRecord, foot: str, buttons: Sequence[Button], key: str, origin: str = "", *, whole: bool
    ) -> None:
        """Queue the messages of a ticket; they are deleted with its session. ``origin`` is the line about the asker, for copies.

        ``whole``: include the part that only approvers may read.
        """
        given = record.ticket.parameters
        prompt = str((given.get("prompt_aside") if whole else "") or given.get("prompt") or record.ticket.message)
        if which := await asked_by(self._store, record.session_id):
            prompt = f"{which}\n{prompt}"
        foot = f"{origin}\n{foot}" if origin else foot
        *pages, last = pages_of(prompt, self._most - len(foot) - 2)
        for number, page in enumerate(pages):
            body = body_of(chat, page, is_plain=True)
            await self._outbox.put(chat.key, f"{key}:{number}", body, session_id=record.session_id)
        body = body_of(chat, f"{last}\n\n{foot}", buttons=buttons, is_plain=True) | {"whole": whole}
        body |= {"origin": origin} if origin else {}
        await self._outbox.put(chat.key, key, body, session_id=record.session_id)


def _is_after(message: Inbound, post: Post) -> bool:
    """Return whether a message may have been written after its writer saw a post; an earlier message can't answer the post."""
    return post.state == "shown" and message.at >= post.moved_at - _UNTOLD


def _ticket_in(key: str) -> str:
    """Return the id of the ticket in a post's key: ``ticket:ID``, ``ticket:ID:PAGE``, ``ticket:ID:to:CHAT[:PAGE]``."""
    return key.removeprefix(_KEY).partition(":")[0]


def _number(text: str) -> int:
    """Return a number of a few ASCII digits, -1 for anything else: a button's data may be anything."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 5 else -1
