"""Values for a plugin at its start: its settings, its own folder, and a function that removes secrets."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import pluggy

from agent.config import Config, read_secrets, state_dir, token_values
from toolcrib.contract.errors import PluginError
from tools.redact import Redactor

_FRESH = 30.0
"""Seconds until the secrets are read again."""


def configure(manager: pluggy.PluginManager, plugin: Any, name: str, config: Config) -> None:
    """Call the plugin's ``configure`` with the arguments that it takes.

    Raises PluginError if it has settings but no ``configure``.
    """
    settings: Mapping[str, str] = dict(config.plugins.settings.get(name, {}))
    given = {"settings": settings, "folder": state_dir() / "plugin-data" / name, "redact": _redacting(config)}
    found = [one for one in manager.hook.configure.get_hookimpls() if one.plugin is plugin]
    if settings and not found:
        raise PluginError(f"it takes no settings; remove plugins.settings.{name} from {config.path}")
    for implementation in found:
        implementation.function(*[given[argument] for argument in implementation.argnames])


def _redacting(config: Config) -> Callable[[str], str]:
    known: list[tuple[float, Redactor]] = []

    def redact(text: str) -> str:
        now = time.monotonic()
        if not known or now - known[0][0] > _FRESH:
            secrets = {**token_values(config.folder), **read_secrets(config.folder), **config.store_secrets}
            known[:] = [(now, Redactor.of(os.environ, secrets))]
        return known[0][1].text(text)

    return redact
