"""A run in its chat: what is said while it goes on, and what it came to."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from agent.conversation.state import RunResult, RunState
from agent.events import (
    CompressionFailed,
    ContextCompressed,
    DelegateEnded,
    Event,
    ImageMade,
    Retrying,
    TextDelta,
    TicketOpened,
    TicketReminder,
    TurnFinished,
    TurnStarted,
)
from agent.gateway.failures import error_text
from agent.gateway.forms import body_of
from agent.gateway.long_texts import MESSAGES, LongTexts
from agent.gateway.outbox import ANSWER, Outbox
from agent.gateway.splitting import split
from agent.gateway.status import ended_unseen
from toolcrib.contract.chat import Chat
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import StoreFailed, ToolcribError

if TYPE_CHECKING:
    from agent.gateway.questions import ChatQuestions
    from agent.gateway.sending import ChatFiles
    from toolcrib.contract.store import Store

_log = logging.getLogger(__name__)
_MORE = " …"
_LOOKS = 32
"""Times that an answer is cut into messages anew while it doubles its length."""
_ENDS = {
    "interrupted": "(interrupted)",
    "ended": "(ended: something was refused that it could not go on without)",
    "max_turns": "(that was the last turn it may take; say `go on` if it should)",
}
_FAILED = "failed"
_TYPING_EVERY = 4.0


@dataclass(slots=True)
class _Running:
    """A run that goes on: its id, and the turn's number and text so far."""

    run_id: str = ""
    turn: int = 0
    text: str = ""
    full: int = 0
    """Messages of the turn that are full, and kept to be shown."""
    looked_at: int = 0
    """Characters from which on it is looked again whether another is full."""
    is_shown_whole: bool = False
    """True once as much is shown of the turn as is while it comes."""


