"""The hook. toolcrib calls it after the plugin is enabled; importing this module does nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hello_provider.session import OllamaSession
from toolcrib import hookimpl


@hookimpl
def register_provider(add: Callable[[str, Callable[..., Any]], None]) -> None:
    add("ollama", OllamaSession)
