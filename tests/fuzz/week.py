"""Talk for a week: many turns over many sessions with a small window, and questions about facts from long ago.

    python -m tests.fuzz.week [--turns 2000] [--sessions 30] [--window 16000] [--facts 50] [--seed N]

A scripted model works with real tools in real sessions. Its server refuses requests that are longer than its window. The user,
tools and the model mention facts, or ``memory`` notes them. Later, in another session or after a compression, the user asks for
them, and the model uses ``session_search`` for facts that are no longer in its context: with other words than the original,
phrases, beginnings of words, parts of identifiers, in several languages. Each seventh of the week runs in a process of its own,
and every other process has no configured window size. Prints the result. The exit status is 1 if a context error or another
error reached the user, or a fact was not found.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import statistics
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.api import Crib, assemble
from agent.config import load_config
from agent.conversation.room import compress_now
from agent.conversation.session import Session
from agent.events import CompressionFailed, ContextCompressed, Event
from agent.model_choice.models import ModelChoice
from tests.fuzz.week_facts import Fact, facts
from tests.fuzz.week_model import Task, WeekModel
from tests.fuzz.window_server import WindowServer
from toolcrib import Answer, ContextTooLong, SuspendTicket, ToolCallContext, ToolcribError

DAYS = 7
_OPEN = 3
"""Number of sessions that are open at a time."""
_SIZES = (300, 2_000, 8_000, 30_000, 120_000, 900_000)
"""Sizes in bytes of the files that the model reads."""
_OVERHEAD = 6
"""Tokens that the server counts for a message besides its bytes."""
_AGAIN = 6
"""Times that a fact is asked for while it is still in the model's context, before a new session asks for it."""


@dataclass
class Due:
    """A pending fact: mentioned at a turn, in a session, and asked for at another."""

    fact: Fact
    said_at: float
    asked_at: float
    session: int = -1
    compressed: int = 0
    tries: int = 0


