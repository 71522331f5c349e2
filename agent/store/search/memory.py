"""Search of a store for one process: everything is looked at each time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.store.search.words import Query, Term, parse, searched, snippet, words_of
from toolcrib.contract.context import Principal
from toolcrib.contract.search import SearchFilter, SearchHit, SearchOrder
from toolcrib.contract.store import SessionInfo

if TYPE_CHECKING:
    from agent.store._memory_sessions import MemorySessions
    from toolcrib.contract.search import MessageSearch

_ALL = SearchFilter()


class MemorySearch:
    def __init__(self, sessions: MemorySessions) -> None:
        self._sessions = sessions

    async def find(
        self, query: str, where: SearchFilter = _ALL, *, order: SearchOrder = "newest", limit: int = 20, offset: int = 0
    ) -> Sequence[SearchHit]:
        """See toolcrib.contract.search.MessageSearch."""
        wanted = parse(query)
        found: list[tuple[float, SearchHit]] = []
        for info, seq, at, message in self._sessions.said():
            if not fits(info, at, where) or (where.roles and message.get("role") not in where.roles):
                continue
            if score := _score(wanted, words_of(searched(message))):
                shown = snippet(searched(message), wanted)
                about = info.id, info.title, seq, str(message["role"]), at, shown.text, shown.marks
                found.append((score, SearchHit(*about, info.platform, info.cwd, str(message.get("source", "")))))
        if order == "best":
            found.sort(key=lambda one: -one[0])
        return [hit for _, hit in found[offset : offset + limit]]


def fits(info: SessionInfo, at: float, where: SearchFilter) -> bool:
    """Return whether the filter lets through what was kept ``at`` that time; roles apart."""
    return (
        where.session_id in (None, info.id)
        and where.platform in (None, info.platform)
        and (where.principal is None or Principal(info.platform, info.user).key == where.principal.key)
        and (where.cwd is None or f"{info.cwd}/".startswith(f"{where.cwd.rstrip('/')}/"))
        and (where.since is None or at >= where.since)
        and (where.until is None or at < where.until)
        and set(where.tags).issubset(info.tags)
    )


def _score(query: Query, words: Sequence[str]) -> float:
    """Return how much of the text is what the query names; 0 where it is not found."""
    if any(_count(term, words) for term in query.none):
        return 0.0
    counts = [sum(_count(term, words) for term in either) for either in query.every]
    return sum(counts) / (len(words) + 20) if all(counts) else 0.0


def _count(term: Term, words: Sequence[str]) -> int:
    *first, last = term.words
    places = range(len(words) - len(first))
    return sum(
        (words[at + len(first)].startswith(last) if term.begins else words[at + len(first)] == last)
        and [*words[at : at + len(first)]] == first
        for at in places
    )


if TYPE_CHECKING:

    def _conforms(search: MemorySearch) -> MessageSearch:
        return search
