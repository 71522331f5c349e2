"""Calls as ``/show`` prints them: arguments and results whole, as text that reads and copies as it is, never as JSON escapes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent.cli.escape import one_line, tame
from agent.cli.render import result_text
from toolcrib.contract.session import ExecutedCall
from tools.dispatch.json_results import images_of

_IN_RESULT: Mapping[str, frozenset[str]] = {"todo": frozenset({"todos"}), "patch": frozenset({"diff"})}
"""Arguments that the result shows too, in a better way."""
_INDENT = "    "
_TASKS: Mapping[str, str] = {"pending": "○", "in_progress": "▸", "completed": "✓", "cancelled": "-"}


def whole_of(executed: ExecutedCall) -> str:
    """Return a call's arguments and its whole result, but for the diff of it: see ``diff_of``."""
    call = executed.call
    left_out = _IN_RESULT.get(call.name, frozenset()) if executed.result.is_success else frozenset()
    return tame("\n".join([call.name, *given(call.args, left_out), "", result_of(executed), ""]))


def diff_of(executed: ExecutedCall, differs: str | None = None) -> str:
    """Return the unified diff that belongs to a call, "" where none does. ``differs`` is that of a file that it replaced."""
    data = executed.result.data
    found = data.get("diff") if executed.result.is_success and isinstance(data, Mapping) else None
    return found if isinstance(found, str) else differs or ""


def given(args: Any, left_out: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield the lines of a call's arguments: a text of several lines stands below its name, all of it indented alike."""
    if not isinstance(args, Mapping):
        yield from (args if isinstance(args, str) else json.dumps(args, ensure_ascii=False, default=str)).split("\n")
        return
    for name, value in args.items():
        if name in left_out:
            continue
        text = value if isinstance(value, str) else _laid_out(value)
        if "\n" in text:
            yield f"{name}:"
            yield from (f"{_INDENT}{line}" if line else "" for line in text.removesuffix("\n").split("\n"))
        else:
            yield f"{name}: {text}"


def _laid_out(value: Any) -> str:
    short = json.dumps(value, ensure_ascii=False, default=str)
    return short if len(short) <= 100 else json.dumps(value, ensure_ascii=False, indent=2, default=str)


def result_of(executed: ExecutedCall) -> str:
    """Return the whole result of a call for a person, but for its diff. Of another tool than ours it is what the model read,
    where that was text, or its fields with their lines as lines.
    """
    result, data = executed.result, executed.result.data
    if not result.is_success or not isinstance(data, Mapping):
        return result_text(executed)
    text = data_text(executed.call.name, data)
    if text is None and "person" in result.views:
        return result_text(executed)
    if text is None and isinstance(read := result.views.get("model"), str):
        text = read
    lines = [text] if text is not None else [*([] if result.message is None else [result.message]), *_fields(data, "")]
    return "\n".join([*lines, *map(str, images_of(executed))])


def _fields(value: Any, margin: str) -> Iterator[str]:
    """Yield the lines of what a tool answered."""
    named = value.items() if isinstance(value, Mapping) else (("-", one) for one in value)
    for name, one in named:
        head = name if name == "-" else f"{name}:"
        if isinstance(one, Mapping | list | tuple) and one:
            yield f"{margin}{head}"
            yield from _fields(one, f"{margin}  ")
        elif isinstance(one, str) and "\n" in one:
            yield f"{margin}{head}"
            yield from (f"{margin}  {line}" for line in one.split("\n"))
        else:
            yield f"{margin}{head} {one if isinstance(one, str) else json.dumps(one, ensure_ascii=False, default=str)}"


def data_text(name: str, data: Mapping[str, Any]) -> str | None:
    """Return the result of a tool here as text; None for any other, and for what has another form."""
    match name:
        case "read_file" if isinstance(content := data.get("content"), str):
            total = "" if data.get("total_lines") is None else f" of {data['total_lines']}"
            lines = f"lines {data.get('first_line')} to {data.get('last_line')}{total}" if content else "empty"
            return f"{data.get('path')}: {lines}{_note(data)}\n{content}"
        case "read_file" if isinstance(entries := data.get("entries"), Sequence):
            return "\n".join([f"{data.get('path')}: {data.get('total')} entries", *map(str, entries)])
        case "search_files" if isinstance(found := data.get("matches"), Sequence):
            rows = [_match(one) for one in found if isinstance(one, Mapping)]
            return "\n".join(rows or ["nothing found"]) + _note(data)
        case "search_files" if isinstance(files := data.get("files"), Sequence):
            return "\n".join(map(str, files or ["nothing found"])) + _note(data)
        case "patch" if isinstance(files := data.get("files"), Sequence):
            done = [f"{one.get('action')} {one.get('path')}" for one in files if isinstance(one, Mapping)]
            return "\n".join([*done, *(f"note: {note}" for note in data.get("notes") or ())])
        case "write_file" if "action" in data:
            return f"{data['action']} {data.get('path')}: {data.get('lines')} lines, {data.get('bytes')} bytes{_note(data)}"
        case "todo" if isinstance(todos := data.get("todos"), Sequence):
            return "\n".join(_task(one) for one in todos if isinstance(one, Mapping)) or "no tasks"
        case _:
            return None


def _match(found: Mapping[str, Any]) -> str:
    return f"{one_line(str(found.get('path')))}:{found.get('line')}{'-' if found.get('context') else ':'} {found.get('text')}"


def _task(todo: Mapping[str, Any]) -> str:
    status = str(todo.get("status"))
    return f"{_TASKS.get(status, '?')} {one_line(str(todo.get('content', '')), 1000)}"


def _note(data: Mapping[str, Any]) -> str:
    return f"  [{data['note']}]" if data.get("note") else ""
