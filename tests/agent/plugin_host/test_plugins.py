"""Plugins: found without being run, loaded only when enabled, and removed completely when they fail."""

from __future__ import annotations

import asyncio
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.config import Config, PluginsConfig
from agent.plugin_host.plugins import PluginInfo, discover, load_plugins, project_digest
from agent.plugin_host.run_hooks import call_hook
from toolcrib import PluginError, RunIdentity, ToolCall, ToolRegistry
from toolcrib import registry as shared
from toolcrib.testing import FakeEnvironment, call_tool
from tools.dispatch.hooks import new_manager
from tools.dispatch.pipeline import Dispatcher
from tools.dispatch.scope import CallScope

TOOL = """\
from toolcrib import hookimpl

@hookimpl
def register_tools(registry):
    registry.register("{tool}", "mine", {{"description": "d"}}, lambda args: "{tool}")
"""


class World:
    """A configuration folder, a project and a folder on sys.path, with everything that a loader needs."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.project = base / "project"
        self.site = base / "site"
        self.site.mkdir()
        self.config = Config(path=base / "config" / "config.yaml")
        self.registry = ToolRegistry()
        self.manager = new_manager()
        self.added: list[tuple[str, str, Any]] = []
        self.refuse: set[str] = set()

    def user(self, name: str, text: str) -> Path:
        return self._write(self.base / "config" / "plugins" / name, text)

    def of_project(self, name: str, text: str) -> Path:
        return self._write(self.project / ".toolcrib" / "plugins" / name, text)

    def pip(self, name: str, text: str, target: str = "") -> None:
        """Install a distribution with one entry point, as pip does."""
        self._write(self.site / f"{name}_module.py", text)
        info = self.site / f"dist_{name}-2.5.dist-info"
        self._write(info / "METADATA", f"Metadata-Version: 2.1\nName: dist-{name}\nVersion: 2.5\n")
        self._write(info / "entry_points.txt", f"[toolcrib]\n{name} = {target or name + '_module'}\n")

    def enable(self, *names: str, **options: Any) -> None:
        self.config = replace(self.config, plugins=PluginsConfig(enabled=names, **options))

    def load(self) -> list[PluginInfo]:
        return load_plugins(
            self.config,
            self.manager,
            self.registry,
            add_toolset=self._adder("toolset"),
            add_command=self._adder("command"),
            add_slash=self._adder("slash"),
            add_environment=self._adder("environment"),
            add_provider=self._adder("provider"),
            add_platform=self._adder("platform"),
            project_dir=self.project,
        )

    def fails(self) -> str:
        """Load the one enabled plugin, which must fail and leave nothing; return the reason."""
        before = (self.registry.entries(), self.manager.list_name_plugin(), list(self.added))
        modules = {name for name in sys.modules if name.startswith("toolcrib_plugin_")}
        [info] = self.load()
        assert not info.loaded
        assert before == (self.registry.entries(), self.manager.list_name_plugin(), self.added)
        # A module of the same name that an earlier test left is gone then, too.
        assert not {name for name in sys.modules if name.startswith("toolcrib_plugin_")} - modules
        return info.error

    def discover(self) -> dict[str, PluginInfo]:
        return {info.name: info for info in discover(self.config, self.project) if info.source != "bundled"}

    def _adder(self, kind: str) -> Callable[[str, Any], None]:
        def add(name: str, value: Any) -> None:
            if name in self.refuse:
                raise PluginError(f"{kind} {name!r} is taken")
            self.added.append((kind, name, value))

        return add

    @staticmethod
    def _write(path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World(tmp_path)
    monkeypatch.syspath_prepend(made.site)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before, finders = set(sys.modules), list(sys.meta_path)
    yield made
    sys.meta_path[:] = finders
    for name in set(sys.modules) - before:
        if name.startswith("toolcrib_plugin_") or name.endswith("_module"):
            del sys.modules[name]


# -- discovery -------------------------------------------------------------------------------------------------------


def test_discover_runs_nothing_and_tells_what_it_found(world: World) -> None:
    boom = "__version__ = '1.2'\nraise SystemExit('ran')\n"
    world.user("one.py", boom)
    world.user("two/__init__.py", boom)
    world.user("_private.py", boom)
    world.of_project("three.py", boom)
    world.pip("four", boom)
    world.enable("two", "fuor")
    found = world.discover()
    assert {name: (info.source, info.version, info.enabled, info.trusted) for name, info in found.items()} == {
        "one": ("user", "1.2", False, True),
        "two": ("user", "1.2", True, True),
        "three": ("project", "1.2", False, False),
        "four": ("pip", "2.5", False, True),
        "fuor": ("missing", "", True, True),
    }
    assert found["four"].where == "dist-four"
    assert "did you mean 'four'?" in found["fuor"].error
    assert f'"{world.project}": {project_digest(world.project)}' in found["three"].error


def test_nothing_is_loaded_unless_enabled(world: World) -> None:
    world.user("one.py", "raise SystemExit('ran')")
    assert world.load() == []
    world.enable("other")
    [info] = world.load()
    assert (info.name, info.source, info.loaded) == ("other", "missing", False)


def test_plugins_follow_the_core_in_order_user_project_pip(world: World) -> None:
    """003-5"""
    world.registry.register("core", "core", {"description": "d"}, lambda args: "")
    world.pip("a", TOOL.format(tool="from_pip"))
    world.of_project("b.py", TOOL.format(tool="from_project"))
    world.user("c.py", TOOL.format(tool="from_user"))
    world.enable("a", "b", "c", trusted_projects={str(world.project): project_digest(world.project)})
    infos = world.load()
    assert [(info.name, info.source, info.loaded, info.error) for info in infos] == [
        ("c", "user", True, ""),
        ("b", "project", True, ""),
        ("a", "pip", True, ""),
    ]
    assert world.registry.names() == ["core", "from_user", "from_project", "from_pip"]
    assert [name for name, _plugin in world.manager.list_name_plugin()] == ["c", "b", "a"]


def test_a_package_imports_its_own_parts_and_two_of_a_name_do_not_clash(world: World) -> None:
    for make, tool in ((world.user, "u"), (world.of_project, "p")):
        make(f"pack_{tool}/__init__.py", "from .inner.deep import register_tools")
        make(f"pack_{tool}/inner/__init__.py", "")
        make(f"pack_{tool}/inner/deep.py", TOOL.format(tool=tool))
    world.enable("pack-u", "PACK_P", trusted_projects={str(world.project): project_digest(world.project)})
    assert [info.error for info in world.load()] == ["", ""]
    assert world.registry.names() == ["u", "p"]
    assert world.registry.entries()[1].module == "toolcrib_plugin_project_pack_p.inner.deep"


def test_a_changed_package_is_loaded_anew(world: World) -> None:
    for make, name in ((world.user, "u"), (world.of_project, "p")):
        for version in ("old", "new"):
            make(f"{name}/__init__.py", "from .part import register_tools")
            make(f"{name}/part.py", TOOL.format(tool=f"{name}_{version}"))
            world.enable(name, trusted_projects={str(world.project): project_digest(world.project)} if name == "p" else {})
            world.manager = new_manager()
            assert world.load()[0].error == ""
    assert world.registry.names() == ["u_old", "u_new", "p_old", "p_new"]


def test_the_first_source_has_a_name(world: World) -> None:
    world.user("same.py", TOOL.format(tool="mine"))
    world.pip("same", "raise SystemExit")
    world.enable("same")
    infos = world.load()
    assert [(info.source, info.loaded) for info in infos] == [("user", True)]
    assert "the name is taken by the user plugin" in next(i for i in discover(world.config) if i.source == "pip").error


def test_everything_that_a_plugin_may_add_is_handed_on(world: World) -> None:
    hooks = "".join(
        f"@hookimpl\ndef register_{hook}(add): add('{hook}', 1)\n" for hook in ("toolsets", "command", "environment", "provider")
    )
    world.user("all.py", "from toolcrib import hookimpl\n" + hooks)
    world.enable("all")
    assert world.load()[0].loaded
    assert [(kind, name) for kind, name, _value in world.added] == [
        ("toolset", "toolsets"),
        ("command", "command"),
        ("environment", "environment"),
        ("provider", "provider"),
    ]


def test_an_entry_point_may_be_an_object(world: World) -> None:
    text = "from toolcrib import hookimpl\nclass P:\n    @hookimpl\n    def tool_gate(self, call): return None\np = P()\n"
    world.pip("thing", text, "thing_module:p")
    world.enable("thing")
    assert world.load()[0].loaded
    assert [impl.plugin_name for impl in world.manager.hook.tool_gate.get_hookimpls()] == ["thing"]


# -- order -----------------------------------------------------------------------------------------------------------

SAYS = """\
from toolcrib import After, SetResult, ToolResult, hookimpl

