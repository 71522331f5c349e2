"""Tool sources provide a registry with tools, and may add and remove tools while sessions are open, until they are stopped."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import field
from functools import partial
from importlib import import_module
from typing import Protocol

from toolcrib.contract.available import let_pass
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.entry import ToolEntry
from toolcrib.contract.errors import RegistrationError
from toolcrib.contract.registry import Problem, ToolRegistry

_log = logging.getLogger(__name__)


class ToolSource(Protocol):
    """A source of tools that may change: a server of tools, a folder, another program."""

    async def start(self, changed: Callable[[], None]) -> None:
        """Prepare the tools. From then on until ``stop``, call ``changed`` whenever ``tools`` returns other tools, from any
        thread.

        A source that raises, or takes too long, is stopped and provides no tools.
        """

    def tools(self) -> Sequence[ToolEntry]:
        """Return the tools that can be called now, from memory. A tool that did not change must be the same object as before:
        then its calls that wait for an answer can continue.
        """

    async def stop(self) -> None:
        """Close what ``start`` opened, even if ``start`` failed. The tools can no longer be called by then."""


@dataclass(slots=True, eq=False)
class _Kept:
    """A source that was added. ``brought`` has its entries, each with the entry that it replaced; ``before`` has the tools that
    were registered when it was started.

    ``at_once`` marks a source of toolcrib's own. Only its tools may be registered already. If another source could provide such
    a tool, it could remove or replace the tool with its next change.
    """

    name: str
    source: ToolSource
    at_once: bool = False
    asked: int = 0
    applied: int = 0
    """``asked`` numbers the requests for the source's tools; ``applied`` is the request whose result is in the registry."""
    is_begun: bool = False
    is_open: bool = False
    before: dict[str, ToolEntry] = field(default_factory=dict)
    brought: dict[str, tuple[ToolEntry, ToolEntry | None]] = field(default_factory=dict)


