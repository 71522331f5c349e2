"""Discovery, definitions and the synchronous interfaces."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import model_tools
from model_tools import get_tool_definitions, handle_function_call
from toolcrib import registry
from tools.arguments import check_schema
from tools.dispatch.bridge import close_loop

BUILT_IN = [
    *("terminal", "read_file", "write_file", "patch", "search_files"),
    *("todo", "memory", "session_search", "delegate_task", "clarify", "send_message", "cronjob", "process"),
]


@pytest.fixture(autouse=True)
def _registry_as_it_was() -> Iterator[None]:
    take_back = registry.checkpoint()
    yield
    take_back()
    model_tools.close_tasks()


def names(definitions: list[Any]) -> list[str]:
    return [definition["function"]["name"] for definition in definitions]


def test_built_ins_register_at_import_in_order() -> None:
    """003-1, 003-4"""
    fresh = "import model_tools; print(*model_tools.registry.names())"
    assert subprocess.run([sys.executable, "-c", fresh], capture_output=True, text=True, check=True).stdout.split() == BUILT_IN
    assert not [problem for problem in registry.problems if problem.subject.startswith("module tools.")]


def test_a_broken_module_is_logged_kept_for_doctor_and_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """003-4"""
    register = "from toolcrib import registry\nregistry.register('{0}', 't', {{'description': 'd'}}, lambda args: 1)\n"
    (tmp_path / "disc_first.py").write_text(register.format("first"))
    (tmp_path / "disc_broken.py").write_text("import surely_not_installed\n")
    (tmp_path / "disc_bad_schema.py").write_text(
        "from toolcrib import registry\n"
        "parameters = {'type': 'object', 'properties': {'a': {'type': 'strng'}}}\n"
        "registry.register('bad', 't', {'description': 'd', 'parameters': parameters}, print)\n"
    )
    (tmp_path / "disc_last.py").write_text(register.format("last"))
    monkeypatch.syspath_prepend(tmp_path)
    problems = model_tools._discover_tools(["disc_first", "disc_broken", "disc_bad_schema", "disc_last"])
    assert registry.names()[-2:] == ["first", "last"]
    assert [problem.subject for problem in problems] == ["module disc_broken", "module disc_bad_schema"]
    assert "No module named 'surely_not_installed'" in problems[0].reason
    assert "disc_bad_schema: tool 'bad': bad schema at $.parameters.properties.a.type" in problems[1].reason
    assert "the tools of disc_broken are missing" in caplog.text
    for name in ("disc_first", "disc_last"):
        sys.modules.pop(name)


@pytest.mark.parametrize(
    "error", ["SystemExit(3)", "GeneratorExit()", "__import__('asyncio').CancelledError()", "BaseException('odd')"]
)
def test_a_module_that_ends_the_process_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str) -> None:
    """003-4"""
    (tmp_path / "disc_exits.py").write_text(f"raise {error}\n")
    (tmp_path / "disc_after.py").write_text(
        "from toolcrib import registry\nregistry.register('after', 't', {'description': 'd'}, lambda args: 1)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "disc_after", raising=False)
    [problem] = model_tools._discover_tools(["disc_exits", "disc_after"])
    assert problem.subject == "module disc_exits"
    assert json.loads(handle_function_call("after", {})) == 1
    (tmp_path / "disc_exits.py").write_text("raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        model_tools._discover_tools(["disc_exits"])


def test_schemas_of_built_in_tools_are_good() -> None:
    """This test checks the schemas, because toolcrib does not check them at its start."""
    built_in = [entry for entry in registry.entries() if entry.module in model_tools.BUILT_IN]
    assert {entry.module for entry in built_in} == set(model_tools.BUILT_IN)
    assert [(entry.name, fault) for entry in built_in if (fault := check_schema(entry.schema["parameters"]))] == []


def test_a_tool_registered_before_is_checked(tmp_path: Path) -> None:
    """003-4"""
    bad = {"description": "d", "parameters": {"type": "object", "properties": {"a": {"type": "strng"}}}}
    code = f"from toolcrib import registry; registry.register('bad', 't', {bad!r}, lambda args: 1); import model_tools"
    code += "; assert registry.get('bad') is None and 'bad schema' in registry.problems[0].reason; print(registry.names())"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "terminal" in done.stdout


def test_the_dispatcher_is_made_once(tmp_path: Path) -> None:
    """The first caller makes the dispatcher, from any thread. Until then none of its modules is imported."""
    code = """
import sys, threading, model_tools
assert "tools.dispatch.pipeline" not in sys.modules
from toolcrib import registry
registry.register("one", "t", {"description": "d"}, lambda args: 1)
found, barrier = [], threading.Barrier(8)
def dispatch_one():
    barrier.wait()
    found.append((registry.dispatch("one", {}), model_tools.dispatcher))
