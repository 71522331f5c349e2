"""Rights of sessions on their environment: the tools that jobs, and chats of users other than the owner, never get."""

from __future__ import annotations

from collections.abc import Callable, Collection

from agent.config import PlatformConfig
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import ConfigError
from toolcrib.contract.identity import LOCAL_PLATFORMS
from toolcrib.contract.registry import ToolRegistry
from toolcrib.contract.store import Store
from tools.environments.rows import ROWS
from toolsets import PRESET, TOOLSETS

_ENVIRONMENT_TOOLSETS = frozenset({"file", "terminal", "chat"})


@dataclass(frozen=True, slots=True)
class WithheldTools:
    """Tools that a session never gets, the reason, and the settings that allow them ("" for none)."""

    names: frozenset[str] = frozenset()
    reason: str = ""
    fix: str = ""


NONE_WITHHELD = WithheldTools()


def is_chat_platform(platform: str, added: Collection[str]) -> bool:
    """Return whether a gateway opens the sessions of a platform. ``added`` are the platforms of plugins."""
    return platform not in LOCAL_PLATFORMS and (platform in added or f"{PRESET}{platform}" in TOOLSETS)


def withheld_from_chat(
    tools: ToolRegistry, platform: str, config: PlatformConfig, *, is_contained: bool, is_owner: bool, is_group: bool
) -> WithheldTools:
    """Return the tools that a chat's sessions never get, because commands could reach toolcrib's own files."""
    if is_contained or config.allow_local or (is_owner and not is_group):
        return NONE_WITHHELD
    names = (one.name for one in tools.entries() if one.kind in ("edit", "execute") or one.toolset in _ENVIRONMENT_TOOLSETS)
    contained = ", ".join(row.name for row in ROWS.values() if row.is_contained)
    key = f"platforms.{platform}"
    return WithheldTools(
        frozenset(names),
        f"not given to {'groups' if is_group else 'users other than the owner'}",
        f"set {key}.backend to a contained one ({contained}), or {key}.allow_local: true to allow commands on this machine",
    )


def withheld_from_user(
    platform: str,
    user: str,
    config: PlatformConfig,
    tools: ToolRegistry,
    store: Store,
    added: Collection[str],
    is_contained: Callable[[str], bool],
) -> WithheldTools:
    """Return the tools that sessions of a platform and user never get. ``added`` are the platforms of plugins.

    ``is_contained`` returns whether a backend is contained, and raises ConfigError for an unknown one.
    """
    if platform == "cron":
        return withheld_from_jobs(tools)
    if not is_chat_platform(platform, added):
        return NONE_WITHHELD
    from agent.desk.approvals import OWNER
    from agent.gateway.admission import ROOM, roles_of

    is_owner = OWNER in roles_of(platform, config, store, user)
    try:
        contained = is_contained(config.backend)
    except ConfigError as error:
        return WithheldTools(frozenset(tools.names()), f"no session can be opened: {error}")
    is_group = user.startswith(ROOM)
    return withheld_from_chat(tools, platform, config, is_contained=contained, is_owner=is_owner, is_group=is_group)


def withheld_from_jobs(tools: ToolRegistry) -> WithheldTools:
    """Return the tools that no job has: a job can't create jobs, and no user watches it."""
    names = frozenset(one.name for one in tools.entries() if one.interactive or one.needs == "jobs")
    return WithheldTools(names, "no job has it: a job can't create jobs, and no user watches it")
