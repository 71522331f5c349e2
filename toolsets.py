"""Toolsets: named bundles of tools, which decide the tools that a session is granted.

A name is one of the bundles here, one that an operator or a plugin added, or a toolset under which tools are registered. Bundles
may include others. ``resolve_toolset("toolcrib-cli")`` returns the tools' names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import ToolsetError
from toolcrib.contract.registry import ToolRegistry, registry
from toolcrib.contract.suggest import near

EVERYTHING = ("all", "*")
PRESET = "toolcrib-"
"""A platform's preset is the toolset with this prefix and its name."""


@dataclass(frozen=True, slots=True)
class Toolset:
    """A bundle of tools. ``tools`` are names that need not be registered yet; ``includes`` are other toolsets. ``prefix``, if not
    "", includes every toolset of registered tools whose name begins with it.
    """

    description: str
    tools: tuple[str, ...] = ()
    includes: tuple[str, ...] = ()
    prefix: str = ""


_WORK = ("terminal", "file", "todo", "memory", "session_search", "delegation")

TOOLSETS: Mapping[str, Toolset] = MappingProxyType(
    {
        "safe": Toolset(
            "Reads, plans and asks; changes nothing.", ("read_file", "search_files"), ("todo", "session_search", "clarify")
        ),
        "mcp": Toolset("The tools of all MCP servers.", prefix="mcp-"),
        "coding": Toolset("Reads, edits, runs and schedules.", includes=(*_WORK, "clarify", "cronjob")),
        "toolcrib-cli": Toolset("The interactive terminal.", includes=("coding", "messaging", "mcp")),
        "toolcrib-gateway": Toolset(
            "Chats over a gateway, unless the platform has its own preset.", includes=("coding", "messaging")
        ),
        "toolcrib-telegram": Toolset("Telegram.", includes=("toolcrib-gateway",)),
        "toolcrib-xmpp": Toolset("XMPP.", includes=("toolcrib-gateway",)),
        "toolcrib-irc": Toolset("IRC.", includes=("toolcrib-gateway",)),
        "toolcrib-email": Toolset("E-mail.", includes=("toolcrib-gateway",)),
        "toolcrib-discord": Toolset("Discord.", includes=("toolcrib-gateway",)),
        "toolcrib-slack": Toolset("Slack.", includes=("toolcrib-gateway",)),
        "toolcrib-api": Toolset("Programs: no user can be asked.", includes=_WORK),
        "toolcrib-cron": Toolset("Scheduled runs: no user can be asked.", includes=(*_WORK, "messaging")),
        "toolcrib-acp": Toolset("Editors that speak the Agent Client Protocol.", includes=_WORK),
    }
)

_ALIASES: Mapping[str, str] = MappingProxyType(
    {f"hermes-{name.removeprefix(PRESET)}": name for name in TOOLSETS if name.startswith(PRESET)}
)
"""The specification's names for the platform presets."""

_LEGACY_TOOLSET_MAP: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "web_tools": ("web_search", "web_extract"),
        "terminal_tools": ("terminal",),
        "file_tools": ("read_file", "write_file", "patch", "search_files"),
        "vision_tools": ("vision_analyze",),
        "moa_tools": ("mixture_of_agents",),
        "image_tools": ("image_generate",),
        "skills_tools": ("skills_list", "skill_view", "skill_manage"),
        "browser_tools": ("browser_navigate", "browser_snapshot", "browser_click", "browser_type"),
        "cronjob_tools": ("cronjob",),
        "tts_tools": ("text_to_speech",),
        "todo_tools": ("todo",),
        "clarify_tools": ("clarify",),
        "memory_tools": ("memory",),
        "session_search_tools": ("session_search",),
        "delegation_tools": ("delegate_task",),
        "code_execution_tools": ("execute_code",),
        "process_tools": ("process",),
        "messaging_tools": ("send_message",),
        "homeassistant_tools": ("ha_list_entities", "ha_get_state", "ha_call_service"),
        "rl_tools": (
            *("rl_list_environments", "rl_select_environment", "rl_get_current_config", "rl_edit_config", "rl_start_training"),
            *("rl_check_status", "rl_stop_training", "rl_get_results", "rl_list_runs", "rl_test_inference"),
        ),
        "honcho_tools": ("honcho_context", "honcho_profile", "honcho_search", "honcho_conclude"),
    }
)
"""Old names with a _tools suffix, and the tools that they stand for (003-16), which need not be registered."""


