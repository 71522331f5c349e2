"""Artifacts of stored sessions, for users and for searches: list them, name their tools, and read and search them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from toolcrib.contract.artifacts import DIGITS, PREFIX, KeptArtifact
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import NotFound, StoreFailed
from toolcrib.contract.search import SearchFilter

if TYPE_CHECKING:
    from agent.store.search.words import Query
    from toolcrib.contract.store import Store

_ALL = 1 << 31
_MOST_ARTIFACTS, _MOST_BYTES, _LARGEST, _SECONDS = 200, 64 * 1024 * 1024, 8 * 1024 * 1024, 1.0
"""Limits of one search, which reads the newest artifacts first: their number, their total bytes, the bytes of one artifact, and
seconds.
"""
_ASIDE = 20_000
"""A snippet is taken from this many characters before and after the first match."""


@dataclass(frozen=True, slots=True)
class SessionArtifact:
    """An artifact of one session. ``tool`` is the tool whose result named it first, "" if unknown."""

    kept: KeptArtifact
    tool: str = ""


@dataclass(frozen=True, slots=True)
class ArtifactHit:
    """An artifact that matches the whole query. ``line`` is the line of the first match, counted from 1.

    ``snippet`` and ``marks`` are the same as in a SearchHit.
    """

    kept: KeptArtifact
    line: int
    snippet: str
    marks: Sequence[tuple[int, int]]


class ArtifactHits(NamedTuple):
    """Hits, newest first, and how many artifacts were not read: too large, damaged, or beyond the limits of a search."""

    hits: Sequence[ArtifactHit]
    unread: int = 0


async def artifacts_of(store: Store, session_id: str) -> Sequence[SessionArtifact]:
    """Return the artifacts of a session, oldest first. Raises StoreFailed."""
    kept = await store.artifacts.newest(SearchFilter(session_id=session_id), _ALL)
    if not kept:
        return []
    tools = _tools(await store.sessions.messages(session_id), [one.name for one in kept])
    if len(tools) < len(kept):
        for record in await store.ledger.calls(session_id):  # calls made by hand are not in the conversation
            said = "" if record.result is None else str(record.result.data)
            tools |= {one.name: record.call.name for one in kept if one.name not in tools and one.name in said}
    return [SessionArtifact(one, tools.get(one.name, "")) for one in reversed(kept)]


def _tools(records: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for record in records:
        for result in record.get("results") or ():
            text = str(result.get("text", ""))
            if PREFIX in text:
                found |= {name: str(result.get("name", "")) for name in names if name not in found and name in text}
    return found


async def find_artifact(store: Store, name: str, where: SearchFilter) -> tuple[KeptArtifact, bytes]:
    """Return the artifact whose name is or begins with ``name``, and its content.

    Raises NotFound if no artifact matches or several do, and StoreFailed, also for a damaged artifact.
    """
    digits = name.removeprefix(PREFIX)
    found = [one for one in await store.artifacts.newest(where, _ALL) if digits and one.digest.startswith(digits)]
    digests = list(dict.fromkeys(one.digest for one in found))
    if not found:
        raise NotFound(f"no artifact {name!r} exists here")
    if len(digests) > 1:
        names = ", ".join(digest[:DIGITS] for digest in digests[:8])
        raise NotFound(f"{len(digests)} artifacts begin with {digits!r} ({names}); use a longer name")
    data = await store.artifacts.get(found[0].session_id, found[0].digest)
    if data is None:
        raise NotFound(f"the content of {found[0].name} is gone; call its tool again")
    return found[0], data


def text_of(data: bytes) -> str:
    """Return an artifact's content as text; invalid bytes are replaced."""
    return data.decode("utf-8", "replace")


async def search_artifacts(store: Store, query: str, where: SearchFilter, limit: int) -> ArtifactHits:
    """Return the newest artifacts that match the whole query, each once, within the limits of a search.

    Raises SearchRefused and StoreFailed.
    """
    from agent.store.search.words import parse

    wanted = parse(query)
    listed = await store.artifacts.newest(where, _MOST_ARTIFACTS + 1)
    newest: dict[str, KeptArtifact] = {}
    for kept in listed[:_MOST_ARTIFACTS]:
        newest.setdefault(kept.digest, kept)
    hits: list[ArtifactHit] = []
    unread, left, give_up = max(len(listed) - _MOST_ARTIFACTS, 0), _MOST_BYTES, time.monotonic() + _SECONDS
    for number, kept in enumerate(newest.values()):
        if len(hits) == limit:
            break
        if time.monotonic() > give_up:
            unread += len(newest) - number
            break
        if kept.size > min(_LARGEST, left):
            unread += 1
            continue
        left -= kept.size
        try:
            data = await store.artifacts.get(kept.session_id, kept.digest)
        except StoreFailed:
            data = None
        if data is None:
            unread += 1
        elif (hit := await asyncio.to_thread(_hit, kept, data, wanted)) is not None:
            hits.append(hit)
    return ArtifactHits(hits, unread)


def _hit(kept: KeptArtifact, data: bytes, wanted: Query) -> ArtifactHit | None:
    from agent.store.search.texts import place_in
    from agent.store.search.words import snippet

    text = text_of(data)
    place = place_in(text, wanted)
    if place is None:
        return None
    shown = snippet(text[max(0, place - _ASIDE) : place + _ASIDE], wanted)
    return ArtifactHit(kept, text.count("\n", 0, place) + 1, shown.text, shown.marks)
