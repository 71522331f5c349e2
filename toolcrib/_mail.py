"""What a gateway keeps of chats: mail that arrived, posts that are to be shown, and which session a chat has."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Literal, Protocol, TypeAlias

from toolcrib._dataclass import dataclass
from toolcrib._types import Json

PostState: TypeAlias = Literal["waiting", "sending", "shown", "failed"]
"""To be shown; handed to the platform, which has not said yet whether it was; shown; never can be."""


@dataclass(frozen=True, slots=True)
class Mail:
    """A message that arrived. ``chat`` is ``Chat.key``; ``key`` is the platform's id of it. ``body`` is an Inbound as JSON.
    ``at`` is in Unix seconds, ``id`` the store's: it grows.
    """

    platform: str
    chat: str
    key: str
    body: Mapping[str, Json]
    at: float = 0.0
    id: int = 0


@dataclass(frozen=True, slots=True)
class Post:
    """Something to show in a chat. ``key`` is ours, one of its kind on the platform: the same key again is the same post.

    ``body`` is what to show, as JSON. ``shown_as`` is the platform's id of it, "" until it is known. ``tries`` counts attempts,
    ``due_at`` is when to try (again). ``problem`` is why the last one failed. Times are Unix seconds; ``id`` is the store's: it
    grows.
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


@dataclass(frozen=True, slots=True)
class ChatRecord:
    """A chat and the session that it has now. ``body`` is the Chat as JSON and what was set for it. Times are Unix seconds."""

    platform: str
    chat: str
    session_id: str
    body: Mapping[str, Json] = field(default_factory=dict)
    created_at: float = 0.0
    used_at: float = 0.0


class MailStore(Protocol):
    """Mail, posts and chats of all platforms. Never fenced: one gateway at a time has an account. Raises StoreFailed."""

    async def arrived(self, mail: Mail) -> Mail | None:
        """Keep a message and return it with its id and time; None where this chat has had one of that key before."""
        ...

    async def waiting(self, platform: str) -> Sequence[Mail]:
        """Return the messages that were not worked on yet, in the order of their coming."""
        ...

    async def done(self, mail_ids: Collection[int]) -> None:
        """Note that they were worked on. Their keys stay known, their bodies are removed."""
        ...

    async def post(self, post: Post) -> Post:
        """Keep something to show, in the state ``waiting``, due at ``due_at``, and return it as it is kept.

        Where the platform has a post of that key its body is replaced and it is waiting again, with what is known of where it was
        shown. One that has this very body and is shown, or failed, stays as it is.
        """
        ...

    async def get(self, platform: str, key: str) -> Post | None:
        """Return the post of that key."""
        ...

    async def shown(self, platform: str, chat: str, shown_as: str) -> Post | None:
        """Return the post that the platform shows there under that id."""
        ...

    async def moved(
        self, post_id: int, state: PostState, *, shown_as: str = "", due_at: float = 0.0, problem: str = "", body: Json = None
    ) -> bool:
        """Set the state of a post. ``sending`` counts a try. ``shown_as`` "" leaves what is known.

        ``shown`` with the ``body`` that was sent: where the post's body was replaced meanwhile it stays ``waiting`` and only
        ``shown_as`` is noted. False for a post that is not known.
        """
        ...

    async def pending(self, platform: str) -> Sequence[Post]:
        """Return the posts that are waiting or sending, in the order of their making."""
        ...

    async def unposted(self, platform: str, since: float) -> Sequence[str]:
        """Return the ids of runs that ended at ``since`` (Unix seconds) or later, in sessions that a chat of this platform has or
        had, and have no post whose key is ``run:ID`` or begins with ``run:ID:``; in the order of their ends.
        """
        ...

    async def chat(self, platform: str, chat: str) -> ChatRecord | None:
        """Return what is known of a chat."""
        ...

    async def chat_of(self, session_id: str) -> ChatRecord | None:
        """Return the chat that has this session, or had it before."""
        ...

    async def enter(self, record: ChatRecord) -> None:
        """Keep a chat, or replace what was known of it. ``created_at`` stays that of the first time; sessions that it had stay
        known as its own.
        """
        ...

    async def chats(self, platform: str = "", *, limit: int = 1_000, offset: int = 0) -> Sequence[ChatRecord]:
        """Return chats of a platform, or of all, the one used last first."""
        ...

    async def sweep(self, before: float) -> int:
        """Forget mail and posts that were done with before then (Unix seconds), and return how many."""
        ...
