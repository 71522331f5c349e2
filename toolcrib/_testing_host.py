"""A host in memory, for the tests of a platform."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from toolcrib._context import Principal
from toolcrib._image import Image
from toolcrib._platform import Heard, PlatformEvent
from toolcrib._store import InboxMode, Settled
from toolcrib._types import Json


@dataclass(frozen=True, slots=True)
class Said:
    """A message that a platform brought."""

    key: str
    text: str
    principal: Principal
    mode: InboxMode = "queue"
    message_key: str = ""
    images: Sequence[Image] = ()


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer that a platform brought."""

    ticket_id: str
    payload: Json
    principal: Principal
    action: Literal["resume", "cancel"] = "resume"
    reason: str = ""
    decision_id: str = ""


class FakeHost:
    """A ``toolcrib.Host`` for one platform: keeps what is said in ``said`` and answered in ``answered``.

    ``tell(key, event)`` plays the part of a session. Messages and presses are known by their keys, as by the real host.
    """

    def __init__(self, platform: str) -> None:
        self.platform = platform
        self.said: list[Said] = []
        self.answered: list[Answered] = []
        self._listeners: list[Heard] = []

    async def say(
        self,
        key: str,
        text: str,
        *,
        principal: Principal,
        mode: InboxMode = "queue",
        message_key: str = "",
        images: Sequence[Image] = (),
    ) -> bool:
        """Record a message. Return False for one whose ``message_key`` was seen before."""
        self._check(principal)
        if message_key and any((one.key, one.message_key) == (key, message_key) for one in self.said):
            return False
        self.said.append(Said(key, text, principal, mode, message_key, tuple(images)))
        return True

    async def answer(
        self,
        ticket_id: str,
        payload: Json,
        *,
        principal: Principal,
        action: Literal["resume", "cancel"] = "resume",
        reason: str = "",
        decision_id: str = "",
    ) -> Settled:
        """Record an answer, and settle its ticket as the host would."""
        self._check(principal)
        earlier = next((one for one in self.answered if one.ticket_id == ticket_id), None)
        if earlier is not None:
            return "repeated" if decision_id and earlier.decision_id == decision_id else "refused"
        self.answered.append(Answered(ticket_id, payload, principal, action, reason, decision_id))
        return "settled"

    def listen(self, heard: Heard) -> Callable[[], None]:
        """Call ``heard`` with each event, until the returned function is called."""
        self._listeners.append(heard)
        return lambda: self._listeners.remove(heard)

    @property
    def is_heard(self) -> bool:
        """Return whether the platform listens."""
        return bool(self._listeners)

    async def tell(self, key: str, event: PlatformEvent) -> None:
        """Let an event happen in the session of ``key``, and return when the platform has taken it."""
        for heard in list(self._listeners):
            taken = heard(key, event)
            if inspect.isawaitable(taken):
                await taken

    def _check(self, principal: Principal) -> None:
        if principal.platform != self.platform or not principal.user:
            raise ValueError(f"the platform {self.platform!r} can't speak for {principal}: give its own platform, and a user")
