"""Messages that are to be shown on one platform: kept first, then sent in order by chat, until it was shown or never can be."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Mapping

from agent.gateway.forms import outbound_of
from toolcrib import StoreFailed
from toolcrib._dataclass import dataclass
from toolcrib._mail import Post, PostState
from toolcrib._store import Store
from toolcrib._types import Json
from toolcrib.chat import NotSent, Platform

_log = logging.getLogger(__name__)
SENT_AGAIN = "(sent again: it is not known whether this was shown before)"
"""Note below a message that may be there twice, where a platform can't tell."""
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 300.0
_GIVES_UP = 24 * 3600.0
"""Seconds after which a message that could not be shown is given up."""
_SEND_SECONDS = 60.0
_STORE_PAUSE = 5.0


@dataclass(slots=True)
class LiveText:
    """Text of an answer that is still coming: what is shown of it may lag behind. ``key`` names its post."""

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
        """Time at which the beginning of an answer was shown last."""
        self.edited_at = 0.0
        self.held_until = 0.0
        """Time before which the platform wants to hear nothing for this chat."""

    def hold(self, error: NotSent) -> None:
        """Send nothing as long as the platform says."""
        if error.retry_after is not None:
            self.held_until = max(self.held_until, time.monotonic() + error.retry_after)


class SendRate:
    """Keeps to ``per_second`` messages, with ``burst`` of them at once, a second's worth where that is more."""

    def __init__(self, per_second: float, burst: int = 0) -> None:
        self._rate = max(per_second, 0.01)
        self._saved = max(1.0, burst / self._rate)
        self._next = 0.0

    async def wait(self) -> None:
        """Return when the next message may go."""
        now = time.monotonic()
        self._next = max(self._next, now - self._saved) + 1.0 / self._rate
        if self._next > now:
            await asyncio.sleep(self._next - now)


