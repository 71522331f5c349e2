"""Discord: direct chats and servers, through discord.py (``pip install 'toolcrib[discord]'``). README.md has the first steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plugins.discord.platform import DiscordPlatform
from toolcrib import hookimpl


@hookimpl
def register_platform(add: Callable[[str, Callable[..., Any]], None]) -> None:
    """Add the platform; discord.py is imported when it connects."""
    add("discord", DiscordPlatform)
