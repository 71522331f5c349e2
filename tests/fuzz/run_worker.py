"""A process that drives one session by a plan, and may be killed at any moment.

    python tests/fuzz/run_worker.py PROJECT SESSION begin|answer N|refuse N|continue [--store URL] [--linger]

The model follows PROJECT/plan.json: a list of [tool, tag] for each turn. ``note`` needs no approval, ``mark`` does; both write
their tag to PROJECT/log. Prints ``up``, and at the end one line of JSON: the session's state and pending tickets.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent.api import Crib, assemble
from agent.config import load_config
from agent.conversation.session import Session
from agent.store.sqlite import SqliteStore
from toolcrib import Answer, Denied, ProviderTurn, ToolCall, ToolCallContext, WritesFile
from toolcrib.contract.store import Store
from toolcrib.testing import ScriptedSession


class Planned(ScriptedSession):
    """A model whose next turn follows only from the transcript, like a real one's."""

    def __init__(self, session: Session, plan: list[list[list[str]]]) -> None:
        super().__init__()
        self._session = session
        self._plan = plan

    async def stream_turn(self, on_event: Any) -> ProviderTurn:
        number = sum(record["role"] == "assistant" for record in await self._session.records())
        if number >= len(self._plan):
            return ProviderTurn("done", assistant_turn="done")
        calls = [ToolCall(f"call_{place}", name, {"tag": tag}) for place, (name, tag) in enumerate(self._plan[number])]
        return ProviderTurn("", tuple(calls), None)


def add_tools(crib: Crib, log: Path) -> None:
    def write(args: Any) -> str:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(descriptor, f"{args['tag']}\n".encode())
        os.close(descriptor)
        return str(args["tag"])

    schema = {"description": "d", "parameters": {"properties": {"tag": {"type": "string"}}}}
    crib.registry.register("note", "terminal", schema, write, kind="read", parallel_safe=True)  # so it waits for nothing

    def hook(args: Any, ctx: ToolCallContext) -> list[WritesFile]:
        return [WritesFile(str(log.parent / ".git" / "hooks" / args["tag"]))]  # needs approval, and overlaps with no other effect

    crib.registry.register("mark", "terminal", schema, write, kind="edit", effects=hook)


def open_store(project: Path, url: str) -> Store:
    if not url:
        return SqliteStore(project / "store.db")
    from agent.store.postgres.store import PostgresStore

    return PostgresStore(url)


async def work(crib: Crib, options: argparse.Namespace) -> dict[str, Any]:
    project = Path(options.project)
    session = await crib.open(named=options.session, platform="api", suspends=True)
    session.scope.granted = None
    session.limits = replace(session.limits, max_turns=1_000)
    session.link.use(Planned(session, json.loads((project / "plan.json").read_text())))
    session.holding.seconds = options.lease
    try:
        if options.what in ("answer", "refuse"):
            await _answer(session, options)
        if options.what == "begin":
            await session.say("go", key="only once")
        result = await session.advance(calls_only=options.what in ("answer", "refuse"))
        pending = await session.store.tickets.pending(session.id)
        return {
            "stopped": None if result is None else result.stopped,
            "text": "" if result is None else result.text,
            "tickets": [record.ticket.id for record in pending],
        }
    finally:
        await session.close()


async def _answer(session: Session, options: argparse.Namespace) -> None:
    pending = await session.store.tickets.pending(session.id)
    if not pending:
        return
    ticket = pending[options.number % len(pending)].ticket
    payload = {"approved": options.what == "answer", "scope": "once"}
    try:
        await session.answer(Answer(ticket.id, payload=payload, by="somebody", at=time.time()))
    except Denied:
        return  # another process was first


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("project")
    parser.add_argument("session")
    parser.add_argument("what", choices=("begin", "answer", "refuse", "continue"))
    parser.add_argument("number", nargs="?", type=int, default=0)
    parser.add_argument("--store", default="")
    parser.add_argument("--lease", type=float, default=20.0)
    parser.add_argument("--linger", action="store_true", help="wait at the end until standard input closes")
    options = parser.parse_args()
    project = Path(options.project)
    with assemble(config=load_config(), project_dir=project, store=open_store(project, options.store)) as crib:
        add_tools(crib, project / "log")
        print("up", flush=True)
        print(json.dumps(asyncio.run(work(crib, options))), flush=True)
        if options.linger:
            sys.stdin.read()


if __name__ == "__main__":
    main()
