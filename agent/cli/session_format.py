"""Format stored sessions for users."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from agent.cli.calls import call_words
from agent.cli.escape import one_line, tame
from agent.cli.images import recorded_labels
from agent.cli.render import outcome, result_text, short_args
from agent.cli.short_forms import ID_CHARS, ago
from agent.conversation.compressed import ROLE as COMPRESSED
from agent.conversation.compressed import compression_words
from agent.conversation.transcript import speaker
from agent.cron import PLATFORM as JOBS
from agent.providers._history import whole
from toolcrib.contract.display import NO_DISPLAY, ToolDisplay
from toolcrib.contract.session import ExecutedCall
from toolcrib.contract.store import CallRecord, SessionInfo, Store
from toolcrib.contract.types import ToolCall, ToolCallStatus
from tools.environments.rows import LOCAL

_CLIP, _REASON = 300, 160
MOST_LINES = 30


SPARE = (3, 2, 4)
"""Columns of ``session_rows`` that a narrow terminal can drop: the model, the number of messages, the folder."""


async def persons_sessions(store: Store, limit: int, **wanted: Any) -> list[SessionInfo]:
    """Return the last sessions without those of jobs and delegates, filtered by ``wanted``. Raises StoreFailed."""
    many = limit
    while True:
        found = await store.sessions.list(many, delegates=False, **wanted)
        theirs = [info for info in found if info.platform != JOBS]
        if len(theirs) >= limit or len(found) < many:
            return theirs[:limit]
        many *= 8


def session_rows(found: Sequence[SessionInfo], now: float) -> list[tuple[str, ...]]:
    """Return table rows with a heading."""
    rows: list[tuple[str, ...]] = [("ID", "WHEN", "MESSAGES", "MODEL", "FOLDER", "TITLE")]
    for info in found:
        model = info.model or "-"
        folder = _short(info.cwd)
        if (backend := info.place.get("name", LOCAL)) != LOCAL:
            folder = f"{backend}: {folder}"
        title = f"{info.title}{marks_of(info.tags)}{descent_of(info)}"
        rows.append((info.id[:ID_CHARS], ago(info.updated_at, now), str(info.messages), model, folder, title))
    return rows


def marks_of(tags: Sequence[str]) -> str:
    """Return tags as text to follow a title."""
    return "".join(f"  #{tame(tag)}" if not number else f" #{tame(tag)}" for number, tag in enumerate(tags))


def descent_of(info: SessionInfo) -> str:
    """Return the parent of a session and the reason, or "" if a user began it."""
    return tame(f" ({info.why or 'fork'} of {info.parent[:ID_CHARS]})") if info.parent else ""


def exchanges(
    records: Sequence[Mapping[str, Any]],
    display: Callable[[str], ToolDisplay] = lambda name: NO_DISPLAY,
    known: Callable[[Mapping[str, Any]], CallRecord | None] = lambda call: None,
) -> list[str]:
    """Return lines about messages and calls, each call with its outcome; if there are too many, only the last lines.

    ``known`` returns the ledger's record of a call.
    """
    lines: list[str] = []
    for place, record in enumerate(records):
        lines += said_lines(record)
        lines += [call_line(call, records[place + 1 : place + 2], display, known(call)) for call in record.get("calls") or ()]
    left_out = len(lines) - MOST_LINES
    return lines if left_out <= 0 else [f"  … {left_out} lines are not shown", *lines[left_out:]]


def call_line(
    call: Mapping[str, Any],
    following: Sequence[Mapping[str, Any]],
    display: Callable[[str], ToolDisplay],
    known: CallRecord | None,
) -> str:
    """Return a line about a recorded call and its outcome, from the ledger or from the results in the following record."""
    shown = display(call["name"])
    doing = call_words(ToolCall(call["id"], call["name"], call["args"]), shown, _CLIP)
    results = {result["call_id"]: result for record in following for result in record.get("results") or ()}
    if (done := executed_of(known)) is not None:
        words = _outcome(done, shown)
    else:
        words = _ended(results[call["id"]]) if call["id"] in results else _unfinished(known)
    return f"  {doing}  {words}".rstrip()


def executed_of(known: CallRecord | None) -> ExecutedCall | None:
    """Return a call with its result, or None if it has not ended or its end is unknown. The duration is unknown."""
    if known is None or known.result is None or not known.status.is_terminal:
        return None
    return ExecutedCall(known.call, known.result, known.status)


def _outcome(executed: ExecutedCall, display: ToolDisplay) -> str:
    word = outcome(executed, display)[0]
    if executed.result.is_success:
        return word
    why = one_line(result_text(executed), _REASON)
    return word if why.startswith(word) else f"{word}: {why}"


def said_lines(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield the messages of a record, each in one line."""
    if record["role"] == "user" and record.get("source"):
        yield f"  — {record['source']}: {one_line(str(record['text']), _CLIP)}"
    elif record["role"] == "user":
        from agent.cli.beside import without_beside
        from agent.context.drafting import wishes_in
        from agent.undo import without_news

        words, notes = without_beside(without_news(str(record["text"])))
        words = words if (wishes := wishes_in(words)) is None else f"/init {wishes}".rstrip()
        yield " ".join([f"> {one_line(words, _CLIP)}", *recorded_labels(record)])
        yield from (f"  {one_line(note, _CLIP)}" for note in notes)
    elif record["role"] == "assistant":
        if text := whole(record)["text"]:
            yield f"  {one_line(str(text), _CLIP)}"
        yield from (f"  {label}" for label in recorded_labels(record))
    elif record["role"] == COMPRESSED:
        yield f"  — {compression_words(record)}"