@hookimpl{mark}
def tool_gate(call):
    return {decision} if call.name == "gated" else None

@hookimpl{mark}
def transform_tool_result(call, result):
    return ToolResult.success(call.name, [*result.data, "{name}"])

@hookimpl{mark}
def post_tool_call(call):
    return After({{"said by": "{name}"}})

@hookimpl{mark}
async def on_session_start(identity):
    identity.append("{name}")

@hookimpl
def register_tools(registry):
    registry.register("{name}", "mine", {{"description": "d"}}, lambda args: "{name}")
"""
SETS = 'SetResult(ToolResult.success("gated", ["{name} gave it"]))'


def outcome(world: World, tool: str) -> tuple[Any, Mapping[str, Any]]:
    """Return the result of a call through the loaded plugins, and the state afterwards."""
    world.registry.register("open", "core", {"description": "d"}, lambda args: [])
    world.registry.register("gated", "core", {"description": "d"}, lambda args: ["ran"])
    scope = CallScope(identity=RunIdentity("s"), open_environment=FakeEnvironment)
    executed = Dispatcher(world.registry, world.manager).call_sync(ToolCall("c", tool, {}), scope)
    return executed.result.data if executed.result.is_success else executed.result.message, scope.state


@pytest.mark.parametrize("enabled", [("zebra", "ant"), ("ANT", "Zebra")])
@pytest.mark.parametrize("place", ["user", "pip"])
def test_the_first_enabled_plugin_wins(world: World, enabled: tuple[str, str], place: str) -> None:
    """002-22: among hooks of equal rank, the first enabled name or source comes first. 003-5: the sources keep their order."""
    world.user("ant.py", SAYS.format(name="ant", mark="", decision=SETS.format(name="ant")))
    text = SAYS.format(name="zebra", mark="", decision=SETS.format(name="zebra"))
    world.user("zebra.py", text) if place == "user" else world.pip("zebra", text)
    world.enable(*enabled)
    assert [info.error for info in world.load()] == ["", ""]
    first, second = (name.lower() for name in enabled)
    assert outcome(world, "gated") == ([f"{first} gave it", first, second], {"said by": first})
    assert outcome(world, "open")[0] == [first, second]
    heard: list[str] = []
    scope = CallScope(identity=RunIdentity("s"), open_environment=FakeEnvironment)
    asyncio.run(call_hook(world.manager, "on_session_start", scope, identity=heard))
    assert heard == [first, second]
    by_source = ["ant", "zebra"] if place == "pip" else [first, second]
    assert [name for name in world.registry.names() if name in by_source] == by_source


@pytest.mark.parametrize("enabled", [("ant", "zebra"), ("zebra", "ant")])
def test_a_higher_rank_wins_whichever_plugin_was_enabled_first(world: World, enabled: tuple[str, str]) -> None:
    """002-22"""
    world.user("ant.py", SAYS.format(name="ant", mark="", decision="None"))
    world.user("zebra.py", SAYS.format(name="zebra", mark="", decision=SETS.format(name="zebra")))
    world.user("wasp.py", HEAD + "@hookimpl\ndef tool_gate(call): return Block('no') if call.name == 'gated' else None\n")
    world.enable(*enabled, "wasp")
    world.load()
    assert outcome(world, "gated")[0] == ["error", *enabled]  # the blocked call's data, transformed


def test_a_hook_that_asks_to_be_first_is(world: World) -> None:
    """002-22: pluggy's own marks override the order of the configuration."""
    world.user("ant.py", SAYS.format(name="ant", mark="", decision="None"))
    world.user("zebra.py", SAYS.format(name="zebra", mark="(tryfirst=True)", decision="None"))
    world.enable("ant", "zebra")
    world.load()
    assert outcome(world, "open")[0] == ["zebra", "ant"]


