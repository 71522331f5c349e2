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
    "ShowsCalls",
    "ShowsTyping",
    "TellsShortcomings",
    "Traits",
    "settings_of",
    "without_controls",
]

_CONTROLS = Regex("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def without_controls(text: str) -> str:
    """Return the text in a form that is safe to show: control characters and direction marks become U+FFFD."""
    return _CONTROLS.sub("\ufffd", text.replace("\r\n", "\n"))


@dataclass(frozen=True, slots=True)
class Chat:
    """A place where people write: ``id`` and ``thread`` are the platform's own ids; ``thread`` is "" outside of threads.

    ``is_group``: more than one person can read it. ``title`` is shown to operators.
    """

    id: str
    thread: str = ""
    is_group: bool = False
    title: str = ""

    @property
    def key(self) -> str:
        """The chat and thread as one text, unique on its platform."""
        return f"{self.id}\0{self.thread}" if self.thread else self.id


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that came with a message. ``ref`` is what the platform's ``fetch`` needs to get it, even after a restart. ``size``
    is in bytes as the platform reports it, or None if it does not.
    """

    name: str
    media_type: str = "application/octet-stream"
    size: int | None = None
    ref: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Inbound:
    """A message of a person. ``user`` and ``message_id`` are the platform's own ids, which the platform vouches for; they never
    come from the message's text. ``name`` is the platform's name for the user, for display only.

    ``reply_to`` is the id of the message that it answers, ``edits`` the id of the one that it replaces. ``is_addressed``: it
    mentions our account or answers one of our messages; it has no effect outside of groups. ``is_bot``: a program wrote it.
    ``at`` is in Unix seconds, or 0 if the platform does not report it.

    ``locked`` says why the sender's messages can't approve calls or change the session, and how to change that. It is "" if they
    can, because the platform vouches for the person who sent them, not only for the account.
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
    """A user pressed a button, or gave the reaction that represents it. ``message_id`` is the id of the message that has the
    button, ``press_id`` the platform's id of the press (equal ids mean the same press), ``user`` the user who pressed.

    ``key`` is the ``Outbound.key`` of that message, if the platform's button returns it. The button should return it if the
    platform may show a message twice, because the gateway knows the id of only one copy. The gateway uses ``key`` only to find
    the question in that chat. ``locked`` is as in Inbound.
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
    """A choice below a message. ``choice`` comes back in the Press, at most 64 bytes; ``emoji`` is the reaction that represents
    it on platforms without buttons.
    """

    choice: str
    label: str
    emoji: str = ""


@dataclass(frozen=True, slots=True)
class OutFile:
    """A file to show: a copy that exists until it is sent."""

    path: Path
    name: str
    media_type: str = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class Outbound:
    """Something to show. ``text`` is Markdown, at most ``Traits.max_chars`` long; the platform converts it to its own form, and
    makes sure that no name in it notifies a user.

    ``key`` is the same each time that the same thing is sent, so that a platform that remembers keys shows it once. ``edits`` is
    the id of our message that it replaces, "" for a new one. ``buttons`` () on an edit removes the message's buttons.
    """

    chat: Chat
    text: str
    key: str
    edits: str = ""
    reply_to: str = ""
    buttons: Sequence[Button] = ()
    files: Sequence[OutFile] = ()
    is_plain: bool = False
    """Show the text as it is, without reading it as Markdown: for commands in an approval request."""
    is_again: bool = False
    """The message was sent before with this key, perhaps with another text, and may have been shown. An
    idempotent platform must make sure that the shown text is this one.
    """


@dataclass(frozen=True, slots=True)
class Traits:
    """Abilities and limits of a platform, which the gateway respects.

    ``edit_seconds`` is the least time between two edits in one chat, or None if messages can't be edited; ``max_edits`` limits
    the edits of one message. ``reactions``: our buttons are shown as reactions, which users give too. ``idempotent``: the
    platform shows one message per key, however often the key is sent. ``max_file_bytes`` is 0 if files can't be sent.
    ``per_second`` limits messages and edits of the whole account; ``burst`` of them may be sent at once after a pause (0: as many
    as in one second).

    ``written_approvals`` is False if a written message does not prove who wrote it: then a message can deny a call, as on any
    platform, but can't approve one. A press can, and so can a terminal.
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
    """A message that the platform did not show. It is tried again after ``retry_after`` seconds (None: soon, then at growing
    intervals).

    ``for_good``: it can never be shown (the chat was deleted, the account was removed). ``perhaps_sent``: it may have been shown,
    because the connection ended before the platform confirmed it. An exception of any other class counts like ``perhaps_sent``.
    ``code`` is one word or number, such as ``503``. Logs contain it and the class of the exception that caused this one, but not
    ``message``, which may repeat other people's text.
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
    """Access of a platform to the gateway. Its methods may be called concurrently, for any number of chats."""

    async def receive(self, message: Inbound) -> Literal["kept", "known", "refused", "limited"]:
        """Take a message, and return as soon as it is stored, before it is answered. The platform then acknowledges the message
        to its server.

        ``kept``: it is stored; also returned for a valid pairing code. ``known``: it arrived before. ``refused``: this user may
        not speak here. ``limited``: the user sent more than allowed within an hour, and is informed. A refused or limited
        message is not stored. Raises StoreFailed: the message was not taken, and must be offered again.
        """
        ...

    async def press(self, press: Press) -> str:
        """Take a press, and return a line to show to the user who pressed, or "" for none. Returns within about a second. Raises
        StoreFailed.
        """
        ...

    async def listens(self, chat: Chat, user: str, roles: Sequence[str] = ()) -> bool:
        """Return whether a user may speak in a chat. A platform calls this before it answers or stores something itself, such as
        a notice that it can't read a message. A user who may not speak is refused as by ``receive``. Raises StoreFailed.
        """
        ...

    async def follows(self, chat: Chat, user: str, roles: Sequence[str] = ()) -> bool:
        """Return whether to accept a user's invitation to a chat, on platforms that have invitations. True for users who may
        speak, for chats that the configuration names, and, while a pairing code is pending, for any direct chat. An invitation
        that is not accepted is recorded as a refusal. Raises StoreFailed.
        """
        ...

    @property
    def settings(self) -> Mapping[str, Json]:
        """The operator's settings for this platform: ``platforms.NAME.settings`` of the configuration."""
        ...

    def names_setting(self, key: str) -> str:
        """Return a setting as messages name it, with the file and line that set it, such as
        ``/etc/toolcrib/config.yaml:12: platforms.bells.settings.url``.
        """
        ...

    def secret(self, name: str) -> str:
        """Return the secret of that name, from the environment or secrets.env. Raises ConfigError if it is not set."""
        ...

    @property
    def folder(self) -> Path:
        """A private folder for the platform's own files that outlive a restart, such as keys. It exists, and is below the state
        folder.
        """
        ...

    async def recall(self, name: str) -> Json:
        """Return the value that ``keep`` stored, such as the place where the platform's server should continue, or None."""
        ...

    async def keep(self, name: str, value: Json) -> None:
        """Store a value of the platform for its next start. Raises StoreFailed."""
        ...


def settings_of(host: Host, known: Collection[str]) -> dict[str, str]:
    """Return the operator's settings for a platform that knows the settings in ``known``. Raises ConfigError for any other
    setting, such as a misspelt one.
    """
    for key in host.settings:
        if key not in known:
            alike = near(key, known)
            there = f"known: {', '.join(known)}" if known else "this platform has no settings"
            meant = f"did you mean {alike[0]}?" if alike else there
            raise ConfigError(f"{host.names_setting(key)}: unknown setting; {meant}")
    return {key: str(value) for key, value in host.settings.items()}


class Platform(Protocol):
    """A chat platform. A factory that a plugin gives to ``register_platform`` creates it once, with ``name`` and ``host``.
    Later versions may pass more, so the factory takes ``**more``. A platform is used in one event loop.
    """

    @property
    def name(self) -> str:
        """The name that the platform was registered under."""
        ...

    @property
    def traits(self) -> Traits:
        """The platform's abilities and limits, which do not change after ``connect`` has returned."""
        ...

    async def connect(self) -> str:
        """Log in without receiving anything yet, and return the account's id. The gateway needs the id to make sure that no other
        gateway uses the account. Raises any error, and ConfigError if a setting must be changed.
        """
        ...

    async def start(self) -> None:
        """Begin to receive, and return. From then on the platform reconnects by itself, and ``send`` may be called."""
        ...

    async def stop(self) -> None:
        """Stop receiving, and release all resources. Also called if ``connect`` or ``start`` raised."""
        ...

    async def send(self, out: Outbound) -> str:
        """Show or replace a message, and return its id on the platform. Raises NotSent."""
        ...

    def fetch(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """Yield the content of a received file in pieces. Raises any error."""
        ...


@runtime_checkable
class TellsShortcomings(Protocol):
    """A platform that works even if something optional is missing on this machine; `toolcrib doctor` reports it."""

    @property
    def shortcomings(self) -> Sequence[tuple[str, str]]:
        """Pairs (what the platform can't do, how to fix it). The list is complete after ``connect``; some entries may exist
        before.
        """
        ...


@runtime_checkable
class ShowsTyping(Protocol):
    """A platform that can show that an answer is being written."""

    async def typing(self, chat: Chat, is_on: bool) -> None:
        """Show that an answer is being written, or stop showing it. Called again every few seconds; exceptions are ignored."""
        ...


@runtime_checkable
class ShowsCalls(Protocol):
    """A platform that can show the calls of a run while they are made."""

    async def calling(self, chat: Chat, line: str) -> None:
        """Show a line about a call that begins: the tool and its arguments, cut short. Exceptions are ignored."""
        ...
