"""Store the contents that a call replaces, if its session keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext

from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.environment import FileInfo
from toolcrib.contract.undo import Keeping


class _Nothing:
    """A stand-in for a call without an undo log: it stores nothing."""

    warning = ""

    async def replaces(self, path: str, info: FileInfo | None, after: bytes | None, data: bytes | None = None) -> None:
        """Keep nothing."""

    async def record(self) -> None:
        """Do nothing: nothing is kept."""

    async def forget(self) -> None:
        """Do nothing: nothing was recorded."""


def changing(ctx: ToolCallContext, paths: Sequence[str]) -> AbstractAsyncContextManager[Keeping]:
    """Return a context for changing files, which stores the old contents if the session keeps them. See UndoLog.changing."""
    return nullcontext(_Nothing()) if ctx.undo is None else ctx.undo.changing(ctx, paths)
