"""Conversations and runs for one process."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from agent.store._codec import dump_item, plain
from agent.store._memory_room import MemoryMember, Room
from agent.store._memory_usage import MemoryUsage
from agent.store._shared import CANDIDATES, ambiguous, first_title, received, rewritten, times_of, title_of
from toolcrib.contract.dataclass import replace
from toolcrib.contract.frozen import freeze
from toolcrib.contract.records import NO_ENTRIES
from toolcrib.contract.store import InboxItem, RunRecord, SessionInfo
from toolcrib.contract.types import Json


class MemorySessions(MemoryMember):
    def __init__(self, room: Room | None = None) -> None:
        super().__init__(room)
        self.usage = MemoryUsage(room)
        self._messages: dict[str, list[Mapping[str, Json]]] = {}
        self._infos: dict[str, SessionInfo] = {}
        self._prompts: dict[str, Mapping[str, Json]] = {}
        self._order: list[tuple[str, int, float]] = []

    async def create(
        self,
        session_id: str,
        *,
        platform: str,
        user: str,
        model: str = "",
        cwd: str = "",
        place: Mapping[str, str] = MappingProxyType({}),
        via: Mapping[str, str] = MappingProxyType({}),
        parent: str = "",
        why: str = "",
    ) -> None:
        """Creating a session again leaves it as it is."""
        with self._writing:
            if session_id not in self._infos:
                now = self._room.clock()
                about = session_id, "", platform, user, model, cwd, now, now
                self._infos[session_id] = SessionInfo(*about, 0, dict(place), via=dict(via), parent=parent, why=why)
                self._messages[session_id] = []

    async def update(
        self,
        session_id: str,
        *,
        title: str | None = None,
        model: str | None = None,
        cwd: str | None = None,
        place: Mapping[str, str] | None = None,
        host: str | None = None,
        via: Mapping[str, str] | None = None,
        prompt: Mapping[str, Json] | None = None,
    ) -> None:
        with self._writing:
            info = self._infos[session_id]
            if prompt is not None:
                self._prompts[session_id] = freeze(prompt)
            self._touch(
                replace(
                    info,
                    title=info.title if title is None else title,
                    model=info.model if model is None else model,
                    cwd=info.cwd if cwd is None else cwd,
                    place=info.place if place is None else dict(place),
                    host=info.host if host is None else host,
                    via=info.via if via is None else dict(via),
                )
            )

    async def label(self, session_id: str, *, title: str | None = None, tags: Iterable[str] | None = None) -> None:
        """Set what a person calls it. Raises KeyError for a session that was never created."""
        with self._writing:
            info = self._infos[session_id]
            tagged = info.tags if tags is None else tuple(dict.fromkeys(tags))
            self._infos[session_id] = replace(info, title=info.title if title is None else title, tags=tagged)

    async def add(self, info: SessionInfo, messages: Sequence[Mapping[str, Json]], times: Sequence[float] = ()) -> bool:
        """Keep a session that was elsewhere, whole; False where one with its id is there."""
        kept = [freeze(message) for message in messages]
        title, _ = first_title(kept)
        tags, place, via = tuple(dict.fromkeys(info.tags)), dict(info.place), dict(info.via)
        with self._writing:
            if info.id in self._infos:
                return False
            self._infos[info.id] = replace(
                info, title=info.title or title, messages=len(kept), host="", tags=tags, place=place, via=via
            )
            self._messages[info.id] = kept
            for number, at in enumerate(times_of(info, times, len(kept))):
                self._order.append((info.id, number, at))
                self.usage.add(info.id, kept[number : number + 1], at)
            return True

    async def prompt(self, session_id: str) -> Mapping[str, Json]:
        """Raises KeyError for a session that was never created."""
        with self._reading:
            return self._prompts.get(self._infos[session_id].id, NO_ENTRIES)

    async def append(self, session_id: str, message: Mapping[str, Json]) -> None:
        """Keep a read-only copy. Raises KeyError for a session that was never created."""
        await self.append_many(session_id, [message])

    async def append_many(self, session_id: str, messages: Iterable[Mapping[str, Json]]) -> None:
        """All of them or, where it raises, none."""
        kept = [freeze(message) for message in messages]
        with self._writing:
            self.take_in(session_id, kept)

    async def messages(self, session_id: str, *, offset: int = 0, limit: int | None = None) -> Sequence[Mapping[str, Json]]:
        """Return messages in order. Raises KeyError for a session that was never created."""
        with self._reading:
            return self._messages[session_id][offset : None if limit is None else offset + limit]

    async def get(self, prefix: str) -> SessionInfo | None:
        """The session of that id, or the only one whose id begins so. Raises ToolcribError with the candidates of several."""
        with self._reading:
            found = [self._infos[prefix]] if prefix in self._infos else self._like(prefix)
        if len(found) > 1:
            raise ambiguous(prefix, [info.id for info in found[: CANDIDATES + 1]])
        return found[0] if found else None

    async def latest(self, *, platform: str | None = None, user: str | None = None, cwd: str | None = None) -> SessionInfo | None:
        return next(iter(await self.list(1, platform=platform, user=user, cwd=cwd)), None)

    async def list(
        self,
        limit: int = 20,
        *,
        platform: str | None = None,
        user: str | None = None,
        cwd: str | None = None,
        tags: Iterable[str] = (),
        delegates: bool = True,
    ) -> Sequence[SessionInfo]:
        """Return the sessions in which a user said something, the last one that was used first."""
        wanted = set(tags)
        with self._reading:
            found = [
                info
                for info in reversed(self._infos.values())
                if platform in (None, info.platform) and user in (None, info.user) and cwd in (None, info.cwd)
                if wanted.issubset(info.tags) and (delegates or info.why != "delegate")
                if any(message.get("role") == "user" for message in self._messages[info.id])
            ]
        return sorted(found, key=lambda info: info.updated_at, reverse=True)[:limit]

    async def children(self, session_id: str) -> Sequence[SessionInfo]:
        """Return the sessions that come from this one, the first one first."""
        with self._reading:
            return [info for name in self._messages if (info := self._infos[name]).parent == session_id != ""]

    def take_in(self, session_id: str, kept: Sequence[Mapping[str, Json]]) -> None:
        """Append what is read-only already. For who holds the lock."""
        info = self._infos[session_id]
        title = info.title or next(filter(None, map(title_of, kept)), "")
        now = self._room.clock()
        self._order += [(session_id, info.messages + number, now) for number in range(len(kept))]
        self._messages[session_id].extend(kept)
        self.usage.add(session_id, kept)
        self._touch(replace(info, title=title, messages=info.messages + len(kept)))

    def has(self, session_id: str) -> bool:
        """Return whether the session was created."""
        return session_id in self._infos

    def forget_sessions(self, session_ids: Collection[str]) -> None:
        """Forget these sessions and their messages. For who holds the lock."""
        for name in session_ids:
            for kept in (self._infos, self._messages, self._prompts):
                kept.pop(name, None)
        self._order[:] = [said for said in self._order if said[0] not in session_ids]
        self.usage.forget_sessions(session_ids)

    def rewrite_prompts(self, text: str, rewrite: Callable[[Mapping[str, Json]], Mapping[str, Json]]) -> Sequence[str]:
        """See toolcrib.contract.store.Store.rewrite_prompts."""
        said = json.dumps(text)[1:-1]
        with self._room.lock:
            found = [(name, json.dumps(dict(prompt), default=dict)) for name, prompt in self._prompts.items()]
            changed = dict(rewritten([one for one in found if said in one[1]], rewrite))
            self._prompts.update({str(name): freeze(json.loads(prompt)) for name, prompt in changed.items()})
        return list(map(str, changed))

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yield (session, text) for what is kept. For who holds the lock."""
        yield from ((info.id, info.title) for info in self._infos.values())
        for name, messages in self._messages.items():
            yield from ((name, json.dumps(message, default=dict)) for message in messages)

    def info_of(self, session_id: str) -> SessionInfo | None:
        """Return what is known of a session by its whole id."""
        with self._reading:
            return self._infos.get(session_id)

    def said(self) -> Sequence[tuple[SessionInfo, int, float, Mapping[str, Json]]]:
        """Return every message with its session, its place there and its time, the newest first."""
        with self._reading:
            return [(self._infos[name], seq, at, self._messages[name][seq]) for name, seq, at in reversed(self._order)]

    def _like(self, prefix: str) -> Sequence[SessionInfo]:
        return [info for info in reversed(self._infos.values()) if info.id.startswith(prefix)]

    def _touch(self, info: SessionInfo) -> None:
        self._infos.pop(info.id)  # the last one used stands last
        self._infos[info.id] = replace(info, updated_at=self._room.clock())


