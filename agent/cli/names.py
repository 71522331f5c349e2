"""Check that names in the configuration exist: backends, providers, platforms, toolsets, tools and plugins. They are
defined by toolcrib, by the configuration or by a plugin.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from agent.cli.finding import CheckFinding
from toolcrib.contract.errors import ConfigError, ToolsetError

if TYPE_CHECKING:
    from agent.api import Crib


def name_findings(crib: Crib) -> Iterator[CheckFinding]:
    """Yield a finding for each unknown name, with its file, line and key, the known names, and the nearest one."""
    yield from _unknown_places(crib)
    yield from _unknown_toolsets(crib)
    yield from _unknown_tools(crib)


def _unknown_places(crib: Crib) -> Iterator[CheckFinding]:
    """Yield findings about unknown backends, providers and platforms."""
    from agent.providers.factory import check_name

    config = crib.config
    fix = "fix that line, or enable the plugin that adds it"
    try:
        crib.backends.get()
    except ConfigError as error:
        yield CheckFinding("names.place", "wrong", str(error), fix)
    wanted = [("model.provider", config.model.provider), ("approval.smart.provider", config.approval.smart.provider)]
    wanted += [("model.fallback", one.provider) for one in config.model.fallback]
    for key, name in wanted:
        try:
            check_name(name, crib.providers) if name else None
        except ConfigError as error:
            yield CheckFinding("names.place", "wrong", f"{config.origin(key)}: {key}: {error}", fix)
    for name in sorted(config.platforms):
        try:
            crib.granted(name)
        except ToolsetError as error:
            if str(error).startswith("unknown platform"):
                yield CheckFinding("names.place", "wrong", f"{config.origin(f'platforms.{name}')}: platforms: {error}", fix)


def _unknown_toolsets(crib: Crib) -> Iterator[CheckFinding]:
    config, custom = crib.config, crib.config.toolsets.custom
    lists: list[tuple[str, Sequence[str]]] = [
        ("toolsets.enabled", config.toolsets.enabled or ()),
        ("toolsets.disabled", config.toolsets.disabled),
    ]
    lists += [(f"platforms.{name}.enabled_toolsets", one.enabled_toolsets or ()) for name, one in config.platforms.items()]
    lists += [(f"platforms.{name}.disabled_toolsets", one.disabled_toolsets) for name, one in config.platforms.items()]
    lists += [(f"users.{name}.disabled_toolsets", one.disabled_toolsets) for name, one in config.users.items()]
    broken: set[str] = set()
    for name in crib.catalog.names():
        try:
            crib.catalog.resolve(name)
        except ToolsetError as error:
            broken.add(name)
            if name in custom:
                where, fix = f"{config.origin(f'toolsets.custom.{name}')}: toolsets.custom.{name}: ", f"fix {config.path}"
            else:
                where, fix = "", f"fix the plugin that adds {name!r}, or remove it from plugins.enabled in {config.path}"
            yield CheckFinding("names.toolset", "wrong", f"{where}{error}", fix)
    for key, names in lists:
        for name in names:
            try:
                crib.catalog.resolve(name)
            except ToolsetError as error:
                if name not in broken:
                    fix = f"fix {config.path}; until then sessions with this setting cannot be opened"
                    yield CheckFinding("names.toolset", "wrong", f"{config.origin(key)}: {key}: {error}", fix)


def _unknown_tools(crib: Crib) -> Iterator[CheckFinding]:
    """Yield findings about unknown tools in lists and rules, and about rules that test unknown arguments."""
    config, known = crib.config, crib.registry.names()
    lists: dict[str, Sequence[str]] = {"tools.disabled": config.tools.disabled}
    lists |= {f"platforms.{name}.disabled_tools": one.disabled_tools for name, one in config.platforms.items()}
    lists |= {f"users.{name}.disabled_tools": one.disabled_tools for name, one in config.users.items()}
    lists |= {f"toolsets.custom.{name}.tools": one.tools for name, one in config.toolsets.custom.items()}
    wanted = [(key, key, name) for key, names in lists.items() for name in names if name not in known]
    wanted += [
        ("approval.tools", f"approval.tools[{number}]", rule.tool)
        for number, rule in enumerate(config.approval.tools)
        if not any(fnmatchcase(name, rule.tool) for name in known)
    ]
    toolsets = {entry.toolset for entry in crib.registry.entries()}
    for number, rule in enumerate(config.approval.tools):
        if rule.toolset and not any(fnmatchcase(name, rule.toolset) for name in toolsets):
            text = f"approval.tools[{number}] names the toolset {rule.toolset!r}, which no tool has"
            yield CheckFinding("names.toolset", "note", f"{config.origin('approval.tools')}: {text}", f"fix {config.path}")
        entry = crib.registry.get(rule.tool)
        properties = {} if entry is None else entry.schema.get("parameters", {}).get("properties", {})
        for dotted in rule.args:
            if properties and dotted.partition(".")[0] not in properties:
                what = f"approval.tools[{number}] tests {dotted!r}, which is not an argument of {rule.tool}: it matches no call"
                where = config.origin("approval.tools")
                yield CheckFinding(
                    "names.argument", "note", f"{where}: {what} (arguments: {', '.join(properties)})", f"fix {config.path}"
                )
    for key, shown, name in wanted:
        near = crib.registry.closest(name)
        meant = f"; did you mean {near!r}?" if near else ""
        text = f"{config.origin(key)}: {shown} names the unknown tool {name!r}{meant}"
        yield CheckFinding("names.tool", "note", text, f"fix {config.path}")
