"""Toolsets: bundles of tools, and the tools that they resolve to."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import toolsets
from model_tools import get_tool_definitions
from toolcrib import ToolRegistry, ToolsetError, registry
from toolsets import TOOLSETS, ToolsetCatalog, resolve_toolset

CHATS = ("gateway", "telegram", "discord", "slack", "email", "irc", "xmpp")
PLATFORMS = ("cli", "api", "cron", "acp", *CHATS)
FILES = ["read_file", "write_file", "patch", "search_files"]


def catalog(*tools: tuple[str, str]) -> ToolsetCatalog:
    own = ToolRegistry()
    for name, toolset in tools:
        own.register(name, toolset, {"description": "d"}, lambda args: 1)
    return ToolsetCatalog(own)


def test_named_bundles_and_composites_expand_to_tools() -> None:
    """003-11"""
    assert resolve_toolset("file") == FILES
    works = ["terminal", "process", *FILES, "todo", "memory", "session_search", "delegate_task"]
    assert resolve_toolset("coding") == [*works, "clarify", "cronjob"]
    assert resolve_toolset("safe") == ["read_file", "search_files", "todo", "session_search", "clarify"]


def test_nested_ones_name_each_tool_once() -> None:
    """003-11"""
    bundles = catalog(("a", "one"), ("b", "two"))
    bundles.add("inner", {"tools": ["a", "b"]})
    bundles.add("outer", {"tools": ["b"], "includes": ["inner", "one"]})
    assert bundles.resolve("outer") == ["b", "a"]


def test_a_cycle_is_refused_with_its_path() -> None:
    """003-11: no infinite loop"""
    bundles = catalog()
    bundles.add("a", {"includes": ["b"]})
    bundles.add("b", {"includes": ["c"]})
    bundles.add("c", {"includes": ["a"]})
    with pytest.raises(ToolsetError, match="'a' contains itself: a -> b -> c -> a"):
        bundles.resolve("a")
    bundles.add("self", {"includes": ["self"]})
    with pytest.raises(ToolsetError, match="self -> self"):
        bundles.resolve("self")


@pytest.mark.parametrize("platform", PLATFORMS)
def test_platform_presets_and_the_specifications_names_for_them(platform: str) -> None:
    """003-12 (without MCP)"""
    tools = resolve_toolset(f"toolcrib-{platform}")
    assert tools
    assert resolve_toolset(f"hermes-{platform}") == tools
    assert ("clarify" in tools) == ("cronjob" in tools) == (platform in ("cli", *CHATS))


def test_every_preset_names_tools_that_exist() -> None:
    for name in TOOLSETS:
        assert set(resolve_toolset(name)) <= set(registry.names()), name


@pytest.mark.parametrize("name", sorted(toolsets._LEGACY_TOOLSET_MAP))
def test_legacy_names_still_resolve(name: str) -> None:
    """003-16"""
    assert resolve_toolset(name)
    get_tool_definitions([name])


def test_legacy_names_show_the_tools_that_exist() -> None:
    """003-16"""
    shown = get_tool_definitions(["file_tools", "web_tools"])
    assert [definition["function"]["name"] for definition in shown] == FILES


@pytest.mark.parametrize("name", ["all", "*"])
def test_all(name: str) -> None:
    assert resolve_toolset(name) == registry.names()


def test_a_toolset_of_registered_tools_needs_no_bundle() -> None:
    assert catalog(("a", "weather"), ("b", "weather")).resolve("weather") == ["a", "b"]


def test_tools_registered_under_a_bundles_name_join_it() -> None:
    bundles = catalog(("a", "mine"))
    bundles.add("mine", {"tools": ["b"]})
    assert bundles.resolve("mine") == ["b", "a"]


def test_unknown_names_say_the_nearest_and_who_included_them() -> None:
    bundles = catalog(("a", "weather"))
    with pytest.raises(ToolsetError, match="unknown toolset 'wether'; did you mean 'weather'"):
        bundles.resolve("wether")
    bundles.add("outer", {"includes": ["nope!"]})
    with pytest.raises(ToolsetError, match=r"unknown toolset 'nope!' \(included by outer\)"):
        bundles.resolve("outer")


@pytest.mark.parametrize(
    ("name", "definition", "said"),
    [
        ("safe", {}, "the name is taken"),
        ("all", {}, "the name is taken"),
        ("hermes-cli", {}, "the name is taken"),
        ("x", ["a"], "a mapping with description, tools and includes"),
        ("x", {"tool": ["a"]}, "unknown tool; it takes description, tools, includes"),
        ("x", {"tools": "a"}, "tools must be a list of names"),
        ("x", {"includes": [1]}, "includes must be a list of names"),
    ],
)
def test_bad_bundles_are_refused(name: str, definition: Any, said: str) -> None:
    with pytest.raises(ToolsetError, match=said):
        catalog().add(name, definition)


def test_selection() -> None:
    """003-13: ``enabled`` means only these, ``disabled`` all others, neither means all. If both are given, both apply."""
    bundles = catalog(("a", "one"), ("b", "two"), ("c", "two"))
    assert bundles.select() == ["a", "b", "c"]
    assert bundles.select(["two"]) == ["b", "c"]
    assert bundles.select([]) == []
    assert bundles.select(None, ["one"]) == ["b", "c"]
    assert bundles.select(["all"], ["two"]) == ["a"]
    assert bundles.select(without={"b"}) == ["a", "c"]


@pytest.mark.parametrize("name", ["toolcrib-telegram", "hermes-cli", "toolcrib-own"])
def test_a_preset_is_not_disabled(name: str) -> None:
    """A preset includes almost all tools, so disabling it would leave none."""
    bundles = catalog(("a", "one"), ("b", "two"))
    bundles.add("toolcrib-own", {"tools": ["a"], "includes": ["two"]})
    with pytest.raises(ToolsetError, match=f"'{name}' is the preset of a platform.*disable toolsets in it instead: .*t"):
        bundles.select(None, ["one", name])
    assert bundles.select(["toolcrib-own"], ["one"]) == ["b"]


@given(st.dictionaries(st.sampled_from("abcdef"), st.lists(st.sampled_from("abcdef"), max_size=3), max_size=6))
def test_any_graph_of_bundles_ends(graph: dict[str, list[str]]) -> None:
    """003-11: a graph resolves, or is refused with the name of the bundle."""
    bundles = catalog()
    for name, includes in graph.items():
        bundles.add(name, {"tools": [f"tool-{name}"], "includes": includes})
    for name in graph:
        try:
            tools = bundles.resolve(name)
        except ToolsetError:
            continue
        assert len(set(tools)) == len(tools)
        assert tools[0] == f"tool-{name}"
