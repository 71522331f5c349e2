"""Store what a call replaces, if its session keeps it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext

from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.environment import FileInfo
from toolcrib.contract.undo import Keeping


class _Nothing:
    """A keeper for calls outside a session, which keeps nothing."""

    warning = ""

    async def replaces(self, path: str, info: FileInfo | None, after: bytes | None, data: bytes | None = None) -> None:
        """Keep nothing."""

    async def record(self) -> None:
        """Do nothing: nothing is kept."""

    async def forget(self) -> None:
        """Do nothing: nothing was recorded."""


def changing(ctx: ToolCallContext, paths: Sequence[str]) -> AbstractAsyncContextManager[Keeping]:
    """See UndoLog.changing."""
    return nullcontext(_Nothing()) if ctx.undo is None else ctx.undo.changing(ctx, paths)
