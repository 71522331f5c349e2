"""XMPP: chats and rooms of any server, through slixmpp (``pip install 'toolcrib[xmpp]'``). README.md has the first steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plugins.xmpp.platform import XmppPlatform
from toolcrib import hookimpl


@hookimpl
def register_platform(add: Callable[[str, Callable[..., Any]], None]) -> None:
    """Add the platform; slixmpp is imported when it connects."""
    add("xmpp", XmppPlatform)
