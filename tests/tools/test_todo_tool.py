from __future__ import annotations

import tools.todo_tool
from toolcrib import registry


def test_the_agent_loop_runs_it() -> None:
    """003-18: the schema is advertised; there is no handler to dispatch to directly."""
    entry = registry.get("todo")
    assert entry is not None
    assert entry.handler is None
    assert entry.toolset == "todo"
    assert registry.get_definitions(["todo"])[0]["function"]["name"] == "todo"
    statuses = entry.schema["parameters"]["properties"]["todos"]["items"]["properties"]["status"]["enum"]
    assert tuple(statuses) == tools.todo_tool.STATUSES
