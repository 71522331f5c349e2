"""Base classes for platforms that use one account of a chat service: settings, tasks, receiving, sending each message once."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Generic, TypeVar

from toolcrib.contract.chat import Button, Host, NotSent, Outbound, Traits, settings_of
from toolcrib.contract.dataclass import replace
from toolcrib.contract.dedup import SentKeys
from toolcrib.contract.errors import ConfigError, StoreFailed
from toolcrib.contract.intake import Intake

Client = TypeVar("Client")
_PACE = ("per_second", "edit_seconds", "max_edits")
_MOST = 1_000_000
_START_SECONDS = 10.0


def number_of(host: Host, key: str, default: float, *, may_be_zero: bool = False) -> float:
    """Return a number from the operator's settings, above 0 unless ``may_be_zero``. Raises ConfigError."""
    given = host.settings.get(key, default)
    try:
        found = float(str(given))
    except ValueError:
        found = -1.0
    if not (0 < found <= _MOST or (may_be_zero and found == 0)):
        expected = "a number of at least 0" if may_be_zero else "a number above 0"
        raise ConfigError(f"{host.names_setting(key)}: expected {expected}, got {str(given)[:60]!r}")
    return found


def button_data(button: Button, key: str, most_bytes: int) -> str:
    """Return the data of a button, which the service returns with each press: the choice, and the message's key if both fit."""
    data = f"{button.choice}\n{key}"
    return data if len(data.encode("utf-8", "surrogatepass")) <= most_bytes else button.choice


def choice_and_key(data: object) -> tuple[str, str]:
    """Return the choice and the key that ``button_data`` joined; both are "" if the data is not text."""
    choice, _, key = data.partition("\n") if isinstance(data, str) else ("", "", "")
    return choice, key


class BotPlatform(Generic[Client]):
    """A platform with one client of a service's API, and tasks that end when it stops.

    A subclass sets ``traits`` and the names of its own ``known_settings``. The settings ``per_second``, ``edit_seconds`` and
    ``max_edits`` replace those of ``traits``.
    """

    known_settings: Sequence[str] = ()
    traits = Traits()
    _client: Client | None = None

    def __init__(self, name: str, host: Host, **more: Any) -> None:
        self.name, self._host, usual = name, host, self.traits
        self._settings = settings_of(host, (*self.known_settings, *_PACE))
        self.traits = replace(
            usual,
            edit_seconds=number_of(host, "edit_seconds", usual.edit_seconds or 0.0, may_be_zero=True),
            max_edits=int(number_of(host, "max_edits", usual.max_edits, may_be_zero=True)),
            per_second=number_of(host, "per_second", usual.per_second),
        )
        self._tasks: set[asyncio.Task[None]] = set()

    async def stop(self) -> None:
        """Stop receiving, and close the connections; the next start reads the messages that were not taken."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._close()
        self._client = None

    async def _close(self) -> None:
        """Free what ``connect`` opened. The tasks have ended."""

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @property
    def _api(self) -> Client:
        if self._client is None:
            raise NotSent("not connected")
        return self._client


class IntakePlatform(BotPlatform[Client], ABC):
    """A platform for a service that delivers each message only once, and does not prevent duplicates of sent messages.

    It takes messages through an ``Intake``, and shows one message per ``Outbound.key``, by ``SentKeys``. A subclass sets
    ``_intake``, ``_receive``, ``_lost`` and ``_not_sent`` when it connects. When ``_receive`` has a connection, it calls
    ``_hold``, and then ``_taking.resume`` with the channels to read.
    """

    cannot_be_sent: tuple[type[Exception], ...] = (FileNotFoundError, PermissionError)
    """Errors of a message that can never be sent."""
    _lost: tuple[type[Exception], ...] = ()
    """Errors of a service that can't be reached or that refuses the request; ``_not_sent`` translates them."""
    _not_sent: Callable[[Exception], NotSent]
    _intake: Intake | None = None
    _receive: Callable[[], Coroutine[Any, Any, None]]

    def __init__(self, name: str, host: Host, **more: Any) -> None:
        super().__init__(name, host, **more)
        self._sent = SentKeys(host)
        self._is_told = asyncio.Event()

    async def start(self) -> None:
        """Begin to receive: messages written after this has returned arrive, unless the service can't be reached now."""
        await self._sent.load()
        await self._taking.load(self._now())
        self._taking.hold()
        self._spawn(self._receive())
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._is_told.wait(), _START_SECONDS)

    async def _close(self) -> None:
        intake, self._intake = self._intake, None
        if intake is not None:
            await intake.close()
            await self._sent.close()

    @property
    def _taking(self) -> Intake:
        if self._intake is None:
            raise NotSent("not connected")
        return self._intake

    def _hold(self) -> None:
        """Hold new messages back until the messages from before this connection are read."""
        self._taking.hold()
        self._is_told.set()

    async def send(self, out: Outbound) -> str:
        """Show a message or change one. Raises NotSent."""
        if len(out.text) > self.traits.max_chars:
            raise NotSent(f"{len(out.text)} characters are more than {self.traits.max_chars}", for_good=True)
        if not (out.text.strip() or out.files):
            raise NotSent("there is nothing to show", for_good=True)
        try:
            return await (self._edit(out, out.edits) if out.edits else self._show(out))
        except StoreFailed as error:
            raise NotSent(f"the ids of sent messages can't be stored: {error}") from error
        except self.cannot_be_sent as error:
            raise NotSent(str(error), for_good=True) from error
        except self._lost as error:
            found = self._not_sent(error)
            if found.for_good:
                self._sent.forget(out.key)
            raise found from error

    async def _show(self, out: Outbound) -> str:
        """Show a message once: if an earlier attempt may have shown it, search for it first."""
        known, note = self._sent.known(out.key), ""
        if not known:
            note = str(await self._sent.begin(out.key, await self._note(out)))
            known = await self._find(out, note) if out.is_again else ""
        shown = known or await self._post(out)
        await self._sent.done(out.key, shown)
        return await self._edit(out, shown) if out.is_again and (known or not self._is_new(shown, note)) else shown

    def _is_new(self, shown: str, note: str) -> bool:
        """Return False if the service answered ``_post`` with the message of an earlier attempt, whose text may differ."""
        return True

    @abstractmethod
    def _now(self) -> str:
        """Return the id that a message written now would have."""

    @abstractmethod
    async def _note(self, out: Outbound) -> str:
        """Return the place where ``_find`` must begin to search for the message that is about to be shown."""

    @abstractmethod
    async def _find(self, out: Outbound, note: str) -> str:
        """Return the id of a message that an earlier attempt showed, or "" for none."""

    @abstractmethod
    async def _post(self, out: Outbound) -> str:
        """Show a new message and return its id."""

    @abstractmethod
    async def _edit(self, out: Outbound, message_id: str) -> str:
        """Change a message and return its id."""
