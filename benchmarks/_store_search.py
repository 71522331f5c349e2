"""Search in a large store, the store's size, and the time to open it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from agent.store.sqlite import SqliteStore
from benchmarks.core import CannotMeasureError, Figure
from toolcrib import ToolCall, ToolCallStatus, ToolResult
from toolcrib.contract.search import SearchFilter, SearchOrder

SHORT, LONG = 150, 880
"""Size of a message's text in bytes."""
_EACH = 100
"""Number of messages in a session."""
_RARE = "xylophone"
_TIMES = 15


class _Texts:
    """Texts whose word frequencies are as uneven as in a natural language; every twentieth text is Chinese."""

    def __init__(self, size: int) -> None:
        self._chance = random.Random(size)
        letters = "etaoinshrdlucmfwypvbgkjqxz"
        weights = [12, 9, 8, 7, 7, 7, 6, 6, 6, 4, 4, 3, 3, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1]
        every = {"".join(self._chance.choices(letters, weights, k=self._chance.randint(2, 10))) for _ in range(30_000)}
        self._words = sorted(every)
        self._chance.shuffle(self._words)
        self._sums = list(itertools.accumulate(1 / (place + 1) for place in range(len(self._words))))
        self._characters = [chr(0x4E00 + number) for number in range(2_000)]
        self._size = size

    @property
    def common(self) -> str:
        """The most common word."""
        return self._words[0]

    def texts(self, number: int) -> Iterator[str]:
        for place in range(number):
            if place % 20 == 19:
                yield "".join(self._chance.choices(self._characters, k=self._size // 3))
            else:
                text = " ".join(self._chance.choices(self._words, cum_weights=self._sums, k=self._size // 4))
                yield text[: self._size]


def figures(folder: Path, number: int, *, million: int) -> list[Figure]:
    """Return the figures of searching ``number`` short messages and, if not 0, ``million``; the sizes of stores of short and of
    long messages; the time to open one.
    """
    short = _Measured(folder / "short", SHORT, number)
    sizes = [short.size, _Measured(folder / "long", LONG, max(number // 10, 100), searches=False).size]
    found = [
        _search(name, short.took[name], bar, f"reading one message by its position, of {number:,}", short.plain)
        for name, bar in (("rare", 2), ("newest", 5), ("ranked", 10))
    ]
    if million:
        large = _Measured(folder / "million", SHORT, million)
        for name, bar in (("rare", 3), ("newest", 3), ("session", 3)):
            against = f"the same search in {number:,} messages; measured: in {million:,}"
            found.append(_ratio(f"search_{name}_million", large.took[name], short.took[name], bar, against))
        found.append(
            _search(
                "ranked_million", large.took["ranked"], 40, f"reading one message by its position, of {million:,}", large.plain
            )
        )
    worst = max(sizes, key=lambda size: size[0] / size[1])
    against = f"the messages' text; measured: the store with its index; the worse of messages of {SHORT} and of {LONG} bytes"
    opened = _ratio("start", short.opened, short.opened_empty, 1.1, f"an empty store; measured: {number:,} messages")
    size = Figure("store.size", worst[0] / 2**20, "MiB", worst[1] / 2**20, 2.5, "ratio", against)
    return [size, _size_of_calls(folder / "calls", max(number // 50, 100)), opened, *found]


def _size_of_calls(path: Path, number: int) -> Figure:
    """Return the size of a store of calls that read files, each with its result for the person and for the model."""
    path.mkdir()
    total = 0
    with asyncio.Runner() as runner, contextlib.closing(SqliteStore(path / "store.db")) as store:
        for place, text in enumerate(_Texts(LONG).texts(number)):
            total += runner.run(_read_file(store, f"s{place // _EACH}", f"call_{place}", text))
    kept = sum(file.stat().st_size for file in path.iterdir() if file.is_file())
    against = f"the text of {number:,} calls that read {LONG} bytes each: arguments and results, counted once"
    return Figure("store.size_calls", kept / 2**20, "MiB", total / 2**20, 2.5, "ratio", against)


async def _read_file(store: SqliteStore, session: str, call_id: str, text: str) -> int:
    """Store a call as the dispatcher does, and return the bytes of its text."""
    named = f"src/{call_id}.txt"
    lines = [text[at : at + 80] for at in range(0, len(text), 80)]
    shown = "\n".join(f"{number}|{line}" for number, line in enumerate(lines, 1))
    data = {"path": f"/work/{named}", "content": "\n".join(lines), "first_line": 1, "last_line": len(lines), "encoding": "utf-8"}
    result = replace(ToolResult.success("read_file", data), views={"model": f"{named}: lines 1-{len(lines)}\n{shown}"})
    await store.ledger.open(ToolCall(call_id, "read_file", {"path": named}), session, ToolCallStatus.RUNNING, turn=f"{session}/1")
    await store.ledger.finish(session, call_id, ToolCallStatus.SUCCEEDED, result)
    return len("\n".join(lines).encode()) + len(named)


class _Measured:
    """A store that was filled, searched and opened; times in ms, ``size`` as bytes on disk and of text."""

    def __init__(self, path: Path, size: int, number: int, *, searches: bool = True) -> None:
        path.mkdir()
        texts = _Texts(size)
        self.took: dict[str, float] = {}
        with asyncio.Runner() as runner:
            store = SqliteStore(path / "store.db")
            total = runner.run(_fill(store, texts, number))
            runner.run(store.search.find(_RARE))  # the first search loads all of it
            if searches:
                self.plain = runner.run(_timed_read(store))
                self.took = runner.run(_searches(store, texts.common))
            store.close()
        self.size = sum(file.stat().st_size for file in path.iterdir() if file.is_file()), total
        self.opened_empty = _opening(path.with_name("none") / "store.db") if searches else 0.0
        self.opened = _opening(path / "store.db") if searches else 0.0


async def _fill(store: SqliteStore, texts: _Texts, number: int) -> int:
    """Store ``number`` messages, and return the bytes of their text."""
    total, said = 0, texts.texts(number)
    for session in range(number // _EACH):
        name = f"s{session}"
        await store.sessions.create(name, platform="cli", user="", cwd="/work")
        messages = []
        for place, text in enumerate(itertools.islice(said, _EACH)):
            rare = f" {_RARE}" if session * 2 == number // _EACH and place == _EACH // 2 else ""
            total += len(text.encode())
            messages.append({"role": "assistant" if place % 2 else "user", "text": text + rare})
        await store.sessions.append_many(name, messages)
    return total


async def _searches(store: SqliteStore, common: str) -> dict[str, float]:
    """Return the median milliseconds of each kind of search."""
    kinds: dict[str, tuple[str, SearchOrder, SearchFilter]] = {
        "rare": (_RARE, "newest", SearchFilter()),
        "newest": (common, "newest", SearchFilter()),
        "ranked": (common, "best", SearchFilter()),
        "session": (common, "newest", SearchFilter(session_id="s0")),
    }
    took: dict[str, float] = {}
    for name, (query, order, where) in kinds.items():
        every: list[float] = []
        for _ in range(_TIMES):
            begin = time.perf_counter()
            if not await store.search.find(query, where, order=order):
                raise CannotMeasureError(f"{query!r} was not found")
            every.append(time.perf_counter() - begin)
        took[name] = statistics.median(every) * 1e3
    return took


async def _timed_read(store: SqliteStore) -> float:
    every: Sequence[float] = []
    for _ in range(_TIMES):
        begin = time.perf_counter()
        await store.sessions.messages("s0", offset=3, limit=1)
        every = [*every, time.perf_counter() - begin]
    return statistics.median(every) * 1e3


def _opening(path: Path) -> float:
    """Return the median milliseconds until a store is open and its last session known."""
    every: list[float] = []
    for _ in range(_TIMES):
        begin = time.perf_counter()
        store = SqliteStore(path)
        with asyncio.Runner() as runner:
            runner.run(store.sessions.latest())
        every.append(time.perf_counter() - begin)
        store.close()
    return statistics.median(every) * 1e3


def _search(name: str, took: float, bar: float, against: str, plain: float) -> Figure:
    return Figure(f"store.search_{name}", took, "ms", plain, bar, "value", against)


def _ratio(name: str, took: float, baseline: float, bar: float, against: str) -> Figure:
    return Figure(f"store.{name}", took, "ms", baseline, bar, "ratio", against)
