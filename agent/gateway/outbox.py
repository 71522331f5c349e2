"""Messages for one platform: stored first, then sent in order within each chat, until each is shown or has finally failed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections import deque
from collections.abc import Callable, Mapping

from agent.deadline import Deadline
from agent.gateway.forms import outbound_of
from agent.gateway.pace import SendRate
from toolcrib.contract.chat import NotSent, Platform
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import StoreFailed
from toolcrib.contract.mail import Post, PostState
from toolcrib.contract.store import Store
from toolcrib.contract.types import Json
from tools.redact import Redactor

_log = logging.getLogger(__name__)
SENT_AGAIN = "(sent again: this message may have been shown before)"
"""Note below a message that may be shown twice, if the platform can't prevent that."""
ANSWER = "said:"
"""Prefix of the keys of posts that are parts of an answer."""
_ANEW = ":anew"
"""Suffix of the key of a part that is shown again because its message can no longer be edited."""
MESSAGE = "message:"
"""Prefix of the keys of posts that ``send_message`` stores in any process; ``agent.gateway.messages.show`` queues them."""
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 300.0
_GIVES_UP = 24 * 3600.0
"""Seconds after which a message that could not be shown fails."""
_LEAST_TRIES = 20
"""Minimum tries before a message fails because of its age (they take about an hour), in case the clock was set forward."""
_SEND_SECONDS = 60.0
_STORE_PAUSE = 5.0


@dataclass(slots=True)
class LiveText:
    """Text of an answer that is still being written; the shown text may lag behind. ``key`` names its post."""

    key: str
    body: Mapping[str, Json]
    shown: Mapping[str, Json] | None = None
    shown_as: str = ""
    edits: int = 0


class _Lane:
    """The messages of one chat, in order."""

    def __init__(self) -> None:
        self.posts: deque[str] = deque()
        """Keys, the oldest first."""
        self.live: LiveText | None = None
        self.task: asyncio.Task[None] | None = None
        self.changed = asyncio.Event()
        self.begun_at = 0.0
        """Time when the beginning of an answer was last shown."""
        self.edited_at = 0.0
        self.deadline = Deadline()
        self.held_until = 0.0
        """Time before which the platform accepts nothing for this chat."""
        self._next: tuple[object, float] = (None, 0.0)
        """The next try, and its time on the monotonic clock."""

    def wait(self, post: Post) -> float:
        """Return the seconds until a post is due; setting the wall clock back does not delay posts."""
        tried = post.key, post.tries, post.due_at
        if self._next[0] != tried:
            self._next = tried, time.monotonic() + min(post.due_at - time.time(), _LONGEST_PAUSE)
        return self._next[1] - time.monotonic()

    def hold(self, error: NotSent) -> None:
        """Send nothing for as long as the platform asks, at most a day."""
        if error.retry_after is not None:
            self.held_until = max(self.held_until, time.monotonic() + min(error.retry_after, _GIVES_UP))


