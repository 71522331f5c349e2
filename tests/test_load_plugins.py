"""Plugins that are loaded for the whole process: their tools and hooks in the synchronous interface, and nowhere else."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import model_tools
from agent.api import assemble
from agent.config import Config, PluginsConfig
from agent.store.memory import MemoryStore
from model_tools import get_tool_definitions, handle_function_call, load_plugins, unload_plugins
from toolcrib import ConfigError, ToolsetError, registry
from tools.environments import known_environments
from toolsets import catalog, resolve_toolset

SKY = """
from toolcrib import Block, RunsCommand, ToolResult, hookimpl

HEARD = []

@hookimpl
def register_tools(registry):
    registry.register("forecast", "weather", {"description": "d"}, lambda args, *, task_id, user_task: [task_id, user_task])
    registry.register(
        "launch", "weather", {"description": "d"}, lambda args: "launched", kind="execute",
        effects=lambda args, ctx: [RunsCommand("rm -rf " + args["what"], "/")],
    )

@hookimpl
def register_toolsets(add):
    add("sky", {"tools": ["forecast", "todo"]})

@hookimpl
def register_environment(add):
    add("cloud", lambda **options: None)

@hookimpl
def tool_gate(call):
    return Block("not on prod") if "prod" in str(call.args) else None

@hookimpl
def register_slash(add):
    add("sky", lambda text, identity: text, surfaces=["terminal", "chat"], role="owner")

@hookimpl
def post_tool_call(call, result):
    HEARD.append((call.name, result.is_success))
"""
EXTRA = """
from toolcrib import hookimpl, registry

registry.register("imported", "extra", {"description": "d"}, lambda args: "imported")

@hookimpl
def tool_gate(call):
    return None
"""
TAKES = """
from toolcrib import hookimpl

@hookimpl
def register_tools(registry):
    registry.register("clarify", "mine", {"description": "d"}, lambda args: "mine")
"""
OPENS = """
from toolcrib import hookimpl

@hookimpl
def on_start():
    raise AssertionError("nothing is started here")
"""
BROKEN = (
    "from toolcrib import hookimpl, registry\nregistry.register('half', 't', {'description': 'd'}, print)\nraise SystemExit(3)\n"
)

Write = Callable[..., Config]


@pytest.fixture
def plugins(tmp_path: Path) -> Iterator[Write]:
    """``plugins("sky", "extra")``: a configuration that enables these plugins."""
    folder = tmp_path / "settings" / "plugins"
    folder.mkdir(parents=True)
    for name, text in {"sky": SKY, "extra": EXTRA, "takes": TAKES, "opens": OPENS, "broken": BROKEN}.items():
        (folder / f"{name}.py").write_text(text)

    def enabled(*names: str, **options: Any) -> Config:
        return replace(Config(path=folder.parent / "config.yaml"), plugins=PluginsConfig(enabled=names, **options))

    def state() -> tuple[Any, ...]:
        hooks = sorted(name for name, _ in model_tools.dispatcher.hooks.list_name_plugin())
        return registry.entries(), hooks, known_environments(), catalog.names()

    before = state()
    yield enabled
    unload_plugins()
    model_tools.close_tasks()
    assert before == state()
    for name in [name for name in sys.modules if name.startswith("toolcrib_plugin_")]:
        del sys.modules[name]


def shown(**options: Any) -> list[str]:
    return [definition["function"]["name"] for definition in get_tool_definitions(**options)]


def call(name: str, args: Any = None, **options: Any) -> Any:
    return json.loads(handle_function_call(name, args or {}, **options))


def test_their_tools_are_shown_and_run_beside_the_built_in_ones(plugins: Write) -> None:
    """003-5: plugins' tools come after the core tools. 003-17: every caller uses the same entry."""
    core = shown()
    assert [info.error for info in load_plugins(plugins("sky", "extra"))] == ["", ""]
    assert shown() == [*core, "forecast", "launch", "imported"]
    assert shown(enabled_toolsets=["weather"]) == ["forecast", "launch"]
    assert shown(enabled_toolsets=["sky"]) == resolve_toolset("sky") == ["forecast", "todo"]
    assert call("forecast", task_id="t", user_task="Look up.") == ["t", "Look up."]
    assert json.loads(registry.dispatch("imported", {})) == "imported"
    assert "cloud" in known_environments()
    unload_plugins()
    assert shown() == core
    assert "Unknown tool" in call("forecast")["error"]
    with pytest.raises(ToolsetError):
        resolve_toolset("sky")


def test_the_person_s_own_configuration_is_taken(user_plugin: Callable[[str, str], Path], plugins: Write) -> None:
    """003-5"""
    user_plugin("own", EXTRA)
    [info] = load_plugins()
    assert (info.name, info.source, info.loaded) == ("own", "user", True)
    assert call("imported") == "imported"


