"""The choice of a session's tools: the platform's preset, the configuration's switches, the user's, and what can work here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent.config import Config
from toolcrib import ToolRegistry, ToolsetError
from toolcrib._dataclass import dataclass
from toolcrib._identity import LOCAL_PLATFORMS
from toolsets import ToolsetCatalog

PREFIX = "toolcrib-"
"""A platform's preset is the toolset of this and its name."""


@dataclass(frozen=True, slots=True)
class ToolLine:
    """A registered tool, as it is shown to people. ``reason`` says why it is not granted."""

    name: str
    toolset: str
    emoji: str
    description: str
    granted: bool
    reason: str | None


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
        switched_off = self._switched_off(platform)
        reasons = self._tools.availability()
        lines = []
        for entry in self._tools.entries():
            reason = reasons[entry.name]
            if (setting := self._off().get(entry.name)) is not None:
                reason = f"switched off in the configuration ({setting})"
            elif entry.name in switched_off:
                reason = "switched off in the configuration (disabled tools)"
            elif entry.name in narrowed:
                keys = " and ".join(f"users.{key}" for key in (user, f"{platform}:{user}") if key in self._config.users)
                reason = f"not for the user {user!r} ({keys} in the configuration)"
            elif entry.name not in wanted:
                reason = f"not among the toolsets of the platform {platform!r}"
            lines.append(ToolLine(entry.name, entry.toolset, entry.emoji, entry.description, reason is None, reason))
        return lines

    def _wanted(
        self, platform: str, enabled: Sequence[str] | None = None, disabled: Sequence[str] | None = None, user: str = ""
    ) -> list[str]:
        self._check(platform)
        config, here = self._config, self._config.platforms.get(platform)
        people = [one for key in (user, f"{platform}:{user}") if user and (one := config.users.get(key)) is not None]
        if enabled is None and here is not None:
            enabled = here.enabled_toolsets
        if enabled is None:
            enabled = config.toolsets.enabled
        dropped = [*config.toolsets.disabled, *(disabled or ())]
        dropped += [*(here.disabled_toolsets if here else ()), *(name for one in people for name in one.disabled_toolsets)]
        without = {*self._switched_off(platform), *(name for one in people for name in one.disabled_tools)}
        chosen = self._preset(platform) if enabled is None else enabled
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
            raise ToolsetError(f"unknown platform {platform!r}; known: {', '.join(known)}")
