from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.todo import MOST_TODOS, TODOS, TodoStore, loop_handlers
from toolcrib import InvalidArguments, RunIdentity, ToolCall, ToolOutput
from toolcrib.contract.context import mint_context
from tools.dispatch.scope import CallScope
from tools.environments.local import LocalEnvironment


def todo(handler: Any, **args: Any) -> ToolOutput:
    scope = CallScope(identity=RunIdentity("s"), open_environment=LocalEnvironment)
    output = handler(args, mint_context(ToolCall("c", "todo", args), scope))
    assert isinstance(output, ToolOutput)
    return output


def test_the_list_is_written_read_and_merged() -> None:
    handler = loop_handlers()["todo"]
    written = todo(handler, todos=[{"content": "look", "status": "in_progress"}, {"content": "fix"}])
    assert written.result.data["todos"] == [
        {"id": "1", "content": "look", "status": "in_progress"},
        {"id": "2", "content": "fix", "status": "pending"},
    ]
    assert written.state_changes == ((TODOS.name, written.result.data["todos"]),)
    merged = todo(handler, merge=True, todos=[{"id": "1", "status": "completed"}, {"id": "t", "content": "test"}]).result.data
    assert [(item["id"], item["status"]) for item in merged["todos"]] == [("1", "completed"), ("2", "pending"), ("t", "pending")]
    assert merged["counts"] == {"total": 3, "pending": 2, "in_progress": 0, "completed": 1, "cancelled": 0}
    read = todo(handler)
    assert read.result.data == merged
    assert read.state_changes == ()
    assert todo(handler, todos=[]).result.data["counts"]["total"] == 0


def test_sessions_do_not_share_a_list_and_one_can_be_restored() -> None:
    first, second = loop_handlers(), loop_handlers()
    kept = todo(first["todo"], todos=[{"content": "mine"}]).result.data["todos"]
    assert todo(second["todo"]).result.data["todos"] == []
    assert todo(loop_handlers(TodoStore(kept))["todo"]).result.data["todos"] == kept


def test_more_than_one_in_progress_is_said() -> None:
    items = [{"content": name, "status": "in_progress"} for name in "ab"]
    assert "keep it to one" in todo(loop_handlers()["todo"], todos=items).result.data["note"]


def test_people_see_a_checklist() -> None:
    result = todo(loop_handlers()["todo"], todos=[{"content": "a", "status": "completed"}, {"content": "b"}]).result
    assert result.views["person"] == "[x] a\n[ ] b"


@pytest.mark.parametrize(
    ("items", "reason"),
    [
        ([{"id": "1", "content": "a"}, {"id": "1", "content": "b"}], "'1' is used twice"),
        ([{"id": "9", "status": "pending"}], "'9' is new and needs content"),
        ([{"content": " "}], "content is empty"),
        ([{"content": "a", "status": "done"}], "unknown status 'done'; choose pending"),
        ([{"content": "a"}] * (MOST_TODOS + 1), "at most"),
    ],
)
def test_bad_items_are_refused_and_the_list_stays(items: list[dict[str, str]], reason: str) -> None:
    store = TodoStore([{"content": "kept"}])
    with pytest.raises(InvalidArguments, match=reason):
        todo(store.handle, todos=items, merge=True)
    assert [item.content for item in store.todos] == ["kept"]


_item = st.fixed_dictionaries(
    {"content": st.text(min_size=1).filter(str.strip)},
    optional={"id": st.text("12ab", min_size=1, max_size=2), "status": st.sampled_from(["pending", "completed"])},
)


@given(st.lists(st.tuples(st.lists(_item, max_size=5), st.booleans()), max_size=4))
def test_ids_stay_unique(writes: list[tuple[list[dict[str, str]], bool]]) -> None:
    store = TodoStore()
    for items, merge in writes:
        try:
            store.write(items, merge=merge)
        except InvalidArguments:
            continue
        ids = [item.id for item in store.todos]
        assert len(ids) == len(set(ids))
        assert len(ids) >= len(items)
