"""Interface between chat platforms and the gateway: messages, the protocol of a platform, and its host."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import ConfigError, ToolcribError
from toolcrib.contract.regex import Regex
from toolcrib.contract.suggest import near
from toolcrib.contract.types import Json

__all__ = [
    "Attachment",
    "Button",
    "Chat",
    "Host",
    "Inbound",
    "NotSent",
    "OutFile",
    "Outbound",
    "Platform",
    "Press",
    "ShowsTyping",
    "TellsShortcomings",
    "Traits",
    "settings_of",
    "without_controls",
]

_CONTROLS = Regex("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def without_controls(text: str) -> str:
    """Return the text as it may be shown: what would move a cursor, or turn the direction of what is read, is U+FFFD instead."""
    return _CONTROLS.sub("\ufffd", text.replace("\r\n", "\n"))


@dataclass(frozen=True, slots=True)
class Chat:
    """A place where people write: ``id`` and ``thread`` are the platform's own ids, ``thread`` "" outside of threads.

    ``is_group``: more than one person can read it. ``title`` is shown to operators.
    """

    id: str
    thread: str = ""
    is_group: bool = False
    title: str = ""

    @property
    def key(self) -> str:
        """The chat and thread as one text, unlike that of any other on its platform."""
        return f"{self.id}\0{self.thread}" if self.thread else self.id


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that came with a message. ``ref`` is what the platform's ``fetch`` needs to get it, also after a restart; ``size``
    is
    in bytes as the platform says, None where it does not.
    """

    name: str
    media_type: str = "application/octet-stream"
    size: int | None = None
    ref: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Inbound:
    """A message of a person. ``user`` and ``message_id`` are the platform's own ids, which it vouches for; never what the message
    says of itself. ``name`` is what the platform calls the user, and is shown only.

    ``reply_to`` is the id of the message that it answers, ``edits`` of the one that it replaces. ``is_addressed``: it mentions
    our account, or answers a message of ours; of no effect outside of groups. ``is_bot``: a program wrote it. ``at`` is in Unix
    seconds, 0 where the platform does not say.

    ``locked`` says why the sender can decide nothing by it and what to do about that, "" if they can: then the platform vouches
    that a person sent it, not only for the account.
    """

    chat: Chat
    user: str
    message_id: str
    text: str = ""
    name: str = ""
    roles: Sequence[str] = ()
    attachments: Sequence[Attachment] = ()
    reply_to: str = ""
    edits: str = ""
    is_addressed: bool = False
    is_bot: bool = False
    at: float = 0.0
    locked: str = ""


@dataclass(frozen=True, slots=True)
class Press:
    """Somebody pressed a button, or gave the reaction that stands for it. ``message_id`` is the message that has the button,
    ``press_id`` the platform's id of the press (the same again is the same press), ``user`` who pressed.

    ``key`` is the ``Outbound.key`` of that message, where the platform has the button bring it back, as it should if it may show
    a key twice: of two copies only one is known by its id. It counts for nothing but to find what is asked in that chat.
    ``locked`` is as in Inbound.
    """

    chat: Chat
    user: str
    message_id: str
    choice: str
    press_id: str
    name: str = ""
    roles: Sequence[str] = ()
    key: str = ""
    locked: str = ""


@dataclass(frozen=True, slots=True)
class Button:
    """A choice below a message. ``choice`` comes back in the Press, at most 64 bytes; ``emoji`` is the reaction that means it
    where
    there are no buttons.
    """

    choice: str
    label: str
    emoji: str = ""


@dataclass(frozen=True, slots=True)
class OutFile:
    """A file to show: a copy that stays until it was sent."""

    path: Path
    name: str
    media_type: str = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class Outbound:
    """Something to show. ``text`` is Markdown, at most ``Traits.max_chars`` long; the platform turns it into its own form, and
    pings
    nobody by it.

    ``key`` is the same each time that the same thing is sent: a platform that can sends it once. ``edits`` is the id of the
    message
    of ours that it replaces, "" for a new one. ``buttons`` () on an edit removes those that were there.
    """

    chat: Chat
    text: str
    key: str
    edits: str = ""
    reply_to: str = ""
    buttons: Sequence[Button] = ()
    files: Sequence[OutFile] = ()
    is_plain: bool = False
    """Show the text as it stands, without reading it as Markdown: commands that somebody is asked about."""
    is_again: bool = False
    """It was sent before with this key, perhaps with another text, and nobody knows whether it was shown. A platform that shows a
    key once sees to it that this text is what is shown."""


@dataclass(frozen=True, slots=True)
class Traits:
    """Abilities and limits of a platform; the gateway keeps to them.

    ``edit_seconds`` is the least time between two edits in one chat, None where nothing can be edited; ``max_edits`` bounds
    those of
    one message. ``reactions``: our buttons are shown as reactions, which people give too. ``idempotent``: the same key is shown
    once, however often it is sent. ``max_file_bytes`` is 0 where files can't be sent. ``per_second`` bounds messages and edits of
    the whole account; ``burst`` of them may go at once after a pause (0: those of a second).

    ``written_approvals`` is False where what is written is no proof of who wrote it: then a message refuses a call, as anywhere,
    and approves none. A press does, and a terminal.
    """

    max_chars: int = 4_000
    edit_seconds: float | None = None
    max_edits: int = 40
    buttons: bool = False
    reactions: bool = False
    idempotent: bool = False
    max_file_bytes: int = 0
    per_second: float = 20.0
    burst: int = 0
    written_approvals: bool = True