threads = [threading.Thread(target=dispatch_one) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert len(set(found)) == 1 and found[0][0] == "1" and len(found) == 8, found
assert not hasattr(model_tools, "dispatchers")
"""
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)


def test_tasks_end_before_the_loop_that_they_need(tmp_path: Path) -> None:
    """At the process's end one event loop exists, and it is closed, whatever the order of imports."""
    code = """
import asyncio, atexit
made, new = [], asyncio.new_event_loop
asyncio.new_event_loop = lambda: made.append(new()) or made[-1]
atexit.register(lambda: print([loop.is_closed() for loop in made]))  # what is registered first comes last
import model_tools
model_tools.handle_function_call("terminal", {"command": "sleep 100 & echo started"}, "t")
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[True]\n"


def test_definitions_are_in_openais_form_and_can_be_sent() -> None:
    """003-2, 003-14, 002-4"""
    for definition in get_tool_definitions(["toolcrib-cli"]):
        assert set(definition) == {"type", "function"}
        assert {"name", "description", "parameters"} <= set(definition["function"])
        assert definition["function"]["parameters"]["type"] == "object"
        json.dumps(definition)


def test_enabled_else_disabled_else_all() -> None:
    """003-13"""
    assert names(get_tool_definitions(["todo", "clarify"])) == ["todo", "clarify"]
    left = set(names(get_tool_definitions(None, ["file", "terminal"], quiet_mode=True)))
    assert left == {"todo", "memory", "session_search", "delegate_task", "clarify", "send_message", "cronjob"}
    assert names(get_tool_definitions()) == names(get_tool_definitions(["all"]))
    assert names(get_tool_definitions([])) == []


def test_unavailable_tools_are_left_out_after_resolution() -> None:
    """003-7, 003-14"""
    registry.register("gone", "t", {"description": "d"}, lambda args: 1, check_fn=lambda: False)
    registry.register("here", "t", {"description": "d"}, lambda args: 1)
    assert names(get_tool_definitions(["t"])) == ["here"]


def test_a_tool_registered_later_is_seen() -> None:
    assert names(get_tool_definitions(["todo"])) == ["todo"]
    registry.register("late", "todo", {"description": "d"}, lambda args: 1)
    assert names(get_tool_definitions(["todo"])) == ["todo", "late"]


def test_a_schema_that_depends_on_which_tools_passed() -> None:
    """003-15: the mechanism"""

    def mention(schema: dict[str, Any], available: frozenset[str]) -> dict[str, Any]:
        schema["description"] = f"Runs code that may call {', '.join(sorted(available - {'code'}))}."
        return schema

    registry.register("code", "c", {"description": "d"}, lambda args: 1, dynamic_schema=mention)
    registry.register("helper", "c", {"description": "d"}, lambda args: 1)
    registry.register("absent", "c", {"description": "d"}, lambda args: 1, check_fn=lambda: False)
    assert get_tool_definitions(["c"])[0]["function"]["description"] == "Runs code that may call helper."
    shown = {definition["function"]["name"]: definition["function"] for definition in get_tool_definitions(["c", "todo"])}
    assert shown["code"]["description"] == "Runs code that may call helper, todo."


def test_what_is_shown_is_said_unless_quiet(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        get_tool_definitions(["todo"], quiet_mode=True)
        assert caplog.text == ""
        get_tool_definitions(["todo"])
    assert "tools: todo" in caplog.text


def test_the_default_schemas_are_small() -> None:
    """Every request contains the whole text of these schemas."""
    assert len(json.dumps(get_tool_definitions(["toolcrib-cli"]))) <= 16_000


def test_a_command_runs_through_the_synchronous_face(tmp_path: Path) -> None:
    """003-17"""
    answer = json.loads(handle_function_call("terminal", {"command": f"cd {tmp_path} && echo $((40 + 2))"}, task_id="one"))
    assert answer["output"].strip() == "42"
    assert json.loads(handle_function_call("terminal", {"command": "pwd"}, task_id="one"))["output"].strip() == str(tmp_path)
    assert json.loads(handle_function_call("terminal", {"command": "pwd"}, task_id="two"))["output"].strip() != str(tmp_path)


def test_a_dangerous_command_is_denied_where_nobody_can_be_asked(tmp_path: Path) -> None:
    """003-24, 003-28"""
    (tmp_path / "build").mkdir()
    answer = json.loads(handle_function_call("terminal", {"command": f"rm -rf {tmp_path}/build"}))
    assert "no user can be asked here" in answer["error"]
    assert (tmp_path / "build").exists()


def test_its_own_configuration_is_out_of_reach(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import os

    folder = Path(os.environ["XDG_CONFIG_HOME"]) / "toolcrib"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("")
    dispatcher = model_tools.new_dispatcher()
    from toolcrib import ToolCall

    scope = model_tools._scope("own")
    executed = dispatcher.call_sync(ToolCall("c", "write_file", {"path": str(folder / "config.yaml"), "content": "x"}), scope)
    assert executed.result.is_error
    assert (folder / "config.yaml").read_text() == ""


def test_agent_loop_tools_answer_a_stub_error() -> None:
    """003-18 (todo)"""
    assert "run by the agent loop" in json.loads(handle_function_call("todo", {}))["error"]


def test_what_the_caller_says_of_a_call_reaches_its_handler() -> None:
    """003-17, 003-20: by the specification's names, also as keywords. A handler with these parameters always gets them."""
    registry.register("heard", "t", {"description": "d"}, lambda args, *, task_id, user_task: [args, task_id, user_task])
    answers = [
        handle_function_call("heard", {"a": 1}, "one", "Tidy up."),
        handle_function_call(name="heard", args={"a": 1}, task_id="one", user_task="Tidy up."),
        registry.dispatch("heard", {"a": 1}, task_id="one", user_task="Tidy up."),
        registry.dispatch(name="heard", args={"a": 1}),
        handle_function_call("heard", {"a": 1}),
    ]
    told = [{"a": 1}, "one", "Tidy up."]
    assert [json.loads(answer) for answer in answers] == [told, told, told, [{"a": 1}, None, None], [{"a": 1}, None, None]]


def test_a_session_s_scope_says_what_the_caller_does_not() -> None:
    """003-17"""
    registry.register("heard", "t", {"description": "d"}, lambda args, **extra: extra)
    scope = model_tools._scope("mine")
    scope.begin_run("Tidy up.")
    assert json.loads(handle_function_call("heard", {}, scope=scope)) == {"task_id": "mine", "user_task": "Tidy up."}
    given = json.loads(handle_function_call("heard", {}, task_id="other", more=None, scope=scope))
    assert given == {"task_id": "other", "user_task": "Tidy up.", "more": None}


def test_the_second_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    """003-20"""

    def fail(*args: Any, **kwargs: Any) -> str:
        raise RuntimeError("boom")

    monkeypatch.setattr(registry, "_dispatch", fail)
    assert json.loads(handle_function_call("terminal", {})) == {"error": "Error executing terminal: boom"}


def test_a_task_that_runs_something_is_not_closed_for_others(tmp_path: Path) -> None:
    """A task that runs is kept, however many new tasks arrive."""
    said: list[str] = []
    command = f"cd {tmp_path}; >begun; until [ -e go ]; do sleep 0.01; done; echo well"
    busy = threading.Thread(
        target=lambda: said.append(handle_function_call("terminal", {"command": command}, task_id="busy")) or close_loop()
    )
    busy.start()
    while not (tmp_path / "begun").exists():
        assert busy.is_alive()
    for number in range(model_tools._SCOPES + 1):
        model_tools._scope(f"task-{number}")
    (tmp_path / "go").touch()
    busy.join()
    assert json.loads(said[0])["output"] == "well\n"
    model_tools.close_tasks()


def test_a_fork_leaves_the_shells_to_its_parent() -> None:
    """Workers are forked from a process that made calls, and end."""
    code = """
import json, os, sys
from model_tools import handle_function_call
def run(command):
    return json.loads(handle_function_call("terminal", {"command": command}, task_id="t"))
run("mine=1")
pid = os.fork()
said = run('echo "${mine-none}"')
os.write(1, f"{'notice' in said} {said['output']}".encode())  # in one piece
if pid:
    os.waitpid(pid, 0)
    said = run('echo "${mine-none}"')
    os.write(1, f"{'notice' in said} {said['output']}".encode())
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert sorted(told.stdout.split("\n")[:2]) == ["False 1", "False none"]
    assert told.stdout.split("\n")[2:] == ["False 1", ""]


def test_tasks_used_longest_ago_are_closed() -> None:
    first = model_tools._scope("task-0")
    handle_function_call("terminal", {"command": "true"}, task_id="task-0")
    for number in range(1, model_tools._SCOPES + 1):
        model_tools._scope(f"task-{number}")
    assert model_tools._scope("task-0") is not first
    assert len(model_tools._scopes) == model_tools._SCOPES
    model_tools.close_tasks()
    assert model_tools._scope("task-0").environment.cwd == str(Path.cwd())
