"""The choice of a session's tools: the platform's preset, the configuration's switches, the user's, and what can work here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent.config import Config
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import ToolsetError
from toolcrib.contract.identity import LOCAL_PLATFORMS
from toolcrib.contract.registry import ToolRegistry
from toolsets import ToolsetCatalog

PREFIX = "toolcrib-"
"""A platform's preset is the toolset of this and its name."""

_SWITCHES: Mapping[str, str] = {
    "memory": "set both to true: toolcrib config set memory.enabled true; toolcrib config set store.enabled true",
    "cronjob": "toolcrib config set store.enabled true",
    "delegate_task": "toolcrib config set delegates.max_depth 1",
    "send_message": "set a platform up: toolcrib docs gateway",
}
"""Fixes for tools that the configuration gives no work."""


@dataclass(frozen=True, slots=True)
class ToolLine:
    """A registered tool, as it is shown to people. ``reason`` says why it is not granted, ``fix`` what would grant it, where the
    reason does not say so itself.
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
        """The reason, with what would grant it; "" for one that is granted."""
        return f"{self.reason or ''}; to get it: {self.fix}" if self.fix else self.reason or ""


class Granting:
    """``enabled`` as an argument stands before the configuration's; ``disabled`` adds to it: only narrowing adds up."""

    def __init__(self, config: Config, tools: ToolRegistry, catalog: ToolsetCatalog) -> None:
        self._config = config
        self._tools = tools
        self._catalog = catalog

    def granted(
        self, platform: str, enabled: Sequence[str] | None = None, disabled: Sequence[str] | None = None, user: str = ""
    ) -> list[str]:
        """The tools that can be called, in order. Raises ToolsetError for an unknown toolset or platform."""
        wanted = self._wanted(platform, enabled, disabled, user)
        return [name for name, reason in self._tools.availability(wanted).items() if reason is None]

    def explain(self, platform: str, user: str = "") -> list[ToolLine]:
        """Every registered tool: whether this platform and user get it, and why not. Raises as ``granted``."""
        wanted = set(self._wanted(platform, None, None, user))
        narrowed = set(self._wanted(platform)) - wanted
        off, switched_off = self._off(), self._switched_off(platform)
        reasons = self._tools.availability()
        lines = []
        for entry in self._tools.entries():
            reason, fix = reasons[entry.name], ""
            if (setting := off.get(entry.name)) is not None:
                reason, fix = f"switched off in the configuration ({setting})", _SWITCHES.get(entry.name, "")
            elif entry.name in switched_off:
                reason, fix = "switched off in the configuration (disabled tools)", self._switched_on(entry.name, platform)
            elif entry.name in narrowed:
                keys = " and ".join(f"users.{key}" for key in (user, f"{platform}:{user}") if key in self._config.users)
                reason = f"not for the user {user!r} ({keys} in the configuration)"
                fix = "take it out of disabled_tools, or its toolset out of disabled_toolsets, there"
            elif entry.name not in wanted:
                reason = f"not among the toolsets of the platform {platform!r}"
                fix = self._among_toolsets(entry.name, entry.toolset, platform)
            lines.append(ToolLine(entry.name, entry.toolset, entry.emoji, entry.description, reason is None, reason, fix))
        return lines

    def _switched_on(self, name: str, platform: str) -> str:
        """Say what takes a tool out of the lists of disabled ones."""
        here = self._config.platforms.get(platform)
        lists = [("tools.disabled", self._config.tools.disabled, "")]
        lists += [(f"platforms.{platform}.disabled_tools", here.disabled_tools, f" --platform {platform}")] if here else []
        own = f"{self._config.path}:"
        return "; ".join(
            f"toolcrib tools enable {name}{option}"
            if origin.startswith(own) and ";" not in origin
            else f"take it out of {key} ({origin})"
            for key, names, option in lists
            if name in names and (origin := self._config.origin(key))
        )

    def _among_toolsets(self, name: str, toolset: str, platform: str) -> str:
        """Say which toolset would bring a tool to a platform, or no longer keeps it away."""
        config, here = self._config, self._config.platforms.get(platform)
        lists = [("toolsets.disabled", config.toolsets.disabled)]
        lists += [(f"platforms.{platform}.disabled_toolsets", here.disabled_toolsets)] if here else []
        dropping = [(one, key) for key, names in lists for one in names if name in self._catalog.resolve(one)]
        if dropping:
            return "; ".join(f"take {one} out of {key} ({config.origin(key)})" for one, key in dropping)
        key, chosen = self._chosen(platform)
        return f"toolcrib config set {key} '[{', '.join([*chosen, toolset])}]'"

    def _chosen(self, platform: str) -> tuple[str, Sequence[str]]:
        """Return the key that decides about the toolsets of a platform, and those that are granted there now."""
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

    def _off(self) -> Mapping[str, str]:
        """Return the tools that would have nothing to work with, and the settings by which."""
        off = self._off_without_chats()
        off |= {} if self._config.remembers else {"memory": "memory.enabled, store.enabled"}
        off |= {} if self._config.store.enabled else {"cronjob": "store.enabled: jobs outlive the process"}
        return off if self._config.delegates.max_depth else {**off, "delegate_task": "delegates.max_depth is 0"}

    def _off_without_chats(self) -> dict[str, str]:
        if set(self._config.platforms) - LOCAL_PLATFORMS:
            return {}
        return {"send_message": "no chat platform is set up: platforms"}

    def _preset(self, platform: str) -> list[str]:
        """A preset also grants what enabled plugins registered: the person enabled them for that."""
        built_in = {entry.toolset for entry in self._tools.entries() if entry.module.startswith("tools.")}
        return [f"{PREFIX}{platform}", *(name for name in self._tools.toolsets() if name not in built_in)]

    def _check(self, platform: str) -> None:
        known = sorted(name.removeprefix(PREFIX) for name in self._catalog.names() if name.startswith(PREFIX))
        if platform not in known:
            own = f"for one of your own make its toolset, toolsets.custom.{PREFIX}{platform}"
            raise ToolsetError(f"unknown platform {platform!r}; known: {', '.join(known)}; {own}")
