"""A run in its chat: the answer while it is written, and the final result."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
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
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from agent.gateway.failures import error_text
from agent.gateway.forms import body_of, one_line
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
    from toolcrib.contract.types import ToolCall

_log = logging.getLogger(__name__)
_MORE = " …"
_LOOKS = 32
"""Number of times that an answer is split into messages again while its length doubles."""
_ENDS = {
    "interrupted": "(interrupted)",
    "ended": "(stopped: it can't continue without a call that was denied)",
    "max_turns": "(stopped at the limit of turns; write `continue` to resume) ",
}
_FAILED = "failed"
_TYPING_EVERY = 4.0
_CALL_CHARS = 160


@dataclass(slots=True)
class _Running:
    """A run in progress: its id, and the number and text of its current turn."""

    run_id: str = ""
    turn: int = 0
    text: str = ""
    full: int = 0
    """Messages of the turn that are full and queued."""
    looked_at: int = 0
    """Minimum length of text for the next check for a full message."""
    is_shown_whole: bool = False
    """True once the turn shows as much as it may before it ends."""


class Replies:
    """Shows the answers of one platform's runs.

    ``chat_of`` returns a session's chat, ``run_of`` the id of its current run, and ``is_owners`` whether only the owner reads the
    chat; if so, failures are shown in full.
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
        calling: Callable[[Chat, str], Awaitable[None]] | None = None,
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
        self._calling = calling
        self._typists: dict[str, asyncio.Task[None]] = {}
        self._running: dict[str, _Running] = {}
        self._chats: dict[str, Chat] = {}
        self._work: dict[str, asyncio.Queue[Coroutine[Any, Any, None]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_behind = False
        """True if the store failed, so that some results may not be shown yet."""

    def begin(self, session_id: str, chat: Chat) -> None:
        """Record the chat of a session, so that its first text needs no look-up."""
        self._chats[session_id] = chat

    def watch(self, session_id: str, event: Event) -> None:
        """Handle an event of a session. Never waits."""
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
            case ToolStarted(call=call) if running is not None and self._calling is not None:
                self._later(session_id, self._call(session_id, call, self._calling))
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
        """Handle the outcome of a run. Never waits."""
        running = self._running.pop(session_id, None)
        if (typist := self._typists.pop(session_id, None)) is not None:
            typist.cancel()
        run_id = running.run_id if running is not None else self._run_of(session_id)
        self._later(session_id, self._finish(session_id, run_id, outcome))

    async def catch_up(self, store: Store, platform: str) -> None:
        """Show results that an ended process, or this one, could not store as posts. Raises StoreFailed."""
        self.is_behind = False
        try:
            for run in await ended_unseen(store, platform):
                await self.finish(run)
        except StoreFailed:
            self.is_behind = True
            raise

    async def finish(self, state: RunState) -> None:
        """Show what is not shown yet of a run that ended in an earlier process. Raises StoreFailed."""
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
        """Withdraw the parts of answers that are not shown yet in a chat. Return whether there were any. Raises StoreFailed."""
        return await self._outbox.withdraw(chat, ANSWER)

    async def flush(self) -> None:
        """Return when the posts of all earlier events and outcomes are queued."""
        for typist in self._typists.values():
            typist.cancel()
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- while the answer is written -----------------------------------------------------------------------------

    def _show(self, session_id: str, running: _Running) -> None:
        chat = self._chats.get(session_id)
        if chat is None or not self.streams or not running.run_id or len(running.text) < running.looked_at:
            return
        key, text = f"{ANSWER}{running.run_id}:{running.turn}", running.text.strip()
        if len(text) > self._most:
            if not self._outbox.edits:  # a platform without edits shows the text when it is complete
                return
            running.looked_at = len(running.text) + len(text) // _LOOKS  # otherwise the work grows quadratically
            *full, text = split(self._outbox.growing(text), self._most) or [""]
            if len(full) < running.full:
                return
            if len(full) >= MESSAGES - 1:  # the last message is kept for the rest of the answer
                full, text, running.text, running.is_shown_whole = full[: MESSAGES - 1], "", "", True
            if len(full) > running.full:
                for number in range(running.full, len(full)):
                    self._later(session_id, self._fill(chat, f"{key}:{number}", full[number]))
                running.full = len(full)
        elif running.full:  # the turn was retried: the final text replaces what the first try showed
            return
        if text and (not running.full or session_id not in self._work):  # full messages come first
            more = _MORE if running.full and len(text) + len(_MORE) <= self._most else ""
            self._outbox.show(chat.key, f"{key}:{running.full}", body_of(chat, text + more))

    async def _fill(self, chat: Chat, key: str, text: str) -> None:
        await self._outbox.put(chat.key, key, body_of(chat, text))

    def _type(self, session_id: str) -> None:
        """Show that an answer is being written, until the run ends."""
        chat = self._chats.get(session_id)
        if self._typing is None or chat is None or session_id in self._typists:
            return
        task = self._typists[session_id] = asyncio.get_running_loop().create_task(self._typist(chat, self._typing))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @staticmethod
    async def _typist(chat: Chat, typing: Callable[[Chat, bool], Awaitable[None]]) -> None:
        with contextlib.suppress(Exception):  # the typing indicator is optional
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
                line = f"_The conversation was long; its middle was summarised ({before:,} to about {after:,} tokens)._"
            case CompressionFailed(reason=reason):
                line = "_The conversation is nearly too long and could not be summarised._"
                whole = f"{line[:-2]}: {reason}_"
            case DelegateEnded(name=name, ended=ended, problem=problem):
                line = f"_The delegate {name} has ended ({'it failed' if problem else ended})._"
                whole = f"_The delegate {name} has ended ({problem or ended})._"
            case _:
                return
        key = f"note:{self._run_of(session_id)}:{type(event).__name__}:{hash(event)}"
        self._later(session_id, self._say(session_id, key, line, whole))

    # -- posts that must be shown --------------------------------------------------------------------------------

    def _later(self, session_id: str, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work`` after all earlier work for this session."""
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
            except Exception:  # noqa: BLE001 - one message must not block the others
                _log.exception("something could not be shown for session %s", session_id[:12])
        del self._work[session_id]

    async def _say(self, session_id: str, key: str, text: str, whole: str = "") -> None:
        """Post a text; the owner gets ``whole`` instead, if given."""
        chat = await self._chat_of(session_id)
        if chat is not None:
            text = whole if whole and await self._is_owners(session_id) else text
            await self._texts.put(chat, session_id, key, text.strip())

    async def _seen(self, key: str, text: str) -> str:
        """Return the messages of an interrupted text that users have seen completely or in part; at least the first."""
        parts = split(self._outbox.redact(text), self._most)
        seen = 1
        while seen < len(parts) and await self._outbox.is_begun(f"{key}:{seen}"):
            seen += 1
        return text if seen >= len(parts) else "\n\n".join(parts[:seen])

    async def _call(self, session_id: str, call: ToolCall, calling: Callable[[Chat, str], Awaitable[None]]) -> None:
        values = call.args.values() if isinstance(call.args, Mapping) else (call.args,)
        words = " ".join([f"{call.name}:", *(one_line(str(value), _CALL_CHARS) for value in values)])
        if (chat := await self._chat_of(session_id)) is not None:
            with contextlib.suppress(Exception):  # a call that can't be shown is skipped
                await calling(chat, one_line(self._outbox.redact(words), _CALL_CHARS))

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
