"""Stored sessions in words."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from agent.cli.escape import one_line, tame
from agent.cli.images import recorded_labels
from agent.cli.render import short_args
from agent.conversation.lineage import PARENT, WHY
from toolcrib._store import SessionInfo

ID_CHARS = 12
_CLIP = 300


def session_rows(found: Sequence[SessionInfo], now: float) -> list[tuple[str, ...]]:
    """Rows for a table, with its heading."""
    rows: list[tuple[str, ...]] = [("ID", "WHEN", "MESSAGES", "MODEL", "FOLDER", "TITLE")]
    for info in found:
        model = info.model or "-"
        folder = _short(info.cwd)
        if (backend := info.place.get("name", "local")) != "local":
            folder = f"{backend}: {folder}"
        title = f"{_descent(info)}: {info.title}" if PARENT in info.place else info.title
        rows.append((info.id[:ID_CHARS], ago(info.updated_at, now), str(info.messages), model, folder, title))
    return rows


def _descent(info: SessionInfo) -> str:
    """Say which session it comes from, and why; "" for one that somebody began."""
    parent = info.place.get(PARENT, "")
    return f"{info.place.get(WHY, 'fork')} of {parent[:ID_CHARS]}" if parent else ""


def ago(then: float, now: float) -> str:
    """``5 min ago``; a date for what is older than a week."""
    seconds = max(0.0, now - then)
    for unit, size, most in (("s", 1, 60), ("min", 60, 3600), ("h", 3600, 86_400), ("d", 86_400, 7 * 86_400)):
        if seconds < most:
            return f"{int(seconds // size)} {unit} ago"
    return f"{datetime.fromtimestamp(then):%Y-%m-%d}"


def exchanges(records: Sequence[Mapping[str, Any]], most: int) -> list[str]:
    """The last ``most`` things that the person said, each with what was answered, one line each."""
    starts = [place for place, record in enumerate(records) if record["role"] == "user"]
    if not starts:
        return []
    return [line for record in records[starts[-most:][0] :] for line in _lines(record)]


def _lines(record: Mapping[str, Any]) -> Iterator[str]:
    if record["role"] == "user":
        yield " ".join([f"> {one_line(str(record['text']), _CLIP)}", *recorded_labels(record)])
    elif record["role"] == "assistant":
        if record["text"]:
            yield f"  {one_line(str(record['text']), _CLIP)}"
        yield from (f"  {label}" for label in recorded_labels(record))
        names = [str(call["name"]) for call in record.get("calls") or ()]
        if names:
            yield f"  [{', '.join(names)}]"


def _short(folder: str) -> str:
    home = str(Path.home())
    return f"~{folder[len(home) :]}" if folder == home or folder.startswith(f"{home}/") else folder or "-"


def heading(info: SessionInfo) -> list[str]:
    model = f", model {info.model}" if info.model else ""
    place = f", run in {info.place['name']} ({info.place['target']})" if info.place.get("target", "local") != "local" else ""
    began = datetime.fromtimestamp(info.created_at)
    return [
        f"session {info.id}",
        tame(
            f"  {info.messages} message{'' if info.messages == 1 else 's'} on {info.platform}{model}, in {info.cwd or '?'}{place}"
        ),
        f"  began {began:%Y-%m-%d %H:%M:%S}, last used {ago(info.updated_at, time.time())}",
        *([f"  {tame(descent)}"] if (descent := _descent(info)) else []),
    ]


def conversation(info: SessionInfo, records: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """All of it, as text for a terminal."""
    yield from heading(info)
    for record in records:
        if record["role"] in ("user", "assistant") and (record["text"] or record.get("images")):
            yield f"\n{record['role']}:"
            yield from (f"  {tame(line)}" for line in str(record["text"]).splitlines())
            yield from (f"  {label}" for label in recorded_labels(record))
        for call in record.get("calls") or ():
            yield f"  -> {tame(str(call['name']))}  {short_args(call['args'], 100)}"
        for result in record.get("results") or ():
            sign = "✗" if result["is_error"] else "·"
            yield f"  {sign} {tame(str(result['name']))}  {one_line(str(result['text']), 160)}"
            yield from (f"    {label}" for label in recorded_labels(result))