class Outbox:
    """Outbox of one platform, in one event loop. ``redactor`` returns the Redactor for all texts that are stored or shown."""

    def __init__(self, platform: Platform, store: Store, redactor: Callable[[], Redactor] = Redactor) -> None:
        self._platform = platform
        self._redactor = redactor
        self._mail = store.mail
        self._lanes: dict[str, _Lane] = {}
        self._pace: SendRate | None = None
        self._is_open = False
        self._closing = False
        self.sent = 0
        """Posts that were shown since the start."""
        self.failed = 0
        """Posts that failed since the start."""

    @property
    def waiting(self) -> int:
        """The number of posts that were not shown yet."""
        return sum(len(lane.posts) for lane in self._lanes.values())

    async def start(self) -> None:
        """Queue the posts that an ended process left, except ``send_message``'s; ``open`` sends them. Raises StoreFailed."""
        self._pace = SendRate(self._platform.traits.per_second, self._platform.traits.burst)
        for post in await self._mail.pending(self._platform.name):
            if not post.key.startswith(MESSAGE):
                self._queue(post.chat, post.key)

    def open(self) -> None:
        """Begin to send. Call this once the platform has started and restored its state."""
        self._is_open = True
        for chat, lane in list(self._lanes.items()):
            self._run(chat, lane)

    def adopt(self, chat: str, key: str) -> None:
        """Show a post that another process stored. Does nothing if it is queued already."""
        if not self._closing:
            self._queue(chat, key)

    async def close(self, seconds: float = 10.0) -> None:
        """Send what can be sent within ``seconds``; the rest is left to the next process."""
        self._closing = True
        tasks = [lane.task for lane in self._lanes.values() if lane.task is not None]
        for lane in self._lanes.values():
            lane.changed.set()
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def put(self, chat: str, key: str, body: Mapping[str, Json], *, due_at: float = 0.0, session_id: str = "") -> Post:
        """Store a post, or replace the one with this key, and send it in its turn. Raises StoreFailed: then nothing is stored.

        The post is deleted with the session ``session_id``; "" means the chat's session.
        """
        body = {**body, "text": self.redact(body["text"])}
        kept = await self._mail.post(Post(self._platform.name, chat, key, body, due_at=due_at, session_id=session_id))
        lane = self._lanes.get(chat)
        if lane is not None and lane.live is not None and lane.live.key == key:
            lane.live = None
        if kept.state not in ("shown", "failed"):  # even if its beginning is being sent
            self._queue(chat, key)
        return kept

    async def mark(self, chat: str, key: str) -> None:
        """Store an empty post that records that a result was queued. Raises StoreFailed."""
        post = await self._mail.post(Post(self._platform.name, chat, key, {}))
        if post.state != "shown":
            await self._mail.moved(post.id, "shown")

    async def is_sending(self, chat: str, prefix: str) -> bool:
        """Return whether a post with this key prefix may be visible while its message id is unknown. Raises StoreFailed."""
        lane = self._lanes.get(chat)
        for key in [] if lane is None else [one for one in lane.posts if one.startswith(prefix)]:
            post = await self._mail.get(self._platform.name, key)
            if post is not None and post.state == "sending" and not post.shown_as:
                return True
        return False

    def redact(self, text: str) -> str:
        """Return a text without the known secrets."""
        return self._redactor().text(text)

    def growing(self, text: str) -> str:
        """Return the part of an unfinished answer that may be shown."""
        return self._redactor().growing(text)

    async def withdraw(self, chat: str, prefix: str) -> bool:
        """Withdraw a chat's posts that were not shown at all, by key prefix. Return whether any were. Raises StoreFailed."""
        lane, found = self._lanes.get(chat), False
        for key in [] if lane is None else [one for one in lane.posts if one.startswith(prefix)]:
            post = await self._mail.get(self._platform.name, key)
            if post is not None and post.state == "waiting" and not post.shown_as and post.body:
                await self._mail.post(Post(self._platform.name, chat, key, {}))
                found = True
        return found

    async def is_begun(self, key: str) -> bool:
        """Return whether users may have seen a part of a post. Raises StoreFailed."""
        post = await self._mail.get(self._platform.name, key)
        return post is not None and bool(post.body) and (post.state in ("sending", "shown") or bool(post.shown_as))

    async def is_known(self, key: str) -> bool:
        """Return whether a post with that key exists. Raises StoreFailed."""
        return await self._mail.get(self._platform.name, key) is not None

    @property
    def most(self) -> int:
        """The maximum characters of a message."""
        return self._platform.traits.max_chars

    @property
    def most_bytes(self) -> int:
        """The maximum bytes of a file, 0 if the platform accepts none."""
        return self._platform.traits.max_file_bytes

    @property
    def edits(self) -> bool:
        """True if messages can be edited."""
        return self._platform.traits.edit_seconds is not None

    def show(self, chat: str, key: str, body: Mapping[str, Json]) -> None:
        """Show the current text of an unfinished answer; intermediate texts may be skipped. ``put`` with ``key`` ends this."""
        if self._platform.traits.edit_seconds is None or self._closing:
            return
        lane = self._lane(chat)
        if lane.live is None or lane.live.key != key:
            lane.live = LiveText(key, body)
        else:
            lane.live.body = body
        self._run(chat, lane)

    def _queue(self, chat: str, key: str) -> None:
        lane = self._lane(chat)
        if key not in lane.posts:
            lane.posts.append(key)
        self._run(chat, lane)

    def _lane(self, chat: str) -> _Lane:
        lane = self._lanes.get(chat)
        if lane is None:
            lane = self._lanes[chat] = _Lane()
        return lane

    def _run(self, chat: str, lane: _Lane) -> None:
        lane.changed.set()
        if lane.task is None and self._is_open and not (self._closing and not lane.posts):
            lane.task = asyncio.get_running_loop().create_task(self._work(chat, lane))

    # -- one chat ------------------------------------------------------------------------------------------------

    async def _work(self, chat: str, lane: _Lane) -> None:
        try:
            while lane.posts or self._has_news(lane):
                lane.changed.clear()
                try:
                    await self._step(chat, lane)
                except Exception as error:  # noqa: BLE001 - usually the store: nothing is lost, and the other chats continue
                    level = logging.WARNING if isinstance(error, StoreFailed) else logging.ERROR
                    _log.log(level, "a message for %s waits: %s", self._platform.name, error, exc_info=level == logging.ERROR)
                    await self._pause(lane, _STORE_PAUSE)
        finally:
            lane.task = None
            self._forget(chat, lane)

    def _forget(self, chat: str, lane: _Lane) -> None:
        """Drop a lane that has nothing to show, once the pauses that it records for its chat are over."""
        if lane.task is not None or lane.posts or lane.live is not None or self._lanes.get(chat) is not lane:
            return
        wait = max(lane.held_until, lane.edited_at + (self._platform.traits.edit_seconds or 0.0)) - time.monotonic()
        if wait > 0:
            asyncio.get_running_loop().call_later(wait, self._forget, chat, lane)
        else:
            lane.deadline.close()
            del self._lanes[chat]

    def _has_news(self, lane: _Lane) -> bool:
        return lane.live is not None and not self._closing and lane.live.shown != lane.live.body

    async def _step(self, chat: str, lane: _Lane) -> None:
        if (wait := lane.held_until - time.monotonic()) > 0:
            await self._pause(lane, wait)
            return
        if not lane.posts:
            if lane.live is not None:
                await self._update(chat, lane, lane.live)
            return
        key = lane.posts[0]
        post = await self._mail.get(self._platform.name, key)
        if post is None or post.state in ("shown", "failed"):
            lane.posts.popleft()
        elif not post.body:
            await self._mail.moved(post.id, "shown")
        elif (wait := lane.wait(post)) > 0:
            await self._pause(lane, wait)
        elif await self._try(lane, post):
            lane.posts.popleft()

    async def _pause(self, lane: _Lane, seconds: float) -> None:
        if self._closing:
            raise asyncio.CancelledError  # the next process sends what waits
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await lane.changed.wait()
                lane.changed.clear()

    async def _try(self, lane: _Lane, post: Post) -> bool:
        """Send a post, and return whether it is finished. A post in state ``sending`` was sent before, with an unknown result."""
        name, traits = self._platform.name, self._platform.traits
        is_again = post.state == "sending" and not (post.shown_as and traits.edit_seconds is not None)  # an edit may be repeated
        note = SENT_AGAIN if is_again and not traits.idempotent else ""
        if post.shown_as and traits.edit_seconds is not None:
            await self._edit_pause(lane)
        await self._paced()
        await self._mail.moved(post.id, "sending")
        edits = post.shown_as if traits.edit_seconds is not None else ""
        out = outbound_of(post.body, post.key, edits, note, is_again=is_again)
        try:
            with lane.deadline.within(_SEND_SECONDS):
                shown_as = await self._platform.send(out)
        except NotSent as error:
            lane.hold(error)
            return await self._not_sent(post, error)
        except Exception as error:  # noqa: BLE001 - foreign code: the post may have been shown or not
            _log.debug("%s: a message was not sent", name, exc_info=True)
            kind = type(error).__name__
            return await self._not_sent(post, NotSent(f"{kind}: {error}", perhaps_sent=True, code=kind))
        self.sent += 1
        now = await self._mail.moved(post.id, "shown", shown_as=shown_as, body=post.body)
        return now is None or now.state != "waiting"

    async def _not_sent(self, post: Post, error: NotSent) -> bool:
        now, tries = time.time(), post.tries + 1
        if error.for_good or (now - post.at > _GIVES_UP and tries > _LEAST_TRIES):
            if error.for_good and post.shown_as and self.edits and post.key.startswith(ANSWER) and not post.key.endswith(_ANEW):
                await self._show_anew(post)
                return True
            self.failed += 1
            _log.error("a message for %s is dropped: %s", self._platform.name, error)
            given_up = await self._mail.moved(post.id, "failed", problem=str(error), body=post.body)
            return given_up is None or given_up.state != "waiting"
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(tries - 1, 10)) * random.uniform(0.8, 1.0)  # noqa: S311 - no secret
        pause = pause if error.retry_after is None else max(0.1, min(error.retry_after, _GIVES_UP))
        level = logging.DEBUG if tries & (tries - 1) else logging.WARNING  # logged at tries 1, 2, 4, 8 ...
        _log.log(level, "a message for %s failed, retrying in %.0f s: %s", self._platform.name, pause, error)
        state: PostState = "sending" if error.perhaps_sent or post.state == "sending" else "waiting"
        await self._mail.moved(post.id, state, due_at=now + pause, problem=str(error) or "not sent")
        return False

    async def _show_anew(self, post: Post) -> None:
        """Store a part of an answer as a new message, because the old message was deleted or is too old to edit."""
        key, lane = post.key + _ANEW, self._lane(post.chat)
        await self._mail.post(Post(post.platform, post.chat, key, post.body, session_id=post.session_id))
        await self._mail.moved(post.id, "failed", problem="shown anew")
        if key not in lane.posts:
            lane.posts.insert(1, key)

    # -- an answer while it is written ---------------------------------------------------------------------------

    async def _update(self, chat: str, lane: _Lane, live: LiveText) -> None:
        """Show the current text of an answer. The first text is stored before it is sent: the final text can then replace it."""
        traits, body = self._platform.traits, live.body
        if not live.shown_as:
            if not (text := self.growing(body["text"])):
                live.shown = body
                return
            post = await self._mail.post(Post(self._platform.name, chat, live.key, {**body, "text": text}))
            live.shown_as, live.shown = post.shown_as, body
            if not live.shown_as:
                if await self._try(lane, post) and (known := await self._mail.get(self._platform.name, live.key)) is not None:
                    live.shown_as = known.shown_as
                lane.begun_at = time.monotonic()
                if not live.shown_as:
                    lane.live = None  # it can't be shown now; the final text will be
                return
        if live.edits >= traits.max_edits:
            live.shown = live.body
            return
        await self._edit_pause(lane, of=live)
        if lane.live is not live or lane.posts:
            return
        await self._paced()
        body, live.edits = live.body, live.edits + 1
        live.shown = body
        text = self.growing(body["text"]) or "…"
        try:
            with lane.deadline.within(_SEND_SECONDS):
                await self._platform.send(outbound_of({**body, "text": text}, f"{live.key}#{live.edits}", live.shown_as))
        except Exception as error:  # noqa: BLE001 - the next update or the whole answer shows it
            _log.debug("an answer on %s could not be updated: %s", self._platform.name, error)
            if isinstance(error, NotSent):
                lane.hold(error)

    async def _edit_pause(self, lane: _Lane, of: LiveText | None = None) -> None:
        """Wait until enough time has passed since the last edit in the chat. ``of``: the text to update, None for a final text.

        An update also waits for that time to pass since the beginning of an answer was shown, and stops waiting if a post is
        queued. A final text may follow the beginning at once, because showing the beginning was not an edit.
        """
        spacing = self._platform.traits.edit_seconds or 0.0
        while (wait := max(lane.edited_at, lane.begun_at * (of is not None)) + spacing - time.monotonic()) > 0:
            if of is None:
                await asyncio.sleep(wait)
            elif lane.posts or lane.live is not of:
                return
            else:
                lane.changed.clear()
                await self._pause(lane, wait)
        lane.edited_at = time.monotonic()

    async def _paced(self) -> None:
        assert self._pace is not None, "started"  # noqa: S101 - for the type checker
        await self._pace.wait()
