"""Slack: workspaces, through slack-bolt's socket mode (``pip install 'toolcrib[slack]'``). README.md has the first steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plugins.slack.platform import SlackPlatform
from toolcrib import hookimpl


@hookimpl
def register_platform(add: Callable[[str, Callable[..., Any]], None]) -> None:
    """Add the platform; slack-bolt is imported when it connects."""
    add("slack", SlackPlatform)
