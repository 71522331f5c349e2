"""Reports of running calls (002-15 .. 002-17) as events: the newest of each kind, with patches applied, at a limited rate."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from agent.events import ToolActivity, ToolProgressed
from toolcrib.contract.context import ActivityEvent, EventSink, ProgressStatus
from toolcrib.contract.types import Json

if TYPE_CHECKING:
    from agent.events import Event

PROGRESS = "tool-call-progress"
BETWEEN = 0.1
"""Minimum seconds between two batches of events about reports."""
MOST_CHARS, MOST_MESSAGE, MOST_NAME = 1 << 18, 500, 100
"""Maximum number of characters of a snapshot, of a progress message, and of an activity's name."""
_MOST_KINDS = 200
"""Maximum number of snapshots that are kept for a session; the oldest are dropped first."""
_log = logging.getLogger(__name__)


class _Shown:
    """An activity that a call reports."""

    __slots__ = ("content", "is_new", "reports")

    def __init__(self) -> None:
        self.content: Json = None
        self.reports = 0
        self.is_new = False


class Reports:
    """The activity sink of a session. ``tell`` receives events in the calls' event loop; ``raw`` receives each report.

    Reports that can't be read or applied are skipped, without an error for their call. Secrets are already removed.
    """

    def __init__(self, tell: Callable[[Event], None], raw: EventSink | None = None) -> None:
        self._tell = tell
        self._raw = raw
        self._lock = threading.Lock()
        self._shown: dict[tuple[str, str], _Shown] = {}
        self._ended: dict[str, None] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_due = False
        self._last = 0.0

    def begin(self, call_id: str) -> None:
        """Accept the reports of a call from now on. Call it in the event loop."""
        with self._lock:
            loop = asyncio.get_running_loop()
            if loop is not self._loop:  # a timer of another loop never fires
                self._loop, self._is_due = loop, False
            self._ended.pop(call_id, None)

    def end(self, call_id: str) -> None:
        """Send the call's last report, and ignore later ones. Call it in the event loop."""
        self._flush(call_id)
        with self._lock:
            self._shown = {key: one for key, one in self._shown.items() if key[0] != call_id}
            self._ended[call_id] = None
            while len(self._ended) > _MOST_KINDS:
                del self._ended[next(iter(self._ended))]

    def emit(self, event: ActivityEvent) -> None:
        """Accept a report, from any thread. Raises what ``raw`` raises."""
        try:
            self._take(event)
        except Exception as error:  # noqa: BLE001 - an unreadable report must not end its call
            _log.debug("a progress report of the call %s was dropped: %s", event.message_id, type(error).__name__)
        if self._raw is not None:
            self._raw.emit(event)

    def _take(self, event: ActivityEvent) -> None:
        from agent.patching import patched, plain_copy

        content = None if event.is_delta else plain_copy(event.content)
        key = (event.message_id, str(event.activity_type)[:MOST_NAME])
        with self._lock:
            if event.message_id in self._ended:
                return
            shown = self._shown.get(key)
            if event.patch is not None:
                before = shown.content if shown is not None and shown.reports else {}
                content = patched(before, event.patch)
            if shown is None:
                shown = self._shown[key] = _Shown()
                if len(self._shown) > _MOST_KINDS:
                    del self._shown[next(iter(self._shown))]
            shown.content, shown.is_new = content, True
            shown.reports += 1
            self._wake()

    def _wake(self) -> None:
        loop = self._loop
        if self._is_due or loop is None or loop.is_closed():
            return
        self._is_due = True
        try:
            loop.call_soon_threadsafe(self._schedule, loop)
        except RuntimeError:  # it was closed meanwhile
            self._is_due = False

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.call_later(max(0.0, self._last + BETWEEN - time.monotonic()), self._flush)

    def _flush(self, only: str | None = None) -> None:
        with self._lock:
            if only is None:
                self._is_due, self._last = False, time.monotonic()
            new = [(key, one) for key, one in self._shown.items() if one.is_new and only in (None, key[0])]
            for _, one in new:
                one.is_new = False
            due = [(key, one.content, one.reports) for key, one in new]
        for (call_id, activity), content, reports in due:
            try:
                self._tell(_event(call_id, activity, content, reports))
            except Exception:  # noqa: BLE001 - a failure to show a report must not end its call
                _log.exception("a progress report of the call %s could not be shown", call_id)


def _event(call_id: str, activity: str, content: Json, reports: int) -> Event:
    content = _cut(content, [MOST_CHARS])
    if activity == PROGRESS and isinstance(content, Mapping):
        return _progress(call_id, content, reports)
    return ToolActivity(call_id, activity, content)


def _cut(value: Any, left: list[int]) -> Any:
    """Return a value whose texts are cut to ``left`` characters in all."""
    if isinstance(value, str):
        text = value if len(value) <= left[0] else f"{value[: max(left[0] - 1, 0)]}…"
        left[0] = max(left[0] - len(text), 0)
        return text
    if isinstance(value, Mapping):
        return {_cut(key, left): _cut(one, left) for key, one in value.items()}
    return [_cut(one, left) for one in value] if isinstance(value, list) else value


def _progress(call_id: str, content: Mapping[str, Any], reports: int) -> ToolProgressed:
    status, message, share = content.get("status"), content.get("message"), content.get("progress")
    words = " ".join(message[: 8 * MOST_MESSAGE].split()) if isinstance(message, str) else ""
    words = words if len(words) <= MOST_MESSAGE else f"{words[: MOST_MESSAGE - 1]}…"
    known = status if isinstance(status, str) and status in set(ProgressStatus) else ProgressStatus.RUNNING
    known_share = isinstance(share, (int, float)) and not isinstance(share, bool)
    return ToolProgressed(call_id, str(known), words, min(max(float(share or 0), 0.0), 1.0) if known_share else None, reports)
