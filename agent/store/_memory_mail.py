"""Mail, posts and chats of a gateway, for as long as the process lives."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from agent.store._codec import dump_body, load, plain
from agent.store._memory_room import MemoryMember, Room
from agent.store._memory_sessions import MemoryRuns
from toolcrib.contract.dataclass import replace
from toolcrib.contract.frozen import freeze
from toolcrib.contract.mail import ChatRecord, Mail, Post, PostState
from toolcrib.contract.types import Json

_Place = tuple[str, str, str]


class MemoryMail(MemoryMember):
    def __init__(self, runs: MemoryRuns, room: Room | None = None) -> None:
        super().__init__(room)
        self._runs = runs
        self._known: dict[_Place, float | None] = {}
        """When the mail of this platform, chat and key was done; None: it waits."""
        self._waiting: dict[int, Mail] = {}
        self._posts: dict[int, Post] = {}
        """When each post became what it is."""
        self._numbers: dict[tuple[str, str], int] = {}
        """Posts by platform and key."""
        self._chats: dict[tuple[str, str], ChatRecord] = {}
        self._had: dict[str, tuple[str, str]] = {}
        """Chats by the sessions that they have or had."""

    async def arrived(self, mail: Mail) -> Mail | None:
        place, body = (mail.platform, mail.chat, mail.key), _kept(mail.body)
        with self._reading:
            if place in self._known:
                return None
            number = next(self._room.numbers)
            kept = replace(mail, id=number, at=mail.at or self._room.clock(), body=body)
            self._known[place] = None
            self._waiting[number] = kept
            return kept

    async def waiting(self, platform: str) -> Sequence[Mail]:
        with self._reading:
            return [mail for mail in self._waiting.values() if mail.platform == platform]

    async def done(self, mail_ids: Collection[int]) -> None:
        with self._reading:
            for number in mail_ids:
                mail = self._waiting.pop(number, None)
                if mail is not None:
                    self._known[mail.platform, mail.chat, mail.key] = self._room.clock()

    async def post(self, post: Post) -> Post:
        body = _kept(post.body)
        with self._reading:
            number = self._numbers.get((post.platform, post.key))
            now = self._room.clock()
            if number is None:
                number = self._numbers[post.platform, post.key] = next(self._room.numbers)
                place = post.platform, post.chat
                kept = Post(*place, post.key, body, due_at=post.due_at, at=now, id=number, session_id=self._session_of(post))
            else:
                kept = self._posts[number]
                is_over = kept.state in ("shown", "failed")
                if is_over and dump_body(kept.body) == dump_body(body):
                    return kept
                changes: dict[str, Any] = {"body": body, "session_id": kept.session_id or self._session_of(post)}
                if is_over or not kept.tries:
                    changes |= {"state": "waiting", "tries": 0, "due_at": post.due_at, "problem": ""}
                else:
                    changes["due_at"] = max(kept.due_at, post.due_at)
                kept = replace(kept, **changes)
            kept = self._posts[number] = replace(kept, moved_at=now)
            return kept

    async def get(self, platform: str, key: str) -> Post | None:
        with self._reading:
            number = self._numbers.get((platform, key))
            return None if number is None else self._posts[number]

    async def shown(self, platform: str, chat: str, shown_as: str) -> Post | None:
        where = (platform, chat, shown_as)
        with self._reading:
            found = (post for post in self._posts.values() if (post.platform, post.chat, post.shown_as) == where)
            return max(found, key=lambda post: post.id, default=None) if shown_as else None

    async def moved(
        self, post_id: int, state: PostState, *, shown_as: str = "", due_at: float = 0.0, problem: str = "", body: Json = None
    ) -> Post | None:
        sent = None if body is None else dump_body(body)
        with self._reading:
            post = self._posts.get(post_id)
            if post is None:
                return None
            was_replaced = state in ("shown", "failed") and sent is not None and sent != dump_body(post.body)
            tries = post.tries + (state == "sending" and not problem)
            state, tries = ("waiting", 0) if was_replaced else (state, tries)
            changes: dict[str, Any] = {"state": state, "tries": tries, "due_at": due_at, "problem": problem}
            kept = replace(post, **changes, shown_as=shown_as or post.shown_as, moved_at=self._room.clock())
            self._posts[post_id] = kept
            return kept

    async def pending(self, platform: str) -> Sequence[Post]:
        with self._reading:
            return [post for post in self._posts.values() if post.platform == platform and post.state in ("waiting", "sending")]

    async def questions(self, platform: str) -> Sequence[Post]:
        with self._reading:
            return [post for post in self._posts.values() if post.platform == platform and post.key.startswith("ticket:")]

    async def unposted(self, platform: str, since: float) -> Sequence[str]:
        with self._reading:
            ended = [run for run in self._runs.ended(since) if self._had.get(run.session_id, (None,))[0] == platform]
            keys = [key.split(":") for where, key in self._numbers if where == platform]
        posted = {":".join(parts[1:end]) for parts in keys if parts[0] == "run" for end in range(2, len(parts) + 1)}
        return [run.id for run in ended if run.id not in posted]

    async def chat(self, platform: str, chat: str) -> ChatRecord | None:
        with self._reading:
            return self._chats.get((platform, chat))

    async def chat_of(self, session_id: str) -> ChatRecord | None:
        with self._reading:
            place = self._had.get(session_id)
            return None if place is None else self._chats.get(place)

    async def enter(self, record: ChatRecord) -> None:
        place, body = (record.platform, record.chat), _kept(record.body)
        with self._reading:
            known, now = self._chats.get(place), self._room.clock()
            if record.session_id:
                self._had[record.session_id] = place
            created = record.created_at or now if known is None else known.created_at
            self._chats[place] = replace(record, body=body, created_at=created, used_at=record.used_at or now)

    async def chats(self, platform: str = "", *, limit: int = 1_000, offset: int = 0) -> Sequence[ChatRecord]:
        with self._reading:
            found = [record for record in self._chats.values() if platform in ("", record.platform)]
        return sorted(found, key=lambda record: -record.used_at)[offset : offset + limit]

    async def sweep(self, before: float) -> int:
        with self._reading:
            old = [place for place, done_at in self._known.items() if done_at is not None and done_at < before]
            over = [post for post in self._posts.values() if post.state in ("shown", "failed") and post.moved_at < before]
            for place in old:
                del self._known[place]
            self._forget(over)
            return len(old) + len(over)

    def forget_sessions(self, session_ids: Collection[str]) -> None:
        """Forget the posts of these sessions, and that chats had them. For who holds the lock."""
        self._forget([post for post in self._posts.values() if post.session_id in session_ids])
        for name in session_ids:
            place = self._had.pop(name, None)
            record = None if place is None else self._chats.get(place)
            if place is not None and record is not None and record.session_id == name:
                self._chats[place] = replace(record, session_id="")

    def sessions(self) -> set[str]:
        """Return the ids of sessions that mail waits for. For who holds the lock."""
        return {self._session_of(mail) for mail in self._waiting.values()}

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yield (session, text) of posts, and of mail that waits. For who holds the lock."""
        said: list[tuple[str, Mapping[str, Json]]] = [(post.session_id, post.body) for post in self._posts.values()]
        said += [(self._session_of(mail), mail.body) for mail in self._waiting.values()]
        return ((session, plain(dump_body(body))) for session, body in said if session)

    def _session_of(self, one: Mail | Post) -> str:
        record = self._chats.get((one.platform, one.chat))
        given = one.session_id if isinstance(one, Post) else ""
        return given or ("" if record is None else record.session_id)

    def _forget(self, posts: Collection[Post]) -> None:
        for post in posts:
            del self._posts[post.id], self._numbers[post.platform, post.key]


def _kept(body: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return a read-only copy. Raises TypeError or ValueError for what is no JSON object."""
    kept: Mapping[str, Json] = freeze(load(dump_body(body)))
    return kept