# -- trust -----------------------------------------------------------------------------------------------------------


def test_a_project_is_trusted_only_as_it_was_read(world: World) -> None:
    plugin = world.of_project("p.py", TOOL.format(tool="t"))
    world.enable("p")
    assert "not trusted" in world.fails()
    trusted = {str(world.project): project_digest(world.project)}
    world.of_project("data.txt", "new")
    world.enable("p", trusted_projects=trusted)
    assert "changed since you trusted them" in world.fails()
    (plugin.parent / "data.txt").unlink()
    assert world.load()[0].loaded


def test_bytecode_beside_a_trusted_plugin_is_never_run(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    import py_compile

    monkeypatch.setattr(sys, "pycache_prefix", None)  # which would place the bytecode elsewhere

    plugin = world.of_project("pack/__init__.py", "from . import part\n" + TOOL.format(tool="good"))
    part = world.of_project("pack/part.py", "x = 1 # same size as\n")
    evil = world.base / "evil.py"
    evil.write_text("raise SystemExit #....\n"[: part.stat().st_size])
    import importlib.util

    cached = importlib.util.cache_from_source(str(part))
    digest = project_digest(world.project)
    py_compile.compile(str(evil), cached, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    assert (plugin.parent / "__pycache__").is_dir()
    assert project_digest(world.project) == digest
    world.enable("pack", trusted_projects={str(world.project): digest})
    assert world.load()[0].error == ""


def test_a_project_plugin_cannot_reach_outside_its_folder(world: World) -> None:
    world.of_project("p.py", TOOL.format(tool="t"))
    outside = world.base / "outside.py"
    outside.write_text("")
    (world.project / ".toolcrib/plugins/link.py").symlink_to(outside)
    with pytest.raises(PluginError, match="is a link"):
        project_digest(world.project)
    world.enable("p", trusted_projects={str(world.project): "0" * 64})
    infos = world.load()
    assert "is a link" in infos[0].error
    assert not any(info.loaded for info in infos)


def test_the_digest_tells_names_from_contents(world: World) -> None:
    seen = set()
    for name, text in (("a.py", "bc"), ("ab.py", "c"), ("a.py", "")):
        path = world.of_project(name, text)
        seen.add(project_digest(world.project))
        path.unlink()
    assert len(seen) == 3
    with pytest.raises(PluginError, match="is not a folder"):
        project_digest(world.base)


# -- failing ---------------------------------------------------------------------------------------------------------

HEAD = "from toolcrib import Block, hookimpl, registry as shared\n"
HALF = (
    HEAD
    + "@hookimpl\ndef register_tools(registry):\n    registry.register('half', 'mine', {'description': 'd'}, lambda args: '')\n"
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import no_such_module_at_all", "named 'no_such_module_at_all'; install the package that has it for "),
        ("def (", "SyntaxError"),
        ("import sys; sys.exit(3)", "it called sys.exit(3)"),
        ("import asyncio; raise asyncio.CancelledError('x')", "CancelledError"),
        (HALF + "    raise ValueError('half-way')", "ValueError: half-way"),
        (HALF + "    import sys; sys.exit()", "it called sys.exit(None)"),
        (HALF + "    registry.register('bad name', 'mine', {}, lambda args: '')", "tool 'bad name'"),
        (HALF + "@hookimpl\ndef tool_gaet(call): pass", "there is no hook 'tool_gaet'; did you mean 'tool_gate'?"),
        (HALF + "@hookimpl\ndef tool_gate(cal): pass", "any of call, entry, ctx, by name; it has no 'cal'; did you mean 'call'?"),
        (HALF + "@hookimpl\ndef on_session_start(ctx): pass", "on_session_start takes any of identity, by name; it has no 'ctx'"),
        (HALF + "@hookimpl\ndef on_stop(crib): pass", "on_stop takes no arguments; it has no 'crib'"),
        (HALF + "@hookimpl\ndef tool_gate(*, call): pass", "'call' must come before the * in its parameters"),
        (HALF + "@hookimpl(wrapper=True)\ndef tool_gate(call):\n    return (yield)", "wrapper"),
        (HALF + "def tool_gate(call): return Block('no')", "not marked: put @toolcrib.hookimpl above it"),
        (HALF + "@hookimpl\nasync def register_toolsets(add): pass", "register_toolsets must be a plain function"),
        (HALF + "@hookimpl\ndef register_toolsets(add): add('', {})", "needs a name"),
        (HALF + "@hookimpl\ndef register_toolsets(add): add('taken', {})", "toolset 'taken' is taken"),
        ("x = 1", "it does nothing"),
    ],
)
def test_a_plugin_that_fails_is_taken_back_whole(world: World, text: str, reason: str) -> None:
    world.user("broken.py", text)
    world.enable("broken")
    world.refuse.add("taken")
    assert reason in world.fails()
    world.user("fine.py", TOOL.format(tool="fine"))
    world.enable("broken", "fine")
    assert {info.name: info.loaded for info in world.load()} == {"broken": False, "fine": True}
    world.manager.check_pending()


HERMES = """
import json, os
from tools.registry import registry, tool_error, tool_result

LIMITS = {"days": 3}

def forecast(args, **kwargs):
    city = args.get("city", "")
    if not city:
        return tool_error("city is required", success=False)
    return tool_result(city=city, days=min(int(args.get("days", 1)), LIMITS["days"]), task=kwargs.get("task_id"))

registry.register(
    name="forecast",
    toolset="weather",
    schema={
        "name": "forecast",
        "description": "Forecast the weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": []},
    },
    handler=lambda args, **kw: forecast(args, **kw),
    check_fn=lambda: True,
    requires_env=["SKY_KEY"],
    is_async=False,
    description="Forecast the weather.",
    emoji="🌤",
    max_result_size_chars=float("inf"),
    dynamic_schema_overrides=lambda: {"description": f"Forecast up to {LIMITS['days']} days."},
    override=True,
)
"""


def test_a_module_of_hermes_works_unchanged(world: World) -> None:
    world.registry = shared.child()
    world.user("weather.py", HERMES)
    world.enable("weather")
    assert [(info.name, info.loaded) for info in world.load()] == [("weather", True)]
    entry = world.registry.get("forecast")
    assert entry is not None
    assert world.registry.get_definitions({"forecast"})[0]["function"]["description"] == "Forecast up to 3 days."
    assert call_tool(entry, {"city": "Oslo", "days": 9}).result.data == '{"city": "Oslo", "days": 3, "task": "test"}'
    assert call_tool(entry, {}).result.data == '{"error": "city is required", "success": false}'
    assert shared.get("forecast") is None


def test_an_interrupt_says_which_plugin_was_loading(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.user("slow.py", HALF + "    raise KeyboardInterrupt")
    world.enable("slow")
    with pytest.raises(KeyboardInterrupt) as caught:
        world.load()
    assert "'slow'" in caught.value.__notes__[0]
    assert "interrupted while the plugin 'slow'" in caplog.text
    assert world.registry.names() == []
    world.registry.register("later", "x", {"description": "d"}, lambda args: "")


def test_the_name_of_the_approval_gate_is_refused(world: World) -> None:
    for name in ("approval.py", "Approval/__init__.py"):
        path = world.user(name, "raise SystemExit")
        world.enable("approval")
        assert "reserved" in world.fails()
        path.unlink()


def test_an_entry_point_that_is_a_class_or_gone_is_told(world: World) -> None:
    world.pip("kind", "class P: pass", "kind_module:P")
    world.enable("kind")
    assert "is a class" in world.fails()
    world.pip("gone", "", "gone_module:nothing")
    world.enable("gone")
    assert "AttributeError" in world.fails()


# -- tools of other plugins ------------------------------------------------------------------------------------------

TAKE = """\
from toolcrib import hookimpl
@hookimpl
def register_tools(registry):
    {before}
    registry.register('terminal', 'mine', {{'description': 'mine'}}, lambda args: '')
"""


@pytest.mark.parametrize(
    "how",
    [
        "registry.put(replace(ToolRegistry().register('mine', 'm', {'description': 'd'}, len), module='tools.mine'))",
        r"exec('registry.register(\'mine\', \'m\', {}, len)', {'__name__': 'tools.mine', 'registry': registry})",
    ],
)
def test_no_plugin_registers_a_tool_as_toolcrib_s_own(world: World, how: str) -> None:
    head = (
        "from dataclasses import replace\nfrom toolcrib import ToolRegistry, hookimpl\n@hookimpl\ndef register_tools(registry):\n"
    )
    world.user("taker.py", f"{head}    registry.guard(None)\n    {how}\n")
    world.enable("taker")
    assert "may not register the tool 'mine' as one of tools.mine" in world.fails()
    assert world.registry.names() == []


@pytest.mark.parametrize("before", ["pass", "registry.unregister('terminal')", "registry.guard(None)"])
def test_a_plugin_replaces_a_tool_only_if_the_person_allowed_it_by_name(world: World, before: str) -> None:
    """003-3, 003-5"""
    core = world.registry.register("terminal", "terminal", {"description": "core"}, lambda args: "")
    world.user("taker.py", TAKE.format(before=before))
    world.enable("taker")
    assert f"add to {world.config.path}: plugins: {{allow_override: {{terminal: taker}}}}" in world.fails()
    assert world.registry.get("terminal") is core
    world.enable("taker", allow_override={"terminal": "someone_else"})
    assert "may not replace" in world.fails()
    world.enable("taker", allow_override={"terminal": "taker"})
    assert world.load()[0].loaded
    entry = world.registry.get("terminal")
    assert entry is not None
    assert entry.description == "mine"


def test_a_plugin_may_register_its_own_tool_again_but_not_that_of_another_plugin(world: World) -> None:
    world.user("a.py", TOOL.format(tool="t") + "    registry.register('t', 'mine', {'description': 'again'}, lambda args: '')\n")
    world.user("b.py", TOOL.format(tool="t"))
    world.enable("a", "b")
    first, second = world.load()
    assert first.loaded
    assert "tool 't' of toolcrib_plugin_user_a" in second.error
    assert world.registry.get("t") is not None
    assert world.registry.problems == []


def test_bundled_plugins_are_listed_and_off() -> None:
    assert [info for info in discover(Config()) if info.source == "bundled" and info.enabled] == []
