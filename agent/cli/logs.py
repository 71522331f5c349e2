"""The log that a user sees: short warnings, or everything on request."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from toolcrib.contract.errors import ConfigError

_OURS = ("toolcrib", "tools", "toolsets", "model_tools", "agent", "plugins")
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class _ToStderr(logging.Handler):
    """Writes to the current sys.stderr, which the prompt replaces while it is on the screen."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.brief = level > logging.DEBUG
        self.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s: %(message)s"))

    def filter(self, record: logging.LogRecord) -> bool:
        return record.name.split(".")[0].startswith(_OURS)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = f"toolcrib: {record.levelname.lower()}: {record.getMessage()}" if self.brief else self.format(record)
            print(text, file=sys.stderr)
        except Exception:  # noqa: BLE001 - as in the standard library: logging must not end the program
            self.handleError(record)


@contextmanager
def logging_to_stderr(*, verbose: bool) -> Iterator[None]:
    """Log to stderr during one command. TOOLCRIB_LOG names the level, by default ``warning``. Raises ConfigError."""
    named = os.environ.get("TOOLCRIB_LOG", "").lower() or "warning"
    if named not in _LEVELS:
        raise ConfigError(f"TOOLCRIB_LOG={named!r}: expected one of {', '.join(_LEVELS)}")
    level = logging.DEBUG if verbose else _LEVELS[named]
    root, handler = logging.getLogger(), _ToStderr(level)
    before = root.level
    root.addHandler(handler)
    root.setLevel(min(level, logging.WARNING))
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(before)


@contextmanager
def logging_of_gateway(form: str, redact: Callable[[str], str]) -> Iterator[None]:
    """Log a gateway's activity in place of short warnings. TOOLCRIB_LOG and --verbose set the level here too."""
    from agent.gateway.logs import gateway_log

    root = logging.getLogger()
    handlers = [handler for handler in root.handlers if isinstance(handler, _ToStderr)]
    is_given = bool(os.environ.get("TOOLCRIB_LOG")) or not all(handler.brief for handler in handlers)
    level = min((handler.level for handler in handlers), default=None) if is_given else None
    for handler in handlers:
        root.removeHandler(handler)
    try:
        with gateway_log(form, redact, level):
            yield
    finally:
        for handler in handlers:
            root.addHandler(handler)


@contextmanager
def shown_otherwise() -> Iterator[None]:
    """Suppress log messages within the block, for a command that lists the faults itself, unless everything is logged."""
    handlers = [handler for handler in logging.getLogger().handlers if isinstance(handler, _ToStderr) and handler.brief]
    levels = [handler.level for handler in handlers]
    for handler in handlers:
        handler.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for handler, level in zip(handlers, levels, strict=True):
            handler.setLevel(level)