class NotSent(ToolcribError):
    """A message that the platform did not show. It is tried again after ``retry_after`` seconds (None: soon, and later each
    time).

    ``for_good``: it never will (the chat is gone, the account was removed). ``perhaps_sent``: it may have been shown, as the
    connection ended before the platform said so; any other exception counts so too. ``code`` is one word or number, such as
    ``503``: logs have it, and the class of the exception that this is raised from, but not ``message``, which may repeat others'
    words.
    """

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        for_good: bool = False,
        perhaps_sent: bool = False,
        code: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after = retry_after
        self.for_good = for_good
        self.perhaps_sent = perhaps_sent


class Host(Protocol):
    """Access of a platform to the gateway. Its methods may be called at once, for any number of chats."""

    async def receive(self, message: Inbound) -> Literal["kept", "known", "refused", "limited"]:
        """Take a message. Returns once it is kept for good, not when it is answered: then tell the platform's server that it
        came.

        ``kept`` is also a pairing's code that counted. ``known``: it came before. ``refused``: nobody here listens to this user.
        ``limited``: they sent more than they may within an hour, and are told so. Of these two nothing is kept. Raises
        StoreFailed: it was not taken, and must be offered again.
        """
        ...

    async def press(self, press: Press) -> str:
        """Take a press, and return a line for who pressed, "" for none. Within about a second. Raises StoreFailed."""
        ...

    async def listens(self, chat: Chat, user: str, roles: Sequence[str] = ()) -> bool:
        """Return whether somebody may speak there: for what the platform itself would answer or keep, such as that it can't read
        a message. Who may not is refused as by ``receive``. Raises StoreFailed.
        """
        ...

    async def follows(self, chat: Chat, user: str, roles: Sequence[str] = ()) -> bool:
        """Return whether to follow somebody's invitation to a chat, where the platform has such: that of whom may speak; any to a
        chat that the configuration names; and while a pairing's code waits to be said, any to a direct chat. One that is not
        followed is noted as a refusal. Raises StoreFailed.
        """
        ...

    @property
    def settings(self) -> Mapping[str, Json]:
        """The operator's settings for this platform: ``platforms.NAME.settings`` of the configuration."""
        ...

    def names_setting(self, key: str) -> str:
        """Return a setting as messages name it: with the file and line where it is set, as
        ``/etc/toolcrib/config.yaml:12: platforms.bells.settings.url``.
        """
        ...

    def secret(self, name: str) -> str:
        """Return the secret of that name, from the environment or secrets.env. Raises ConfigError where there is none."""
        ...

    @property
    def folder(self) -> Path:
        """A folder for files of the platform's own that outlive a start, such as keys. It is there, below the state folder, and
        nobody else may read it.
        """
        ...

    async def recall(self, name: str) -> Json:
        """Return what ``keep`` kept, None for nothing: where the platform's server is to go on from."""
        ...

    async def keep(self, name: str, value: Json) -> None:
        """Keep a value of the platform's own for its next start. Raises StoreFailed."""
        ...


def settings_of(host: Host, known: Collection[str]) -> dict[str, str]:
    """Return the operator's settings for a platform that has the ``known`` ones. Raises ConfigError for one that it has not, such
    as one that is misspelt.
    """
    for key in host.settings:
        if key not in known:
            alike = near(key, known)
            there = f"there is {', '.join(known)}" if known else "this platform has none"
            meant = f"did you mean {alike[0]}?" if alike else there
            raise ConfigError(f"{host.names_setting(key)}: there is no such setting; {meant}")
    return {key: str(value) for key, value in host.settings.items()}


class Platform(Protocol):
    """Made once by a factory that a plugin gives to ``register_platform``, called with ``name`` and ``host``; later versions may
    give more, so it takes ``**more``. Used in one event loop.
    """

    @property
    def name(self) -> str:
        """The name that it was registered under."""
        ...

    @property
    def traits(self) -> Traits:
        """The platform's abilities and limits, which are fixed once ``connect`` has returned."""
        ...

    async def connect(self) -> str:
        """Log in without receiving anything yet, and return the account's id: two gateways never share one. Raises what is wrong,
        ConfigError where a setting has to be changed.
        """
        ...

    async def start(self) -> None:
        """Begin to receive, and return. From here on the platform reconnects by itself, and ``send`` may be called."""
        ...

    async def stop(self) -> None:
        """Receive nothing more, and free everything. Also called where ``connect`` or ``start`` raised."""
        ...

    async def send(self, out: Outbound) -> str:
        """Show a message or replace one, and return its id there. Raises NotSent."""
        ...

    def fetch(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """Yield the content of a file that came, in pieces. Raises what is wrong."""
        ...


@runtime_checkable
class TellsShortcomings(Protocol):
    """A platform that may lack something here without which it works all the same: `toolcrib doctor` tells of it."""

    @property
    def shortcomings(self) -> Sequence[tuple[str, str]]:
        """Pairs of what it can't do and what to do about it. All is known after ``connect``; some may be before."""
        ...


@runtime_checkable
class ShowsTyping(Protocol):
    """A platform that can show that an answer is being written."""

    async def typing(self, chat: Chat, is_on: bool) -> None:
        """Show it, or no longer. It is said again every few seconds; what it raises is ignored."""
        ...
