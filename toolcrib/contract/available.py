"""Availability of a tool, according to its check_fn."""

from __future__ import annotations

import logging
import os

from toolcrib.contract.entry import ToolEntry
from toolcrib.contract.types import Unavailable

_log = logging.getLogger("toolcrib.contract.registry")
_reported: set[tuple[str, str]] = set()
"""Module and name of tools whose failed check was logged."""


def why_not(entry: ToolEntry) -> str | None:
    """Return why a tool with a check_fn can't work here, or None if it can. A check_fn that raises means unavailable (003-9)."""
    assert entry.check_fn is not None  # noqa: S101 - the caller checked it
    try:
        verdict = entry.check_fn()
    except BaseException as error:  # noqa: BLE001 - 003-9: any exception means unavailable
        let_pass(error)
        if (entry.module, entry.name) not in _reported:  # sessions check again before each request
            _reported.add((entry.module, entry.name))
            _log.warning("tool %r is unavailable: its check_fn raised %s: %s", entry.name, type(error).__name__, error)
            _log.debug("check_fn of %r raised", entry.name, exc_info=True)
        return f"its check failed: {type(error).__name__}: {error}"
    if verdict:
        return None
    if isinstance(verdict, Unavailable):
        return verdict.reason
    missing = [name for name in entry.requires_env if not os.environ.get(name)]
    return f"set {', '.join(missing)}" if missing else "its check reports that it can't work here"


def let_pass(error: BaseException) -> None:
    """Re-raise KeyboardInterrupt or GeneratorExit. Return for any other exception of a plugin's function, even SystemExit."""
    if isinstance(error, (KeyboardInterrupt, GeneratorExit)):
        raise error
