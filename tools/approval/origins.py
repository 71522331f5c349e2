"""Origins of a session's files, as its commands told: what was downloaded stays downloaded."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import field

from toolcrib import StoreFailed
from toolcrib._dataclass import dataclass
from toolcrib._store import OriginStore
from tools.approval.meaning.value import Taint

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Origins:
    """Origins of one session's files. ``unknown``: not all are known, so that any file may have come from anywhere."""

    taints: dict[str, Taint] = field(default_factory=dict)
    unknown: bool = False

    @property
    def is_clean(self) -> bool:
        return not self.taints and not self.unknown


_CLEAN = Origins()


class SessionFiles:
    """Origins by session: read from ``store``, then kept here until ``forget``. Thread-safe.

    What is kept holds as long as no other process adds to it: whoever takes a session over has it forgotten first.

    Nothing is ever forgotten as clean. Where the store can't be read, or a session has more than ``most`` such files, its
    origins count as unknown, and whatever runs a file is asked about. Without a store they last as long as this object.
    """

    def __init__(self, store: OriginStore | None = None, most: int = 20_000) -> None:
        self._store = store
        self._most = most
        self._known: dict[str, Origins] = {}
        self._lock = threading.Lock()

    def known(self, session_id: str) -> Origins | None:
        """Return what is known without asking the store; None where it has to be asked."""
        found = self._known.get(session_id)
        return _CLEAN if found is None and self._store is None else found

    async def of(self, session_id: str) -> Origins:
        """Never raises: what can't be read is unknown for now, and read again by the next call."""
        found = self.known(session_id)
        if found is not None:
            return found
        assert self._store is not None  # noqa: S101 - else it is known
        try:
            kept = await self._store.of(session_id)
            taints = {path: Taint(bits) for path, bits in kept.items()}
        except (StoreFailed, ValueError) as error:
            _log.error("where files came from could not be read, so that all are asked about: %s", error)
            return Origins(unknown=True)
        with self._lock:
            return self._known.setdefault(session_id, self._bounded(Origins(taints)))

    async def remember(self, session_id: str, taints: Mapping[str, Taint]) -> None:
        """Add to what is known, in the store first. Raises StoreFailed: what is not remembered must not happen."""
        if not taints:
            return
        if self._store is not None:
            await self.of(session_id)
            await self._store.remember(session_id, {path: taint.value for path, taint in taints.items()})
        with self._lock:
            known = self._known.get(session_id)
            if known is None:
                if self._store is not None:  # it could not be read: the next call reads all of it
                    return
                known = self._known[session_id] = Origins()
            for path, taint in taints.items():
                known.taints[path] = known.taints.get(path, Taint.NONE) | taint
            self._bounded(known)

    def forget(self, session_id: str) -> None:
        """Let go of what was read of a session; the store still knows. Without a store nothing is let go."""
        if self._store is not None:
            with self._lock:
                self._known.pop(session_id, None)

    def _bounded(self, origins: Origins) -> Origins:
        if len(origins.taints) > self._most:
            origins.taints.clear()
            origins.unknown = True
        return origins
