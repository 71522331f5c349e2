"""Tickets in chats: shown with buttons, answered by who may, and shown as settled afterwards, wherever that happened."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from agent.conversation.answers import asked_of
from agent.gateway.admission import Admitted
from agent.gateway.deciders import Deciders, DirectChats, RememberedChats
from agent.gateway.deciding import Deciding, scopes_of
from agent.gateway.forms import body_of, chat_of, one_line
from agent.gateway.outbox import Outbox
from agent.gateway.splitting import split
from toolcrib import Answer, Denied, InvalidArguments, NotFound, Principal, StoreFailed, ToolcribError
from toolcrib._dataclass import dataclass
from toolcrib._store import Settled, Store, TicketRecord
from toolcrib._types import Json
from toolcrib.chat import Button, Chat, Inbound

if TYPE_CHECKING:
    from collections.abc import Sequence

_KEY = "ticket:"
_SHOWN_ID = 8
_YES, _SESSION, _NO = "y", "s", "n"
_SETTLED = {"approved": "✓ agreed", "denied": "✗ refused", "expired": "✗ nobody answered in time"}
_LATE = "This was settled before."
_NOT_YOURS = "You may not decide this; {roles} may."
_NO_SUCH = "There is no such question here."
_NOT_YET = "This question is still being shown: press again in a moment."
_LOOKS, _LOOK_SECONDS = 50, 0.02
"""Looks of a press for a question that is being shown, and the seconds between them."""
_PUT_OFF = 3
"""Times that one press is put off, so that it can't keep back what comes behind it."""
_COPIES = 20
"""Open questions of others in one chat, so that whoever asks for much does not bury it."""
_REASON = 300
"""Characters of a reason that are shown."""
_ANSWERS: Mapping[str, Mapping[str, Json]] = {
    _YES: {"approved": True, "scope": "once"},
    _SESSION: {"approved": True, "scope": "session"},
    _NO: {"approved": False},
}
_WORDS = {
    word: _ANSWERS[choice]
    for choice, words in {_YES: ("1", "yes", "y"), _SESSION: ("2",), _NO: ("3", "no", "n")}.items()
    for word in words
}
Settle = Callable[[Answer], Awaitable[Settled]]


class NoSuchQuestion(ToolcribError):
    """No question is meant, or several are; its text is a line for people."""


@dataclass(slots=True)
class _Asked:
    """An open ticket: the posts that show it, by the keys of their chats, and whether it was copied to who may settle it."""

    shown: dict[str, str] = field(default_factory=dict)
    is_copied: bool = False


