"""Kill toolcrib's processes at random moments of conversations, and check that nothing is lost, and nothing is done twice.

    python -m tests.fuzz.kill_conversations [--kills 500] [--seed N] [--store sqlite|postgres] [--forks] [--full-disk]

Each conversation has a seed. A scripted model has turns of parallel calls, of calls that need a person, of delegates (in the
foreground and background) and of large results, so that its context is compressed. Real processes (`toolcrib run --json`, with
and without a task, `toolcrib chat`, `toolcrib approvals answer` and `deny`) drive it one after another. Each is killed with its
process group (SIGKILL) at a moment that the seed chooses: some milliseconds after a number of lines and requests. After the
number of kills that the seed chooses, the conversation continues to its end. Then:

- replies, results, compressions and tickets that a process showed are stored; no stored message has vanished or changed;
- each call has exactly one outcome, in each request to the model and in the store, and no run, ticket or message is pending;
- an effect of a tool happened once, or not at all if its call is reported as failed; only repeatable effects happen more often;
- each background delegate was reported once; memory and written files are complete; a search finds all messages; usage adds up;
- after each kill, the databases are sound (PRAGMA integrity_check), and `toolcrib doctor` finds nothing at the end.

With --full-disk the disk of the state folder is filled at these moments, and has room again once the process has ended. The
process must print what the user should do, and the same conditions must hold.

Prints a line for each kill and each conversation, then the sum. Exits with 1 if there was a fault. The same seed makes the same
choices, but how far a process is when it is killed depends on the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent.store.postgres.store import PostgresStore
from agent.store.sqlite import SqliteStore
from tests.fuzz import kill_checks as checks
from tests.fuzz.kill_model import PLUGIN, WINDOW, KillPlan, KillServer
from tests.fuzz.kill_processes import Ended, ForkServer, KillPoint, Progress, Starter
from tests.fuzz.small_disk import SmallDisk, mounted
from toolcrib.contract.store import Store

DISK = 8 * 1024
"""KiB of the disk that is filled."""
_TASKS = 16
_MOST_PROCESSES = 60
_WORDS = "amber basalt cedar delta ember fjord garnet harbour indigo jasper".split()


class Conversation:
    """A conversation with a seed, in its own folder.

    ``kills`` is the number of kills (0: the seed chooses it). ``say`` receives a line about each kill. If there is a ``disk``,
    at ``state`` of the folder, it is filled instead.
    """

    def __init__(
        self,
        folder: Path,
        seed: int,
        kills: int = 0,
        *,
        url: str = "",
        forks: ForkServer | None = None,
        disk: SmallDisk | None = None,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.seed = seed
        self.kills: list[str] = []
        self.faults: list[str] = []
        self.met: Counter[str] = Counter()
        """Number of events of each kind in the conversation."""
        self._say = say
        self._disk = disk
        self._url = url
        self._chance = random.Random(seed)  # noqa: S311 - a test's dice
        self._progress = Progress()
        self._state = folder / "state" / "toolcrib"
        self._project = folder / "project"
        self._project.mkdir()
        self._server = KillServer(KillPlan(self._chance, _TASKS), random.Random(seed), self._progress)  # noqa: S311 - likewise
        self._tasks = [f"task {number} of {seed}, {_WORDS[number % len(_WORDS)]}{seed}x{number}e" for number in range(_TASKS)]
        self._most = kills or self._chance.randint(2, 6)
        self._ends = False
        """True once the last task was given."""
        self._shown: list[Ended] = []
        self._kept = checks.Kept()
        self._started = Starter(self._project, self._configured(folder), self._progress, forks=forks)

    def _configured(self, folder: Path) -> dict[str, str]:
        """Write a user's configuration, and return the environment of the processes."""
        home = folder / "config" / "toolcrib"
        (home / "plugins").mkdir(parents=True)
        (home / "plugins" / "kills.py").write_text(PLUGIN)
        toolsets = "[terminal, file, memory, delegation, session_search, kills]"
        (home / "config.yaml").write_text(
            f"plugins: {{enabled: [kills]}}\ntoolsets: {{enabled: {toolsets}}}\ninstructions: {{enabled: false}}\n"
            f"model: {{name: m, base_url: '{self._server.base_url}', context_window: {WINDOW}}}\n"
        )
        names = ("PATH", "LANG", "PYTHON", "TMPDIR", "COVERAGE")
        kept = {name: value for name, value in os.environ.items() if name.startswith(names)}
        folders = {f"XDG_{name.upper()}_HOME": name for name in ("config", "state", "data", "cache")}
        places = {name: str(folder / where) for name, where in folders.items()}
        secret = {"TOOLCRIB_STORE_URL": self._url} if self._url else {}
        # A lease that can't be released on a full disk lapses, and the next process waits for that.
        lapses = {"KILLS_LEASE_SECONDS": "5"} if self._disk is not None else {}
        ours = {"HOME": str(folder), "KILLS_PROJECT": str(self._project), "DOCKER_HOST": "unix:///nowhere"}
        return {**kept, **places, **secret, **lapses, **ours}

    # -- course of a conversation --------------------------------------------------------------------------------

    def run(self) -> list[str]:
        """Kill and continue, to the end; return the faults."""
        with self._server:
            while len(self.kills) < self._most and self._next(killing=True):
                if self.faults or len(self._shown) > _MOST_PROCESSES:
                    break
            while not self.faults and self._next(killing=False):
                if len(self._shown) > _MOST_PROCESSES:
                    self.faults.append("it comes to no end")
            if not self.faults:
                self.faults += self._server.faults + asyncio.run(self.check())
                doctor = self._started.run("doctor")
                self.faults += [f"toolcrib doctor: {''.join(doctor.lines)}"] if doctor.code else []
        return self.faults

    def _next(self, *, killing: bool) -> bool:
        """Start the next process. Return False if nothing is left to do."""
        at = self._point() if killing else None
        chosen = self._choose(killing=killing)
        if chosen is None:
            return False
        ended = self._started.run(*chosen[0], at=at, **chosen[1])
        if self._disk is not None:
            self._disk.make_room()
        self._shown.append(ended)
        now = asyncio.run(self._look(ended))
        self.faults += checks.databases(self._state) + checks.kept_since(self._kept, now)
        for one in self._shown:
            self.faults += [fault for fault in checks.shown(one, now, self._session(now)) if fault not in self.faults]
        if ended.code is None:
            self.faults.append(f"toolcrib {' '.join(ended.argv)} hung: {ended.errors[-400:]}")
        if "Traceback" in ended.errors:
            self.faults.append(f"toolcrib {' '.join(ended.argv)} printed a traceback: {ended.errors[-2000:]}")
        self._kept = now
        said = "free space" in ended.errors or "No space left" in ended.errors
        if ended.struck is not None and self._disk is not None and ended.code not in (0, 4, 7) and not said:
            self.faults.append(f"toolcrib {' '.join(ended.argv)} does not explain what to do: {ended.errors[-400:]}")
        if ended.struck is not None:
            self.kills.append(self._told(ended, now))
            self._say(self.kills[-1])
        return True

    def _point(self) -> KillPoint:
        chance = self._chance
        events = 0 if chance.random() < 0.1 else chance.choice([chance.randint(1, 12), chance.randint(1, 60)])
        seconds, disk = chance.choice([0.0, chance.uniform(0, 0.02), chance.uniform(0, 0.2)]), self._disk
        if disk is None:
            return KillPoint(events, seconds)
        left = chance.choice([0, 0, 8, 40, 100])
        return KillPoint(events, seconds, lambda: disk.fill(left))

    def _told(self, ended: Ended, now: checks.Kept) -> str:
        session = self._session(now)
        phase = now.runs.get(session) or "no run"
        at_work = sum(bool(now.runs[one]) for one in now.parents)
        messages = sum(map(len, now.records.values()))
        command = " ".join(word[:12] for word in ended.argv if word not in ("--resume", session))
        what = "kill" if self._disk is None else "full disk"
        more = f", {at_work} delegates running" if at_work else ""
        return (
            f"seed {self.seed} {what} {len(self.kills) + 1}: {command}, {ended.struck}: {phase}{more}, {messages} messages kept"
        )

    def _session(self, kept: checks.Kept) -> str:
        return next(iter(kept.persons), "")

    def _choose(self, *, killing: bool) -> tuple[list[str], dict[str, Any]] | None:
        """Return the next command line, and the options to run it."""
        kept, chance = self._kept, self._chance
        session, said = self._session(kept), "\n".join(kept.said(self._session(kept)))
        left = [task for task in self._tasks if task not in said]
        if not session or not said:
            return ["run", "--json", "--park", self._tasks[0]], {}
        if kept.tickets and (not killing or chance.random() < 0.8):
            return self._answer(chance.choice(kept.tickets))
        under_way = bool(kept.runs[session] or kept.waiting[session])
        if under_way and (not killing or chance.random() < 0.6):
            return ["run", "--json", "--park", "--resume", session], {}
        parted = any(kept.runs[one] or kept.waiting[one] for one in kept.parents)
        if not left or (self._ends and not parted):
            return None
        self._ends = not killing
        if parted and not killing:  # delegates in the background: without --park the process waits for them
            return ["run", "--json", "--resume", session, left[0]], {}
        if chance.random() < 0.3 and killing:
            lines = "".join(f"{task}\n" for task in left[: chance.randint(1, 2)])
            return ["chat", "--resume", session], {"typed": lines}
        parks = ["--park"] if chance.random() < 0.7 else []
        return ["run", "--json", *parks, "--resume", session, left[0]], {}

    def _answer(self, ticket: str) -> tuple[list[str], dict[str, Any]]:
        if self._chance.random() < 0.25:
            return ["approvals", "deny", ticket, "not now"], {}
        goes_on = ["--continue"] if self._chance.random() < 0.5 else []
        return ["approvals", "answer", ticket, "--scope", "once", *goes_on], {"terminal": True}

    # -- what must hold ------------------------------------------------------------------------------------------

    def _store(self) -> Store:
        return PostgresStore(self._url) if self._url else SqliteStore(self._state / "toolcrib.db")

    async def _look(self, ended: Ended) -> checks.Kept:
        if not self._url and not (self._state / "toolcrib.db").exists():
            return checks.Kept()
        store = self._store()
        try:
            self.faults += await checks.tickets(store, ended)
            return await checks.read_store(store, ended)
        finally:
            store.close()

    async def check(self) -> list[str]:
        """Return the faults at the end, by all checks."""
        store = self._store()
        try:
            kept = await checks.read_store(store, self._shown[-1])
            found = checks.outcomes(kept) + checks.effects(kept, self._project) + checks.delegates(kept) + self._taken(kept)
            found += checks.kept_since(self._kept, kept) + checks.files(kept, self._project, self._state / "memory")
            found += await checks.searched(store, kept, [task.rpartition(" ")[2] for task in self._tasks])
            found += await checks.counted(store, kept)
        finally:
            store.close()
        told = [str(one["text"]) for one in checks.results_by_tag(kept).values()]
        self.met["processes"] = len(self._shown)
        self.met["answers"] = sum(one.argv[0] == "approvals" for one in self._shown)
        self.met["calls"] = sum(map(len, kept.calls.values()))
        self.met["unsure"] = sum(any(words in text for words in checks.UNSURE) for text in told)
        self.met["delegates"] = len(kept.parents)
        self.met["compressions"] = sum(one["role"] == "compressed" for one in kept.all_records)
        return found + ([f"{self._server.refused} requests were too long"] if self._server.refused else [])

    def _taken(self, kept: checks.Kept) -> list[str]:
        """Return the tasks that a process acknowledged and that were lost, or that were answered twice."""
        said = "\n".join(kept.said(self._session(kept)))
        taken = [one.argv[-1] for one in self._shown if any(event["type"] == "run_started" for event in one.events)]
        return [
            f"{task!r} was said {times} times, and taken {taken.count(task)} times"
            for task in self._tasks
            if (times := said.count(task)) > 1 or times < taken.count(task)
        ]


