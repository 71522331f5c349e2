"""Plugin hooks for decisions of the approval gate."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Sequence

from toolcrib.contract.private import Private
from toolcrib.contract.store import AuditEntry, AuditLog
from tools.dispatch.hooks import HookManager

_log = logging.getLogger(__name__)
_SECONDS = 10.0


class ToldAudit:
    """An audit log that passes entries to plugins (``on_decision``) after they are recorded."""

    def __init__(self, audit: AuditLog, hooks: Callable[[], HookManager], redact: Callable[[str], str]) -> None:
        self._audit = audit
        self._hooks = hooks
        self._redact = redact

    async def record(self, entry: AuditEntry) -> None:
        """See AuditLog."""
        await self._audit.record(entry)
        for observer in self._hooks().in_order("on_decision"):
            try:
                seen = observer.function(*([entry] if observer.argnames else []))
                if inspect.isawaitable(seen):
                    async with asyncio.timeout(_SECONDS):
                        await seen
            except Exception as error:  # noqa: BLE001 - an observer: the decision remains
                text = self._redact(f"{type(error).__name__}: {error}")
                _log.error("on_decision of the plugin %r failed: %s", observer.plugin_name, Private(text))

    async def entries(self, session_id: str | None = None) -> Sequence[AuditEntry]:
        """See AuditLog."""
        return await self._audit.entries(session_id)
