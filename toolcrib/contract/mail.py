"""What a gateway keeps of chats: mail that arrived, posts that are to be shown, and which session a chat has."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Literal, Protocol, TypeAlias

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.types import Json

PostState: TypeAlias = Literal["waiting", "sending", "shown", "failed"]
"""To be shown; handed to the platform, so that nobody knows whether it was shown; shown; never can be."""


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
    ``due_at`` is when to try (again). ``problem`` is why the last one failed. Times are Unix seconds: ``at`` that of its making,
    ``moved_at`` that of the last change of its state or body. ``id`` is the store's: it grows. The post is deleted with the
    session ``session_id``; "" stands for the one that the chat has when the post is kept.
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
    """A chat and the session that it has now, "" where that was deleted. ``body`` is the Chat as JSON and what was set for it.
    Times are Unix seconds.
    """

    platform: str
    chat: str
    session_id: str
    body: Mapping[str, Json] = field(default_factory=dict)
    created_at: float = 0.0
    used_at: float = 0.0


class MailStore(Protocol):
    """Mail, posts and chats of all platforms. Never fenced: one gateway at a time has an account. Bodies are JSON objects: what
    is none raises TypeError or ValueError, and is not kept. Raises StoreFailed.
    """

    async def arrived(self, mail: Mail) -> Mail | None:
        """Keep a message and return it with its id and time, ``at`` or now; None where this chat has had one of that key before.

        One for which StoreFailed was raised, or whose caller was cancelled, may be kept all the same: then ``waiting`` has it.
        """
        ...

    async def waiting(self, platform: str) -> Sequence[Mail]:
        """Return the messages that were not worked on yet, in the order of their coming."""
        ...

    async def done(self, mail_ids: Collection[int]) -> None:
        """Note that they were worked on. Their keys stay known until ``sweep``, their bodies are removed."""
        ...

    async def post(self, post: Post) -> Post:
        """Keep something to show, in the state ``waiting``, due at ``due_at``, and return it as it is kept.

        Where the platform has a post of that key its body is replaced. That was shown, or failed, is waiting again, with what is
        known of where it was shown; with this very body it stays as it is. One that was tried and is not shown yet goes on as
        it was: ``sending`` stays, since the platform may show what it was handed, and so do tries, problem and the time of the
        next try, where that is later. Chat, session and ``at`` are those of the first time.
        """
        ...

    async def get(self, platform: str, key: str) -> Post | None:
        """Return the post of that key."""
        ...

    async def shown(self, platform: str, chat: str, shown_as: str) -> Post | None:
        """Return the post that the platform shows there under that id; of several the one made last. None for the id ""."""
        ...

    async def moved(
        self, post_id: int, state: PostState, *, shown_as: str = "", due_at: float = 0.0, problem: str = "", body: Json = None
    ) -> Post | None:
        """Set the state of a post, and return it as it is now; None for one that is not known. ``shown_as`` "" leaves what is
        known.

        ``sending`` counts a try. With a ``problem`` it counts none, and says that nobody knows what came of the last one: it may
        have been shown. ``shown`` or ``failed`` with the ``body`` that was sent: where the post's body was replaced meanwhile it
        is ``waiting`` instead, with no tries.
        """
        ...

    async def pending(self, platform: str) -> Sequence[Post]:
        """Return the posts that are waiting or sending, in the order of their making."""
        ...

    async def questions(self, platform: str) -> Sequence[Post]:
        """Return the posts whose key begins with ``ticket:``, in whatever state, in the order of their making."""
        ...

    async def unposted(self, platform: str, since: float) -> Sequence[str]:
        """Return the ids of runs that ended at ``since`` (Unix seconds) or later, in sessions that a chat of this platform has or
        had, and have no post whose key is ``run:ID`` or begins with ``run:ID:``; in the order of their ends. The times are of the
        store's clock, and a run is seen a moment after its end: ask from a little before the last time. Posts that ``sweep``
        forgot count for none: ask for nothing that old.
        """
        ...

    async def chat(self, platform: str, chat: str) -> ChatRecord | None:
        """Return what is known of a chat."""
        ...

    async def chat_of(self, session_id: str) -> ChatRecord | None:
        """Return the chat that has this session, or had it before; of several the one that was entered with it last."""
        ...

    async def enter(self, record: ChatRecord) -> None:
        """Keep a chat, or replace what was known of it. ``created_at`` stays that of the first time; both times are now where
        they are 0. Sessions that it had stay known as its own.
        """
        ...

    async def chats(self, platform: str = "", *, limit: int = 1_000, offset: int = 0) -> Sequence[ChatRecord]:
        """Return chats of a platform, or of all, the one used last first."""
        ...

    async def sweep(self, before: float) -> int:
        """Forget mail that was done, and posts that were shown or failed, before then (Unix seconds), and return how many. What
        waits stays, however old. A message whose key was forgotten is new when it comes again.
        """
        ...
