"""Conditions that must hold for conversations whose processes were killed, checked by output, store, effects and requests."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.fuzz.kill_model import tag_of
from tests.fuzz.kill_processes import Ended
from toolcrib import Principal
from toolcrib.contract.search import SearchFilter
from toolcrib.contract.store import CallRecord, Store

UNSURE = ("may have run", "may have done part of its work")
"""Texts in the results of calls that may have had their effect."""
_SQLITE = b"SQLite format 3\0"


@dataclass
class Kept:
    """A store's contents for a project: by session the records of its messages, its calls, its run's phase, and its inbox."""

    records: dict[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    calls: dict[str, Sequence[CallRecord]] = field(default_factory=dict)
    runs: dict[str, str] = field(default_factory=dict)
    waiting: dict[str, list[str]] = field(default_factory=dict)
    tickets: list[str] = field(default_factory=list)
    """Ids of pending tickets, of any session."""
    parents: dict[str, str] = field(default_factory=dict)
    """The parent of each delegate."""

    @property
    def persons(self) -> list[str]:
        """The sessions that do not belong to delegates."""
        return [session for session in self.records if session not in self.parents]

    def said(self, session: str) -> list[str]:
        """Return the messages that were sent to the session or wait in its inbox."""
        told = [str(one["text"]) for one in self.records.get(session, ()) if one["role"] == "user"]
        return [*told, *self.waiting.get(session, ())]

    @property
    def all_records(self) -> Iterable[Mapping[str, Any]]:
        """The records of all sessions."""
        return (one for records in self.records.values() for one in records)


async def read_store(store: Store, ended: Ended) -> Kept:
    """Return the contents of the whole store, with the sessions that a process printed."""
    sessions = [event["session"] for event in ended.events if event["type"] == "run_started"]
    kept = Kept(tickets=[one.ticket.id for one in await store.tickets.pending()])
    known = {one.id: one for one in await store.sessions.list(1_000)}
    for session in [*sessions, *await store.runs.unfinished()]:
        info = await store.sessions.get(session)
        if info is not None:
            known[info.id] = info
    for session, info in known.items():
        kept.records[session] = await store.sessions.messages(session)
        kept.calls[session] = await store.ledger.calls(session)
        run = await store.runs.current(session)
        kept.runs[session] = "" if run is None else str(run.state.get("phase", run.status))
        kept.waiting[session] = [item.text for item in await store.inbox.waiting(session)]
        if info.parent:
            kept.parents[session] = info.parent
    return kept


async def tickets(store: Store, ended: Ended) -> list[str]:
    """Return the tickets that a process printed and that are not stored."""
    told = [ticket["id"] for event in ended.events if event["type"] == "run_parked" for ticket in event["tickets"]]
    return [f"the ticket {one[:8]} was printed and is not stored" for one in told if await store.tickets.get(one) is None]


# -- after each kill ---------------------------------------------------------------------------------------------------


def databases(state: Path) -> list[str]:
    """Return the faults of the database files of a state folder, with their full-text indexes."""
    found = []
    for file in sorted(file for file in state.rglob("*") if file.is_file() and file.read_bytes()[:16] == _SQLITE):
        connection = sqlite3.connect(file)
        try:
            told = [str(row[0]) for row in connection.execute("PRAGMA integrity_check")]
            told += [str(row) for row in connection.execute("PRAGMA foreign_key_check")]
            found += [f"{file.name}: {line}" for line in told if line != "ok"]
        except sqlite3.Error as error:
            found.append(f"{file.name}: {error}")
        finally:
            connection.close()
    return found


def kept_since(before: Kept, now: Kept) -> list[str]:
    """Return the messages that have vanished or changed since the store was read before."""
    found = []
    for session, records in before.records.items():
        found += [
            f"message {place} of {session[:6]} was {_brief(one)} and is {_brief(other)}"
            for place, one in enumerate(records)
            if (other := _at(now.records.get(session, ()), place)) != one
        ]
    return found


def shown(ended: Ended, kept: Kept, session: str) -> list[str]:
    """Return process output that the store does not have."""
    found: list[str] = []
    texts = Counter(str(one.get("text")) for one in kept.records.get(session, ()) if one["role"] == "assistant")
    results = results_by_tag(kept)
    tags: dict[str, str] = {}
    for event in ended.events:
        match event["type"]:
            case "run_started" if event["session"] not in kept.records:
                found.append(f"the session {event['session'][:6]} was printed and is not stored")
            case "turn_finished" if texts[event["text"]] != 1:
                found.append(f"the reply {event['text']!r} was shown and is kept {texts[event['text']]} times")
            case "context_compressed" if not _has(kept.records.get(session, ()), "compressed", before=event["before"]):
                found.append("a compression was shown and is not kept")
            case "tool_started":
                tags[event["id"]] = tag_of(event["name"], event["args"])
            case "tool_finished" if (tag := tags.get(event["id"])) and tag in results:
                found += _differs(tag, event, results[tag])
    return found


def _differs(tag: str, event: Mapping[str, Any], result: Mapping[str, Any]) -> list[str]:
    if event["status"] == "unrecorded" or "the disk is full" in event.get("error", ""):
        return []  # the store knows less than the output: the call may have run, or runs once the disk has room
    if (event["status"] == "succeeded") == bool(result["is_error"]):
        return [f"{tag} was shown as {event['status']} and the model received {result['text'][:100]!r}"]
    if event["status"] == "succeeded" and event["result"] != json.loads(str(result["text"])):
        return [f"the result of {tag} was shown as {str(event['result'])[:100]} and the model received {result['text'][:100]!r}"]
    return []


def results_by_tag(kept: Kept) -> dict[str, Mapping[str, Any]]:
    """Return each call's result as its model reads it, by the call's tag."""
    found: dict[str, Mapping[str, Any]] = {}
    for records in kept.records.values():
        for record, after in pairwise([*records, {}]):
            for call, result in zip(record.get("calls") or (), after.get("results") or (), strict=False):
                found[tag_of(call["name"], call["args"])] = result
    return found


# -- at the end --------------------------------------------------------------------------------------------------------


def outcomes(kept: Kept) -> list[str]:
    """Return the calls without exactly one outcome, and unfinished work."""
    found = []
    for session, records in kept.records.items():
        name = session[:6]
        for place, record in enumerate(records):
            wanted = [call["id"] for call in record.get("calls") or ()]
            given = [one["call_id"] for one in _at(records, place + 1).get("results", ())] if wanted else []
            if wanted != given:
                found.append(f"{name}: the calls {wanted} of message {place} have the results {given}")
            if record["role"] == "results" and not _at(records, place - 1).get("calls"):
                found.append(f"{name}: the results of message {place} have no calls")
        found += [f"{name}: the call {one.call.id} is {one.status.value}" for one in kept.calls[session] if one.result is None]
        found += [f"{name}: a run is {kept.runs[session]}"] if kept.runs[session] else []
        found += [f"{name}: {len(kept.waiting[session])} messages wait"] if kept.waiting[session] else []
    return [*found, *(f"the ticket {one[:8]} is open" for one in kept.tickets)]


def effects(kept: Kept, project: Path) -> list[str]:
    """Return the effects that happened twice, or differ from their results."""
    once, often = _lines(project / "log"), _lines(project / "repeated")
    found = [f"the effect of {tag} happened {times} times" for tag, times in once.items() if times > 1]
    results = results_by_tag(kept)
    for tag, result in results.items():
        name, said = str(result["name"]), str(result["text"])
        if name not in ("note", "mark", "look", "terminal") or not tag:
            continue
        times = often[tag] if name == "look" else once[tag]
        if not result["is_error"] and not times:
            found.append(f"{tag} is reported as done and did not happen")
        if result["is_error"] and times and not any(words in said for words in UNSURE):
            found.append(f"{tag} happened and is reported as {said[:160]!r}")
    found += [f"{tag} happened and no message has its call" for tag in (*once, *often) if tag not in results]
    return found


def files(kept: Kept, project: Path, memory: Path) -> list[str]:
    """Return partially written files, and notes of memory that are broken, doubled or lost."""
    found = []
    for tag, result in results_by_tag(kept).items():
        if result["name"] == "write_file":
            text = (project / tag).read_text() if (project / tag).exists() else ""
            if text not in ("", f"{tag}\n" * 2_000) or (not text and not result["is_error"]):
                found.append(f"the file {tag} has {len(text)} characters, and its call's result is {result['text'][:80]!r}")
        if result["name"] == "memory":
            notes = "".join(file.read_text() for file in sorted(memory.rglob("*.markdown")))
            times = notes.count(f"Remember {tag}.")
            if times > 1 or (not times and not result["is_error"]):
                found.append(f"the note {tag} is there {times} times, and its call's result is {result['text'][:80]!r}")
    return found


def delegates(kept: Kept) -> list[str]:
    """Return delegates whose end was reported more than once, or never if a message should report it."""
    found = []
    told = [str(one.get("text", "")) for one in kept.all_records if one["role"] == "user"]
    results = results_by_tag(kept)
    for session in kept.parents:
        task = next((str(one["text"]) for one in kept.records[session] if one["role"] == "user"), "")
        result = results.get(tag_of("", {"task": task}))
        times = sum(f"its session is {session[:12]}" in text for text in told)
        begun = result is not None and '"works on"' in str(result["text"])
        if times > 1 or (begun and times != 1) or (result is None and task):
            found.append(
                f"the end of the delegate for {task!r} was reported {times} times; its call: {result and result['text'][:120]}"
            )
    return found


async def searched(store: Store, kept: Kept, words: Iterable[str]) -> list[str]:
    """Return the words of users' messages that a search does not find in their place, or finds twice."""
    found = []
    for word in words:
        said = [
            (session, place)
            for session, records in kept.records.items()
            for place, one in enumerate(records)
            if one["role"] == "user" and word in str(one["text"])
        ]
        where = SearchFilter(principal=Principal(), roles=["user"])
        hits = [(hit.session_id, hit.seq) for hit in await store.search.find(word, where)]
        if sorted(hits) != sorted(said):
            found.append(f"{word!r} occurs at {said}, and a search finds it at {hits}")
    return found


async def counted(store: Store, kept: Kept) -> list[str]:
    """Return sessions whose usage differs from that of their messages."""
    found = []
    for session, records in kept.records.items():
        sums = [one for one in await store.usage.sums(session_id=session) if not one.tool]
        replies = [one["usage"] for one in records if one["role"] in ("assistant", "compressed") and one.get("usage")]
        wanted = sum(int(one.get("input", 0)) for one in replies)
        if sum(one.input for one in sums) != wanted:
            found.append(f"{session[:6]}: {sum(one.input for one in sums)} tokens are counted, and its replies took {wanted}")
    return found


def _lines(file: Path) -> Counter[str]:
    return Counter(file.read_text().split() if file.exists() else [])


def _at(records: Sequence[Mapping[str, Any]], place: int) -> Mapping[str, Any]:
    return records[place] if 0 <= place < len(records) else {}


def _has(records: Sequence[Mapping[str, Any]], role: str, **fields: Any) -> bool:
    return any(one["role"] == role and all(one.get(key) == value for key, value in fields.items()) for one in records)


def _brief(record: Mapping[str, Any]) -> str:
    return f"{record.get('role', 'gone')} {str(record.get('text') or record.get('results') or '')[:60]!r}"
