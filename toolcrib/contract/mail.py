"""Records that a gateway keeps of chats: mail that arrived, posts to show, and the session of each chat."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Literal, Protocol, TypeAlias

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.types import Json

PostState: TypeAlias = Literal["waiting", "sending", "shown", "failed"]
"""waiting: will be shown; sending: handed to the platform, and may have been shown; shown; failed: can never be shown."""


@dataclass(frozen=True, slots=True)
class Mail:
    """A message that arrived. ``chat`` is ``Chat.key``; ``key`` is the platform's id of the message. ``body`` is an Inbound as
    JSON. ``at`` is in Unix seconds; ``id`` is assigned by the store, and grows.
    """

    platform: str
    chat: str
    key: str
    body: Mapping[str, Json]
    at: float = 0.0
    id: int = 0


@dataclass(frozen=True, slots=True)
class Post:
    """Something to show in a chat. ``key`` is unique on the platform: storing the same key again means the same post.

    ``body`` is what to show, as JSON. ``shown_as`` is the platform's id of the post, "" until it is known. ``tries`` counts
    attempts, ``due_at`` is the time of the next attempt, ``problem`` is why the last one failed. Times are Unix seconds: ``at``
    is the time of creation, ``moved_at`` of the last change of the state or body. ``id`` is assigned by the store,
    and grows. The post is deleted with the session ``session_id``; "" stands for the session that the chat has when
    the post is stored.
    """

    platform: str
    chat: str
    key: str
    body: Mapping[str, Json]
    state: PostState = "waiting"
    shown_as: str = ""
    tries: int = 0
    due_at: float = 0.0
    problem: str = ""
    at: float = 0.0
    id: int = 0
    session_id: str = ""
    moved_at: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class ChatRecord:
    """A chat and its current session, "" if that was deleted. ``body`` is the Chat as JSON, with its settings. Times are Unix
    seconds.
    """

    platform: str
    chat: str
    session_id: str
    body: Mapping[str, Json] = field(default_factory=dict)
    created_at: float = 0.0
    used_at: float = 0.0


class MailStore(Protocol):
    """Mail, posts and chats of all platforms. Writes are not fenced, because only one gateway at a time uses an
    account. Bodies are JSON objects; any other body raises TypeError or ValueError, and is not stored. Raises
    StoreFailed.
    """

    async def arrived(self, mail: Mail) -> Mail | None:
        """Store a message and return it with its id and time (``at``, or now). Return None if this chat already had one with that
        key.

        If this raises StoreFailed or the caller is cancelled, the message may still be stored: then ``waiting`` returns it.
        """
        ...

    async def waiting(self, platform: str) -> Sequence[Mail]:
        """Return the messages that were not processed yet, in the order of arrival."""
        ...

    async def done(self, mail_ids: Collection[int]) -> None:
        """Record that messages were processed. Their keys stay known until ``sweep``; their bodies are removed."""
        ...

    async def post(self, post: Post) -> Post:
        """Store something to show, in the state ``waiting``, due at ``due_at``, and return it as stored.

        If the platform already has a post with that key, its body is replaced. A post that was shown or failed is waiting again
        and keeps its ``shown_as``; with an equal body it does not change. A post that was tried and is not shown yet keeps its
        state: ``sending`` stays, because the platform may still show it, and so do its tries, its problem and, if that is later,
        the time of its next try. Chat, session and ``at`` keep their first values.
        """
        ...

    async def get(self, platform: str, key: str) -> Post | None:
        """Return the post with that key, or None."""
        ...

    async def shown(self, platform: str, chat: str, shown_as: str) -> Post | None:
        """Return the post that the platform shows in the chat under that id; of several, the newest. None for the id ""."""
        ...

    async def moved(
        self, post_id: int, state: PostState, *, shown_as: str = "", due_at: float = 0.0, problem: str = "", body: Json = None
    ) -> Post | None:
        """Set the state of a post, and return the post; None for an unknown one. ``shown_as`` "" keeps the known id.

        ``sending`` counts a try. With a ``problem`` it counts none, and records that the outcome of the last try is unknown: the
        post may have been shown. ``shown`` and ``failed`` take the ``body`` that was sent: if the post's body was replaced since,
        the post becomes ``waiting`` instead, with no tries.
        """
        ...

    async def pending(self, platform: str) -> Sequence[Post]:
        """Return the posts that are waiting or sending, in the order of creation."""
        ...

    async def questions(self, platform: str) -> Sequence[Post]:
        """Return the posts whose key begins with ``ticket:``, in any state, in the order of creation."""
        ...

    async def unposted(self, platform: str, since: float) -> Sequence[str]:
        """Return the ids of ended runs without a post, in the order of their ends.

        The runs ended at ``since`` (Unix seconds) or later, in sessions that a chat of this platform has or had. A post of a run
        has the key ``run:ID``, or one that begins with ``run:ID:``. Times are by the store's clock, and a run becomes visible a
        moment after its end, so choose ``since`` a little before the time of the previous call. The run of a post that
        ``sweep`` deleted counts as a run without a post: choose no time that old.
        """
        ...

    async def chat(self, platform: str, chat: str) -> ChatRecord | None:
        """Return the record of a chat, or None."""
        ...

    async def chat_of(self, session_id: str) -> ChatRecord | None:
        """Return the chat that has or had this session; of several, the chat whose record named it last."""
        ...

    async def enter(self, record: ChatRecord) -> None:
        """Store or replace the record of a chat. ``created_at`` keeps its first value; a time of 0 becomes now. Earlier
        sessions of the chat stay known as its own.
        """
        ...

    async def chats(self, platform: str = "", *, limit: int = 1_000, offset: int = 0) -> Sequence[ChatRecord]:
        """Return chats of a platform, or of all, the last used first."""
        ...

    async def sweep(self, before: float) -> int:
        """Delete mail that was processed, and posts that were shown or failed, before ``before`` (Unix seconds), and return their
        number. Waiting ones stay, however old. A message whose key was deleted counts as new if it arrives again.
        """
        ...
