"""A host and a platform in memory, for the tests of platforms and of their hosts."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from toolcrib.chat import Attachment, Chat, Host, Inbound, NotSent, Outbound, Press, Traits
from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import ConfigError
from toolcrib.contract.types import Json

DIRECT = Chat("direct")


class FakeHost:
    """A ``toolcrib.chat.Host`` in memory: ``received`` and ``presses`` keep what a platform delivered.

    ``allowed`` are the users who may speak, None for all. Two messages with the same chat and id count as one, as in the
    real host.
    """

    def __init__(
        self,
        *,
        settings: Mapping[str, Json] | None = None,
        secrets: Mapping[str, str] | None = None,
        allowed: frozenset[str] | None = None,
        folder: Path | None = None,
    ) -> None:
        self.settings: Mapping[str, Json] = settings or {}
        self.received: list[Inbound] = []
        self.presses: list[Press] = []
        self.kept: dict[str, Json] = {}
        self.answer_to_press = ""
        self.failing: Exception | None = None
        """Exception that ``receive`` raises while it is set, as if the store were full."""
        self._secrets = dict(secrets or {})
        self._allowed = allowed
        self._folder = folder

    async def receive(self, message: Inbound) -> Literal["kept", "known", "refused"]:
        """Record a message of an allowed user, once."""
        await asyncio.sleep(0)
        if self.failing is not None:
            raise self.failing
        if self._allowed is not None and message.user not in self._allowed:
            return "refused"
        if any((one.chat.key, one.message_id) == (message.chat.key, message.message_id) for one in self.received):
            return "known"
        self.received.append(message)
        return "kept"

    async def press(self, press: Press) -> str:
        """Record a press, once."""
        if all(one.press_id != press.press_id for one in self.presses):
            self.presses.append(press)
        return self.answer_to_press

    async def listens(self, chat: Chat, user: str, roles: Sequence[str] = ()) -> bool:
        """Return whether the user is allowed."""
        return self._allowed is None or user in self._allowed

    async def follows(self, chat: Chat, user: str, roles: Sequence[str] = ()) -> bool:
        """Return whether the user is allowed."""
        return await self.listens(chat, user, roles)

    def names_setting(self, key: str) -> str:
        """Return a setting as messages name it."""
        return f"settings.{key}"

    def secret(self, name: str) -> str:
        """Return a secret. Raises ConfigError if it is not set."""
        if name not in self._secrets:
            raise ConfigError(f"{name} is not set")
        return self._secrets[name]

    @property
    def folder(self) -> Path:
        """The folder that was given. Raises ConfigError if none was given."""
        if self._folder is None:
            raise ConfigError("the platform needs a folder: pass FakeHost(folder=...)")
        return self._folder

    async def recall(self, name: str) -> Json:
        """Return the value kept under a name, or None."""
        return self.kept.get(name)

    async def keep(self, name: str, value: Json) -> None:
        """Keep a value."""
        self.kept[name] = value


@dataclass(slots=True)
class Shown:
    """A message as people see it: ``out`` is its newest form, ``forms`` the texts of all of its forms."""

    id: str
    out: Outbound
    forms: list[str] = field(default_factory=list)


class FakePlatform:
    """A ``toolcrib.chat.Platform`` in memory. ``shown`` is what people see, in order; ``says`` and ``presses`` act as people.

    ``failing`` has the exceptions of the next sends, in order; a NotSent with ``perhaps_sent`` is raised after the message was
    shown.
    """

    def __init__(self, name: str = "fake", host: Host | None = None, *, traits: Traits | None = None, **more: object) -> None:
        self.name = name
        self.host: Host = host if host is not None else FakeHost()
        self.traits = traits or Traits(edit_seconds=0.0, buttons=True, idempotent=True, per_second=10_000)
        self.shown: list[Shown] = []
        self.failing: list[Exception] = []
        self.files: dict[str, bytes] = {}
        self.running = False
        self.seconds = 0.0
        """Duration of a send, in seconds."""
        self._keys: dict[str, str] = {}
        self._numbers = itertools.count(1)
        self.changed = asyncio.Event()

    async def connect(self) -> str:
        """Return an account's id."""
        return f"{self.name}-bot"

    async def start(self) -> None:
        """Begin to receive."""
        self.running = True

    async def stop(self) -> None:
        """Stop receiving."""
        self.running = False

    async def send(self, out: Outbound) -> str:
        """Show or change a message."""
        await asyncio.sleep(self.seconds)
        failure = self.failing.pop(0) if self.failing else None
        if failure is not None and not (isinstance(failure, NotSent) and failure.perhaps_sent):
            raise failure
        shown_as = self._show(out)
        self.changed.set()
        if failure is not None:
            raise failure
        return shown_as

    def _show(self, out: Outbound) -> str:
        if len(out.text) > self.traits.max_chars:
            raise NotSent(f"{len(out.text)} characters are too many", for_good=True)
        if out.edits:
            found = next((one for one in self.shown if one.id == out.edits), None)
            if found is None:
                raise NotSent("there is no such message", for_good=True)
            found.out = out
            found.forms.append(out.text)
            return found.id
        if self.traits.idempotent and out.key in self._keys:
            if out.is_again:
                self._show(replace(out, edits=self._keys[out.key]))
            return self._keys[out.key]
        number = f"m{next(self._numbers)}"
        self._keys[out.key] = number
        self.shown.append(Shown(number, out, [out.text]))
        return number

    async def fetch(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """Yield the content of a file in ``files``."""
        data = self.files[str(attachment.ref["id"])]
        for at in range(0, len(data), 65_536):
            yield data[at : at + 65_536]

    # -- actions of people ---------------------------------------------------------------------------------------

    async def says(self, text: str, *, user: str = "ann", chat: Chat = DIRECT, **more: object) -> str:
        """Write a message as a user, and return its id; ``more`` are fields of Inbound."""
        message = Inbound(chat, user, f"u{next(self._numbers)}", text)
        message = replace(message, **more)  # type: ignore[arg-type]  # fields of it, by name
        await self.host.receive(message)
        return message.message_id

    async def presses(self, shown: Shown, choice: str, *, user: str = "ann", press_id: str = "") -> str:
        """Press a button as a user, and return the line that the user is shown."""
        press = Press(shown.out.chat, user, shown.id, choice, press_id or f"p{next(self._numbers)}", name=user)
        return await self.host.press(press)

    def texts(self, chat: Chat = DIRECT) -> list[str]:
        """Return the texts shown in a chat, in their current form."""
        return [one.out.text for one in self.shown if one.out.chat.key == chat.key]

    async def until(self, holds: Callable[[], object], seconds: float = 30.0) -> None:
        """Wait until the condition is true. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            while not holds():
                self.changed.clear()
                try:
                    async with asyncio.timeout(0.05):
                        await self.changed.wait()
                except TimeoutError:
                    continue