def _ended(result: Mapping[str, Any]) -> str:
    """Return how a call ended; for a failed call the error that the model read."""
    if not result["is_error"]:
        return "ok"
    text = str(result["text"])
    try:
        data = json.loads(text)
    except ValueError:
        data = None
    return f"failed: {one_line(str(data.get('error', text)) if isinstance(data, dict) else text, _REASON)}"


def _unfinished(known: CallRecord | None) -> str:
    """Return the state of a call without a recorded result: interrupted, waiting for an answer, or its final status."""
    if known is None or (known.status is not ToolCallStatus.SUSPENDED and not known.status.is_terminal):
        began = known is not None and known.handler_started
        return "interrupted; it may have run, or may still be running" if began else "interrupted before it ran"
    if known.status is ToolCallStatus.SUSPENDED:
        return "waits for an answer"
    return known.status.value


def _short(folder: str) -> str:
    home = str(Path.home())
    return f"~{folder[len(home) :]}" if folder == home or folder.startswith(f"{home}/") else folder or "-"


def heading(info: SessionInfo) -> list[str]:
    model = f", model {info.model}" if info.model else ""
    place = f", run in {info.place['name']} ({info.place['target']})" if info.place.get("target", LOCAL) != LOCAL else ""
    began = datetime.fromtimestamp(info.created_at)
    return [
        f"session {info.id}{descent_of(info)}",
        tame(
            f"  {info.messages} message{'' if info.messages == 1 else 's'} on {info.platform}{model}, in {info.cwd or '?'}{place}"
        ),
        *([f"  {one_line(info.title, _CLIP)}{marks_of(info.tags)}"] if info.title or info.tags else []),
        f"  began {began:%Y-%m-%d %H:%M:%S}, last used {ago(info.updated_at, time.time())}",
    ]


def conversation(info: SessionInfo, records: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the whole session as text for a terminal. Each message follows its number, which other commands accept."""
    yield from heading(info)
    for number, record in enumerate(map(whole, records)):
        if record["role"] in ("user", "assistant") and (record["text"] or record.get("images")):
            yield f"\n{number} {speaker(record)}:"
            yield from (f"  {tame(line)}" for line in str(record["text"]).splitlines())
            yield from (f"  {label}" for label in recorded_labels(record))
        if record["role"] == COMPRESSED:
            yield f"\n{number} {compression_words(record)}; the model's summary:"
            yield from (f"  {tame(line)}" for line in str(record["text"]).splitlines())
        for call in record.get("calls") or ():
            yield f"  -> {tame(str(call['name']))}  {short_args(call['args'], 100)}"
        for result in record.get("results") or ():
            sign = "✗" if result["is_error"] else "·"
            yield f"  {sign} {tame(str(result['name']))}  {one_line(str(result['text']), 160)}"
            yield from (f"    {label}" for label in recorded_labels(result))
