"""Hooks through pluggy: it keeps specs, order and plugins; calling is done here, each plugin isolated from the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pluggy

from toolcrib import PluginError
from toolcrib._entry import is_async_callable
from toolcrib._hooks import ProcessHooks, RunHooks, SetupHooks, ToolHooks

APPROVAL = "approval"
"""The reserved name of the approval gate's plugin. Tools that act are denied where no plugin has it."""


class HookManager(pluggy.PluginManager):
    """pluggy's manager with toolcrib's hooks; ``generation`` grows with every plugin that comes or goes, for caches."""

    def __init__(self) -> None:
        super().__init__("toolcrib")
        self.generation = 0
        for specs in (ToolHooks, RunHooks, ProcessHooks, SetupHooks):
            self.add_hookspecs(specs)

    def register(self, plugin: Any, name: str | None = None) -> str | None:
        """Raises PluginError for a hookwrapper: each implementation is called alone, so there is nothing to wrap."""
        registered = super().register(plugin, name)
        self.generation += 1
        for caller in self.get_hookcallers(plugin) or ():
            for implementation in caller.get_hookimpls():
                if implementation.plugin is plugin and (implementation.hookwrapper or implementation.wrapper):
                    self.unregister(plugin)
                    raise PluginError(f"plugin {registered!r}: {caller.name} is a wrapper; write a plain hookimpl")
        return registered

    def unregister(self, plugin: Any = None, name: str | None = None) -> Any:
        try:
            return super().unregister(plugin, name)
        finally:
            self.generation += 1  # afterwards: a plan made in between must not count as up to date


def new_manager() -> HookManager:
    return HookManager()


@dataclass(frozen=True, slots=True)
class Hook:
    """One plugin's implementation: ``call`` takes the spec's arguments by position, all of them."""

    plugin: str
    call: Callable[..., Any]
    is_async: bool


@dataclass(frozen=True, slots=True)
class ToolHookPlan:
    """The implementations of the hooks around a call, in calling order."""

    gates: tuple[Hook, ...]
    answers: tuple[Hook, ...]
    before: tuple[Hook, ...]
    transforms: tuple[Hook, ...]
    after: tuple[Hook, ...]

    @property
    def is_sync(self) -> bool:
        return not any(
            hook.is_async for group in (self.gates, self.answers, self.before, self.transforms, self.after) for hook in group
        )

    @property
    def has_approval(self) -> bool:
        return any(gate.plugin == APPROVAL for gate in self.gates)


_ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "tool_gate": ("call", "entry", "ctx"),
    "on_answer": ("call", "ticket", "answer", "ctx"),
    "pre_tool_call": ("call", "ctx"),
    "transform_tool_result": ("call", "result", "ctx"),
    "post_tool_call": ("call", "result", "ctx"),
}


def plan_hooks(manager: pluggy.PluginManager) -> ToolHookPlan:
    """What is registered now."""
    found = {name: tuple(_hooks(manager, name, arguments)) for name, arguments in _ARGUMENTS.items()}
    return ToolHookPlan(
        gates=found["tool_gate"],
        answers=found["on_answer"],
        before=found["pre_tool_call"],
        transforms=found["transform_tool_result"],
        after=found["post_tool_call"],
    )


def life_hooks(manager: pluggy.PluginManager, name: str) -> list[Hook]:
    """Return the implementations of a hook that takes no arguments, in calling order."""
    return _hooks(manager, name, ())


def _hooks(manager: pluggy.PluginManager, name: str, arguments: tuple[str, ...]) -> list[Hook]:
    # pluggy keeps them in reverse order of calling.
    return [
        Hook(
            implementation.plugin_name,
            _positional(implementation.function, implementation.argnames, arguments),
            is_async_callable(implementation.function),
        )
        for implementation in reversed(getattr(manager.hook, name).get_hookimpls())
    ]


def _positional(function: Callable[..., Any], wanted: tuple[str, ...], given: tuple[str, ...]) -> Callable[..., Any]:
    if wanted == given:
        return function
    places = [given.index(name) for name in wanted]
    return lambda *values: function(*[values[place] for place in places])
