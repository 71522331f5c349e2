"""A chat with a running gateway in a terminal, to try the gateway without an account or network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plugins.console import client
from plugins.console.platform import ConsolePlatform
from toolcrib import hookimpl


@hookimpl
def register_platform(add: Callable[[str, Callable[..., Any]], None]) -> None:
    add("console", ConsolePlatform)


@hookimpl
def register_command(add: Callable[[str, Any], None]) -> None:
    add("console", client)
