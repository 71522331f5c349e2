"""The tools of plugins, as a tool source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from toolcrib.contract.entry import ToolEntry
from toolcrib.contract.registry import ToolRegistry
from toolcrib.contract.tool_sources import ToolSources

_NAME = "plugins"


class PluginTools:
    """The source of the tools that plugins register in ``registry`` while they load."""

    def __init__(self, registry: ToolRegistry, sources: ToolSources) -> None:
        self._registry = registry
        self._sources = sources
        self._entries: list[ToolEntry] = []
        sources.begin(_NAME, self)

    async def start(self, changed: Callable[[], None]) -> None:
        """Do nothing: ``loading`` reports new tools."""

    def tools(self) -> Sequence[ToolEntry]:
        """See ToolSource."""
        return self._entries

    async def stop(self) -> None:
        """See ToolSource."""
        self._entries.clear()

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Add the tools that are registered in the block. Open sessions keep the tools that they have."""
        before = {entry.name: entry for entry in self._registry.entries()}
        try:
            yield
        finally:
            self._entries += [entry for entry in self._registry.entries() if before.get(entry.name) is not entry]
            self._sources.refresh(_NAME)
