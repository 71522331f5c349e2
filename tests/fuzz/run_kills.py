"""Kill processes at random moments while runs are under way and parked, and check that nothing is lost and nothing done twice.

    python tests/fuzz/run_kills.py [--kills 200] [--store sqlite|postgres] [--seed N]

Each run has three turns of calls, and some calls need a person's approval. Processes begin the run, answer it and continue it,
and each is killed (SIGKILL) at a random moment, until the run ends. Then each call must have one result, in order. Each effect
must have happened once, or at most once if the result says that it may have run. Each ticket must have had one answer at most.
Prints a line for each run and the sum; exits with 1 if there was a fault.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import secrets
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent.store.postgres.store import PostgresStore
from agent.store.sqlite import SqliteStore
from toolcrib.contract.store import Store

WORKER = Path(__file__).with_name("run_worker.py")
MOST_SECONDS = 0.5
"""A process is killed within these seconds after its start, or survives."""
UNSURE = "may have run"


class Trial:
    """A run in its own project."""

    def __init__(self, folder: Path, url: str, chance: random.Random) -> None:
        self.folder = folder
        self.url = url
        self.session = secrets.token_hex(16)
        self.kills = 0
        self._chance = chance
        tags = iter(range(100))
        plan = [[[chance.choice(["mark", "note"]), f"e{next(tags)}"] for _ in range(chance.randint(1, 4))] for _ in range(3)]
        plan[0][0][0] = "mark"
        self.plan = plan
        (folder / "plan.json").write_text(json.dumps(plan))

    def store(self) -> Store:
        return PostgresStore(self.url) if self.url else SqliteStore(self.folder / "store.db")

    def drive(self) -> None:
        """Start processes and kill them, until the run has ended."""
        while True:
            what = self._chance.choice(["begin", "answer 0", "answer 1", "answer 0", "continue", "continue", "refuse 0"])
            self._process(*("begin" if not self._is_begun() else what).split())
            if self._is_over():
                return

    def _process(self, *words: str) -> None:
        command = [sys.executable, str(WORKER), str(self.folder), self.session, *words, "--lease", "1"]
        command += ["--store", self.url] if self.url else []
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            assert process.stdout is not None
            process.stdout.readline()  # it has started
            try:
                process.wait(self._chance.uniform(0.0, MOST_SECONDS))
            except subprocess.TimeoutExpired:
                process.kill()
                self.kills += 1

    def _is_begun(self) -> bool:
        return bool(asyncio.run(self._look())["run"])

    def _is_over(self) -> bool:
        return bool(asyncio.run(self._look())["over"])

    async def _look(self) -> dict[str, Any]:
        store = self.store()
        try:
            if await store.sessions.get(self.session) is None:
                return {"run": False, "over": False}
            records = await store.sessions.messages(self.session)
            current = await store.runs.current(self.session)
            return {"run": bool(records), "over": current is None and bool(records) and records[-1].get("text") == "done"}
        finally:
            store.close()

    # -- what must hold ------------------------------------------------------------------------------------------

    def faults(self) -> list[str]:
        return asyncio.run(self._faults())

    async def _faults(self) -> list[str]:
        store = self.store()
        try:
            records = await store.sessions.messages(self.session)
            calls = await store.ledger.calls(self.session)
        finally:
            store.close()
        log = self.folder / "log"
        happened = Counter(log.read_text().split() if log.exists() else [])
        found = [f"the effect {tag} happened {times} times" for tag, times in happened.items() if times > 1]
        roles = [record["role"] for record in records]
        if roles != ["user", *["assistant", "results"] * len(self.plan), "assistant"]:
            return [*found, f"the transcript is {roles}"]
        for turn, record in zip(self.plan, records[2::2], strict=False):
            if [one["call_id"] for one in record["results"]] != [f"call_{place}" for place in range(len(turn))]:
                found.append(f"results out of order: {record['results']}")
            for (_, tag), one in zip(turn, record["results"], strict=False):
                times, said = happened[tag], one["text"]
                if not one["is_error"] and times != 1:
                    found.append(f"{tag} is reported as done and happened {times} times")
                if one["is_error"] and times and UNSURE not in said:
                    found.append(f"{tag} happened and is reported as {said}")
        found += [f"the call {one.call.id} is {one.status.value}" for one in calls if not one.status.is_terminal]
        return found


@contextmanager
def databases(kind: str) -> Iterator[Any]:
    """Yield a function that returns the URL of a new database, "" for SQLite."""
    if kind == "sqlite":
        yield lambda: ""
        return
    import psycopg

    script = Path(__file__).parents[1] / "infra" / "postgres.py"
    with subprocess.Popen([sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        _, url, _ = server.stdout.readline().split()

        def new() -> str:
            name = f"k{secrets.token_hex(4)}"
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {name}".encode())
            return f"{url.rpartition('/')[0]}/{name}"

        yield new
        server.stdin.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    chance, kills, runs, wrong = random.Random(options.seed), 0, 0, 0  # noqa: S311 - a test's dice
    print(f"store {options.store}, seed {options.seed}", flush=True)
    with databases(options.store) as new_url:
        while kills < options.kills:
            with tempfile.TemporaryDirectory(prefix="kills-") as folder:
                trial = Trial(Path(folder), new_url(), chance)
                trial.drive()
                faults = trial.faults()
            kills, runs, wrong = kills + trial.kills, runs + 1, wrong + bool(faults)
            told = "; ".join(faults) or "each effect once, each call one result"
            print(f"run {runs}: {trial.kills} kills, {sum(map(len, trial.plan))} calls: {told}", flush=True)
    print(f"{kills} kills in {runs} runs, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