def test_what_the_person_s_file_says_wrong_is_raised(config: Callable[[str], Path], plugins: Write) -> None:
    config("plugins: {enabeld: [sky]}\n")
    with pytest.raises(ConfigError, match=r"did you mean plugins\.enabled"):
        load_plugins()


def test_their_hooks_and_the_approval_gate_are_asked_about_every_call(plugins: Write) -> None:
    """003-17: gates and hooks run as in a session."""
    load_plugins(plugins("sky"))
    heard = sys.modules["toolcrib_plugin_user_sky"].HEARD
    assert "not on prod" in call("terminal", {"command": "echo prod"})["error"]
    assert "needs a user" in call("launch", {"what": "/srv/build"})["error"]
    assert call("terminal", {"command": "echo dev"})["output"] == "dev\n"
    assert heard == [("terminal", False), ("launch", False), ("terminal", True)]


def test_a_crib_sees_nothing_of_it_and_may_have_the_same_plugin(plugins: Write, tmp_path: Path) -> None:
    """A Crib's plugins belong to the Crib, and the process's plugins are not visible in a Crib."""
    options = {"project_dir": tmp_path}
    with assemble(config=plugins(), store=MemoryStore(), **options) as early:
        load_plugins(plugins("sky", "takes", allow_override={"clarify": "takes"}))
        with assemble(config=plugins(), store=MemoryStore(), **options) as late:
            for crib in (early, late):
                assert "forecast" not in crib.registry.names()
                assert crib.registry.get("clarify").toolset == "clarify"
                assert "Unknown tool" in json.loads(crib.registry.dispatch("forecast", {}))["error"]
        with assemble(config=plugins("sky"), store=MemoryStore(), **options) as same:
            assert [info.error for info in same.plugins] == [""]
            session = same.open_session(platform="api")
            assert session.call("forecast", {}).result.data == [session.identity.session_id, None]
        registry.register("later", "t", {"description": "d"}, lambda args: "later")
        try:
            assert early.registry.get("later") is not None
        finally:
            registry.unregister("later")
    assert call("forecast", task_id="t") == ["t", None]
    assert call("clarify") == "mine"


def test_a_second_load_adds_what_is_new_and_leaves_the_rest(plugins: Write) -> None:
    load_plugins(plugins("sky"))
    entry = registry.get("forecast")
    infos = load_plugins(plugins("extra", "sky"))
    assert {info.name: info.loaded for info in infos} == {"sky": True, "extra": True}
    assert registry.get("forecast") is entry
    assert call("imported") == "imported"
    assert load_plugins(plugins()) == []


def test_one_that_fails_is_taken_back_whole(plugins: Write) -> None:
    """003-4: the plugin's tools are removed, even if it tried to end the process."""
    infos = {info.name: info for info in load_plugins(plugins("broken", "extra"))}
    assert "it called sys.exit(3)" in infos["broken"].error
    assert (registry.get("half"), infos["extra"].loaded) == (None, True)
    assert call("imported") == "imported"


def test_what_is_not_started_here_is_named(plugins: Write, caplog: pytest.LogCaptureFixture) -> None:
    assert [info.loaded for info in load_plugins(plugins("opens", "extra"))] == [True, True]
    assert caplog.messages == ["the plugin opens has on_start, which only a Crib calls: here it is not called"]


def test_a_built_in_tool_that_was_replaced_comes_back(plugins: Write) -> None:
    """003-3"""
    [refused] = load_plugins(plugins("takes"))
    assert "may not replace the tool 'clarify'" in refused.error
    before = registry.get("clarify")
    load_plugins(plugins("takes", allow_override={"clarify": "takes"}))
    assert call("clarify") == "mine"
    unload_plugins()
    assert registry.get("clarify") is before


def test_no_tool_may_change_what_plugins_are_loaded_from(plugins: Write) -> None:
    configuration = plugins("sky")
    target = {"path": str(configuration.folder / "plugins" / "sky.py"), "content": "x"}
    load_plugins(configuration)
    assert "error" in call("write_file", target)
    assert (configuration.folder / "plugins" / "sky.py").read_text() == SKY


def test_what_was_downloaded_before_is_asked_about_after(plugins: Write, tmp_path: Path) -> None:
    """After the load, the gate also protects plugin files, and it keeps what it knows about earlier downloads."""
    (tmp_path / "x.sh").write_text("echo hello\n")
    model_tools.set_task_environment("downloads", cwd=str(tmp_path))
    call("terminal", {"command": "curl -so x.sh file:///nowhere"}, task_id="downloads")
    assert "needs a user" in call("terminal", {"command": "bash x.sh"}, task_id="downloads")["error"]
    load_plugins(plugins("sky"))
    assert "needs a user" in call("terminal", {"command": "bash x.sh"}, task_id="downloads")["error"]


def test_nothing_of_the_agent_is_imported_where_no_plugins_are_loaded() -> None:
    code = "import sys, model_tools; model_tools.unload_plugins(); print('agent' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"
