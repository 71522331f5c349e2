"""Messages on their way from a platform's server to the gateway: in order, including missed ones."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import field

from toolcrib.contract.chat import Chat, Host, Inbound
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import StoreFailed
from toolcrib.contract.recent import Recent

_log = logging.getLogger(__name__)
_PLACE = "places"
_CHANNELS = 2_000
_WAITING = 500
"""Maximum number of messages of one channel that wait in memory; later ones are read from the server when it is their turn."""
PAGE = 100
"""Minimum number of messages that a read returns if there are more."""
_READERS = 4
_KEEP_SECONDS = 1.0
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
Read = Callable[[str, str], Awaitable[Sequence[tuple[str, Inbound | None]]]]


@dataclass(slots=True)
class _Item:
    """A message that arrived, or, if ``message`` is None, a read of missed messages. ``taken`` is done when the
    gateway has the message or messages.
    """

    id: str
    message: Inbound | None
    taken: asyncio.Future[None]


@dataclass(slots=True)
class _Lane:
    items: deque[_Item] = field(default_factory=deque)
    task: asyncio.Task[None] | None = None


class Intake:
    """Passes a server's messages to the gateway, for servers that send each message only once, and reads missed messages again.
    In each channel it passes one message after another, missed ones before new ones, and waits until each is stored.

    ``read(channel, after)`` returns pairs (id, message) written in the channel after an id, the oldest first; the message is None
    if it is not meant for the gateway. If it returns fewer than 100 pairs, these are the last ones. Ids are growing
    numbers, with or without dots. If ``read`` raises one of ``expected``, it is called again after ``wait_of(error)``
    seconds, or, if that is None, soon and then at growing intervals.
    """

    def __init__(
        self,
        host: Host,
        read: Read,
        expected: tuple[type[Exception], ...],
        wait_of: Callable[[Exception], float | None] = lambda error: None,
    ) -> None:
        self._host = host
        self._read = read
        self._expected: tuple[type[Exception], ...] = (StoreFailed, *expected)
        self._wait_of = wait_of
        self._lanes: dict[str, _Lane] = {}
        self._places: Recent[str, str] = Recent(_CHANNELS)
        """Id of the newest taken message, by channel, for channels with a stored message."""
        self._doubtful: set[str] = set()
        """Channels that are in ``_places`` only because the store failed."""
        self._since = ""
        self._newest = ""
        self._is_held = False
        self._keeping: asyncio.Task[None] | None = None
        self._slots = asyncio.Semaphore(_READERS)

    async def load(self, now: str) -> None:
        """Continue from the positions that an earlier process stored; at the very first start, from ``now``. Raises
        StoreFailed.
        """
        found = await self._host.recall(_PLACE)
        if not isinstance(found, dict):
            self._since = now
            await self._keep()
            return
        self._since = str(found["since"])
        for channel, place in found["places"]:
            self._places[channel] = place

    @property
    def channels(self) -> list[str]:
        """The channels with a stored message, the newest first."""
        return list(reversed(self._places))

    def is_behind(self, newest: str) -> bool:
        """Return whether a channel without stored messages has any to read. ``newest`` is the id of its newest message."""
        return _order(newest) > _order(self._since)

    def hold(self) -> None:
        """Take nothing until ``resume``, because earlier messages may be missing."""
        self._is_held = True

    def resume(self, channels: Iterable[str]) -> None:
        """Read missed messages in these channels, and continue with all channels."""
        self._is_held = False
        for channel in channels:
            self._lane(channel).items.appendleft(_Item("", None, asyncio.get_running_loop().create_future()))
        for channel in list(self._lanes):
            self._run(channel)

    def take(self, channel: str, message_id: str, message: Inbound | None) -> asyncio.Future[None]:
        """Queue a message of a channel; None means that it must be read from the server. Return a future that is done
        when the gateway has the message.
        """
        items = self._lane(channel).items
        if message is not None and len(items) < _WAITING:
            items.append(_Item(message_id, message, asyncio.get_running_loop().create_future()))
        elif not items or items[-1].message is not None:
            items.append(_Item("", None, asyncio.get_running_loop().create_future()))
        self._run(channel)
        return items[-1].taken

    async def close(self) -> None:
        """Stop taking messages, and store the position where the next process must begin."""
        tasks = [lane.task for lane in self._lanes.values() if lane.task is not None]
        tasks += [self._keeping] if self._keeping is not None else []
        for lane in self._lanes.values():
            for item in lane.items:
                item.taken.cancel()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._since:
            with contextlib.suppress(StoreFailed):
                await self._keep()

    # -- one channel ---------------------------------------------------------------------------------------------

    def _lane(self, channel: str) -> _Lane:
        lane = self._lanes.get(channel)
        if lane is None:
            lane = self._lanes[channel] = _Lane()
        return lane

    def _run(self, channel: str) -> None:
        lane = self._lanes[channel]
        if lane.task is None and not self._is_held:
            lane.task = asyncio.get_running_loop().create_task(self._work(channel, lane))

    async def _work(self, channel: str, lane: _Lane) -> None:
        while lane.items and not self._is_held:
            item = lane.items.popleft()
            try:
                await self._until_taken(channel, item)
            except asyncio.CancelledError:
                item.taken.cancel()
                raise
            if not item.taken.done():
                item.taken.set_result(None)
        lane.task = None
        if not lane.items:
            del self._lanes[channel]

    async def _until_taken(self, channel: str, item: _Item) -> None:
        pause = 0.0
        while True:
            try:
                if item.message is None:
                    await self._missed(channel)
                else:
                    await self._offer(channel, item.id, item.message)
                return
            except self._expected as error:
                if isinstance(error, StoreFailed) and channel not in self._places:
                    self._doubtful.add(channel)
                    self._places[channel] = self._since
                told = self._wait_of(error)
                pause = min(_LONGEST_PAUSE, pause * 2 or _SHORTEST_PAUSE) if told is None else told
                _log.warning("reading %s failed, retrying in %.1f s: %s", Chat(channel), pause, error)
                await asyncio.sleep(pause)
            except Exception:  # noqa: BLE001 - it would block all later messages
                _log.exception("an event of %s could not be handled and is skipped", Chat(channel))
                return

    async def _missed(self, channel: str) -> None:
        after = self._places.get(channel, self._since)
        while True:
            async with self._slots:
                found = await self._read(channel, after)
            for message_id, message in found:
                after = message_id
                try:
                    await (self._offer(channel, message_id, message) if message is not None else self._pass(channel, message_id))
                except self._expected:
                    raise
                except Exception:  # noqa: BLE001 - as above
                    _log.exception("a message of %s could not be handled and is skipped", Chat(channel))
            if len(found) < PAGE:
                return

    async def _pass(self, channel: str, message_id: str) -> None:
        self._advance(channel, message_id)

    async def _offer(self, channel: str, message_id: str, message: Inbound) -> None:
        taken = await self._host.receive(message)
        if taken == "refused":
            if channel in self._doubtful:
                self._doubtful.discard(channel)
                self._places.pop(channel, None)
            self._advance(channel, message_id)
            return
        is_new = channel not in self._places or channel in self._doubtful
        self._doubtful.discard(channel)
        if is_new:
            self._places[channel] = message_id
        self._advance(channel, message_id)
        if is_new:  # if the process were killed now, the next one would not read this channel
            with contextlib.suppress(StoreFailed):
                await self._keep()

    def _advance(self, channel: str, message_id: str) -> None:
        self._newest = max(self._newest, message_id, key=_order)
        if channel in self._places and channel not in self._doubtful:
            self._places[channel] = max(self._places[channel], message_id, key=_order)
            if self._keeping is None:
                self._keeping = asyncio.get_running_loop().create_task(self._keep_soon())

    async def _keep_soon(self) -> None:
        await asyncio.sleep(_KEEP_SECONDS)
        self._keeping = None
        with contextlib.suppress(StoreFailed):  # the next process then offers messages again, and the host recognises them
            await self._keep()

    async def _keep(self) -> None:
        if not any(lane.items or lane.task is not None for lane in self._lanes.values()):
            self._since = max(self._since, self._newest, key=_order)
        await self._host.keep(_PLACE, {"since": self._since, "places": [list(one) for one in self._places.items()]})


def _order(message_id: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in message_id.split("."))
    except ValueError:
        return ()