class ChatQuestions:
    """For one platform. ``settle`` records an answer and wakes the session that waits for it."""

    def __init__(
        self, platform: str, store: Store, outbox: Outbox, deciding: Deciding, deciders: Deciders, settle: Settle, most: int
    ) -> None:
        self._platform = platform
        self._store = store
        self._outbox = outbox
        self._deciding = deciding
        self._deciders = deciders
        self._settle = settle
        self._most = most
        self._open: dict[str, dict[str, _Asked]] = {}
        """Tickets that are shown as open, by their session."""
        self._put_off: Counter[str] = Counter()

    @property
    def open(self) -> int:
        """The number of tickets that are shown as open."""
        return sum(map(len, self._open.values()))

    async def start(self, is_ours: Callable[[str], Awaitable[Chat | None]]) -> None:
        """Show what was not shown, and settle what was settled meanwhile, after an ended process. Raises StoreFailed."""
        chats = RememberedChats(self._deciders.chats)
        for record in await self._store.tickets.pending():
            if (chat := await is_ours(record.session_id)) is not None:
                await self.show(chat, record.ticket.id, chats)
        for post in await self._store.mail.questions(self._platform):
            record_now = await self._store.tickets.get(_ticket_in(post.key)) if post.body.get("buttons") else None
            if record_now is not None:  # copies too, whoever would get one today
                self._note(record_now, post.chat, post.key)
                if record_now.state != "pending":
                    await self.refresh(record_now.session_id)

    async def show(self, chat: Chat, ticket_id: str, chats: DirectChats | None = None) -> None:
        """Show a ticket in its chat, unless that was done, and to those who may settle it where its asker may not. A long one
        takes several messages; the last one has the buttons. ``chats`` finds what ``Deciders.chats`` does.
        """
        record = await self._store.tickets.get(ticket_id)
        if record is None or record.state != "pending":
            return
        foot, buttons = self._foot(record), self._buttons(record)
        await self._outbox_parts(chat, record, foot, buttons, f"{_KEY}{ticket_id}")
        asked = self._note(record, chat.key, f"{_KEY}{ticket_id}")
        if asked.is_copied:
            return
        asker = await asked_of(self._store, record)
        for other in await self._deciders.for_ticket(record, asker, chat, chats):
            if sum(other.key in one.shown for known in self._open.values() for one in known.values()) >= _COPIES:
                continue
            key = f"{_KEY}{ticket_id}:to:{hashlib.sha256(other.key.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
            await self._outbox_parts(other, record, foot, buttons, key, _origin(chat, asker))
            self._note(record, other.key, key)
        asked.is_copied = True

    async def remind(self, ticket_id: str) -> None:
        """Remind, wherever a ticket is shown, that it waits: as a reply to it. Raises StoreFailed."""
        record = await self._store.tickets.get(ticket_id)
        if record is None or record.state != "pending":
            return
        asked = self._open.get(record.session_id, {}).get(ticket_id, _Asked())
        for chat, key in list(asked.shown.items()):
            if (post := await self._store.mail.get(self._platform, key)) is not None:
                text = f"_A question still waits for an answer ({ticket_id[:_SHOWN_ID]}): /approvals lists what waits._"
                reminder = f"reminder:{key.removeprefix(_KEY)}:{record.remind_at or 0.0:.3f}"  # of each time, one
                body = body_of(chat_of(post.body["chat"]), text, reply_to=post.shown_as)
                await self._outbox.put(chat, reminder, body, session_id=record.session_id)

    async def refresh(self, session_id: str) -> None:
        """Show as settled what was settled of a session's tickets, here or elsewhere. Raises StoreFailed."""
        for ticket_id in list(self._open.get(session_id, ())):
            record = await self._store.tickets.get(ticket_id)
            if record is not None and record.state == "pending":
                continue
            asked = self._open.get(session_id, {}).get(ticket_id, _Asked())
            for key in list(asked.shown.values()):
                post = await self._store.mail.get(self._platform, key)
                if post is not None and record is not None:
                    where, origin = chat_of(post.body["chat"]), str(post.body.get("origin", ""))
                    await self._outbox_parts(where, record, _outcome(record), (), key, origin)
            self._open.get(session_id, {}).pop(ticket_id, None)
        if not self._open.get(session_id, True):
            self._open.pop(session_id, None)

    async def expired(self) -> None:
        """Refresh the sessions with a ticket whose time is over. Raises StoreFailed."""
        for session_id in list(self._open):
            await self.refresh(session_id)

    # -- answering -----------------------------------------------------------------------------------------------

    async def shown_as(self, chat: Chat, message_id: str) -> str:
        """Return the id of the ticket that a message of ours shows; "" for any other."""
        post = await self._store.mail.shown(self._platform, chat.key, message_id)
        return _ticket_in(post.key) if post is not None and post.key.startswith(_KEY) else ""

    async def shown_soon(self, chat: Chat, message_id: str) -> str | None:
        """Do as ``shown_as`` does, for a message that may be on its way: None where its id is still not known after a second."""
        for _ in range(_LOOKS):
            is_sending = await self._outbox.is_sending(chat.key, _KEY)
            if (ticket_id := await self.shown_as(chat, message_id)) or not is_sending:
                return ticket_id
            await asyncio.sleep(_LOOK_SECONDS)
        return None

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
        """Return whom the run is for that waits for a ticket of a session; None where none does."""
        for ticket_id in self.open_in(session_id):
            if (record := await self._store.tickets.get(ticket_id)) is not None:
                return await asked_of(self._store, record)
        return None

    async def find(self, chat: Chat, prefix: str) -> TicketRecord:
        """Return the open ticket of a chat whose id begins so, the only one without. Raises NoSuchQuestion."""
        found = [record for record in await self.waiting(chat) if record.ticket.id.startswith(prefix)]
        if len(found) == 1:
            return found[0]
        if not found:
            raise NoSuchQuestion(_NO_SUCH if prefix else "No question waits here.")
        ids = ", ".join(record.ticket.id[:_SHOWN_ID] for record in found)
        raise NoSuchQuestion(f"{len(found)} questions wait here ({ids}): say which one is meant.")

    async def pressed(self, chat: Chat, message_id: str, choice: str, who: Admitted, name: str, press_id: str) -> str:
        """Act on a button, and return a line for who pressed. What the button says counts for nothing but its letter.

        Raises StoreFailed where it may be of a question whose message's id is not known yet: it is to be offered again.
        """
        ticket_id = await self.shown_soon(chat, message_id)
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
        payload = _ANSWERS.get(choice)
        return _NO_SUCH if payload is None else await self.answer(record, who, name, payload, press_id)

    def _later(self, press_id: str) -> str:
        """Have the platform offer a press again, by StoreFailed, a few times. Return what is said then."""
        if len(self._put_off) > 1_000:
            self._put_off.clear()
        self._put_off[press_id] += 1
        if self._put_off[press_id] <= _PUT_OFF:
            raise StoreFailed(_NOT_YET)
        return _NOT_YET

    async def replied(self, message: Inbound, ticket_id: str, who: Admitted) -> str | None:
        """Take a message that answers the one with a ticket; None where it says neither yes nor no to an approval."""
        record = await self._store.tickets.get(ticket_id)
        if record is None:
            return _NO_SUCH
        word = message.text.strip()
        if record.ticket.resume_mode != "replay":
            choices = list(record.ticket.parameters.get("choices") or ())
            number = _number(word)
            given = choices[number - 1] if 0 < number <= len(choices) else word
            return await self.answer(record, who, message.name, given, message.message_id)
        payload = _WORDS.get(word.lower().rstrip("."))
        if payload is None:
            return "Answer with 1 (yes, once), 2 (for this session) or 3 (no); or /deny with a reason."
        return await self.answer(record, who, message.name, payload, message.message_id)

    async def said_alone(self, message: Inbound, session_id: str, who: Admitted) -> str | None:
        """Take a message that replies to none of ours as the answer to the one question that the chat's own session waits for,
        where it is one of its answers; None for any other. For chats of one person: in a room it may be said to somebody else.
        """
        asked = self._open.get(session_id, {})
        key = next(iter(asked.values())).shown.get(message.chat.key) if len(asked) == 1 else None
        post = None if key is None else await self._store.mail.get(self._platform, key)
        ticket_id = next(iter(asked), "")
        record = await self._store.tickets.get(ticket_id) if post is not None and post.state == "shown" else None
        if record is None or record.state != "pending":
            return None
        word = message.text.strip()
        if record.ticket.resume_mode == "replay":
            is_answer = word.lower().rstrip(".") in _WORDS
        else:
            choices = [str(choice) for choice in record.ticket.parameters.get("choices") or ()]
            is_answer = not choices or word in choices or 0 < _number(word) <= len(choices)
        return await self.replied(message, ticket_id, who) if is_answer else None

    async def answer(self, record: TicketRecord, who: Admitted, name: str, payload: Json, decision_id: str) -> str:
        """Settle a ticket for somebody, and return a line for them. Refused is whoever may not, and what came too late. Who asked
        may always say no.
        """
        asked = await asked_of(self._store, record)
        is_no = isinstance(payload, Mapping) and payload.get("approved") is False
        if not self._deciding.may(who, record, asked) and not (is_no and asked is not None and asked.person == who.user):
            return _NOT_YOURS.format(roles=", ".join(self._deciding.roles_of(record)))
        if isinstance(payload, Mapping) and payload.get("approved") and payload.get("scope", "once") not in scopes_of(record):
            return f"That scope is not offered here; there is: {', '.join(scopes_of(record))}."
        name = one_line(name)
        by = f"{name} ({Principal(self._platform, who.user).key})" if name else Principal(self._platform, who.user).key
        answer = Answer(record.ticket.id, payload=payload, decision_id=f"{self._platform}:{decision_id}", by=by, at=time.time())
        try:
            settled = await self._settle(answer)
        except (Denied, NotFound):
            settled = "refused"
        except InvalidArguments as error:
            return str(error)
        await self.refresh(record.session_id)
        return _LATE if settled == "refused" else ""

    # -- how it looks --------------------------------------------------------------------------------------------

    def _note(self, record: TicketRecord, chat: str, key: str) -> _Asked:
        """Note which post shows an open ticket in a chat."""
        asked = self._open.setdefault(record.session_id, {}).setdefault(record.ticket.id, _Asked())
        asked.shown[chat] = key
        return asked

    async def _outbox_parts(
        self, chat: Chat, record: TicketRecord, foot: str, buttons: Sequence[Button], key: str, origin: str = ""
    ) -> None:
        """Keep a ticket to be shown; deleted with the session that asks. ``origin`` says where that was, in copies."""
        prompt = str(record.ticket.parameters.get("prompt") or record.ticket.message)
        foot = f"{origin}\n{foot}" if origin else foot
        *pages, last = _pages(prompt, self._most - len(foot) - 2)
        for number, page in enumerate(pages):
            body = body_of(chat, page, is_plain=True)
            await self._outbox.put(chat.key, f"{key}:{number}", body, session_id=record.session_id)
        body = body_of(chat, f"{last}\n\n{foot}", buttons=buttons, is_plain=True) | ({"origin": origin} if origin else {})
        await self._outbox.put(chat.key, key, body, session_id=record.session_id)

    def _foot(self, record: TicketRecord) -> str:
        short = record.ticket.id[:_SHOWN_ID]
        if record.ticket.resume_mode != "replay":
            choices = record.ticket.parameters.get("choices") or ()
            lines = [f"{number}. {choice}" for number, choice in enumerate(choices, 1)]
            return "\n".join([*lines, f"Answer this message. ({short})"])
        roles = ", ".join(self._deciding.roles_of(record))
        until = "" if record.expires_at is None else f", until {time.strftime('%d %b %H:%M', time.localtime(record.expires_at))}"
        return f"1 yes, once · 2 for this session · 3 no — /approve {short}, /deny {short} REASON; for {roles}{until}"

    def _buttons(self, record: TicketRecord) -> list[Button]:
        if record.ticket.resume_mode != "replay":
            choices = record.ticket.parameters.get("choices") or ()
            return [Button(f"c{number}", str(choice), f"{number + 1}\ufe0f\u20e3") for number, choice in enumerate(choices[:9])]
        found = [Button(_YES, "Yes, once", "👍")]
        if "session" in scopes_of(record):
            found.append(Button(_SESSION, "For this session", "♾️"))
        return [*found, Button(_NO, "No", "👎")]


