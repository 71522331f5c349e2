"""Measured processes of benchmarks/park.py: each reads requests as lines of JSON, and answers each with one line."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from agent.api import Crib, assemble
from agent.config import load_config
from agent.conversation.answers import record_answer
from agent.conversation.manager import SessionManager
from agent.conversation.session import Session
from agent.conversation.state import RunState
from agent.store.sqlite import SqliteStore
from toolcrib import Answer, ToolCall, ToolCallContext, WritesFile
from toolcrib.contract.store import Store
from toolcrib.testing import ScriptedSession

Serve = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
_REAL = 200
"""Number of parked runs that are really run; the others are copies in the store."""
_WARM = 50
"""Number of runs before them: they fill the memory of the threads, which stays and serves all later runs."""


def open_store(folder: Path, url: str) -> Store:
    if not url:
        return SqliteStore(folder / "store.db")
    from agent.store.postgres.store import PostgresStore

    return PostgresStore(url)


class Host:
    """A process with sessions whose runs are parked at a call that reports when it starts."""

    def __init__(self, crib: Crib, folder: Path) -> None:
        self._number = 0
        self._started: asyncio.Queue[float] = asyncio.Queue()
        self._parked: asyncio.Queue[Any] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def mark(args: Any) -> str:
            loop.call_soon_threadsafe(self._started.put_nowait, time.monotonic())
            return "done"

        def effects(args: Any, ctx: ToolCallContext) -> list[WritesFile]:
            return [WritesFile(str(folder / ".git" / "hooks" / "mark"))]  # which needs an approval

        crib.registry.register("mark", "terminal", {"description": "d"}, mark, kind="edit", effects=effects)
        crib.registry.register("plain", "terminal", {"description": "d"}, mark)
        self._crib = crib
        self._models: dict[str, ScriptedSession] = {}
        self._manager = SessionManager(crib, prepare=self._prepare, done=self._done)

    def _prepare(self, session: Session) -> None:
        session.scope.granted = None
        turns: list[Any] = ["done"] if session.id in self._models else [[("mark", {})], "done"]
        self._models[session.id] = ScriptedSession(*turns)
        session.link.use(self._models[session.id])

    def _done(self, session_id: str, result: Any) -> None:
        if getattr(result, "stopped", "") == "parked":
            self._parked.put_nowait(result.tickets[0])

    async def __call__(self, request: dict[str, Any]) -> dict[str, Any]:
        if not self._number:
            await self._manager.start()
        self._number += 1
        match request["do"]:
            case "park":
                still_open = self._manager.open_sessions
                await self._manager.say(f"chat{self._number}", "go")
                ticket = await self._parked.get()
                while self._manager.open_sessions > still_open:
                    await asyncio.sleep(0.001)
                return {"ticket": ticket}
            case "started":
                return {"at": await self._started.get()}
            case _:
                session = await self._crib.open()
                session.scope.granted = None
                await session.acall(ToolCall(ToolCall.new_id(), "plain", {}))
                began = time.monotonic()
                await session.acall(ToolCall(ToolCall.new_id(), "plain", {}))
                took = time.monotonic() - began
                for _ in range(2):
                    await self._started.get()
                await session.close()
                return {"seconds": took}

    async def park(self, runs: int) -> dict[str, Any]:
        """Park ``runs`` runs, and return the memory and threads that they added to the process."""
        for _ in range(min(_WARM, runs)):
            await self({"do": "park"})
        await asyncio.gather(*(self._crib.store.sessions.get(f"missing{number}") for number in range(50)))  # to start its threads
        before, threads = _memory(), threading.active_count()
        for _ in range(min(_REAL, runs) - 1):
            await self({"do": "park"})
        await self._copies(runs - min(_REAL, runs))
        await self._manager._look()
        gc.collect()
        added, after = _memory() - before, threading.active_count()
        return {
            "added": max(0.0, added),
            "before": before,
            "threads": max(0, after - threads),
            "threads_before": threads,
            "real": min(_REAL, runs),
        }

    async def _copies(self, number: int) -> None:
        """Store ``number`` more parked runs like the last one, hosted here, with tickets of their own."""
        store = self._crib.store
        (record,) = await store.runs.parked(1)
        info = await store.sessions.get(record.session_id)
        state = RunState.of(record)
        (ticket_id,) = state.batch[0].tickets
        ticket = await store.tickets.get(ticket_id)
        assert info is not None
        assert ticket is not None

        async def copy(place: int) -> None:
            from dataclasses import replace

            name = f"{place:032x}"
            own = replace(ticket.ticket, id=f"t{name}")
            batch = (replace(state.batch[0], tickets=(own.id,)),)
            await store.sessions.create(name, platform=info.platform, user="", cwd=info.cwd, place=info.place)
            await store.sessions.update(name, host=info.host)
            await store.tickets.put(replace(ticket, ticket=own, session_id=name))
            await store.runs.commit(replace(state, id=f"{name}-1", session_id=name, batch=batch).record())

        for start in range(0, number, 100):
            await asyncio.gather(*(copy(place) for place in range(start, min(number, start + 100))))


def _memory() -> float:
    """Return the process's resident memory in MB."""
    gc.collect()
    pages = Path("/proc/self/statm")
    if pages.exists():
        return int(pages.read_text().split()[1]) * resource.getpagesize() / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


async def answering(store: Store) -> Serve:
    async def serve(request: dict[str, Any]) -> dict[str, Any]:
        answer = Answer(request["ticket"], payload={"approved": True, "scope": "once"}, by="bench", at=time.time())
        decide, committed = store.tickets.decide_ticket, 0.0

        async def noted(*args: Any) -> Any:
            nonlocal committed
            found = await decide(*args)
            committed = time.monotonic()
            return found

        store.tickets.decide_ticket = noted  # type: ignore[assignment, method-assign]  # the commit's time is measured
        try:
            await record_answer(store, answer)
        finally:
            del store.tickets.decide_ticket
        return {"committed": committed}

    return serve


async def main(what: str, folder: Path, url: str) -> None:
    store = open_store(folder, url)
    lines = asyncio.get_running_loop()
    with assemble(config=load_config(), project_dir=folder, store=store) as crib:
        serve: Serve
        if what == "answer":
            serve = await answering(store)
        else:
            host = Host(crib, folder)
            serve = host if what == "host" else lambda request: host.park(request["runs"])
        while line := await lines.run_in_executor(None, sys.stdin.readline):
            print(json.dumps(await serve(json.loads(line))), flush=True)
        if what != "answer":
            await host._manager.close()


if __name__ == "__main__":
    os.environ["XDG_STATE_HOME"] = os.environ["XDG_CONFIG_HOME"] = str(Path(sys.argv[2]) / "home")
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else ""))