@contextmanager
def forking(*, wanted: bool) -> Iterator[ForkServer | None]:
    """Yield a server that forks processes, or None if they are started one by one."""
    if not wanted:
        yield None
        return
    server = ForkServer()
    try:
        yield server
    finally:
        server.close()


def main() -> int:
    words, _, rest = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(description=words, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--kills", type=int, default=500, metavar="N", help="begin conversations until there were so many (default: 500)")
    add("--seed", type=int, default=int(time.time()), metavar="N", help="of the first conversation; the next one's is one more")
    add("--only", action="store_true", help="that conversation alone, however many kills it has")
    add("--store", choices=("sqlite", "postgres"), default="sqlite", help="the kind of store (default: sqlite)")
    add("--forks", action="store_true", help="fork processes from one that has loaded toolcrib: four times as quick")
    add("--full-disk", action="store_true", help="fill the disk at these moments, instead of killing (needs root)")
    add("--keep", metavar="DIR", help="leave the folders of the conversations there, by their seeds")
    options = parser.parse_args()
    from tests.fuzz.run_kills import databases

    print(f"store {options.store}, first seed {options.seed}", flush=True)
    kills, wrong, seed, met = 0, 0, options.seed, Counter[str]()
    with databases(options.store) as new_url, forking(wanted=options.forks) as forks:
        while kills < options.kills:
            with _folder(options.keep, seed) as folder, _disk(folder, wanted=options.full_disk) as disk:
                say = lambda line: print(line, flush=True)  # noqa: E731 - for each alike
                one = Conversation(folder, seed, url=new_url(), forks=forks, disk=disk, say=say)
                faults = one.run()
            kills, wrong, seed, met = kills + len(one.kills), wrong + bool(faults), seed + 1, met + one.met
            print(f"seed {one.seed}: {len(one.kills)} kills, {_list(one.met)}: {'; '.join(faults) or 'sound'}", flush=True)
            if options.only:
                break
    print(f"{kills} kills in {seed - options.seed} conversations ({_list(met)}), {wrong} wrong")
    return 1 if wrong else 0


@contextmanager
def _disk(folder: Path, *, wanted: bool) -> Iterator[SmallDisk | None]:
    if not wanted:
        yield None
        return
    with mounted(folder / "state", DISK) as disk:
        yield disk


@contextmanager
def _folder(keep: str | None, seed: int) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="kills-") as folder:
            yield Path(folder)
        return
    folder_of_seed = Path(keep) / str(seed)
    folder_of_seed.mkdir(parents=True)
    yield folder_of_seed


def _list(met: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in met.items())


if __name__ == "__main__":
    sys.exit(main())
