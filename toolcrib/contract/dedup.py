"""Memory of what was sent, for servers that do not see to it themselves that a message is shown once."""

from __future__ import annotations

import contextlib
import hashlib

from toolcrib.contract.chat import Host
from toolcrib.contract.deprecated import old_name
from toolcrib.contract.errors import StoreFailed
from toolcrib.contract.types import Json

_PLACE = "sent"


class SentKeys:
    """Remembers ``Outbound.key`` with the id that its message has, over restarts, and a note of the platform's own while that is
    not known: where to look for the message whose acknowledgement was lost. Of those that are known the ``most`` newest are kept.
    """

    def __init__(self, host: Host, most: int = 100) -> None:
        self._host = host
        self._most = most
        self._open: dict[str, Json] = {}
        self._known: dict[str, str] = {}
        self._is_loaded = False

    async def load(self) -> None:
        """Read what an earlier process kept. Raises StoreFailed."""
        found = await self._host.recall(_PLACE)
        if isinstance(found, dict):
            self._open, self._known = dict(found["open"]), dict(found["known"])
        self._is_loaded = True

    async def begin(self, key: str, note: Json) -> Json:
        """Keep a note before a message is sent, and return the one that it was first sent with. Raises StoreFailed."""
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
        """Return the note of a message whose id is not known, None where there is none."""
        return self._open.get(_digest(key))

    note = old_name(note_of, "note")

    def known(self, key: str) -> str:
        """Return the id of the message, "" where it is not known."""
        return self._known.get(_digest(key), "")

    @property
    def ids(self) -> frozenset[str]:
        """The ids that are known."""
        return frozenset(self._known.values())

    def forget(self, key: str) -> None:
        """Forget a message that never will be shown."""
        self._open.pop(_digest(key), None)

    async def done(self, key: str, message_id: str) -> None:
        """Note the id of a message that was shown. It is kept at once while another is looked for, which it is not."""
        digest = _digest(key)
        self._open.pop(digest, None)
        self._known[digest] = message_id
        if len(self._known) > self._most:
            del self._known[next(iter(self._known))]
        if self._open:
            with contextlib.suppress(StoreFailed):
                await self._keep()

    async def close(self) -> None:
        """Keep what is known. Where nothing was read, what another process kept stays."""
        if self._is_loaded:
            with contextlib.suppress(StoreFailed):
                await self._keep()

    async def _keep(self) -> None:
        await self._host.keep(_PLACE, {"open": dict(self._open), "known": dict(self._known)})


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:24]