class Outbox:
    """For one platform and one event loop."""

    def __init__(self, platform: Platform, store: Store) -> None:
        self._platform = platform
        self._mail = store.mail
        self._lanes: dict[str, _Lane] = {}
        self._pace: SendRate | None = None
        self._closing = False
        self.sent = 0
        """Posts that were shown since the start."""
        self.failed = 0
        """Posts that were given up since the start."""

    @property
    def waiting(self) -> int:
        """The number of posts that were not shown yet."""
        return sum(len(lane.posts) for lane in self._lanes.values())

    async def start(self) -> None:
        """Go on with what an ended process left. Raises StoreFailed."""
        self._pace = SendRate(self._platform.traits.per_second, self._platform.traits.burst)
        for post in await self._mail.pending(self._platform.name):
            self._queue(post.chat, post.key)

    async def close(self, seconds: float = 10.0) -> None:
        """Send what can be sent within that time; the rest is for the next process."""
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
        """Keep something to show, or what takes the place of what was to be shown under this key, and send it in its turn. It is
        deleted with that session, "" for the chat's.

        Raises StoreFailed: nothing was kept then.
        """
        kept = await self._mail.post(Post(self._platform.name, chat, key, body, due_at=due_at, session_id=session_id))
        lane = self._lanes.get(chat)
        if lane is not None and lane.live is not None and lane.live.key == key:
            lane.live = None
        if kept.state not in ("shown", "failed"):  # also where its beginning is on its way
            self._queue(chat, key)
        return kept

    async def mark(self, chat: str, key: str) -> None:
        """Keep a post without content, which stands for something that was kept to be shown. Raises StoreFailed."""
        post = await self._mail.post(Post(self._platform.name, chat, key, {}))
        if post.state != "shown":
            await self._mail.moved(post.id, "shown")

    async def is_sending(self, chat: str, prefix: str) -> bool:
        """Return whether people may see a message of the chat, by its key's beginning, whose id is not known yet. Raises
        StoreFailed.
        """
        lane = self._lanes.get(chat)
        for key in [] if lane is None else [one for one in lane.posts if one.startswith(prefix)]:
            post = await self._mail.get(self._platform.name, key)
            if post is not None and post.state == "sending" and not post.shown_as:
                return True
        return False

    async def is_known(self, key: str) -> bool:
        """Return whether there is a post of that key. Raises StoreFailed."""
        return await self._mail.get(self._platform.name, key) is not None

    @property
    def most(self) -> int:
        """The characters that a message may have."""
        return self._platform.traits.max_chars

    @property
    def edits(self) -> bool:
        """True where messages can be changed."""
        return self._platform.traits.edit_seconds is not None

    def show(self, chat: str, key: str, body: Mapping[str, Json]) -> None:
        """Show an answer as far as it has come; what was not shown in time is passed over. ``put`` with its key ends this."""
        if self._platform.traits.edit_seconds is None or self._closing:
            return
        lane = self._lanes.setdefault(chat, _Lane())
        if lane.live is None or lane.live.key != key:
            lane.live = LiveText(key, body)
        else:
            lane.live.body = body
        self._run(chat, lane)

    def _queue(self, chat: str, key: str) -> None:
        lane = self._lanes.setdefault(chat, _Lane())
        if key not in lane.posts:
            lane.posts.append(key)
        self._run(chat, lane)

    def _run(self, chat: str, lane: _Lane) -> None:
        lane.changed.set()
        if lane.task is None and not (self._closing and not lane.posts):
            lane.task = asyncio.get_running_loop().create_task(self._work(chat, lane))

    # -- one chat ------------------------------------------------------------------------------------------------

    async def _work(self, chat: str, lane: _Lane) -> None:
        try:
            while lane.posts or self._has_news(lane):
                lane.changed.clear()
                try:
                    await self._step(chat, lane)
                except Exception as error:  # noqa: BLE001 - the store, mostly: nothing is lost, and the other chats go on
                    level = logging.WARNING if isinstance(error, StoreFailed) else logging.ERROR
                    _log.log(level, "a message for %s waits: %s", self._platform.name, error, exc_info=level == logging.ERROR)
                    await self._pause(lane, _STORE_PAUSE)
        finally:
            lane.task = None
            self._forget(chat, lane)

    def _forget(self, chat: str, lane: _Lane) -> None:
        """Forget a lane that has nothing to show, once its chat may have another edit."""
        if lane.task is not None or lane.posts or lane.live is not None or self._lanes.get(chat) is not lane:
            return
        wait = max(lane.held_until, lane.edited_at + (self._platform.traits.edit_seconds or 0.0)) - time.monotonic()
        if wait > 0:
            asyncio.get_running_loop().call_later(wait, self._forget, chat, lane)
        else:
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
        elif (wait := post.due_at - time.time()) > 0:
            await self._pause(lane, wait)
        elif await self._try(lane, post):
            lane.posts.popleft()

    async def _pause(self, lane: _Lane, seconds: float) -> None:
        if self._closing:
            raise asyncio.CancelledError  # what waits is for the next process
        try:
            async with asyncio.timeout(seconds):
                await lane.changed.wait()
                lane.changed.clear()
        except TimeoutError:
            return

    async def _try(self, lane: _Lane, post: Post) -> bool:
        """Send a post. Whether it is done with. One that was sent before and whose fate is unknown has the state ``sending``."""
        name, traits = self._platform.name, self._platform.traits
        is_again = post.state == "sending" and not post.shown_as
        note = SENT_AGAIN if is_again and not traits.idempotent else ""
        if post.shown_as and traits.edit_seconds is not None:
            await self._edit_pause(lane)
        await self._paced()
        await self._mail.moved(post.id, "sending")
        edits = post.shown_as if traits.edit_seconds is not None else ""
        out = outbound_of(post.body, post.key, edits, note, is_again=is_again)
        try:
            async with asyncio.timeout(_SEND_SECONDS):
                shown_as = await self._platform.send(out)
        except NotSent as error:
            lane.hold(error)
            return await self._not_sent(post, error)
        except Exception as error:  # noqa: BLE001 - somebody else's code: whether it was shown is not known
            _log.debug("%s: a message was not sent", name, exc_info=True)
            return await self._not_sent(post, NotSent(f"{type(error).__name__}: {error}", perhaps_sent=True))
        self.sent += 1
        now = await self._mail.moved(post.id, "shown", shown_as=shown_as, body=post.body)
        return now is None or now.state != "waiting"

    async def _not_sent(self, post: Post, error: NotSent) -> bool:
        now, tries = time.time(), post.tries + 1
        if error.for_good or now - post.at > _GIVES_UP:
            self.failed += 1
            _log.error("a message for %s is given up: %s", self._platform.name, error)
            given_up = await self._mail.moved(post.id, "failed", problem=str(error), body=post.body)
            return given_up is None or given_up.state != "waiting"
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(tries - 1, 10)) * random.uniform(0.8, 1.2)  # noqa: S311 - no secret
        pause = pause if error.retry_after is None else max(0.1, error.retry_after)
        _log.warning("a message for %s is tried again in %.0f s: %s", self._platform.name, pause, error)
        state: PostState = "sending" if error.perhaps_sent or post.state == "sending" else "waiting"
        await self._mail.moved(post.id, state, due_at=now + pause, problem=str(error) or "not sent")
        return False

    # -- an answer while it comes --------------------------------------------------------------------------------

    async def _update(self, chat: str, lane: _Lane, live: LiveText) -> None:
        """Show what there is of an answer. Its first message is kept before it is sent, so that its end can replace it."""
        traits, body = self._platform.traits, live.body
        if not live.shown_as:
            post = await self._mail.post(Post(self._platform.name, chat, live.key, body))
            live.shown_as, live.shown = post.shown_as, body
            if not live.shown_as:
                if await self._try(lane, post) and (known := await self._mail.get(self._platform.name, live.key)) is not None:
                    live.shown_as = known.shown_as
                lane.begun_at = time.monotonic()
                if not live.shown_as:
                    lane.live = None  # it can't be shown now: its end will be
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
        try:
            async with asyncio.timeout(_SEND_SECONDS):
                await self._platform.send(outbound_of(body, f"{live.key}#{live.edits}", live.shown_as))
        except Exception as error:  # noqa: BLE001 - the next one, or the whole answer, shows it
            _log.debug("an answer on %s could not be updated: %s", self._platform.name, error)
            if isinstance(error, NotSent):
                lane.hold(error)

    async def _edit_pause(self, lane: _Lane, of: LiveText | None = None) -> None:
        """Wait until the chat may have another edit; for an update no longer than until something else is to be shown.

        An update leaves as much time after the beginning of an answer. The end follows that at once: the beginning was no edit.
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
