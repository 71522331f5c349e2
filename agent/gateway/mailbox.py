"""Handles the messages of a platform, in order within each chat: commands, answers to questions, and messages for the model."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from agent.config import PlatformConfig
from agent.gateway.admission import Admission, Admitted
from agent.gateway.commands import ChatCommands, in_room, takes_back
from agent.gateway.failures import error_text, logged, retried_if_passing
from agent.gateway.forms import body_of, inbound_of
from agent.gateway.logs import work_on
from agent.gateway.messages import told_of
from agent.gateway.outbox import Outbox
from agent.gateway.splitting import split
from toolcrib.contract.chat import Inbound
from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import StoreFailed
from toolcrib.contract.mail import Mail
from toolcrib.contract.store import InboxMode, Store

if TYPE_CHECKING:
    from agent.conversation.manager import SessionManager
    from agent.gateway.held_chats import HeldChats
    from agent.gateway.limits import Quotas
    from agent.gateway.media import Media
    from agent.gateway.questions import ChatQuestions
    from agent.gateway.rooms import ChatRoom, Rooms

_log = logging.getLogger(__name__)
_PAUSE = 5.0
_SKEW = 2.0
"""Seconds that a chat server's clock may lag behind ours."""
_TOLD = 10_000


class Mailbox:
    """The mailbox of one platform, in one event loop. ``greet`` is called for each message that a session gets."""

    def __init__(
        self,
        platform: str,
        store: Store,
        config: PlatformConfig,
        admission: Admission,
        rooms: Rooms,
        questions: ChatQuestions,
        commands: ChatCommands,
        manager: SessionManager,
        outbox: Outbox,
        media: Media,
        quotas: Quotas,
        held: HeldChats,
        greet: Callable[[str, Inbound], None],
    ) -> None:
        self._platform = platform
        self._store = store
        self._mail = store.mail
        self._config = config
        self._admission = admission
        self._rooms = rooms
        self._questions = questions
        self._commands = commands
        self._manager = manager
        self._outbox = outbox
        self._media = media
        self._quotas = quotas
        self._greet = greet
        self._waiting: dict[str, deque[Mail]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._draining = self._closing = False
        self._left: Sequence[Mail] = ()
        self._held = held
        self._told_of: set[str] = set()
        """Tickets of questions whose chat was already informed that messages wait for the answer."""
        self.taken = 0
        """Messages that were handled since the start."""

    def use(self, config: PlatformConfig) -> None:
        """Use another configuration from the next message on."""
        self._config = config

    @property
    def waiting(self) -> int:
        """The number of messages that wait to be handled."""
        return sum(map(len, self._waiting.values()))

    @property
    def chats(self) -> int:
        """The number of chats with waiting messages."""
        return len(self._waiting)

    async def load(self) -> None:
        """Load the messages that an ended process left; ``start`` handles them. Raises StoreFailed."""
        self._left = await self._mail.waiting(self._platform)
        self._held.hold(mail.chat for mail in self._left if _takes_back(mail))

    def start(self) -> None:
        """Handle the messages that an ended process left."""
        for mail in self._left:
            self.add(mail)
        self._left = ()

    async def drain(self, seconds: float) -> None:
        """From now on, handle only messages that end or refuse something.

        Wait up to ``seconds`` for messages in progress, then cancel their tasks. Other messages, waiting or new, are left to the
        next process.
        """
        self._draining = True
        await self._wait(seconds)

    async def close(self, seconds: float) -> None:
        """Start no new work. Wait up to ``seconds`` for messages in progress, then cancel their tasks."""
        self._draining = self._closing = True
        await self._wait(seconds)

    async def _wait(self, seconds: float) -> None:
        tasks = list(self._tasks.values())
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=max(0.0, seconds))
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def add(self, mail: Mail) -> None:
        """Handle a stored message, after the earlier ones of its chat."""
        self._waiting.setdefault(mail.chat, deque()).append(mail)
        if mail.chat not in self._tasks and not self._closing:
            self._tasks[mail.chat] = asyncio.get_running_loop().create_task(self._work(mail.chat))

    async def _work(self, chat: str) -> None:
        waiting = self._waiting[chat]
        work_on(self._platform, chat)
        try:
            while not self._closing and (mail := await self._next(waiting)) is not None:
                try:
                    await self._take(mail)
                except StoreFailed as error:
                    _log.warning("a message of %s waits: %s", self._platform, error)
                    await asyncio.sleep(_PAUSE)
                    continue
                waiting.remove(mail)
                self.taken += 1
                if chat in self._held and not any(map(_takes_back, waiting)):
                    self._held.release(chat)
        finally:
            del self._tasks[chat]
            if not waiting:
                self._waiting.pop(chat, None)

    async def _next(self, waiting: deque[Mail]) -> Mail | None:
        """Return the next message to handle, or None. While draining, return only messages that end or refuse something."""
        at = 0
        while at < len(waiting):  # more may arrive meanwhile
            if not self._draining or await self._ends(waiting[at]):
                return waiting[at]
            at += 1
        return None

    async def _ends(self, mail: Mail) -> bool:
        """Return whether a message only stops a run or denies a request; the gateway handles these even while it drains."""
        message = inbound_of(mail.body)
        try:
            return takes_back(message.text) or await self._questions.denies(message)
        except StoreFailed:
            return False

    async def _take(self, mail: Mail) -> None:
        """Handle a message. Errors are shown in the chat, except StoreFailed: it is raised, and the message stays queued."""
        message = inbound_of(mail.body)
        message = replace(message, at=min(mail.at, message.at + _SKEW) if message.at else mail.at)  # not after it arrived
        try:
            with retried_if_passing():
                said = await self._handle(message)
        except StoreFailed:
            raise
        except Exception as error:  # noqa: BLE001 - an unanswerable message must not block the others
            _log.exception("a message of %s could not be answered: %s", self._platform, logged(error))
            who = await self._admission.admit(message.chat, message.user, message.roles, message.locked)
            said = error_text(error, is_owner=isinstance(who, Admitted) and who.is_owner and not message.chat.is_group)
        if said:
            for number, part in enumerate(split(said, self._outbox.most)):
                body = body_of(message.chat, part, reply_to=message.message_id)
                await self._outbox.put(message.chat.key, f"reply:{mail.id}:{number}", body)
        await self._mail.done([mail.id])

    async def _handle(self, message: Inbound) -> str:
        """Handle a message, and return the immediate reply, "" for none."""
        who = await self._admission.admit(message.chat, message.user, message.roles, message.locked)
        if not isinstance(who, Admitted):  # no longer admitted
            return ""
        said = await self._commands.run(message, who)
        if said is None:
            said = await self._answered(message, who)
        if said is None:
            return await self._say(message, who)
        return said

    async def _answered(self, message: Inbound, who: Admitted) -> str | None:
        """Handle a message as the answer to a question and return the reply; None if it is not an answer."""
        if message.reply_to and (ticket := await self._questions.shown_soon(message.chat, message.reply_to)):
            return await self._questions.replied(message, ticket, who)
        if message.reply_to or message.chat.is_group or not self._questions.open:
            return None
        room = await self._rooms.enter(message.chat, who)
        return await self._questions.said_alone(message, room.session_id, who)

    async def _say(self, message: Inbound, who: Admitted) -> str:
        room = await self._rooms.enter(message.chat, who)
        self._greet(room.session_id, message)
        if not who.is_owner and (busy := self._quotas.busy(who.user, room.session_id, self._manager.at_work)):
            return busy
        try:
            return await self._said_in(room, message, who)
        finally:
            self._quotas.begun(room.session_id)

    async def _said_in(self, room: ChatRoom, message: Inbound, who: Admitted) -> str:
        session_id, busy = room.session_id, room.busy or self._config.busy
        who_says = self._rooms.requests.principal(message.chat, who)
        if not who.is_owner and (spent := await self._quotas.spent(who_says)):
            return spent
        text, images, told = await self._media.taken(message, session_id)
        if text.strip() or images:
            text = in_room(message.chat, message.name or message.user, text)
            key = f"{self._platform}:{message.message_id}"
            mode: InboxMode = "steer" if busy == "steer" else "interrupt" if busy == "interrupt" else "queue"
            text, told_now = await told_of(self._store, self._platform, message.chat, text)
            await self._manager.say_in(session_id, text, images, principal=who_says, mode=mode, message_key=key)
            if told_now:
                await self._store.state.write(told_now)
            told = "\n".join(filter(None, (told, "" if mode == "interrupt" else self._waits(session_id))))
        return told

    def _waits(self, session_id: str) -> str:
        """Return the line for a message that waits behind a question, once for each question; "" if it does not wait."""
        asked = [one for one in self._questions.open_in(session_id) if one not in self._told_of]
        if not asked:
            return ""
        if len(self._told_of) > _TOLD:
            self._told_of.clear()
        self._told_of.update(asked)
        return "This message waits until the question above is answered; /stop cancels the run."


def _takes_back(mail: Mail) -> bool:
    return takes_back(inbound_of(mail.body).text)
