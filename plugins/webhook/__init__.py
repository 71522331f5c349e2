"""Chats by signed HTTP requests, both ways: for a page, a service, or a chat service without a plugin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plugins.webhook.platform import WebhookPlatform
from toolcrib import hookimpl


@hookimpl
def register_platform(add: Callable[[str, Callable[..., Any]], None]) -> None:
    add("webhook", WebhookPlatform)
