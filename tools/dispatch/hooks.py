"""Hooks based on pluggy, which stores specs and plugins. toolcrib itself orders the hooks and calls each one in isolation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Any

import pluggy

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.entry import is_async_callable
from toolcrib.contract.errors import PluginError
from toolcrib.contract.hooks import GROUPS, ToolHooks, declared_in

APPROVAL = "approval"
"""The reserved name of the approval gate's plugin. Without this plugin, calls of tools that act are denied."""
_DECIDING = frozenset({"tool_gate", "on_answer"})
"""Hooks that can deny a call. A plugin's synchronous ones are called in a worker thread (see ``gate_threads``)."""


class HookManager(pluggy.PluginManager):
    """pluggy's manager with toolcrib's hooks, called in its own order (``in_order``).

    ``generation`` grows when plugins are added, removed or ranked, so that caches know when they are outdated.
    """

    def __init__(self) -> None:
        super().__init__("toolcrib")
        self.generation = 0
        self._ranks: dict[str, int] = {}
        self._late_at: dict[str, dict[object, float]] = {}
        for specs in GROUPS:
            self.add_hookspecs(specs)

    def parse_hookspec_opts(self, module_or_class: Any, name: str) -> pluggy.HookspecOpts | None:
        return None if _is_pythons(name) else super().parse_hookspec_opts(module_or_class, name)

    def parse_hookimpl_opts(self, plugin: Any, name: str) -> pluggy.HookimplOpts | None:
        return None if _is_pythons(name) else super().parse_hookimpl_opts(plugin, name)

    def register(self, plugin: Any, name: str | None = None) -> str | None:
        """Register a plugin. Raises PluginError for a hookwrapper: toolcrib calls each implementation on its own, so
        there is nothing to wrap.
        """
        registered = super().register(plugin, name)
        self._late_at[str(registered)] = {}
        self.generation += 1
        for caller in self.get_hookcallers(plugin) or ():
            for implementation in caller.get_hookimpls():
                if implementation.plugin is plugin and (implementation.hookwrapper or implementation.wrapper):
                    self.unregister(plugin)
                    raise PluginError(f"plugin {registered!r}: {caller.name} is a wrapper; write a plain hookimpl")
        return registered

    def rank(self, names: Iterable[str]) -> None:
        """Rank the plugins with these names in this order, after registered plugins that were ranked before."""
        known = [name for name in self._ranks if self.has_plugin(name)]
        self._ranks = {name: place for place, name in enumerate(dict.fromkeys([*known, *names]))}
        self.generation += 1

    def in_order(self, hook: str) -> list[pluggy.HookImpl]:
        """Return the implementations of ``hook`` in calling order.

        Implementations marked ``tryfirst`` come first, those marked ``trylast`` last. Within each of the three groups, plugins
        with a rank come first, then the others in order of registration, then the approval gate: a plugin may deny a call
        before the gate asks the user about it.
        """
        places = {name: place for place, (name, _) in enumerate(self.list_name_plugin())}

        def key(implementation: pluggy.HookImpl) -> tuple[bool, bool, bool, int]:
            name = implementation.plugin_name
            rank = self._ranks.get(name, len(self._ranks) + places.get(name, len(places)))
            return not implementation.tryfirst, implementation.trylast, name == APPROVAL, rank

        found: list[pluggy.HookImpl] = getattr(self.hook, hook).get_hookimpls()
        return sorted(found, key=key)

    def late_at(self, plugin: str) -> dict[object, float]:
        """Return the late answers of a plugin's hooks; see ``Hook.late_at``."""
        return self._late_at.setdefault(plugin, {})

    def unregister(self, plugin: Any = None, name: str | None = None) -> Any:
        try:
            return super().unregister(plugin, name)
        finally:
            self.generation += 1  # after the removal: a plan made during it must not count as current


def _is_pythons(name: str) -> bool:
    """Return whether a name is one of Python's own, such as ``__init__``. No hook has one, but pluggy's own check is slow."""
    return name.startswith("__") and name.endswith("__")


def new_manager() -> HookManager:
    """Return a hook manager without plugins."""
    return HookManager()


@dataclass(frozen=True, slots=True)
class Hook:
    """A plugin's implementation of a hook. ``call`` takes all of the spec's arguments, by position.

    ``in_worker`` means that a worker thread calls it. ``late_at`` holds the calls of this plugin's hooks that did not answer in
    time, or were interrupted and may still answer, each with its deadline (``time.monotonic``).
    """

    plugin: str
    call: Callable[..., Any]
    is_async: bool
    in_worker: bool = False
    late_at: dict[object, float] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class ToolHookPlan:
    """The implementations of the hooks around a call, in calling order, by the hook's name."""

    by_hook: Mapping[str, tuple[Hook, ...]]
    in_worker: tuple[Hook, ...]
    """The gates that a worker thread calls."""

    def of(self, hook: str) -> tuple[Hook, ...]:
        """Return the implementations of one hook."""
        return self.by_hook[hook]

    @property
    def is_sync(self) -> bool:
        """True if no hook is async."""
        return not any(hook.is_async for group in self.by_hook.values() for hook in group)

    @property
    def has_approval(self) -> bool:
        """True if an approval gate is registered."""
        return any(gate.plugin == APPROVAL for gate in self.of("tool_gate"))


def plan_hooks(manager: HookManager) -> ToolHookPlan:
    """Return the plan of the registered hooks around a call."""
    found = {name: tuple(_hooks(manager, name)) for name in declared_in(ToolHooks)}
    return ToolHookPlan(found, tuple(gate for gate in found["tool_gate"] if gate.in_worker))


def life_hooks(manager: HookManager, name: str) -> list[Hook]:
    """Return the implementations of a hook without arguments, in calling order."""
    return _hooks(manager, name)


def _hooks(manager: HookManager, name: str) -> list[Hook]:
    hooks, arguments = [], tuple(getattr(manager.hook, name).spec.argnames)
    for implementation in manager.in_order(name):
        plugin, is_async = implementation.plugin_name, is_async_callable(implementation.function)
        call = _positional(implementation.function, implementation.argnames, arguments)
        in_worker = name in _DECIDING and not is_async and plugin != APPROVAL
        hooks.append(Hook(plugin, call, is_async, in_worker, manager.late_at(plugin)))
    return hooks


def _positional(function: Callable[..., Any], wanted: tuple[str, ...], given: tuple[str, ...]) -> Callable[..., Any]:
    if wanted == given:
        return function
    places = [given.index(name) for name in wanted]
    return lambda *values: function(*[values[place] for place in places])
