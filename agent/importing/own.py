"""Reads a session that toolcrib exported as JSON. Anyone may have made the file, so all of it must be valid."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agent.conversation.imported import imported_lineage, imported_place, imported_record
from agent.exporting import VERSION
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.image import Image
from toolcrib.contract.paths import with_home
from toolcrib.contract.store import SessionInfo

SOURCE = "toolcrib"
_LINEAGE = ("parent", "why")
_TEXTS = ("title", "platform", "user", "model", "cwd")
_MOST_ID, _MOST_TAGS = 500, 100
_AHEAD = 86_400.0
"""Seconds that another machine's clock may be ahead: a session with a later time would always count as the most recent."""
_HOW = "to make one: toolcrib sessions export ID -o FILE.json; for another tool, add --from claude-code, codex or hermes"


class _MisfitError(Exception):
    """Fault of a file, with its place."""


def read_export(path: Path) -> tuple[SessionInfo, list[dict[str, Any]]]:
    """Return a session to store. Raises ToolcribError for an invalid export, with the problem and its place."""
    try:
        read = json.loads(with_home(path).read_bytes())
    except OSError as error:
        raise ToolcribError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise ToolcribError(f"{path} is not valid JSON: {error}; {_HOW}") from None
    if not isinstance(read, dict) or not isinstance(read.get("session"), dict) or not isinstance(read.get("records"), list):
        raise ToolcribError(f"{path} is not an exported session: it has no session with records; {_HOW}")
    if type(read.get("v")) is not int or not 1 <= read["v"] <= VERSION:
        raise ToolcribError(
            f"{path} has the version {read.get('v')!r}, but this toolcrib reads versions up to {VERSION}: upgrade toolcrib"
        )
    try:
        info = _info(read["session"], len(read["records"]))
        for number, record in enumerate(read["records"]):
            _check(_Here(f"records[{number}]"), record)
    except _MisfitError as misfit:
        raise ToolcribError(f"{path} was not imported: {misfit}") from None
    return info, [imported_record(record) for record in read["records"]]


class _Here:
    """A place in the file. Its checks raise _MisfitError with the place."""

    def __init__(self, name: str) -> None:
        self._name = name

    def at(self, key: str | int) -> _Here:
        return _Here(f"{self._name}[{key}]" if isinstance(key, int) else f"{self._name}.{key}")

    def must(self, fits: bool, expected: str) -> None:
        if not fits:
            raise _MisfitError(f"{self._name} must be {expected}")

    def text(self, given: Mapping[str, Any], key: str) -> str:
        self.at(key).must(isinstance(given.get(key), str), "a string")
        return str(given[key])

    def time(self, given: Mapping[str, Any], key: str) -> float:
        value = given.get(key)
        fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < time.time() + _AHEAD
        self.at(key).must(fits, "a time in Unix seconds that is not in the future")
        return float(given[key])

    def table(self, given: Mapping[str, Any], key: str) -> Mapping[str, Any]:
        value = given.get(key, {})
        self.at(key).must(isinstance(value, dict), "an object")
        return dict(value)

    def strings(self, given: Mapping[str, Any], key: str) -> dict[str, str]:
        value = self.table(given, key)
        self.at(key).must(all(isinstance(item, str) for item in value.values()), "an object of strings")
        return {name: str(item) for name, item in value.items()}

    def each(self, given: Mapping[str, Any], key: str, check: Callable[[_Here, Any], None]) -> None:
        value = given.get(key) or []
        self.at(key).must(isinstance(value, list), "a list")
        for number, item in enumerate(value):
            here = self.at(key).at(number)
            here.must(isinstance(item, dict), "an object")
            check(here, item)


def _info(given: Mapping[str, Any], count: int) -> SessionInfo:
    here = _Here("session")
    session_id = here.text(given, "id")
    here.at("id").must(0 < len(session_id) <= _MOST_ID and session_id.isprintable(), f"1 to {_MOST_ID} printable characters")
    title, platform, user, model, cwd = (here.text(given, key) for key in _TEXTS)
    tags = given.get("tags", [])
    here.at("tags").must(isinstance(tags, list) and all(isinstance(tag, str) for tag in tags), "a list of strings")
    here.at("tags").must(len(tags) <= _MOST_TAGS, f"at most {_MOST_TAGS} tags")
    times = here.time(given, "created_at"), here.time(given, "updated_at")
    said, via = here.strings(given, "place"), here.strings(given, "via")
    before = [said.pop(key, "") for key in _LINEAGE]  # keys of an older toolcrib
    named = [here.text(given, key) if key in given else old for key, old in zip(_LINEAGE, before, strict=True)]
    parent, why = imported_lineage(*named)
    about = session_id, title, platform, user, model, cwd, *times, count, imported_place(SOURCE, said, via)
    return SessionInfo(*about, tags=tuple(tags), parent=parent, why=why)


def _check(here: _Here, record: Any) -> None:
    here.must(isinstance(record, dict), "an object")
    role = record.get("role")
    here.at("role").must(role in ("user", "assistant", "system", "results", "compressed"), "a role that toolcrib knows")
    here.must("was_native" not in record, "a record of an export")
    for key in ("via", "usage", "state", "native", "principal", "kept"):
        if key in record:
            here.table(record, key)
    if "at" in record:
        here.time(record, "at")
    if role == "results":
        here.at("results").must(isinstance(record.get("results"), list), "a list")
        here.each(record, "results", _check_result)
        _check_todos(here, here.table(record, "state"))
        return
    here.text(record, "text")
    here.each(record, "images", _check_image)
    here.each(record, "calls", _check_call)


def _check_call(here: _Here, call: Mapping[str, Any]) -> None:
    here.text(call, "id")
    here.text(call, "name")
    here.must("args" in call, "a call with args")
    here.at("fault").must(isinstance(call.get("fault"), str | None), "a string")


def _check_result(here: _Here, result: Mapping[str, Any]) -> None:
    for key in ("call_id", "name", "text"):
        here.text(result, key)
    here.at("is_error").must(isinstance(result.get("is_error"), bool), "true or false")
    if "seconds" in result:
        here.time(result, "seconds")
    here.each(result, "images", _check_image)


def _check_image(here: _Here, image: Any) -> None:
    try:
        Image.from_json(image)
    except (ToolcribError, ValueError, TypeError, KeyError):
        here.must(False, "an image: media_type, and data in base64")


def _check_todos(here: _Here, state: Mapping[str, Any]) -> None:
    from agent.todo import TODOS, TodoStore

    todos = state.get(TODOS.name) or []
    where = here.at("state").at(TODOS.name)
    where.must(isinstance(todos, list) and all(isinstance(one, dict) for one in todos), "a list of objects")
    try:
        TodoStore(todos)
    except (ToolcribError, ValueError, TypeError, KeyError, AttributeError) as error:
        where.must(False, f"a todo list: {error}")