class Replies:
    """For one platform. ``chat_of`` finds a session's chat, ``run_of`` the id of the run that goes on in it, and ``is_owners``
    whether the owner alone reads it, who is told all that is known of a failure.
    """

    def __init__(
        self,
        outbox: Outbox,
        questions: ChatQuestions,
        files: ChatFiles,
        chat_of: Callable[[str], Awaitable[Chat | None]],
        run_of: Callable[[str], str],
        is_owners: Callable[[str], Awaitable[bool]],
        most: int,
        *,
        streams: bool,
        typing: Callable[[Chat, bool], Awaitable[None]] | None = None,
    ) -> None:
        self._outbox = outbox
        self._questions = questions
        self._files = files
        self._chat_of = chat_of
        self._run_of = run_of
        self._is_owners = is_owners
        self._most = most
        self._texts = LongTexts(outbox, files, most)
        self.streams = streams
        self._typing = typing
        self._typists: dict[str, asyncio.Task[None]] = {}
        self._running: dict[str, _Running] = {}
        self._chats: dict[str, Chat] = {}
        self._work: dict[str, asyncio.Queue[Coroutine[Any, Any, None]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_behind = False
        """True where the store failed, and something may be left to show."""

    def begin(self, session_id: str, chat: Chat) -> None:
        """Note the chat of a session, so that its first words need no look."""
        self._chats[session_id] = chat

    def watch(self, session_id: str, event: Event) -> None:
        """Take an event of a session. Never waits."""
        running = self._running.get(session_id)
        match event:
            case TurnStarted(number=number):
                self._running[session_id] = _Running(self._run_of(session_id), number)
                self._type(session_id)
            case TextDelta(text=text) if running is not None:
                if not running.is_shown_whole:
                    running.text += text
                    self._show(session_id, running)
            case TurnFinished(number=number, text=text, calls=calls) if running is not None and calls:
                self._later(session_id, self._say(session_id, f"{ANSWER}{running.run_id}:{number}", text))
            case ImageMade(image=image) if running is not None:
                self._later(session_id, self._files.show(session_id, running.run_id, image))
            case TicketOpened(ticket=ticket):
                self._later(session_id, self._ask(session_id, ticket))
            case TicketReminder(ticket=ticket):
                self._later(session_id, self._questions.remind(ticket))
            case Retrying() if running is not None:
                running.text, running.looked_at, running.is_shown_whole = "", 0, False
            case _:
                self._tell(session_id, event)

    def done(self, session_id: str, outcome: RunResult | Exception) -> None:
        """Take what a run came to. Never waits."""
        running = self._running.pop(session_id, None)
        if (typist := self._typists.pop(session_id, None)) is not None:
            typist.cancel()
        run_id = running.run_id if running is not None else self._run_of(session_id)
        self._later(session_id, self._finish(session_id, run_id, outcome))

    async def catch_up(self, store: Store, platform: str) -> None:
        """Show what runs came to that could not be kept to be shown, by an ended process or this one. Raises StoreFailed."""
        self.is_behind = False
        try:
            for run in await ended_unseen(store, platform):
                await self.finish(run)
        except StoreFailed:
            self.is_behind = True
            raise

    async def finish(self, state: RunState) -> None:
        """Show what a run came to that ended in an earlier process, as far as that was not shown. Raises StoreFailed."""
        chat = await self._chat_of(state.session_id)
        if chat is None:
            return
        try:
            state.raise_error()
        except ToolcribError as error:
            words = error_text(error, is_owner=await self._is_owners(state.session_id))
            await self._final(chat, state.session_id, state.id, _FAILED, words)
        else:
            await self._final(chat, state.session_id, state.id, str(state.turn), state.text, state.stopped or "done")

    async def withdraw(self, chat: str) -> bool:
        """Take back what is still to be shown of answers in a chat. Return whether there was any. Raises StoreFailed."""
        return await self._outbox.withdraw(chat, ANSWER)

    async def flush(self) -> None:
        """Return once everything that was told is on its way."""
        for typist in self._typists.values():
            typist.cancel()
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- while it goes on ----------------------------------------------------------------------------------------

    def _show(self, session_id: str, running: _Running) -> None:
        chat = self._chats.get(session_id)
        if chat is None or not self.streams or not running.run_id or len(running.text) < running.looked_at:
            return
        key, text = f"{ANSWER}{running.run_id}:{running.turn}", running.text.strip()
        if len(text) > self._most:
            if not self._outbox.edits:  # what can't be changed is shown once it is whole
                return
            running.looked_at = len(running.text) + len(text) // _LOOKS  # else the work would grow with the square of the length
            *full, text = split(self._outbox.growing(text), self._most) or [""]
            if len(full) < running.full:
                return
            if len(full) >= MESSAGES - 1:  # the last one is for what its end says of the rest
                full, text, running.text, running.is_shown_whole = full[: MESSAGES - 1], "", "", True
            if len(full) > running.full:
                for number in range(running.full, len(full)):
                    self._later(session_id, self._fill(chat, f"{key}:{number}", full[number]))
                running.full = len(full)
        elif running.full:  # it was begun anew: what is shown of the first try is replaced in the end
            return
        if text and (not running.full or session_id not in self._work):  # not before those that are full
            more = _MORE if running.full and len(text) + len(_MORE) <= self._most else ""
            self._outbox.show(chat.key, f"{key}:{running.full}", body_of(chat, text + more))

    async def _fill(self, chat: Chat, key: str, text: str) -> None:
        await self._outbox.put(chat.key, key, body_of(chat, text))

    def _type(self, session_id: str) -> None:
        """Show that an answer is being written, until the run comes to something."""
        chat = self._chats.get(session_id)
        if self._typing is None or chat is None or session_id in self._typists:
            return
        task = self._typists[session_id] = asyncio.get_running_loop().create_task(self._typist(chat, self._typing))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @staticmethod
    async def _typist(chat: Chat, typing: Callable[[Chat, bool], Awaitable[None]]) -> None:
        with contextlib.suppress(Exception):  # it is a courtesy
            try:
                while True:
                    await typing(chat, True)
                    await asyncio.sleep(_TYPING_EVERY)
            finally:
                await typing(chat, False)

    def _tell(self, session_id: str, event: Event) -> None:
        whole = ""
        match event:
            case ContextCompressed(before=before, after=after):
                line = f"_The conversation had become long: its middle was summarised ({before:,} to about {after:,} tokens)._"
            case CompressionFailed(reason=reason):
                line = "_The conversation is nearly too long, and could not be summarised._"
                whole = f"{line[:-2]}: {reason}_"
            case DelegateEnded(name=name, ended=ended, problem=problem):
                line = f"_The delegate {name} has ended ({'it failed' if problem else ended})._"
                whole = f"_The delegate {name} has ended ({problem or ended})._"
            case _:
                return
        key = f"note:{self._run_of(session_id)}:{type(event).__name__}:{hash(event)}"
        self._later(session_id, self._say(session_id, key, line, whole))

    # -- what must be shown --------------------------------------------------------------------------------------

    def _later(self, session_id: str, work: Coroutine[Any, Any, None]) -> None:
        """Do it after what was begun before for this session."""
        queue = self._work.get(session_id)
        if queue is not None:
            queue.put_nowait(work)
            return
        queue = self._work[session_id] = asyncio.Queue()
        queue.put_nowait(work)
        task = asyncio.get_running_loop().create_task(self._drain(session_id, queue))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _drain(self, session_id: str, queue: asyncio.Queue[Coroutine[Any, Any, None]]) -> None:
        while not queue.empty():
            try:
                await queue.get_nowait()
            except ToolcribError as error:
                self.is_behind = self.is_behind or isinstance(error, StoreFailed)
                _log.error("something could not be shown for session %s: %s", session_id[:12], error)
            except Exception:  # noqa: BLE001 - one message must not keep back the others
                _log.exception("something could not be shown for session %s", session_id[:12])
        del self._work[session_id]

    async def _say(self, session_id: str, key: str, text: str, whole: str = "") -> None:
        """Say something, to the owner the ``whole`` where there is more of it."""
        chat = await self._chat_of(session_id)
        if chat is not None:
            text = whole if whole and await self._is_owners(session_id) else text
            await self._texts.put(chat, session_id, key, text.strip())

    async def _seen(self, key: str, text: str) -> str:
        """Return of a text that was broken off the messages that people have seen something of, one at least."""
        parts = split(self._outbox.redact(text), self._most)
        seen = 1
        while seen < len(parts) and await self._outbox.is_begun(f"{key}:{seen}"):
            seen += 1
        return text if seen >= len(parts) else "\n\n".join(parts[:seen])

    async def _ask(self, session_id: str, ticket_id: str) -> None:
        if (chat := await self._chat_of(session_id)) is not None:
            await self._questions.show(chat, ticket_id)

    async def _finish(self, session_id: str, run_id: str, outcome: RunResult | Exception) -> None:
        chat = await self._chat_of(session_id)
        if chat is None:
            return
        if isinstance(outcome, Exception):
            await self._final(chat, session_id, run_id, _FAILED, error_text(outcome, is_owner=await self._is_owners(session_id)))
        elif outcome.stopped == "parked":
            for ticket_id in outcome.tickets:
                await self._questions.show(chat, ticket_id)
        else:
            await self._final(chat, session_id, run_id, str(outcome.turns), outcome.text, outcome.stopped)

    async def _final(self, chat: Chat, session_id: str, run_id: str, turn: str, text: str, stopped: str = "done") -> None:
        key, end, text = f"{ANSWER}{run_id}:{turn}", _ENDS.get(stopped, ""), text.strip()
        if stopped == "interrupted":
            text = await self._seen(key, text)
        whole = "\n\n".join(filter(None, [text, end])) or "(no answer)"
        await self._texts.put(chat, session_id, key, whole)
        await self._outbox.mark(chat.key, f"run:{run_id}")
