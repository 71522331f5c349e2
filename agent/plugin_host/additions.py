"""Checks of plugins' additions to a process: each name once, and each value in a usable form."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from toolcrib.contract.errors import PluginError

_log = logging.getLogger(__name__)
Add: TypeAlias = Callable[[str, Any], None]


def once(table: dict[str, Any], what: str, name: str, value: Any) -> None:
    """Put a value into a table. Raises PluginError if the name is taken."""
    if name in table:
        raise PluginError(f"the {what} {name!r} already exists; choose another name")
    table[name] = value


def must_open(what: str, name: str, factory: object) -> None:
    """Raise PluginError for a factory that can't be called."""
    if not callable(factory):
        raise PluginError(f"the {what} {name!r} needs a function that opens it, got {factory!r}")


def checked_command(name: str, module: Any) -> Any:
    """Return a subcommand's module. Raises PluginError for an incomplete one."""
    if lacks := [part for part in ("HELP", "configure", "run") if not hasattr(module, part)]:
        raise PluginError(f"the command {name!r} has no {', '.join(lacks)}: give it HELP, configure(parser) and run(args)")
    return module


def collect(hook: str, adder: Add, added: list[tuple[Add, str, Any]]) -> Add:
    """Return the ``add`` argument of a setup hook: it checks names, and collects values in ``added``."""

    def add(name: str, value: Any, **more: Any) -> None:
        if not isinstance(name, str) or not name:
            raise PluginError(f"{hook}: add(name, value) needs a name, got {name!r}")
        added.append((partial(adder, **more) if more else adder, name, value))

    return add


def leave_out(name: str, value: object, **more: object) -> None:
    """Ignore an addition that this process does not use."""
    _log.debug("%r is not used in this process: %r", name, value)
