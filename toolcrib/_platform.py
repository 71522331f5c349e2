"""Platforms: where people chat from elsewhere. A platform brings what they say to its host, and shows them what happens.

class Bells:
    name = "bells"

    async def start(self, host):
        self.host = host
        self.deaf = host.listen(self.show)
        self.task = asyncio.create_task(self.receive())

    async def receive(self):
        async for message in my_server():
            await self.host.say(message.room, message.text, principal=Principal("bells", message.sender), message_key=message.id)

    async def show(self, key, event): ...

    async def stop(self):
        self.deaf()
        self.task.cancel()
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

from toolcrib._context import Principal
from toolcrib._image import Image
from toolcrib._store import InboxMode, Settled
from toolcrib._types import Json

PlatformEvent: TypeAlias = Mapping[str, Json]
"""An event as a line of ``toolcrib run --json`` has it: an object with a ``type`` (``run_parked``, ``run_finished`` ...)."""

Heard: TypeAlias = Callable[[str, PlatformEvent], Awaitable[None] | None]
"""Told of (the session's key, an event), sync or async. The next event of a key comes once the one before was taken."""


class Host(Protocol):
    """Access of a platform to the sessions. All methods may be called at once, for any number of keys."""

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
        """Say something in the session of ``key``, which is opened where there is none yet.

        ``key`` is the platform's own for a conversation (a chat, a room and thread). Returns once the message is kept for good,
        not when it is answered; ``mode`` says what follows where a run is under way. ``message_key`` is the platform's id of the
        message: False is returned, and nothing happens, where this session has had a message with it.

        Raises ValueError for a principal of another platform, or without a user: nobody speaks for the local person from afar.
        """
        ...

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
        """Answer a ticket of a ``run_parked`` event; the run then continues by itself.

        For an approval prompt ``payload`` is ``{"approved": true, "scope": "once"}`` or ``{"approved": false, "reason": ...}``,
        for others what the ticket's schema asks for. ``decision_id`` is the platform's id of the press: the same again is
        ``repeated``. Raises Denied for a principal who may not answer here, NotFound for an unknown ticket, and ValueError as
        ``say`` does.
        """
        ...

    def listen(self, heard: Heard) -> Callable[[], None]:
        """Hear every event of this platform's sessions from now on, until the returned function is called.

        What ``heard`` raises is logged, and the next event comes all the same.
        """
        ...


class Platform(Protocol):
    """Made by a factory that a plugin gives to ``register_platform``. Started and stopped once, in one event loop."""

    @property
    def name(self) -> str:
        """The name that it was registered under."""
        ...

    async def start(self, host: Host) -> None:
        """Begin to receive, and return once that works. Raises what is wrong; the other platforms start all the same."""
        ...

    async def stop(self) -> None:
        """Receive nothing more, and free everything. Also called where ``start`` raised."""
        ...
