"""Sessions of the Hermes agent: ``~/.hermes/state.db``, a SQLite file with the tables ``sessions`` and ``messages``.

Later releases added columns; files without these columns can be read too. The public sources define the tables:

- https://github.com/NousResearch/hermes-agent/blob/main/hermes_state.py and hermes_state_schema.py (SCHEMA_SQL in
  hermes_state_common.py)

``sessions``: id, source, model, started_at, title, cwd. ``messages``: id, session_id, role (system, user, assistant, tool),
content, tool_call_id, tool_calls, tool_name, timestamp and active, which is 0 for reverted messages. Content that is not plain
text is JSON after ``\\x00json:`` (or ``\\x01json:``), calls are JSON as in OpenAI's chat completions. Rows are ordered by
``id``.

The file is only read; only plain tables in it are used.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from agent.importing.session_files import ForeignSession, ImportFault, arguments_in, items_in, mapping_in, text_in, time_in
from agent.importing.turns import Turns, image_from
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.image import Image
from toolcrib.contract.paths import real_path

SOURCE = "hermes"
_SESSION = ("id", "title", "model", "cwd", "started_at")
_MESSAGE = ("id", "role", "content", "tool_call_id", "tool_calls", "timestamp", "active")
_JSON = ("\x00json:", "\x01json:")


def default_path() -> Path:
    """Return the file with the sessions."""
    return Path(os.environ.get("HERMES_HOME") or "~/.hermes").expanduser() / "state.db"


def read(path: Path, fault: Callable[[ImportFault], None]) -> Iterator[ForeignSession]:
    """Yield the sessions of a file, or of the state.db in a folder. Raises ToolcribError if it does not exist."""
    path = path / "state.db" if path.is_dir() else path
    if not path.is_file():
        raise ToolcribError(f"{path} does not exist; give the file: toolcrib sessions import --from hermes PATH")
    try:
        with closing(_opened(path)) as connection:
            yield from _sessions(connection, path, fault)
    except sqlite3.Error as error:
        raise ToolcribError(f"{path} cannot be read as a state.db of Hermes: {error}") from None


def _opened(path: Path) -> sqlite3.Connection:
    """Open the file for reading. If its write-ahead log can't be shared, as on a read-only disk, read the file without it."""
    for how in ("mode=ro", "immutable=1"):
        connection = sqlite3.connect(f"file:{quote(str(real_path(path)))}?{how}", uri=True, timeout=10.0)
        try:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA query_only = ON")
            connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError:
            connection.close()
            if how == "immutable=1":
                raise
        else:
            return connection
    raise AssertionError("one of the two ways returns or raises")


def _columns(connection: sqlite3.Connection, table: str, wanted: Sequence[str], path: Path) -> list[str]:
    """Return the wanted columns that a table has. Raises ToolcribError if it is not a plain table with the first of them."""
    kinds = connection.execute("SELECT type, sql FROM sqlite_master WHERE name = ?", (table,)).fetchall()
    there = {str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})")}
    if [kind for kind, _ in kinds] != ["table"] or "VIRTUAL" in str(kinds[0][1]).upper().split("(")[0] or wanted[0] not in there:
        raise ToolcribError(f"{path} is not a state.db of Hermes: it has no table {table!r} with the column {wanted[0]!r}")
    return [name for name in wanted if name in there]


def _sessions(connection: sqlite3.Connection, path: Path, fault: Callable[[ImportFault], None]) -> Iterator[ForeignSession]:
    columns = _columns(connection, "sessions", _SESSION, path)
    says = _columns(connection, "messages", _MESSAGE, path)
    rows = connection.execute(f"SELECT {', '.join(columns)} FROM sessions ORDER BY rowid").fetchall()  # noqa: S608 - constant names
    for row in rows:
        about = dict(zip(columns, row, strict=True))
        turns = _turns(connection, says, str(about["id"]), time_in(about.get("started_at")), path, fault)
        if turns.spoken:
            title, cwd, model = (text_in(about.get(name)) for name in ("title", "cwd", "model"))
            yield ForeignSession(SOURCE, str(about["id"]), path, title, cwd, model, *turns.records())


def _turns(
    connection: sqlite3.Connection,
    columns: Sequence[str],
    session: str,
    began: float | None,
    path: Path,
    fault: Callable[[ImportFault], None],
) -> Turns:
    turns = Turns()
    active = " AND active <> 0" if "active" in columns else ""
    sql = f"SELECT {', '.join(columns)} FROM messages WHERE session_id = ?{active} ORDER BY id"  # noqa: S608 - constant names
    for row in connection.execute(sql, (session,)):
        message = dict(zip(columns, row, strict=True))
        place = message["id"] if isinstance(message["id"], int) else 0
        text, images = _content(message.get("content"))
        at = time_in(message.get("timestamp")) or began
        match message.get("role"):
            case "user":
                turns.say(text, images, at)
            case "assistant":
                key = f"message {place}"
                turns.reply(text, key=key, at=at)
                for call in _calls(message.get("tool_calls"), path, place, fault):
                    function = mapping_in(call.get("function"))
                    name = text_in(function.get("name")) or text_in(call.get("name"))
                    given = arguments_in(function.get("arguments", call.get("arguments")))
                    call_id = text_in(call.get("id")) or text_in(call.get("call_id"))
                    turns.call(call_id, name, given, key=key, at=at)
            case "tool":
                call_id = text_in(message.get("tool_call_id"))
                if not turns.result(call_id, text, images=images):
                    fault(ImportFault(path, place, f"the message is a result of the call {call_id[:80]!r}, which is missing"))
    return turns


def _calls(stored: object, path: Path, place: int, fault: Callable[[ImportFault], None]) -> Sequence[Mapping[str, Any]]:
    if not stored:
        return []
    try:
        read = json.loads(str(stored))
    except (ValueError, RecursionError):
        read = None
    if not isinstance(read, list):
        fault(ImportFault(path, place, "the calls of the message are not a JSON list"))
    return items_in(read)


def _content(stored: object) -> tuple[str, list[Image]]:
    text = text_in(stored)
    if not text.startswith(_JSON):
        return text, []
    try:
        parts = json.loads(text[len(_JSON[0]) :])
    except (ValueError, RecursionError):
        return text, []
    if isinstance(parts, str):
        return parts, []
    found = items_in(parts)
    urls = (mapping_in(part.get("image_url")).get("url", part.get("data")) for part in found)
    images = [image for url in urls if (image := image_from(url)) is not None]
    return "\n\n".join(filter(None, (text_in(part.get("text")) for part in found))), images
