"""Print the status of a gateway that another process runs, as text or as JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent.cli.escape import exact
from agent.cli.format_grants import line, on_one
from agent.cli.render import table
from agent.gateway.figures import MINUTES
from agent.gateway.status import parked, told_idle, told_status

if TYPE_CHECKING:
    from agent.process import Crib
    from toolcrib.contract.store import TicketRecord

_COUNTS = ("open_sessions", "runs", "questions", "mail", "posts", "pid")


async def show_status(crib: Crib, names: Sequence[str], *, as_json: bool) -> None:
    """Print the state of these platforms, and their open questions. Raises StoreFailed."""
    told = [{**await told_status(crib.store, name), "name": name} for name in names]
    for one in told:
        one["running"] = bool(one["is_fresh"]) and one.get("state") in ("running", "draining")
        if not one["is_fresh"] and one.get("state") not in (None, "stopped"):
            before = str(one.get("problem") or "") if one["state"] == "failed" else ""
            one["state"], one["problem"] = "died", before or "its process ended without an error message; start it again"
    waiting, idle = await parked(crib.store, names), await told_idle(crib.store)
    if as_json:
        questions = [
            {"id": record.ticket.id, "platform": name, "session": record.session_id, "asked_at": record.at}
            for name, record in waiting
        ]
        print(json.dumps({"platforms": told, "parked": questions, "without_platforms": idle or None}))
        return
    if idle:
        print(f"a gateway is running without a platform (process {idle}): enable one, then run `toolcrib gateway reload`")
    if not told:
        print("" if idle else "no platform is enabled; to see how to enable one: toolcrib gateway --help\n", end="")
        return
    head = ["PLATFORM", "STATE", "ACCOUNT", "OPEN", "RUNS", "QUESTIONS", "TO READ", "TO SHOW", "PID"]
    table([head, *map(_row, told)], spare=(6, 7, 8))
    for one in told:
        for words in _words(one):
            print(f"{one['name']}: {words}")
    if not idle and not any(one["is_fresh"] or one.get("state") == "died" for one in told):
        print("no gateway is running; to start one: toolcrib gateway run")
    if waiting:
        print()
        table([["ID", "PLATFORM", "WAITS", "QUESTION"], *(_question(name, record) for name, record in waiting)], whole=(3,))


def _row(one: Mapping[str, Any]) -> list[str]:
    counts = [str(one.get(key, "-")) if one["running"] else "-" for key in _COUNTS]
    return [str(one["name"]), str(one.get("state", "stopped")), exact(str(one.get("account", ""))), *counts]


def _question(platform: str, record: TicketRecord) -> list[str]:
    return [record.ticket.id[:8], platform, lasted(time.time() - record.at), exact(line(on_one(record.ticket.message)))]


def _words(one: Mapping[str, Any]) -> list[str]:
    if one.get("problem") and one.get("state") != "stopped":
        again = float(one.get("retry_at", 0.0)) - time.time()
        problem = str(one["problem"]).removeprefix("ConfigError: ")
        return [exact(problem) + (f"; next attempt in {lasted(again)}" if one["is_fresh"] and again > 0 else "")]
    figures = one.get("figures") or {}
    if not one["running"] or not figures:
        return []
    counts, runs, rate = one.get("counts", {}), figures["runs"], figures["per_minute"]
    if not any(runs.values()) and not any(counts.values()):
        return ["no messages since its start"]
    whole = (
        f"since its start {runs['begun']} runs began, {runs['ended']} ended and {runs['failed']} failed;"
        f" {counts.get('kept', 0)} messages were accepted and {counts.get('refused', 0)} refused,"
        f" {counts.get('sent', 0)} sent and {counts.get('given_up', 0)} not delivered"
    )
    return [
        f"{rate['messages']:.1f} messages and {rate['answers']:.1f} answers a minute in the last {MINUTES} minutes",
        *_times(figures),
        whole,
        *_processes(int(one.get("processes", 0))),
    ]


def _processes(running: int) -> list[str]:
    return [f"{running} background process{'' if running == 1 else 'es'} running in its chats"] if running else []


def _times(figures: Mapping[str, Any]) -> list[str]:
    first, answer = figures["first_text"], figures["answer"]
    if not answer["count"]:
        return []
    begun = f"first text after {first['median']:.1f} s, " if first["count"] else ""
    return [f"{begun}answers after {answer['median']:.1f} s, 95 % within {answer['p95']:.1f} s (the last {answer['count']})"]


def lasted(seconds: float) -> str:
    """Return a duration in its largest unit."""
    for size, unit in ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"