def _pages(prompt: str, most: int) -> list[str]:
    """Cut a prompt that is too long: nothing that a yes covers is left out."""
    return split(prompt, most) or [prompt]


def _outcome(record: TicketRecord) -> str:
    answer = record.answer
    by = f" by {answer.by}" if answer is not None and answer.by else ""
    payload = answer.payload if answer is not None and isinstance(answer.payload, Mapping) else {}
    how = f" ({payload['scope']})" if record.state == "approved" and payload.get("scope") else ""
    why = f": {one_line(str(payload['reason']), _REASON)}" if record.state == "denied" and payload.get("reason") else ""
    return f"{_SETTLED.get(record.state, record.state)}{by}{how}{why}"


def _origin(chat: Chat, asker: Principal | None) -> str:
    """Return where a question was asked, and by whom, as a line: names that others chose are marked as theirs."""
    title = f' "{one_line(chat.title)}"' if chat.title else ""
    where = f"the chat {one_line(chat.id)}{title}" if chat.is_group else "a direct chat"
    return f"asked by {one_line(asker.person) if asker is not None else 'nobody known'} in {where}"


def _ticket_in(key: str) -> str:
    """Return the id of the ticket in a post's key: ``ticket:ID``, ``ticket:ID:PAGE``, ``ticket:ID:to:CHAT[:PAGE]``."""
    return key.removeprefix(_KEY).partition(":")[0]


def _number(text: str) -> int:
    """Return a number of a few ASCII digits, -1 for anything else: a button's data may be anything."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 5 else -1
