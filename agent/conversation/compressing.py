"""Compress a session: choose the cut, get the summary, and build the record.

Compression neither changes nor removes stored records. It takes effect when its record is appended, so a killed process leaves
the session either compressed or not. The holder of the session's lease compresses it, between two turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from agent.context.summarising import NotSummarised, Summariser, outline, told_of
from agent.context.window import BYTES_A_TOKEN, ContextUse, tokens_of, tokens_of_record
from agent.conversation.compressed import MOST_FILES, ROLE, CompressionCut, last_files, shown
from agent.conversation.transcript import Record, is_persons
from agent.delegates import SEARCH
from agent.model_choice.list_prices import estimate_source, list_prices
from agent.model_choice.prices import Prices
from agent.providers.abilities import prices_of
from toolcrib.contract.dataclass import dataclass, replace
from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.session import TokenPrices

if TYPE_CHECKING:
    from agent.conversation.core import SessionCore

Why: TypeAlias = Literal["threshold", "refused", "asked"]
"""Reason for a compression: the context was nearly full, the server refused the context as too long, or the user asked."""
Begins: TypeAlias = Callable[[], None]
"""Called before the model gets the request for a summary."""
_GOAL = 0.45
"""Share of the window that the context may use after compression."""
_WHOLE_TURNS = 3
"""Turns at the end whose results stay whole, if they fit."""
_GAIN = 0.05
"""Share of the window that a compression must save if it runs because the context was nearly full."""
_LEAST_CHARS = 500
_CHARS_A_WORD = 6
_UNKNOWN = 128_000
"""Assumed window in tokens, if it is unknown and no request was refused."""


@dataclass(frozen=True, slots=True)
class Compression:
    """A compression that is not stored yet: its ``record``, and the tokens ``before`` and ``after`` (an estimate)."""

    record: Record
    before: int
    after: int
    usage: Mapping[str, int]
    cost: float
    problem: str = ""
    """Reason why the record has the beginnings of messages instead of a model's summary."""


@dataclass(frozen=True, slots=True)
class _Conversation:
    """The records ``since`` the last compression's cut, each with its index, and the record of that compression.

    ``first`` is the user's first message with its index.
    """

    since: Sequence[tuple[int, Mapping[str, Any]]]
    last: Mapping[str, Any]
    first: tuple[int, Mapping[str, Any]] | None
    count: int

    @property
    def records(self) -> Sequence[tuple[int, Mapping[str, Any]]]:
        """The records of messages, calls and results, with their indexes."""
        return [(place, record) for place, record in self.since if record.get("role") != ROLE]

    def read(self, begin: int, end: int | None) -> Iterable[Mapping[str, Any]]:
        """Return the loaded records between two indexes."""
        known = dict([*([self.first] if self.first is not None else []), *self.since])
        return [record for place, record in known.items() if begin <= place and (end is None or place < end)]


