"""The example's plugin: the platform ``folder``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hello_platform.folder import FolderPlatform
from toolcrib import hookimpl


@hookimpl
def register_platform(add: Callable[[str, Callable[..., Any]], None]) -> None:
    add("folder", FolderPlatform)
