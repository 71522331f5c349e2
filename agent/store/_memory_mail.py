"""Mail, posts and chats of a gateway, for as long as the process lives."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from agent.store._memory_room import MemoryMember, Room
from agent.store._memory_sessions import MemoryRuns
from toolcrib._frozen import freeze
from toolcrib._mail import ChatRecord, Mail, Post, PostState
from toolcrib._types import Json


class MemoryMail(MemoryMember):
    def __init__(self, runs: MemoryRuns, room: Room | None = None) -> None:
        super().__init__(room)
        self._runs = runs
        self._mail: dict[tuple[str, str, str], Mail] = {}
        self._waiting: dict[int, Mail] = {}
        self._posts: dict[tuple[str, str], Post] = {}
        self._chats: dict[tuple[str, str], ChatRecord] = {}
        self._had: dict[str, tuple[str, str]] = {}
        """Chats by the sessions that they have or had."""

    async def arrived(self, mail: Mail) -> Mail | None:
        place = (mail.platform, mail.chat, mail.key)
        with self._reading:
            if place in self._mail:
                return None
            number = next(self._room.numbers)
            kept = replace(mail, id=number, at=mail.at or self._room.clock(), body=freeze(mail.body))
            self._mail[place] = replace(kept, body={})
            self._waiting[number] = kept
            return kept

    async def waiting(self, platform: str) -> Sequence[Mail]:
        with self._reading:
            return [mail for mail in self._waiting.values() if mail.platform == platform]

    async def done(self, mail_ids: Collection[int]) -> None:
        with self._reading:
            for number in mail_ids:
                self._waiting.pop(number, None)

    async def post(self, post: Post) -> Post:
        place = (post.platform, post.key)
        with self._reading:
            known, body = self._posts.get(place), freeze(post.body)
            if known is None:
                number, now = next(self._room.numbers), self._room.clock()
                kept = Post(post.platform, post.chat, post.key, body, due_at=post.due_at, at=now, id=number)
            elif known.body == body and known.state in ("shown", "failed"):
                return known
            else:
                kept = replace(known, body=body, state="waiting", tries=0, due_at=post.due_at, problem="")
            self._posts[place] = kept
            return kept

    async def get(self, platform: str, key: str) -> Post | None:
        with self._reading:
            return self._posts.get((platform, key))

    async def shown(self, platform: str, chat: str, shown_as: str) -> Post | None:
        where = (platform, chat, shown_as)
        with self._reading:
            found = (post for post in self._posts.values() if (post.platform, post.chat, post.shown_as) == where)
            return next(found, None) if shown_as else None

    async def moved(
        self, post_id: int, state: PostState, *, shown_as: str = "", due_at: float = 0.0, problem: str = "", body: Json = None
    ) -> bool:
        with self._reading:
            post = next((one for one in self._posts.values() if one.id == post_id), None)
            if post is None:
                return False
            tries = post.tries + (state == "sending")
            state = "waiting" if state == "shown" and body is not None and freeze(body) != post.body else state
            changes: dict[str, Json] = {"state": state, "tries": tries, "due_at": due_at, "problem": problem}
            self._posts[post.platform, post.key] = replace(post, **changes, shown_as=shown_as or post.shown_as)
            return True

    async def pending(self, platform: str) -> Sequence[Post]:
        with self._reading:
            found = [post for post in self._posts.values() if post.platform == platform and post.state in ("waiting", "sending")]
        return sorted(found, key=lambda post: post.id)

    async def unposted(self, platform: str, since: float) -> Sequence[str]:
        with self._reading:
            ended = [run for run in self._runs.ended(since) if self._had.get(run.session_id, ("",))[0] == platform]
            keys = {key for where, key in self._posts if where == platform}
        posted = {":".join(key.split(":")[:2]) for key in keys if key.startswith("run:")}
        return [run.id for run in ended if f"run:{run.id}" not in posted]

    async def chat(self, platform: str, chat: str) -> ChatRecord | None:
        with self._reading:
            return self._chats.get((platform, chat))

    async def chat_of(self, session_id: str) -> ChatRecord | None:
        with self._reading:
            place = self._had.get(session_id)
            return None if place is None else self._chats.get(place)

    async def enter(self, record: ChatRecord) -> None:
        place = (record.platform, record.chat)
        with self._reading:
            known, now = self._chats.get(place), self._room.clock()
            self._had[record.session_id] = place
            created = record.created_at or now if known is None else known.created_at
            self._chats[place] = replace(record, body=freeze(record.body), created_at=created, used_at=record.used_at or now)

    async def chats(self, platform: str = "", *, limit: int = 1_000, offset: int = 0) -> Sequence[ChatRecord]:
        with self._reading:
            found = [record for record in self._chats.values() if platform in ("", record.platform)]
        return sorted(found, key=lambda record: -record.used_at)[offset : offset + limit]

    async def sweep(self, before: float) -> int:
        with self._reading:
            waiting = {(mail.platform, mail.chat, mail.key) for mail in self._waiting.values()}
            old = [place for place, mail in self._mail.items() if mail.at < before and place not in waiting]
            done = [place for place, post in self._posts.items() if post.at < before and post.state in ("shown", "failed")]
            for place in old:
                del self._mail[place]
            for gone in done:
                del self._posts[gone]
            return len(old) + len(done)

    def texts(self) -> Sequence[tuple[str, str]]:
        """Return (chat, text) of what is kept. For who holds the lock."""
        kept: list[tuple[str, Mapping[str, Json]]] = [(mail.chat, mail.body) for mail in self._waiting.values()]
        kept += [(post.chat, post.body) for post in self._posts.values()]
        return [(chat, json.dumps(body, default=dict)) for chat, body in kept]
