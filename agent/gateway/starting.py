"""Looks at a platform's configuration before it starts: what each chat would otherwise find out by itself."""

from __future__ import annotations

from agent.backends import Backends
from agent.config import Config, PlatformConfig
from agent.gateway.admission import Admission
from toolcrib import ConfigError


def require_backend(config: Config, backends: Backends, platform: str) -> None:
    """Raise ConfigError, with file, line and key, where the platform's chats are to run in a backend that there is not."""
    wanted = config.platforms.get(platform, PlatformConfig()).backend
    try:
        backends.get(wanted)
    except ConfigError as error:
        key = f"platforms.{platform}.backend"
        raise ConfigError(f"{config.origin(key)}: {key}: {error}" if wanted else str(error)) from error


async def nobody_speaks(platform: str, admission: Admission) -> str:
    """Return how to let people in where nobody may speak and no code waits to be said, "" else. Raises StoreFailed."""
    if await admission.lets_anybody_in():
        return ""
    return (
        f"nobody may speak here yet: say the code to the bot that `toolcrib gateway pair {platform} --role owner` shows,"
        f" or name people in platforms.{platform}.allowed_users"
    )