@dataclass
class Report:
    turns: int = 0
    messages: int = 0
    sessions: int = 0
    context_errors: int = 0
    other_errors: list[str] = field(default_factory=list)
    refused: int = 0
    compressions: Counter[str] = field(default_factory=Counter)
    not_compressed: int = 0
    found: Counter[str] = field(default_factory=Counter)
    looks: list[int] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    """Seconds of each message, by its turns."""
    sizes: list[tuple[int, int]] = field(default_factory=list)
    """(turns, bytes of the store) during its growth."""
    text: int = 0

    @property
    def is_good(self) -> bool:
        return not (self.context_errors or self.other_errors or self.lost)

    def lines(self) -> Iterator[str]:
        """Yield the result, for people."""
        yield f"{self.turns:,} turns, {self.messages:,} messages of the person's, {self.sessions} sessions"
        yield f"context errors that reached the person: {self.context_errors}; other errors: {len(self.other_errors)}"
        yield from (f"  {error}" for error in self.other_errors[:20])
        made = ", ".join(f"{count} {why}" for why, count in self.compressions.most_common())
        yield f"compressions: {made or 'none'}; failed: {self.not_compressed}; requests that the server refused: {self.refused}"
        ways = ", ".join(f"{count} by {way}" for way, count in self.found.most_common())
        looks = f", {statistics.mean(self.looks):.1f} calls a search (at most {max(self.looks)})" if self.looks else ""
        yield f"facts found: {sum(self.found.values())} ({ways}){looks}; not found: {len(self.lost)}"
        yield from (f"  {fact}" for fact in self.lost)
        spent = sorted(self.seconds)
        first, last = self.seconds[: len(spent) // 4], self.seconds[-len(spent) // 4 :]
        yield (
            f"seconds a turn: p50 {statistics.median(spent):.3f}, p95 {spent[int(len(spent) * 0.95)]:.3f}, most {spent[-1]:.3f};"
            f" p50 of the first quarter {statistics.median(first):.3f}, of the last {statistics.median(last):.3f}"
        )
        grown = ", ".join(f"{turns:,}: {size / 1e6:.1f} MB" for turns, size in self.sizes)
        ratio = self.sizes[-1][1] / max(self.text, 1)
        yield f"store by turns: {grown}; {ratio:.2f} times its {self.text / 1e6:.1f} MB of text"


class Week:
    """A week of conversations. ``run`` uses ``folder``; the environment names the paths of the store and the configuration."""

    def __init__(self, *, turns: int, sessions: int, window: int, facts_count: int, seed: int) -> None:
        self._chance = random.Random(seed)  # noqa: S311 - a test's dice
        self._turns = turns
        self._sessions = sessions
        self._window = window
        self._model = WeekModel(self._chance)
        self._folder = Path()
        self._ids: dict[int, str] = {}
        self._open: dict[int, Session] = {}
        self._compressed: Counter[int] = Counter()
        self._report = Report()
        known = facts(facts_count, self._chance)
        begins = [self._chance.uniform(0.02, 0.65) * turns for _ in known]
        gaps = [self._chance.uniform(0.08, 0.30) * turns for _ in known]
        due = [Due(fact, begin, begin + gap) for fact, begin, gap in zip(known, begins, gaps, strict=True)]
        self._to_say = deque(sorted(due, key=lambda one: one.said_at))
        self._to_ask: list[Due] = []

    async def run(self, folder: Path) -> Report:
        """Talk until all turns are used and every fact was asked for."""
        self._files(folder)
        day = -1
        crib: Crib | None = None
        with WindowServer(self._window, self._model, self._model.summary, _OVERHEAD) as server:
            try:
                while self._model.turns < self._turns or self._to_say or self._to_ask:
                    now = min(self._model.turns * DAYS // self._turns, DAYS - 1)
                    if crib is None or now != day:
                        crib, day = await self._next_day(crib, folder, now), now
                    await self._message(crib, server)
                    if self._report.other_errors and len(self._report.other_errors) > 50:
                        break
            finally:
                if crib is not None:
                    await self._end_of_day(crib)
        await self._weigh(folder)
        self._report.turns, self._report.refused = self._model.turns, server.refused
        self._report.sessions = len(self._ids)
        return self._report

    # -- days and sessions ---------------------------------------------------------------------------------------

    async def _next_day(self, crib: Crib | None, folder: Path, day: int) -> Crib:
        """Begin a process's day; on every other day the configuration has no window size."""
        if crib is not None:
            await self._end_of_day(crib)
        file = Path(os.environ["XDG_CONFIG_HOME"]) / "toolcrib" / "config.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"model: {{context_window: {self._window}}}\n" if day % 2 == 0 else "{}\n")
        self._size()
        return assemble(config=load_config(file), project_dir=folder)

    async def _end_of_day(self, crib: Crib) -> None:
        for session in self._open.values():
            await session.close()
        self._open.clear()
        await crib.aclose()

    async def _session(self, crib: Crib, server: WindowServer, number: int) -> Session:
        """Return the session of this number: an open one, a resumed one, or a new one."""
        session = self._open.pop(number, None)
        if session is None:
            session = await crib.open(resume=self._ids.get(number, ""), asker=_yes, choice=ModelChoice("m", server.base_url))
            await session.connect(ModelChoice("m", server.base_url))
            self._ids[number] = session.id
        self._open[number] = session
        while len(self._open) > _OPEN:
            await self._open.pop(next(iter(self._open))).close()
        return session

    def _some_session(self) -> int:
        """Return one of the recent sessions, now and then an old one."""
        newest = min(self._model.turns * self._sessions // self._turns, self._sessions - 1)
        if self._chance.random() < 0.2:
            return self._chance.randint(0, newest)
        return max(0, newest - self._chance.randint(0, 2))

    # -- messages of the user ------------------------------------------------------------------------------------

    async def _message(self, crib: Crib, server: WindowServer) -> None:
        turns, number = self._model.turns, self._some_session()
        asked = next((one for one in self._to_ask if one.asked_at <= turns or turns >= self._turns), None)
        if asked is not None and not self._to_say_now():
            await self._ask_for(asked, crib, server, number)
        elif self._to_say and (self._to_say_now() or turns >= self._turns):
            due = self._to_say.popleft()
            due.session, due.compressed = number, self._compressed[number]
            self._to_ask.append(due)
            await self._say(crib, server, number, *self._saying(due.fact))
        else:
            await self._say(crib, server, number, *self._work())
            if self._chance.random() < 0.01:
                await self._by_hand(number)

    def _to_say_now(self) -> bool:
        return bool(self._to_say) and self._to_say[0].said_at <= self._model.turns

    async def _ask_for(self, due: Due, crib: Crib, server: WindowServer, number: int) -> None:
        """Ask for a fact that is no longer in the model's context."""
        if number == due.session and self._compressed[number] == due.compressed:
            number = self._chance.choice([one for one in range(self._sessions) if one != due.session] or [number])
        due.tries += 1
        if due.tries > _AGAIN:
            number = self._sessions + due.fact.number
        task = Task(fact=due.fact)
        await self._say(crib, server, number, task, due.fact.asked)
        if task.found == "context" and due.tries <= _AGAIN:
            due.asked_at = self._model.turns + self._turns * 0.03
            return
        self._to_ask.remove(due)
        if task.found and task.found != "context":
            self._report.found[task.found] += 1
            self._report.looks += [len(task.looks)] if task.looks else []
        else:
            what = f"{due.fact.kind}, in a {due.fact.where}: {due.fact.said!r}"
            self._report.lost.append(f"{what}; looked for by {'; '.join(task.looks)}")

    def _saying(self, fact: Fact) -> tuple[Task, str]:
        """Return the way to mention a fact: in a message, in a file that the model reads, by the model, or as a note."""
        before, after = self._model.prose(self._chance.randint(5, 300)), self._model.prose(self._chance.randint(5, 300))
        told = f"{before}\n{fact.said}\n{after}"
        if fact.where == "result":
            file = f"notes_{fact.number}.md"
            (self._folder / file).write_text(told)
            return Task([[("read_file", {"path": file})]], "Read."), f"read {file}, please"
        if fact.where == "reply":
            return Task([[("todo", {})]], told), "and what did you find out?"
        if fact.where == "memory":
            note = {"action": "add", "target": self._chance.choice(["memory", "user", "project"]), "content": fact.said}
            return Task([[("memory", note)]], "Noted."), f"Remember this: {fact.said}"
        return Task((), "I see."), told

    def _work(self) -> tuple[Task, str]:
        """Return a message without any fact, and the model's actions for it."""
        chance = self._chance
        turns = [[self._call() for _ in range(chance.choice((1, 1, 1, 2, 4)))] for _ in range(chance.choice((0, 1, 1, 2, 3, 5)))]
        answer = self._model.prose(chance.choice((5, 40, 200, 900)))
        return Task(turns, answer), self._model.prose(chance.choice((6, 20, 60, 400, 2_500)))

    def _call(self) -> tuple[str, Any]:
        chance, words = self._chance, self._model.prose
        file = f"file_{chance.randrange(len(_SIZES))}.txt"
        return chance.choice(
            [
                ("read_file", {"path": file}),
                ("read_file", {"path": file}),
                ("read_file", {"path": file, "offset": chance.randint(1, 50), "limit": chance.randint(1, 400)}),
                ("search_files", {"pattern": chance.choice(["ledger", "window", "nowhere to be found", "a"])}),
                ("terminal", {"command": f"cat {file}"}),
                ("terminal", {"command": "ls -la; false"}),
                ("write_file", {"path": f"out_{chance.randrange(9)}.txt", "content": words(chance.choice((5, 300)))}),
                (
                    "todo",
                    {"todos": [{"content": words(6), "status": "pending"} for _ in range(chance.randint(1, 9))]},
                ),
                ("session_search", {"query": chance.choice(["ledger", "staging port", "deploy*", '"the customer said"'])}),
                ("read_file", {"path": "missing.txt"}),
                self._delegate(),
            ]
        )

    def _delegate(self) -> tuple[str, Any]:
        task = Task([[("read_file", {"path": f"file_{self._chance.randrange(4)}.txt"})]], self._model.prose(80))
        return "delegate_task", {"task": f"{self._model.task(task)} {self._model.prose(20)}", "name": "helper"}

    async def _by_hand(self, number: int) -> None:
        """Compress as a user does by /compress."""
        try:
            self._saw(number, await compress_now(self._open[number]))
        except ToolcribError:
            self._report.not_compressed += 1

    # -- outcomes ------------------------------------------------------------------------------------------------

    async def _say(self, crib: Crib, server: WindowServer, number: int, task: Task, text: str) -> None:
        session, before, begin = await self._session(crib, server, number), self._model.turns, time.perf_counter()
        self._report.messages += 1
        try:
            result = await session.ask(f"{self._model.task(task)} {text}", emit=lambda event: self._saw(number, event))
        except ContextTooLong as error:
            self._report.context_errors += 1
            self._report.other_errors.append(f"turn {self._model.turns}: {error}")
        except ToolcribError as error:
            self._report.other_errors.append(f"turn {self._model.turns}: {type(error).__name__}: {error}")
        else:
            if result.stopped != "done":
                self._report.other_errors.append(f"turn {self._model.turns}: the run ended as {result.stopped}")
        spent = (time.perf_counter() - begin) / max(self._model.turns - before, 1)
        self._report.seconds.append(spent)

    def _saw(self, number: int, event: Event) -> None:
        if isinstance(event, ContextCompressed):
            self._compressed[number] += 1
            self._report.compressions[event.why] += 1
        elif isinstance(event, CompressionFailed):
            self._report.not_compressed += 1

    def _size(self) -> None:
        folder = Path(os.environ["XDG_STATE_HOME"]) / "toolcrib"
        size = sum(file.stat().st_size for file in folder.glob("toolcrib.db*"))
        self._report.sizes.append((self._model.turns, size))

    async def _weigh(self, folder: Path) -> None:
        """Count the bytes of all stored text."""
        from agent.store.search.words import texts_of

        self._size()
        with assemble(config=load_config(None), project_dir=folder) as crib:
            for info in await crib.store.sessions.list(10_000):
                for record in await crib.store.sessions.messages(info.id):
                    self._report.text += sum(len(text.encode("utf-8", "surrogatepass")) for text in texts_of(record))

    def _files(self, folder: Path) -> None:
        self._folder = folder
        for number, size in enumerate(_SIZES):
            lines: list[str] = []
            while sum(map(len, lines[-1:])) * len(lines) < size:
                lines.append(self._model.prose(self._chance.randint(3, 30)))
            (folder / f"file_{number}.txt").write_text("\n".join(lines)[:size])


def _yes(ticket: SuspendTicket, ctx: ToolCallContext) -> Answer:
    return Answer(ticket.id, payload={"approved": True, "scope": "once"}, by="week", at=time.time())


def main(args: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz.week", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=2_000, help="replies of the model in all (default %(default)s)")
    parser.add_argument("--sessions", type=int, default=30, help="sessions that they are in (default %(default)s)")
    parser.add_argument("--window", type=int, default=16_000, help="tokens that the model reads (default %(default)s)")
    parser.add_argument("--facts", type=int, default=50, help="facts that are said and asked for (default %(default)s)")
    parser.add_argument(
        "--seed", type=int, default=None, help="the same facts, messages and calls again (default: others each time)"
    )
    parser.add_argument("--keep", metavar="FOLDER", help="keep the store and the project there (default: nothing is kept)")
    options = parser.parse_args(args)
    seed = int(time.time()) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    if options.keep:
        Path(options.keep).mkdir(parents=True)  # an existing folder may have other contents
    with contextlib.nullcontext(options.keep) if options.keep else tempfile.TemporaryDirectory(prefix="week-") as home:
        for name, folder in (
            ("HOME", ""),
            ("XDG_CONFIG_HOME", "config"),
            ("XDG_STATE_HOME", "state"),
            ("XDG_CACHE_HOME", "cache"),
        ):
            os.environ[name] = str(Path(home, folder))
        project = Path(home, "project")
        project.mkdir()
        week = Week(turns=options.turns, sessions=options.sessions, window=options.window, facts_count=options.facts, seed=seed)
        report = asyncio.run(week.run(project))
    print("\n".join(report.lines()))
    return 0 if report.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
