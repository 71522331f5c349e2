"""Checks a platform's configuration before the platform starts, for problems that each chat would otherwise hit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.backends import Backends
from agent.config import Config, PlatformConfig
from agent.gateway.admission import Admission
from agent.gateway.status import told_status
from toolcrib.contract.errors import ConfigError

if TYPE_CHECKING:
    from agent.process import Crib


def require_backend(config: Config, backends: Backends, platform: str) -> None:
    """Raise ConfigError, with file, line and key, if the backend of the platform's chats does not exist."""
    wanted = config.platforms.get(platform, PlatformConfig()).backend
    try:
        backends.get(wanted)
    except ConfigError as error:
        key = f"platforms.{platform}.backend"
        raise ConfigError(f"{config.origin(key)}: {key}: {error}" if wanted else str(error)) from error


async def another_runs(crib: Crib, platforms: Sequence[str]) -> str:
    """Return a message if another gateway runs some of these platforms, "" if none is known. Raises StoreFailed."""
    told = {name: await told_status(crib.store, name) for name in platforms}
    theirs = {name: one for name, one in told.items() if one["is_fresh"]}
    if not theirs:
        return ""
    process = next(iter(theirs.values())).get("pid")
    return (
        f"another gateway already runs {', '.join(sorted(theirs))} (process {process}). Stop it with `toolcrib gateway stop`."
        " A gateway for other platforms needs its own gateway.port"
    )


async def nobody_speaks(platform: str, admission: Admission) -> str:
    """Return how to admit users if none may write and no pairing code is open, "" otherwise. Raises StoreFailed."""
    if await admission.lets_anybody_in():
        return ""
    return (
        f"no user may write to this bot yet: run `toolcrib gateway pair {platform} --role owner` and send the bot its code,"
        f" or list users in platforms.{platform}.allowed_users"
    )
