"""The selection of a session's tools: the platform's preset, the configuration's and the user's switches, and availability."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from agent.config import Config
from agent.policy.host_rights import NONE_WITHHELD, WithheldTools
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.entry import Need
from toolcrib.contract.errors import ToolsetError
from toolcrib.contract.identity import LOCAL_PLATFORMS
from toolcrib.contract.registry import ToolRegistry
from toolsets import PRESET, ToolsetCatalog

PREFIX = PRESET

_NEEDS: Mapping[Need, tuple[Callable[[Config], bool], str, str]] = {
    "memory": (
        lambda config: config.remembers,
        "memory.enabled, store.enabled",
        "set both to true: toolcrib config set memory.enabled true; toolcrib config set store.enabled true",
    ),
    "jobs": (
        lambda config: config.store.enabled,
        "store.enabled: jobs outlive the process",
        "toolcrib config set store.enabled true",
    ),
    "delegates": (
        lambda config: config.delegates.max_depth > 0,
        "delegates.max_depth is 0",
        "toolcrib config set delegates.max_depth 1",
    ),
    "chats": (
        lambda config: bool(set(config.platforms) - LOCAL_PLATFORMS),
        "no chat platform is configured: platforms",
        "configure one: toolcrib docs gateway",
    ),
}
"""Parts of toolcrib that a tool may need: whether a configuration has it, the settings that disable it, and the fix."""


@dataclass(frozen=True, slots=True)
class ToolLine:
    """A registered tool, for display.

    ``reason`` is why it is not granted, ``fix`` how to grant it, unless the reason shows that.
    """

    name: str
    toolset: str
    emoji: str
    description: str
    granted: bool
    reason: str | None
    fix: str = ""

    @property
    def why(self) -> str:
        """The reason and the fix; "" for a granted tool."""
        return f"{self.reason or ''}; to enable it: {self.fix}" if self.fix else self.reason or ""


def _lacking(need: Need) -> tuple[str, str]:
    """Return why a tool with this need is not granted, and the fix."""
    _, setting, fix = _NEEDS[need]
    return f"disabled in the configuration ({setting})", fix


class Granting:
    """Selects tools. An ``enabled`` argument replaces the configuration's; ``disabled`` adds to it."""

    def __init__(self, config: Config, tools: ToolRegistry, catalog: ToolsetCatalog) -> None:
        self._config = config
        self._tools = tools
        self._catalog = catalog

    def granted(
        self, platform: str, enabled: Sequence[str] | None = None, disabled: Sequence[str] | None = None, user: str = ""
    ) -> list[str]:
        """Return the callable tools, in order. Raises ToolsetError for an unknown toolset or platform."""
        wanted = self._wanted(platform, enabled, disabled, user)
        return [name for name, reason in self._tools.availability(wanted).items() if reason is None]

    def explain(self, platform: str, user: str = "", withheld: WithheldTools = NONE_WITHHELD) -> list[ToolLine]:
        """Return every registered tool: whether this platform and user get it, and why not. Raises what ``granted`` raises.

        ``withheld`` are the tools that sessions there never get, whatever the configuration selects.
        """
        wanted = set(self._wanted(platform, None, None, user))
        narrowed = set(self._wanted(platform)) - wanted
        off, switched_off = self._off(), self._switched_off(platform)
        reasons = self._tools.availability()
        lines = []
        for entry in self._tools.entries():
            reason, fix = reasons[entry.name], ""
            if (need := off.get(entry.name)) is not None:
                reason, fix = _lacking(need)
            elif entry.name in switched_off:
                reason, fix = "disabled in the configuration (disabled tools)", self._switched_on(entry.name, platform)
            elif entry.name in narrowed:
                keys = " and ".join(f"users.{key}" for key in (user, f"{platform}:{user}") if key in self._config.users)
                reason = f"not for the user {user!r} ({keys} in the configuration)"
                fix = "remove it from disabled_tools, or its toolset from disabled_toolsets, there"
            elif entry.name in withheld.names and not withheld.fix:
                reason = withheld.reason
            elif entry.name not in wanted:
                reason = f"not among the toolsets of the platform {platform!r}"
                fix = self._among_toolsets(entry.name, entry.toolset, platform)
            elif reason is None and entry.name in withheld.names:
                reason, fix = withheld.reason, withheld.fix
            lines.append(ToolLine(entry.name, entry.toolset, entry.emoji, entry.description, reason is None, reason, fix))
        return lines

    def missing(self) -> dict[str, str]:
        """Return the registered tools that no platform's sessions get, each with the reason and the fix."""
        found = {name: reason for name, reason in self._tools.availability().items() if reason is not None}
        for name in filter(self._tools.get, self._config.tools.disabled):
            found[name] = f"disabled in the configuration (disabled tools); to enable it: {self._switched_on(name, '')}"
        return {**found, **{name: "; to enable it: ".join(_lacking(need)) for name, need in self._off().items()}}

    def _switched_on(self, name: str, platform: str) -> str:
        """Return how to remove a tool from the lists of disabled ones."""
        here = self._config.platforms.get(platform)
        lists = [("tools.disabled", self._config.tools.disabled, "")]
        lists += [(f"platforms.{platform}.disabled_tools", here.disabled_tools, f" --platform {platform}")] if here else []
        own = f"{self._config.path}:"
        return "; ".join(
            f"toolcrib tools enable {name}{option}"
            if origin.startswith(own) and ";" not in origin
            else f"remove it from {key} ({origin})"
            for key, names, option in lists
            if name in names and (origin := self._config.origin(key))
        )

    def _among_toolsets(self, name: str, toolset: str, platform: str) -> str:
        """Return which toolset would add a tool to a platform, or which setting excludes it."""
        config, here = self._config, self._config.platforms.get(platform)
        lists = [("toolsets.disabled", config.toolsets.disabled)]
        lists += [(f"platforms.{platform}.disabled_toolsets", here.disabled_toolsets)] if here else []
        dropping = [(one, key) for key, names in lists for one in names if name in self._catalog.resolve(one)]
        if dropping:
            return "; ".join(f"remove {one} from {key} ({config.origin(key)})" for one, key in dropping)
        key, chosen = self._chosen(platform)
        return f"toolcrib config set {key} '[{', '.join([*chosen, toolset])}]'"

    def _chosen(self, platform: str) -> tuple[str, Sequence[str]]:
        """Return the setting that determines a platform's toolsets, and the toolsets that it grants now."""
        here = self._config.platforms.get(platform)
        if here is not None and here.enabled_toolsets is not None:
            return f"platforms.{platform}.enabled_toolsets", here.enabled_toolsets
        if self._config.toolsets.enabled is not None:
            return "toolsets.enabled", self._config.toolsets.enabled
        return f"platforms.{platform}.enabled_toolsets", self._preset(platform)

    def _wanted(
        self, platform: str, enabled: Sequence[str] | None = None, disabled: Sequence[str] | None = None, user: str = ""
    ) -> list[str]:
        self._check(platform)
        config, here = self._config, self._config.platforms.get(platform)
        people = [one for key in (user, f"{platform}:{user}") if user and (one := config.users.get(key)) is not None]
        dropped = [*config.toolsets.disabled, *(disabled or ())]
        dropped += [*(here.disabled_toolsets if here else ()), *(name for one in people for name in one.disabled_toolsets)]
        without = {*self._switched_off(platform), *(name for one in people for name in one.disabled_tools)}
        chosen = self._chosen(platform)[1] if enabled is None else enabled
        return self._catalog.select(chosen, dropped, without=without)

    def _switched_off(self, platform: str) -> set[str]:
        here = self._config.platforms.get(platform)
        return {*self._config.tools.disabled, *(here.disabled_tools if here else ()), *self._off()}

    def _off(self) -> Mapping[str, Need]:
        """Return the tools that need a disabled part of toolcrib, each with that part."""
        lacking = {need for need, (has, _, _) in _NEEDS.items() if not has(self._config)}
        return {entry.name: entry.needs for entry in self._tools.entries() if entry.needs in lacking}

    def _preset(self, platform: str) -> list[str]:
        """Return a platform's preset, with the toolsets of enabled plugins: the user enabled the plugins to get them."""
        built_in = {entry.toolset for entry in self._tools.entries() if entry.is_built_in}
        return [f"{PREFIX}{platform}", *(name for name in self._tools.toolsets() if name not in built_in)]

    def _check(self, platform: str) -> None:
        known = sorted(name.removeprefix(PREFIX) for name in self._catalog.names() if name.startswith(PREFIX))
        if platform not in known:
            own = f"enable the plugin that adds it; for your own platform define toolsets.custom.{PREFIX}{platform}"
            raise ToolsetError(f"unknown platform {platform!r}; known: {', '.join(known)}; {own}")