class ToolsetCatalog:
    """The bundles above, added ones, and the toolsets of registered tools."""

    def __init__(self, tools: ToolRegistry) -> None:
        self._tools = tools
        self._bundles: dict[str, Toolset] = dict(TOOLSETS)
        self.added: dict[str, str] = {}
        """Source of each added bundle, by the bundle's name."""
        self.generation = 0

    def add(self, name: str, definition: Mapping[str, Any] | Toolset, *, source: str = "config") -> None:
        """Add a bundle of an operator or a plugin: ``{"description": ..., "tools": [...], "includes": [...]}``.

        Raises ToolsetError for a built-in name, an unknown field or a wrong type.
        """
        if name in TOOLSETS or name in _ALIASES or name in EVERYTHING or name in _LEGACY_TOOLSET_MAP:
            raise ToolsetError(f"toolset {name!r} ({source}): the name is taken by a built-in; choose another")
        self._bundles[name] = definition if isinstance(definition, Toolset) else _read(name, definition, source)
        self.added[name] = source
        self.generation += 1

    def remove(self, name: str) -> None:
        """Remove an added bundle. A missing one is not an error."""
        if self.added.pop(name, None) is not None:
            del self._bundles[name]
            self.generation += 1

    def names(self) -> list[str]:
        """Return all names that resolve, without aliases and legacy names."""
        return sorted({*self._bundles, *self._tools.toolsets()})

    def describe(self, name: str) -> str:
        """Describe a toolset for users, in one line."""
        name = _ALIASES.get(name, name)
        if name in self._bundles:
            return self._bundles[name].description
        return f"The tools registered under {name!r}."

    def platform_of(self, name: str) -> str:
        """Return the platform whose preset this toolset is, "" for another toolset."""
        name = _ALIASES.get(name, name)
        return name.removeprefix(PRESET) if name.startswith(PRESET) and name in self._bundles else ""

    def is_available(self, name: str) -> bool:
        """Return whether a toolset has a tool whose own toolset can work here (003-10); raises what ``resolve`` raises."""
        entries = filter(None, map(self._tools.get, self.resolve(name)))
        return any(map(self._tools.is_toolset_available, dict.fromkeys(entry.toolset for entry in entries)))

    def resolve(self, name: str) -> list[str]:
        """Return the names of a toolset's tools, each once, in order (003-11).

        Raises ToolsetError for an unknown name, and for a cycle, with its path.
        """
        found: dict[str, None] = {}
        self._resolve(name, (), found)
        return list(found)

    def _resolve(self, name: str, path: tuple[str, ...], found: dict[str, None]) -> None:
        name = _ALIASES.get(name, name)
        if name in path:
            raise ToolsetError(f"toolset {path[0]!r} contains itself: {' -> '.join((*path[path.index(name) :], name))}")
        if name in EVERYTHING:
            found.update(dict.fromkeys(self._tools.names()))
            return
        registered = self._tools.toolsets().get(name, ())
        bundle = self._bundles.get(name)
        if bundle is not None:
            found.update(dict.fromkeys(bundle.tools))
            for inner in bundle.includes:
                self._resolve(inner, (*path, name), found)
            if bundle.prefix:
                for toolset, tools in self._tools.toolsets().items():
                    found.update(dict.fromkeys(tools if toolset.startswith(bundle.prefix) else ()))
        elif not registered:
            legacy = _LEGACY_TOOLSET_MAP.get(name)
            if legacy is None:
                raise ToolsetError(self._unknown(name, path))
            registered = list(legacy)
        found.update(dict.fromkeys(registered))

    def _unknown(self, name: str, path: tuple[str, ...]) -> str:
        close = near(name, [*self.names(), *_ALIASES, *EVERYTHING])
        inside = f" (included by {' -> '.join(path)})" if path else ""
        hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(self.names())}"
        return f"unknown toolset {name!r}{inside}; {hint}"

    def select(
        self, enabled: Sequence[str] | None = None, disabled: Sequence[str] | None = None, *, without: Collection[str] = ()
    ) -> list[str]:
        """Return the selected tools, available or not (003-13).

        These are the tools of ``enabled`` if given, else all tools, except those of ``disabled``. ``without`` names single tools
        to leave out. Raises ToolsetError for an unknown name, and for a platform's preset in ``disabled``, because a preset has
        almost all tools.
        """
        for name in disabled or ():
            if _ALIASES.get(name, name).startswith(PRESET):
                raise ToolsetError(
                    f"toolset {name!r} is the preset of a platform, so disabling it would leave almost no tool; disable toolsets"
                    f" in it instead: {', '.join(self._parts(name))}"
                )
        chosen = dict.fromkeys(self._tools.names()) if enabled is None else self._union(enabled)
        dropped = self._union(disabled or ())
        return [name for name in chosen if name not in dropped and name not in without]

    def _parts(self, name: str) -> list[str]:
        """Return the toolsets that a preset includes. A bundle among them is replaced by the toolsets that it includes."""
        bundle = self._bundles.get(_ALIASES.get(name, name))
        inner = () if bundle is None else bundle.includes
        return [part for one in inner for part in (self._parts(one) if one in self._bundles else [one])]

    def _union(self, names: Iterable[str]) -> dict[str, None]:
        found: dict[str, None] = {}
        for name in names:
            found.update(dict.fromkeys(self.resolve(name)))
        return found


def _read(name: str, definition: Mapping[str, Any], source: str) -> Toolset:
    if not isinstance(definition, Mapping):
        raise ToolsetError(
            f"toolset {name!r} ({source}): must be a mapping with description, tools and includes, not {definition!r}"
        )
    unknown = set(definition) - {"description", "tools", "includes"}
    if unknown:
        raise ToolsetError(
            f"toolset {name!r} ({source}): unknown {', '.join(sorted(unknown))}; it takes description, tools, includes"
        )
    for key in ("tools", "includes"):
        value = definition.get(key, [])
        if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
            raise ToolsetError(f"toolset {name!r} ({source}): {key} must be a list of names")
    return Toolset(
        str(definition.get("description", "")), tuple(definition.get("tools", ())), tuple(definition.get("includes", ()))
    )


catalog = ToolsetCatalog(registry)
"""The catalog of the built-in registry."""


def resolve_toolset(name: str) -> list[str]:
    """Return the tools of a toolset in the built-in catalog; see ToolsetCatalog.resolve."""
    return catalog.resolve(name)
