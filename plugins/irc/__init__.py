"""IRC: channels and direct chats of one network (``pip install 'toolcrib[irc]'``). README.md has the first steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plugins.irc.platform import IrcPlatform
from toolcrib import hookimpl


@hookimpl
def register_platform(add: Callable[[str, Callable[..., Any]], None]) -> None:
    """Add the platform; the irc library is imported when it connects."""
    add("irc", IrcPlatform)