async def compress(
    session: SessionCore, used: ContextUse, why: Why, part: float = 1.0, *, wish: str = "", begins: Begins = lambda: None
) -> Compression | None:
    """Return a compression of the session, or None if it would save too little or no model can summarise.

    The caller holds the session's lease, and all batches are settled. After a refusal only ``part`` of the window is used.
    ``wish`` names what the summary should keep; only the summarising model reads it. ``begins``: see Begins.

    Raises ConfigError, StoreFailed, and NotSummarised if there is no summary; after a refusal an outline replaces the summary.
    """
    summariser = session.summariser()
    if summariser is None:
        return None
    talk = await _read(session)
    window = used.window.tokens or (_UNKNOWN if why != "refused" else used.tokens)
    if why == "refused":
        window = max(int(min(window, used.tokens * 9 // 10) * part), 1)
    share = min(max(used.tokens / max(used.estimated, 1), 0.7), 3.0)
    talked = sum(tokens_of_record(record) for record in _told(session, talk))
    fixed = max(used.estimated - talked, 0)
    words = max(min(1_200, window // 24), 80)
    room = int(window * _GOAL / share) - fixed - words * 3 // 2
    unread = 0 if why == "asked" else room + int(window * (session.config.compression.threshold - _GOAL) / share)
    cut = _cut(talk, min(room, talked // 4) if why == "asked" else room, window, unread)
    if cut is None:
        return None
    middle = [record for place, record in talk.records if place < cut.until and place != cut.first]
    if not middle:
        cut = _only_shorter(talk, cut)
    before = str(talk.last.get("text", ""))
    record: dict[str, Any] = {
        "role": ROLE,
        "text": before,
        "cut": cut.to_json(),
        "why": why,
        "search": SEARCH in session.names,
        "kept": {"todos": list(session.scope.state.get("todos") or ()), "files": _files(session, talk)},
        "at": time.time(),
    }
    least = window * _GAIN if why == "threshold" else 1
    if _won(session, talk, record, talked) * share < least:  # it would save too little even if the summary did not grow
        return None
    written, problem = _Written({}), ""
    if middle:
        try:
            begins()
            written = await _summary(session, summariser, middle, before, window, words, wish)
            if _won(session, talk, record | written.fields, talked) * share < least:
                raise NotSummarised("the model's summary would save too little")
        except NotSummarised as error:
            if why != "refused":  # after a refusal the session can't continue uncompressed
                raise
            problem = str(error)
            written = _Written({"text": outline(middle, before, words * _CHARS_A_WORD), "outline": problem})
    record |= written.fields
    won = _won(session, talk, record, talked) * share
    if won < least:
        return None
    after = max(used.tokens - int(won), 0)
    return Compression(record | {"before": used.tokens, "after": after}, used.tokens, after, written.usage, written.cost, problem)


class _Written(NamedTuple):
    """A summary as fields of a compression's record, with its usage and cost."""

    fields: dict[str, Any]
    usage: Mapping[str, int] = {}
    cost: float = 0.0


async def _summary(
    session: SessionCore,
    summariser: Summariser,
    middle: Sequence[Mapping[str, Any]],
    before: str,
    window: int,
    words: int,
    wish: str,
) -> _Written:
    """Return a summary that a model writes. Raises NotSummarised."""
    summary = await summariser.summarise(list(map(told_of, middle)), before=before, window=window, words=words, wish=wish)
    usage, prices = summary.usage, _prices(session) or await list_prices(summary.via)
    cost = prices.cost(usage) if prices is not None and usage else 0.0
    fields: dict[str, Any] = {"text": summary.text, "model": summary.model, "via": dict(summary.via), "usage": dict(usage)}
    if prices is not None:
        fields |= {"cost": cost} | ({"estimated": source} if (source := estimate_source(prices)) else {})
    return _Written(fields, usage, cost)


def _won(session: SessionCore, talk: _Conversation, record: Record, talked: int) -> int:
    """Return how many of the conversation's ``talked`` tokens ``record`` saves."""
    return talked - sum(map(tokens_of_record, shown(record, CompressionCut.of(record), talk.count, talk.read, session.id)))


def _files(session: SessionCore, talk: _Conversation) -> list[str]:
    """Return the files of the latest calls, then those of the previous compression."""
    kept = talk.last.get("kept")
    earlier = kept.get("files") or () if isinstance(kept, Mapping) else ()
    return list(dict.fromkeys([*last_files([one for _, one in talk.records], session.file_arguments), *earlier]))[:MOST_FILES]


def _prices(session: SessionCore) -> TokenPrices | None:
    provider = session.link.provider
    if session.config.compression.model or session.config.compression.base_url:
        return None  # model.prices are for another model
    return (None if provider is None else prices_of(provider)) or Prices.of(session.config.model.prices)


async def _read(session: SessionCore) -> _Conversation:
    transcript, store = session.transcript, session.store.sessions
    mark, begin = transcript.compressed, 0
    last: Mapping[str, Any] = {}
    first: tuple[int, Mapping[str, Any]] | None = None
    if mark is not None:
        last = (await store.messages(session.id, offset=mark, limit=1))[0]
        try:
            cut = CompressionCut.of(last)
        except (KeyError, TypeError, ValueError):
            last = {}
        else:
            begin = cut.until
            if cut.first is not None:
                first = cut.first, (await store.messages(session.id, offset=cut.first, limit=1))[0]
    found = await store.messages(session.id, offset=begin)
    since = list(enumerate(found, begin))
    first = first or next(((place, record) for place, record in since if is_persons(record)), None)
    return _Conversation(since, last, first, begin + len(found))


def _told(session: SessionCore, talk: _Conversation) -> Iterable[Mapping[str, Any]]:
    if not talk.last:
        return [record for _, record in talk.records]
    return shown(talk.last, CompressionCut.of(talk.last), talk.count, talk.read, session.id)


# -- where to cut ------------------------------------------------------------------------------------------------------


def _cut(talk: _Conversation, room: int, window: int, unread: int) -> CompressionCut | None:
    """Return where to cut: keep as many turns at the end as fit into ``room`` tokens. None for no cut.

    The last turn always stays. At most half of the turns stay; the others are summarised. The last turn's results, which no
    model has read yet, may use ``unread`` tokens.
    """
    records = talk.records
    starts = [number for number, (_, record) in enumerate(records) if record.get("role") != "results"]
    if not starts:
        return None
    message = max(window * BYTES_A_TOKEN // 16, 1_000)
    first = None if talk.first is None else talk.first[0]
    opening = min(tokens_of_record(talk.first[1]), message // BYTES_A_TOKEN) if talk.first is not None else 0
    room, unread = room - opening, max(unread, room) - opening
    replies = [number for number, (_, record) in enumerate(records) if record.get("role") == "assistant"]
    whole = replies[-_WHOLE_TURNS] if len(replies) >= _WHOLE_TURNS else 0
    begin, size = starts[-1], _sizes(records[starts[-1] :])
    most = None if size <= unread else _fitting(records[begin:], unread)
    if most is None:
        for start in reversed(starts[len(starts) // 2 : -1]):
            if start >= whole and size + _sizes(records[start:begin]) > room // 2:
                whole = begin  # one line for each earlier result, so that more turns fit
            more = _sizes(records[start:begin], short=start < whole)
            if size + more > room:
                break
            begin, size = start, size + more
    if begin == starts[0] and most is None and not any(_size(one) > _size(one, short=True) for _, one in records[:whole]):
        return None
    until = records[begin][0] if begin else (CompressionCut.of(talk.last).until if talk.last else 0)
    kept_user = any(is_persons(record) for _, record in records[begin:])
    spoken = [place for place, record in records[:begin] if is_persons(record)]
    asked = None if kept_user else spoken[-1] if spoken else _earlier(talk)
    opened = until > 0
    return CompressionCut(
        until,
        records[max(whole, begin)][0],
        first if opened and first is not None and first < until else None,
        asked if opened and asked != first else None,
        most,
        message,
    )


def _only_shorter(talk: _Conversation, cut: CompressionCut) -> CompressionCut:
    """Return the previous compression's cut, with results as short as in ``cut``."""
    last = CompressionCut.of(talk.last) if talk.last else CompressionCut(0, 0)
    return replace(last, short=cut.short, most=cut.most)


def _earlier(talk: _Conversation) -> int | None:
    return CompressionCut.of(talk.last).asked if talk.last else None


def _sizes(records: Sequence[tuple[int, Mapping[str, Any]]], *, short: bool = False) -> int:
    return sum(_size(record, short=short) for _, record in records)


def _size(record: Mapping[str, Any], *, short: bool = False) -> int:
    if not short or record.get("role") != "results":
        return tokens_of_record(record)
    return sum(min(tokens_of(str(result.get("text", ""))), 100) for result in record.get("results") or ())


def _fitting(records: Sequence[tuple[int, Mapping[str, Any]]], room: int) -> int | None:
    """Return how many characters of each result at the end may stay, or None if there are no results."""
    results = [result for _, record in records for result in record.get("results") or ()]
    if not results:
        return None
    others = sum(_size(record) for _, record in records if record.get("role") != "results")
    return max((room - others) * BYTES_A_TOKEN // len(results) - 300, _LEAST_CHARS)