class ToolSources:
    """The sources of one registry. Thread-safe. ``generation`` grows when a source changes its tools while sessions may be open.

    A source's tool never replaces a registered tool: it is left out, and reported among the registry's problems. If ``tools``
    raises, the source has none. A source whose ``tools`` hangs delays only its caller.
    """

    def __init__(self, registry: ToolRegistry) -> None:
        self._registry = registry
        self._lock = threading.RLock()
        self._kept: dict[str, _Kept] = {}
        self.generation = 0

    def add(self, name: str, source: ToolSource) -> None:
        """Add a source, to be started later. Raises RegistrationError for a taken name and for an object that is not a source."""
        self._add(_Kept(name, source))

    def begin(self, name: str, source: ToolSource) -> None:
        """Add a source that never waits, and start it from sync code. Raises as ``start`` does; then the source is not added.

        For toolcrib's own sources: only these may provide tools that are registered already, which ``end`` then removes.
        """
        kept = _Kept(name, source, at_once=True)
        self._add(kept)
        try:
            _finish(self._start(kept))
        except BaseException:
            del self._kept[name]
            raise

    def end(self) -> None:
        """Remove the tools of all sources, the last source first, and stop the sources that never wait."""
        for kept in reversed(list(self._kept.values())):
            self._take_out(kept)
            if kept.at_once:
                del self._kept[kept.name]
                _finish(kept.source.stop())

    def refresh(self, name: str) -> None:
        """Take a source's current tools. Open sessions keep the tools that they have."""
        self._refresh(self._kept[name])

    def waiting(self) -> list[str]:
        """Return the names of the sources that were added and not started."""
        return [kept.name for kept in list(self._kept.values()) if not kept.is_begun]

    def opened(self) -> list[str]:
        """Return the names of the sources that must be stopped, the last started first."""
        return [kept.name for kept in reversed(list(self._kept.values())) if kept.is_begun and not kept.at_once]

    def tools_of(self, name: str) -> list[str]:
        """Return the names of the tools that a source provides now."""
        return list(self._kept[name].brought)

    async def start(self, name: str) -> None:
        """Start a source and take its tools. Raises the source's exception: then none of its tools is registered, and the caller
        must stop it.
        """
        kept = self._kept[name]
        try:
            await self._start(kept)
        except BaseException:
            self._take_out(kept)
            raise
        self.generation += bool(kept.brought)

    async def stop(self, name: str) -> None:
        """Remove a source's tools, then stop it. Raises the source's exception."""
        kept = self._kept[name]
        self._take_out(kept)
        if kept.is_begun:
            kept.is_begun = False
            await kept.source.stop()

    def report(self, name: str, reason: str) -> None:
        """Record a problem of a source for doctor."""
        self._note(f"tool source {name}", reason)

    # -- one source ------------------------------------------------------------------------------------------------

    def _add(self, kept: _Kept) -> None:
        if lacks := [method for method in ("start", "tools", "stop") if not callable(getattr(kept.source, method, None))]:
            raise RegistrationError(f"the tool source {kept.name!r} has no {', '.join(lacks)}: it must be a toolcrib.ToolSource")
        with self._lock:
            if kept.name in self._kept:
                raise RegistrationError(f"the tool source {kept.name!r} already exists; choose another name")
            self._kept[kept.name] = kept

    async def _start(self, kept: _Kept) -> None:
        kept.before = {entry.name: entry for entry in self._registry.entries()}
        kept.is_begun = kept.is_open = True
        await kept.source.start(partial(self._changed, kept))
        self._refresh(kept)

    def _changed(self, kept: _Kept) -> None:
        self._refresh(kept, counts=True)

    def _take_out(self, kept: _Kept) -> None:
        kept.is_open = False
        self._refresh(kept, counts=True)

    def _refresh(self, kept: _Kept, *, counts: bool = False) -> None:
        """Update the registry from a source. With ``counts``, a change makes ``generation`` grow.

        A plugin's ``tools`` is called without the lock. A result that arrives after that of a later request is ignored.
        """
        with self._lock:
            kept.asked += 1
            number = kept.asked
        with self._registry.adopting():
            now = self._tools_now(kept)
        with self._lock, self._registry.adopting():
            if number < kept.applied:
                return
            kept.applied = number
            gone = [name for name, (entry, _) in kept.brought.items() if now.get(name) is not entry]
            for name in gone:
                self._remove(kept, *kept.brought.pop(name))
            new = [name for name, entry in now.items() if name not in kept.brought and self._bring(kept, entry)]
            self.generation += counts and bool(gone or new)

    def _tools_now(self, kept: _Kept) -> dict[str, ToolEntry]:
        if not kept.is_open:
            return {}
        try:
            return {entry.name: entry for entry in map(_checked, kept.source.tools())}
        except BaseException as error:  # noqa: BLE001 - the other sources' tools stay
            let_pass(error)
            _log.exception("the tools of the tool source %r are missing", kept.name)
            self._note(f"tool source {kept.name}", f"its tools are missing: {type(error).__name__}: {error}")
            return {}

    def _bring(self, kept: _Kept, entry: ToolEntry) -> bool:
        there = self._registry.get(entry.name)
        try:
            if there is None:
                if entry.is_built_in and not kept.at_once:
                    raise RegistrationError(f"a tool source may not register a tool of the built-in {entry.module}")
                (self._registry._put if kept.at_once else self._registry.put)(entry)  # the former are checked already
            elif there is not entry or not kept.at_once:
                raise RegistrationError(
                    f"{there.module} (toolset {there.toolset!r}) has a tool of this name; rename one of the two"
                )
        except Exception as error:  # noqa: BLE001 - an odd value in an entry: the other tools stay
            _log.warning("the tool %r of the tool source %r is missing: %s", entry.name, kept.name, error)
            self._note(f"tool {entry.name}", f"the tool source {kept.name!r} can't add it: {error}")
            return False
        kept.brought[entry.name] = entry, kept.before.get(entry.name) if there is entry else None
        return True

    def _remove(self, kept: _Kept, entry: ToolEntry, before: ToolEntry | None) -> None:
        if self._registry.get(entry.name) is not entry:  # another registration replaced it
            return
        if before is None or before is entry:
            reason = "" if kept.at_once else f"the tool source {kept.name!r} no longer has it"
            self._registry.unregister(entry.name, reason=reason)
        else:
            self._registry.put(before)

    def _note(self, subject: str, reason: str) -> None:
        if not any((one.subject, one.reason) == (subject, reason) for one in self._registry.problems):
            self._registry.problems.append(Problem(subject, reason))


class ImportedTools:
    """The source of tools that modules register in ``registry`` when they are imported."""

    def __init__(self, registry: ToolRegistry, modules: Sequence[str]) -> None:
        self._registry = registry
        self._modules = modules

    async def start(self, changed: Callable[[], None]) -> None:
        """Import the modules."""
        import_tools(self._registry, self._modules)

    def tools(self) -> Sequence[ToolEntry]:
        """See ToolSource."""
        return [entry for entry in self._registry.entries() if entry.module in self._modules]

    async def stop(self) -> None:
        """Do nothing: a module stays imported."""


def import_tools(registry: ToolRegistry, modules: Sequence[str]) -> list[Problem]:
    """Import tool modules in order (003-4), and return the problems. A broken module is logged with its reason and kept for
    doctor; the others are still imported.

    Only KeyboardInterrupt is raised: a module may also call sys.exit, or raise CancelledError.
    """
    problems: list[Problem] = []
    for module in modules:
        try:
            import_module(module)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - a broken module must not affect the others
            _log.exception("the tools of %s are missing", module)
            problems.append(Problem(f"module {module}", f"{type(error).__name__}: {error}"))
    registry.problems.extend(problems)
    return problems


def _checked(entry: ToolEntry) -> ToolEntry:
    if not isinstance(entry, ToolEntry):
        raise RegistrationError(f"expected toolcrib.ToolEntry objects, got {entry!r}")
    return entry


def _finish(coroutine: Coroutine[object, object, None]) -> None:
    """Run a coroutine that never waits, without a loop."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    coroutine.close()
    raise RegistrationError("a tool source that is started from sync code may not await anything")