class MemoryInbox(MemoryMember):
    def __init__(self, room: Room | None = None) -> None:
        super().__init__(room)
        self._waiting: dict[int, InboxItem] = {}
        self._keys: set[tuple[str, str]] = set()

    async def put(self, item: InboxItem) -> InboxItem | None:
        """Keep it and return it with its id; ``at`` is now where it is 0. None where its key is known."""
        item = received(item, self._room.clock)
        with self._reading:
            if item.key and (item.session_id, item.key) in self._keys:
                return None
            self._keys.add((item.session_id, item.key))
            kept = replace(item, id=next(self._room.numbers))
            self._waiting[kept.id] = kept
            return kept

    async def waiting(self, session_id: str) -> Sequence[InboxItem]:
        with self._reading:
            return [item for item in self._waiting.values() if item.session_id == session_id]

    async def drop(self, item_ids: Collection[int]) -> None:
        with self._reading:
            for number in item_ids:
                item = self._waiting.pop(number, None)
                if item is not None:
                    self._keys.discard((item.session_id, item.key))

    def forget_sessions(self, session_ids: Collection[str]) -> None:
        """Forget the keys of these sessions, for which nothing waits. For who holds the lock."""
        self._keys.difference_update([key for key in self._keys if key[0] in session_ids])

    def sessions(self) -> set[str]:
        """Return the ids of sessions that something waits for."""
        with self._reading:
            return {item.session_id for item in self._waiting.values()}

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yield (session, text) for what waits. For who holds the lock."""
        return ((item.session_id, plain(dump_item(item))) for item in self._waiting.values())

    def take(self, item_ids: Collection[int]) -> None:
        """Take items out. Call this with the lock held."""
        for number in item_ids:
            self._waiting.pop(number, None)


class MemoryRuns(MemoryMember):
    def __init__(self, sessions: MemorySessions, inbox: MemoryInbox, room: Room | None = None) -> None:
        super().__init__(room)
        self._sessions = sessions
        self._inbox = inbox
        self._runs: dict[str, RunRecord] = {}

    async def commit(self, run: RunRecord, *, messages: Sequence[Mapping[str, Json]] = (), taken: Collection[int] = ()) -> bool:
        """Keep a step, all or nothing. False where the run has it. Raises KeyError for a session that was never created."""
        kept, state = [freeze(message) for message in messages], freeze(run.state)
        with self._writing:
            known = self._runs.get(run.id)
            if known is not None and known.step >= run.step:
                return False
            self._sessions.take_in(run.session_id, kept)
            self._inbox.take(taken)
            self._runs[run.id] = replace(run, state=state, updated_at=self._room.clock())
            return True

    async def get(self, run_id: str) -> RunRecord | None:
        with self._reading:
            return self._runs.get(run_id)

    async def current(self, session_id: str) -> RunRecord | None:
        with self._reading:
            runs = reversed(self._runs.values())
            return next((run for run in runs if run.session_id == session_id and run.status != "ended"), None)

    async def last(self, session_id: str) -> RunRecord | None:
        with self._reading:
            return next((run for run in reversed(self._runs.values()) if run.session_id == session_id), None)

    def ended(self, since: float) -> Sequence[RunRecord]:
        """Return the runs that ended then or later (Unix seconds), in the order of their ends. For who holds the lock."""
        found = [run for run in self._runs.values() if run.status == "ended" and run.updated_at >= since]
        return sorted(found, key=lambda run: run.updated_at)

    def at_work(self, session_id: str) -> bool:
        """Return whether a run of the session has not ended."""
        with self._reading:
            return any(run.session_id == session_id and run.status != "ended" for run in self._runs.values())

    def forget_sessions(self, session_ids: Collection[str]) -> None:
        """Forget the runs of these sessions. For who holds the lock."""
        for name in [name for name, run in self._runs.items() if run.session_id in session_ids]:
            del self._runs[name]

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yield (session, text) for what is kept. For who holds the lock."""
        return ((run.session_id, json.dumps(run.state, default=dict)) for run in self._runs.values())

    async def parked(self, limit: int = 1_000, offset: int = 0) -> Sequence[RunRecord]:
        with self._reading:
            parked = [run for run in self._runs.values() if run.status == "parked"]
        return sorted(parked, key=lambda run: run.updated_at)[offset : offset + limit]

    async def unfinished(self) -> Sequence[str]:
        with self._reading:
            running = {run.session_id for run in self._runs.values() if run.status == "running"}
        return sorted(running | self._inbox.sessions())


class MemoryOrigins(MemoryMember):
    def __init__(self, room: Room | None = None) -> None:
        super().__init__(room)
        self._bits: dict[str, dict[str, int]] = {}
        self._copies: dict[str, dict[str, str]] = {}

    async def of(self, session_id: str) -> Mapping[str, int]:
        with self._reading:
            return dict(self._bits.get(session_id, ()))

    async def copies(self, session_id: str) -> Mapping[str, str]:
        with self._reading:
            return {path: source for path, source in self._copies.get(session_id, {}).items() if source}

    async def remember(self, session_id: str, origins: Mapping[str, int], copies: Mapping[str, str] = NO_ENTRIES) -> None:
        """Add these bits to what is known of each path, and note the copies."""
        with self._writing:
            known = self._bits.setdefault(session_id, {})
            for path in (*origins, *copies):
                known[path] = known.get(path, 0) | origins.get(path, 0)
            self._copies.setdefault(session_id, {}).update(copies)

    def forget_sessions(self, session_ids: Collection[str]) -> None:
        """Forget the origins of files of these sessions. For who holds the lock."""
        for name in session_ids:
            self._bits.pop(name, None)
            self._copies.pop(name, None)
