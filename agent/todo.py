"""Handlers of the tools that the agent loop runs itself, because they need the session's state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.dataclass import dataclass, replace
from toolcrib.contract.errors import InvalidArguments
from toolcrib.contract.state import StateKey
from toolcrib.contract.types import Handler, ToolOutput, ToolResult, ToolStatus
from tools.todo_tool import STATUSES

TODOS = StateKey("todos", list)
"""The session's task list as JSON; every ``todo`` call that changes the list writes it."""
MOST_TODOS = 200
_SIGNS: Mapping[str, str] = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]", "cancelled": "[-]"}


@dataclass(frozen=True, slots=True)
class Todo:
    """An item of the model's list."""

    id: str
    content: str
    status: str = "pending"


class TodoStore:
    """Tasks of one session, in order. The argument ``todos`` is a stored task list to restore."""

    def __init__(self, todos: Iterable[Mapping[str, Any]] = ()) -> None:
        self._todos: tuple[Todo, ...] = ()
        self.write(list(todos))

    @property
    def todos(self) -> Sequence[Todo]:
        """The items, in order."""
        return self._todos

    def write(self, items: Sequence[Mapping[str, Any]], *, merge: bool = False) -> None:
        """Replace the list; with ``merge`` change the items with known ids and add the others.

        An item without an id gets the lowest free number. Raises InvalidArguments, and then the list is unchanged.
        """
        named = [item["id"] for item in items if item.get("id")]
        twice = [name for name, times in Counter(named).items() if times > 1]
        if twice:
            raise InvalidArguments(f"todos: id {twice[0]!r} is used twice; ids must differ")
        todos = {todo.id: todo for todo in self._todos} if merge else {}
        taken = {*named, *todos}
        for item in items:
            todo = _changed(todos.get(item.get("id") or ""), item, taken)
            taken.add(todo.id)
            todos[todo.id] = todo
        if len(todos) > MOST_TODOS:
            raise InvalidArguments(f"todos: at most {MOST_TODOS} items; write a shorter list")
        self._todos = tuple(todos.values())

    def to_json(self) -> list[dict[str, str]]:
        """Return the items as JSON."""
        return [asdict(todo) for todo in self._todos]

    def counts(self) -> dict[str, int]:
        """Return the number of tasks for each status, and in all."""
        found = Counter(todo.status for todo in self._todos)
        return {"total": len(self._todos), **{status: found[status] for status in STATUSES}}

    def handle(self, args: dict[str, Any], ctx: ToolCallContext) -> ToolOutput:
        """Return a result with ``data`` {todos: [{id, content, status}], counts, note?}: the whole list, changed or only read."""
        items = args.get("todos")
        if items is not None:
            self.write(items, merge=bool(args.get("merge", False)))
        counts = self.counts()
        data: dict[str, Any] = {"todos": self.to_json(), "counts": counts}
        if counts["in_progress"] > 1:
            data["note"] = f"{counts['in_progress']} items are in_progress; keep it to one and set the others to pending"
        result = ToolResult(ctx.tool_name, ToolStatus.SUCCESS, data, views={"person": self._as_text()})
        return ToolOutput(result, () if items is None else ((TODOS.name, self.to_json()),))

    def _as_text(self) -> str:
        return "\n".join(f"{_SIGNS[todo.status]} {todo.content}" for todo in self._todos) or "no tasks"


def _changed(old: Todo | None, item: Mapping[str, Any], taken: set[str]) -> Todo:
    content, status = item.get("content"), item.get("status")
    if status is not None and status not in STATUSES:
        raise InvalidArguments(f"todos: unknown status {status!r}; choose {', '.join(STATUSES)}")
    if content is not None and not content.strip():
        raise InvalidArguments("todos: content is empty; describe the task")
    if old is not None:
        return replace(old, content=old.content if content is None else content, status=status or old.status)
    if content is None:
        raise InvalidArguments(f"todos: item {item.get('id') or ''!r} is new and needs content")
    return Todo(item.get("id") or _free(taken), content, status or "pending")


def _free(taken: set[str]) -> str:
    number = 1
    while str(number) in taken:
        number += 1
    return str(number)


def loop_handlers(todos: TodoStore | None = None) -> Mapping[str, Handler]:
    """Return handlers by tool name, for one session."""
    return {"todo": (todos or TodoStore()).handle}
