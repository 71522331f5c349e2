"""Slash commands that plugins add to terminals and chats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from agent.desk.commands import SURFACES, TERMINAL, Surface
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import PluginError


@dataclass(frozen=True, slots=True)
class PluginSlash:
    """A plugin's command: its function, the interfaces that have it, and the role of its users."""

    function: Callable[..., Any]
    surfaces: Sequence[Surface] = TERMINAL
    role: str = ""

    @property
    def words(self) -> str:
        """Help of the command: the first line of the function's docstring."""
        import inspect

        return (inspect.getdoc(self.function) or self._origin()).splitlines()[0]

    def _origin(self) -> str:
        module = str(getattr(self.function, "__module__", "")).partition(".")[0]
        name = module.split("_", 3)[-1] if module.startswith("toolcrib_plugin_") else module
        return f"a command of the plugin {name}; its function has no docstring"


def plugin_slash(name: str, function: Any, surfaces: Any, role: str) -> PluginSlash:
    """Return a plugin's command. Raises PluginError for one that can't be typed or called, and for unknown surfaces."""
    if not name.isascii() or not name.replace("-", "").isalnum():
        raise PluginError(f"the chat command {name!r} has an invalid name: use letters, digits and '-', without the slash")
    if not callable(function):
        raise PluginError(f"the chat command {name!r} is not a function: def {name}(text, identity): ...")
    if not surfaces or isinstance(surfaces, str) or set(surfaces) - set(SURFACES):
        raise PluginError(f"the chat command {name!r}: expected some of {', '.join(SURFACES)} as surfaces, got {surfaces!r}")
    return PluginSlash(function, tuple(surfaces), role)
