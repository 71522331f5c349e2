"""The schema of ``todo``. Its handler belongs to the agent loop: agent/todo.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolcrib.contract.display import LineStyle, ShownLine, ToolDisplay
from tools.registry import registry

STATUSES = ("pending", "in_progress", "completed", "cancelled")
_SIGNS: Mapping[str, tuple[str, LineStyle]] = {
    "pending": ("○", ""),
    "in_progress": ("▸", "strong"),
    "completed": ("✓", "ok"),
    "cancelled": ("-", "strike"),
}


def _subject(args: Mapping[str, Any]) -> str:
    todos = args.get("todos")
    return f"{len(todos)} tasks" if isinstance(todos, Sequence) else "reads the list"


def _lines(data: Mapping[str, Any]) -> list[ShownLine]:
    todos = data.get("todos")
    return [_line(todo) for todo in todos if isinstance(todo, Mapping)] if isinstance(todos, Sequence) else []


def _line(todo: Mapping[str, Any]) -> ShownLine:
    sign, style = _SIGNS.get(str(todo.get("status")), ("?", ""))
    return ShownLine(str(todo.get("content", "")), style, sign)


def _text(data: Mapping[str, Any]) -> str | None:
    if not isinstance(data.get("todos"), Sequence):
        return None
    return "\n".join(f"{line.sign} {' '.join(line.text.split())}" for line in _lines(data)) or "no tasks"


registry.register(
    name="todo",
    toolset="todo",
    schema={
        "description": "Keep a task list for work of several steps. Without todos it reads the list. Keep one item in_progress.",
        "parameters": {
            "type": "object",
            "properties": {
                "todos": {
                    "type": "array",
                    "maxItems": 100,
                    "items": {
                        "type": "object",
                        "properties": {
                            "id": {"type": "string", "minLength": 1, "maxLength": 64},
                            "content": {"type": "string", "minLength": 1, "maxLength": 1000},
                            "status": {"type": "string", "enum": list(STATUSES)},
                        },
                        "additionalProperties": False,
                    },
                },
                "merge": {
                    "type": "boolean",
                    "default": False,
                    "description": "Change items with these ids and add the others instead of replacing the list.",
                },
            },
            "additionalProperties": False,
        },
    },
    handler=None,
    kind="other",
    changes="nothing",
    emoji="📋",
    display=ToolDisplay(verb="plans", subject=_subject, below=_lines, result=_text, in_result=("todos",)),
)
