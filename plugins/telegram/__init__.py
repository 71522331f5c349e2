"""Chats on Telegram, through the operator's own bot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plugins.telegram.platform import TelegramPlatform
from toolcrib import hookimpl


@hookimpl
def register_platform(add: Callable[[str, Callable[..., Any]], None]) -> None:
    add("telegram", TelegramPlatform)
