"""Records of sent messages, for platforms whose servers do not prevent duplicates."""

from __future__ import annotations

import contextlib
import hashlib

from toolcrib.contract.chat import Host
from toolcrib.contract.deprecated import old_name
from toolcrib.contract.errors import StoreFailed
from toolcrib.contract.types import Json

_PLACE = "sent"


class SentKeys:
    """Remembers, across restarts, the message id of each ``Outbound.key``. Until the id is known, it remembers a note
    of the platform, which says where to look for the message if its acknowledgement is lost. ``most`` is the maximum number of
    known ids: the oldest are forgotten.
    """

    def __init__(self, host: Host, most: int = 100) -> None:
        self._host = host
        self._most = most
        self._open: dict[str, Json] = {}
        self._known: dict[str, str] = {}
        self._is_loaded = False

    async def load(self) -> None:
        """Load the ids and notes that an earlier process stored. Raises StoreFailed."""
        found = await self._host.recall(_PLACE)
        if isinstance(found, dict):
            self._open, self._known = dict(found["open"]), dict(found["known"])
        self._is_loaded = True

    async def begin(self, key: str, note: Json) -> Json:
        """Store a note before a message is sent. Return the note of the first attempt to send it. Raises StoreFailed."""
        digest = _digest(key)
        if digest not in self._open:
            self._open[digest] = note
            try:
                await self._keep()
            except StoreFailed:
                self._open.pop(digest, None)
                raise
        return self._open.get(digest, note)

    def note_of(self, key: str) -> Json:
        """Return the note of a message whose id is not known yet, or None."""
        return self._open.get(_digest(key))

    note = old_name(note_of, "note")

    def known(self, key: str) -> str:
        """Return the id of the message, or "" if it is not known."""
        return self._known.get(_digest(key), "")

    @property
    def ids(self) -> frozenset[str]:
        """The known message ids."""
        return frozenset(self._known.values())

    def forget(self, key: str) -> None:
        """Forget a message that will never be shown."""
        self._open.pop(_digest(key), None)

    async def done(self, key: str, message_id: str) -> None:
        """Record the id of a message that was shown. It is written at once if other ids are still unknown, else at ``close``."""
        digest = _digest(key)
        self._open.pop(digest, None)
        self._known[digest] = message_id
        if len(self._known) > self._most:
            del self._known[next(iter(self._known))]
        if self._open:
            with contextlib.suppress(StoreFailed):
                await self._keep()

    async def close(self) -> None:
        """Write the known ids. If nothing was loaded, write nothing, so that the ids that another process wrote are kept."""
        if self._is_loaded:
            with contextlib.suppress(StoreFailed):
                await self._keep()

    async def _keep(self) -> None:
        await self._host.keep(_PLACE, {"open": dict(self._open), "known": dict(self._known)})


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:24]
